"""Recall: what was said that bears on a question, the prompt for it, questions like it, and how all this fares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.catch_up import catch_up_shortly
from recollect.cli.chat_backend import Memories
from recollect.cli.display import (
    INDENT,
    bar,
    clean,
    counted,
    line,
    note,
    out,
    shortened,
    show,
    show_json,
    show_pairs,
    show_table,
    shown_time,
)
from recollect.cli.log import ConversationName, read_stdin
from recollect.cli.options import Call, Exit
from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import Context, Hit, JsonObject, Similar
from recollect.sync import Memory

TEXT_LINES: Final = 2  # of a hit, on a terminal
ANSWER_LINES: Final = 3
TOO_SMALL: Final = 0.0005  # parts of a score that would be shown as nothing
LEFT_OUT: Final = 3  # things that a prompt had no room for, shown for each reason
LEFT_OUT_TEXT: Final = 120  # characters of each
SHARE: Final = 16  # columns for a budget
REMEMBERED: Final = (
    "profile",
    "important_data",
    "summary",
    "recall",
    "tail",
)  # parts of a prompt that are not the caller's
STAGES: Final = ("load", "embed", "score", "fetch", "build", "total")
_DEGRADED: Final = {
    "embedder": "the embedder does not answer, so this was found by words alone.",
    "embedder_changed": "older vectors are another embedder's; `recollect worker --once` makes them anew.",
    "summarizer": "the model that writes briefs failed, so the built-in compressor wrote the newest.",
    "brief": "the brief could not be read; it is made anew from the log.",
    "vectors": "most messages have no vectors yet, so this was found by words.",
}

Query = Annotated[
    str,
    typer.Argument(
        metavar="QUERY|-", help="Any text; - reads it from stdin. Put -- before a dash.", show_default=False
    ),
]
Moment = Annotated[str | None, typer.Option(metavar="TIME", help="The moment of asking, in ISO-8601; for dates.")]
Within = Annotated[str | None, typer.Option(metavar="NAME", help="Here first; in others if it has little to say.")]


def recall(
    call: Call,
    query: Query,
    conversation: Within = None,
    limit: Annotated[int, typer.Option(help="At most so many messages.")] = 10,
    budget: Annotated[int | None, typer.Option(metavar="TOKENS", help="At most so many tokens of text.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Said then or later, in ISO-8601.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Said before then.")] = None,
    at: Moment = None,
    why: Annotated[bool, typer.Option("--why", help="Show what each score is made of.")] = False,
) -> None:
    """Find what was said that bears on a question, best first.

    By words, by meaning, by names, by dates. Times are in each conversation's zone.
    """
    asked = _asked(query)
    with call.open(must_exist=True) as memory:
        catch_up_shortly(memory)
        found = memory.recall(
            asked, conversation=conversation, limit=limit, budget=budget, since=since, until=until, at=at
        )
        zones = _zones(memory, conversation)
    if call.json:
        show_json(found)
    else:
        looked_at, took = counted(found.metrics["scope"], "message"), found.metrics["ms"]["total"]
        note(f"{counted(len(found), 'hit')} among {looked_at}, in {took:.0f} ms.")
        show_hits(found.hits, zones, why=why)
    _tell_degraded(found.degraded, has_answer=bool(found.hits))


def _asked(query: str) -> str:
    return read_stdin() if query == "-" else query


def _zones(memory: Memory, conversation: str | None) -> dict[str, str]:
    """The zone of each conversation; a name that is probably mistyped is told."""
    zones = {one.name: one.zone for one in memory.conversations()}
    if conversation is not None and conversation not in zones:
        note(f"note: there is no conversation {conversation!r} yet.")
    return zones


def show_hits(hits: Sequence[Hit], zones: Mapping[str, str], *, why: bool) -> None:
    for rank, hit in enumerate(hits, 1):
        speaker = hit.role if hit.name is None else f"{hit.role} ({line(hit.name)})"
        when = shown_time(hit.at, times.load_zone(zones.get(hit.conversation, "UTC")))
        head = Text.assemble(
            (f"{rank:>5}  ", "dim"), f"{hit.score:.3f}  ", (f"{when}  ", "dim"),
            (speaker, "bold"), "  ", (line(hit.conversation or hit.kind), "cyan"),
        )  # fmt: skip
        show(head, *(Text(INDENT) + text for text in shortened(hit.text, TEXT_LINES)))
        if why:
            show(*_parts(hit))


def _parts(hit: Hit) -> list[Text]:
    """The parts of a score as bars, the largest first."""
    ordered = sorted(hit.why.items(), key=lambda part: -abs(part[1]))
    return [
        Text.assemble((f"{INDENT}{name:<11}{value:>7.3f}  ", "dim"), (bar(value, max(hit.score, 1)), "green"))
        for name, value in ordered
        if abs(value) >= TOO_SMALL
    ]


def _tell_degraded(degraded: Sequence[str], *, has_answer: bool) -> None:
    show_degraded(degraded)
    if degraded and not has_answer:
        raise typer.Exit(Exit.DEGRADED)


def show_degraded(degraded: Sequence[str]) -> None:
    """What failed meanwhile, and what that means."""
    for name in degraded:
        note(f"warning: {_DEGRADED.get(name, f'{line(name)} failed.')}")


def context(
    call: Call,
    conversation: ConversationName,
    query: Query,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="The whole prompt; by default memory_prompt_token_budget.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="Your system prompt.")] = None,
    model: Annotated[str, typer.Option(help="The model whose tokens are counted.")] = "gpt-4o-mini",
    at: Moment = None,
    text: Annotated[bool, typer.Option("--text", help="Print the prompt alone, to pipe it on.")] = False,
) -> None:
    """Make the prompt for a question: what bears on it, the newest turns, the question.

    It never takes more tokens than the budget. The question is not stored. Before the prompt it shows where the tokens
    go, and what was left out.
    """
    if text and call.json:
        raise InvalidInput("invalid_output", "Say either --text or --json.")
    asked = _asked(query)
    with call.open(must_exist=True) as memory:
        catch_up_shortly(memory)
        made = memory.context(conversation, asked, system_prompt=system, budget=budget, model=model, at=at)
        _zones(memory, conversation)
        left_out = [] if text or call.json else find_left_out(memory, conversation, made)
    if call.json:
        show_json(made)
    elif text:
        out(clean(made.text) if sys.stdout.isatty() else made.text)
    else:
        show_parts(made, left_out)
        out("")
        out(clean(made.text))
    remembered = sum(part["tokens"] for part in made.explain["parts"] if part["name"] in REMEMBERED)
    _tell_degraded(made.degraded, has_answer=remembered > 0)


def show_parts(made: Context, left_out: Sequence[Text]) -> None:
    """Where the tokens of a prompt go, part by part, why, and what had no room."""
    budget, parts = made.explain["budget"], made.explain["parts"]
    rows = [(one["name"], one["tokens"], _share(one["tokens"], budget), one["reason"]) for one in parts]
    free = f"of {budget:,}; {budget - made.tokens:,} free"
    rows.append(("together", made.tokens, _share(made.tokens, budget), free))
    show_table(("part", "tokens", "", "what it is"), rows, numbers=("tokens",))
    if left_out:
        show(*left_out)


def _share(tokens: int, budget: int) -> Text:
    """A bar that also shows the whole."""
    filled = bar(tokens, budget, width=SHARE)
    return Text.assemble((filled, "green"), ("·" * (SHARE - len(filled)), "dim"))


def find_left_out(memory: Memories, conversation: str, made: Context) -> list[Text]:
    """A line for each of the first few things with the same reason."""
    lines: list[Text] = []
    for reason, group in groupby(made.explain["left_out"], key=lambda one: str(one["reason"])):
        items = list(group)
        lines.append(Text(f"left out: {line(reason)}", "dim"))
        for one in items[:LEFT_OUT]:
            text = one.get("text") or _words(memory, one.get("conversation", conversation), one.get("seq"))
            cut = text if len(text) <= LEFT_OUT_TEXT else text[:LEFT_OUT_TEXT] + "…"
            lines += [Text(INDENT) + found for found in shortened(cut, 1)[: bool(text)]]
        if len(items) > LEFT_OUT:
            lines.append(Text(f"{INDENT}and {len(items) - LEFT_OUT} more; --json names them", "dim"))
    return lines


def _words(memory: Memories, conversation: str, seq: int | None) -> str:
    """What a message says, behind its place; nothing for what is no message."""
    found = [] if seq is None else memory.history(conversation, before=seq + 1, limit=1)
    return "".join(f"{conversation} {one.seq}: {one.content}" for one in found)


def similar(
    call: Call,
    conversation: ConversationName,
    query: Query,
    limit: Annotated[int, typer.Option(help="At most so many questions.")] = 3,
) -> None:
    """Find earlier questions like this one, in other conversations, with their answers."""
    asked = _asked(query)
    with call.open(must_exist=True) as memory:
        catch_up_shortly(memory)
        found = memory.similar(conversation, asked, limit=limit)
    if call.json:
        show_json(found)
        return
    if not found:
        note("Nothing similar was asked in other conversations.")
    for one in found:
        _show_similar(one)


def _show_similar(one: Similar) -> None:
    head = Text(f"You asked something similar {one.age} in {line(one.conversation)}", style="bold")
    head.append(f"  ({one.similarity:.2f})", style="dim")
    show(head, *(Text(INDENT) + text for text in shortened(one.text, TEXT_LINES)))
    if one.answer is not None:
        show(*(Text(INDENT + "→ " if not place else INDENT + "  ") + text
               for place, text in enumerate(shortened(one.answer, ANSWER_LINES))))  # fmt: skip


def metrics(
    call: Call,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on, in ISO-8601; by default 30 days.")
    ] = None,
) -> None:
    """Show how recall fared: times by stage, hit rate, sources, use of budgets.

    Kept for 30 days, without the words of questions.
    """
    with call.open(must_exist=True) as memory:
        found = memory.metrics(since=since)
    if call.json:
        show_json(found)
    elif not found["queries"]:
        note("Nothing was asked yet.")
    else:
        _show_metrics(found)


def _show_metrics(found: JsonObject) -> None:
    sources = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found["sources"].items() if count)
    show_pairs(
        [
            ("questions", found["queries"]),
            ("with a hit", _percent(found["hit_rate"])),
            ("best score, on average", found["top_score"]),
            ("hits by source", sources or None),
            ("with full text and vectors", _percent(found["flags"]["hybrid"])),
            ("with passages", _percent(found["flags"]["chunking"])),
            ("budget used, on average", _percent(found["budget_use"])),
            ("degraded", found["degraded"]),
        ]
    )
    out("")
    show_times(found["ms"])


def show_times(ms: Mapping[str, Mapping[str, float]]) -> None:
    """Milliseconds by stage, in the order of the stages."""
    shares = list(next(iter(ms.values()), ()))
    known = [*(stage for stage in STAGES if stage in ms), *(stage for stage in ms if stage not in STAGES)]
    rows = [(stage, *(f"{ms[stage][share]:.1f}" for share in shares)) for stage in known]
    show_table(("stage", *(f"{share} ms" for share in shares)), rows, numbers=[f"{share} ms" for share in shares])


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
