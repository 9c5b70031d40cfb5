"""Recall: finds messages for a question, builds a prompt for it, finds similar questions, shows recall's metrics."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.catch_up import catch_up_new_messages
from recollect.cli.chat_backend import MemoryAccess
from recollect.cli.display import (
    INDENT,
    print_items,
    print_json,
    print_line,
    print_note,
    print_pairs,
    print_table,
    render_bar,
    render_count,
    render_excerpt,
    render_time,
    to_line,
    to_printable,
)
from recollect.cli.log import ConversationName, read_stdin
from recollect.cli.options import Call, ExitCode, PromptBudget
from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import Context, Hit, JsonObject, Similar
from recollect.sync import Memory

HIT_LINES: Final = 2  # lines of a hit's text, on a terminal
ANSWER_LINES: Final = 3
MIN_SHOWN_PART: Final = 0.0005  # a smaller part of a score would be printed as 0.000
MAX_LEFT_OUT_ITEMS: Final = 3  # for each reason
LEFT_OUT_CHARS: Final = 120
SHARE_COLUMNS: Final = 16
MEMORY_PARTS: Final = ("profile", "important_data", "summary", "recall", "tail")  # the rest of a prompt is the caller's
STAGES: Final = ("load", "embed", "score", "words", "vectors", "fetch", "build", "total")
_DEGRADED_REASONS: Final = {
    "embedder": "the embedder does not answer, so messages were found by words alone.",
    "embedder_changed": "older vectors are another embedder's; `recollect worker --once` computes them again.",
    "language": "the embedder cannot read this language, so messages were found by words alone.",
    "summarizer": "the model that writes briefs failed, so the built-in summariser wrote the newest one.",
    "brief": "the brief could not be read; a worker makes it again from the log.",
    "vectors": "most messages have no vectors yet, so messages were found by words.",
}

Query = Annotated[
    str,
    typer.Argument(
        metavar="QUERY|-",
        help="Any text; - reads it from stdin. Put -- before a text that begins with a dash.",
        show_default=False,
    ),
]
AskedAt = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Moment that words like 'yesterday' count from, in ISO 8601; by default now."),
]
PreferredConversation = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Search this conversation first; others only if it has little to say."),
]


def recall(
    call: Call,
    query: Query,
    conversation: PreferredConversation = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most N messages.")] = 10,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Show at most this many tokens of text; by default no limit.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages from this time on, in ISO 8601.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages before this time, in ISO 8601.")
    ] = None,
    at: AskedAt = None,
    min_relevance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Only hits of at least this relevance, from 0 to 1; by default all that may be related.",
        ),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show the parts that add up to each score.")] = False,
) -> None:
    """Find messages that help with a question, best first.

    They are found by words, meaning, names and dates. Times are in each conversation's time zone.
    """
    question = _read_query(query)
    with call.open(must_exist=True) as memory:
        catch_up_new_messages(memory)
        recalled = memory.recall(
            question,
            conversation=conversation,
            limit=limit,
            budget=budget,
            since=since,
            until=until,
            at=at,
            min_relevance=min_relevance,
        )
        zones = _find_zones(memory, conversation)
    if call.json:
        print_json(recalled)
    else:
        scope, milliseconds = render_count(recalled.metrics["scope"], "message"), recalled.metrics["ms"]["total"]
        print_note(f"{render_count(len(recalled), 'hit')} among {scope}, in {milliseconds:.0f} ms.")
        print_hits(recalled.hits, zones, why=why)
    _report_degraded(recalled.degraded, has_answer=bool(recalled.hits))


def _read_query(query: str) -> str:
    return read_stdin() if query == "-" else query


def _find_zones(memory: Memory, conversation: str | None) -> dict[str, str]:
    """Return the time zone of each conversation by name. Print a note if `conversation` is none of them."""
    zones = {each.name: each.zone for each in memory.conversations()}
    if conversation is not None and conversation not in zones:
        print_note(f"note: there is no conversation {conversation!r} yet.")
    return zones


def print_hits(hits: Sequence[Hit], zones: Mapping[str, str], *, why: bool) -> None:
    """Print each hit: rank, score, time, speaker and conversation, then its text; with `why` the parts of the score.

    `zones` has the time zones of conversations by name.
    """
    for rank, hit in enumerate(hits, 1):
        speaker = hit.role if hit.name is None else f"{hit.role} ({to_line(hit.name)})"
        when = render_time(hit.at, times.load_zone(zones.get(hit.conversation, "UTC")))
        head = Text.assemble(
            (f"{rank:>5}  ", "dim"), f"{hit.score:.3f}  ", (f"{when}  ", "dim"),
            (speaker, "bold"), "  ", (to_line(hit.conversation or hit.kind), "cyan"),
        )  # fmt: skip
        print_items(head, *(Text(INDENT) + row for row in render_excerpt(hit.text, HIT_LINES)))
        if why:
            print_items(*_render_score_parts(hit))


def _render_score_parts(hit: Hit) -> list[Text]:
    """Return the parts of a score as bars, the largest first."""
    ordered = sorted(hit.why.items(), key=lambda part: -abs(part[1]))
    return [
        Text.assemble((f"{INDENT}{name:<11}{value:>7.3f}  ", "dim"), (render_bar(value, max(hit.score, 1)), "green"))
        for name, value in ordered
        if abs(value) >= MIN_SHOWN_PART
    ]


def _report_degraded(degraded: Sequence[str], *, has_answer: bool) -> None:
    """Print warnings. Exit with code 5 if something did not work and nothing was found."""
    print_degraded(degraded)
    if degraded and not has_answer:
        raise typer.Exit(ExitCode.DEGRADED)


def print_degraded(degraded: Sequence[str]) -> None:
    """Print a warning for each part of memory that did not work, and what was done instead."""
    for name in degraded:
        print_note(f"warning: {_DEGRADED_REASONS.get(name, f'{to_line(name)} failed.')}")


def context(
    call: Call,
    conversation: ConversationName,
    query: Query,
    budget: PromptBudget = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System prompt to begin with; by default none.")
    ] = None,
    model: Annotated[str, typer.Option(help="Count tokens as this model does.")] = "gpt-4o-mini",
    at: AskedAt = None,
    text: Annotated[bool, typer.Option("--text", help="Print only the prompt, to pipe it to a model.")] = False,
) -> None:
    """Build the prompt for a question, within a budget of tokens.

    It holds what memory knows about the question, the newest turns, and the question itself. Above the prompt a table
    shows what the tokens are spent on and what was left out. The question is not stored.
    """
    if text and call.json:
        raise InvalidInput("invalid_output", "Use either --text or --json.")
    question = _read_query(query)
    with call.open(must_exist=True) as memory:
        catch_up_new_messages(memory)
        prompt = memory.context(conversation, question, system_prompt=system, budget=budget, model=model, at=at)
        _find_zones(memory, conversation)
        left_out = [] if text or call.json else render_left_out(memory, conversation, prompt)
    if call.json:
        print_json(prompt)
    elif text:
        print_line(to_printable(prompt.text) if sys.stdout.isatty() else prompt.text)
    else:
        print_parts(prompt, left_out)
        print_line("")
        print_line(to_printable(prompt.text))
    memory_tokens = sum(part["tokens"] for part in prompt.explain["parts"] if part["name"] in MEMORY_PARTS)
    _report_degraded(prompt.degraded, has_answer=memory_tokens > 0)


def print_parts(prompt: Context, left_out: Sequence[Text]) -> None:
    """Print a table of the parts of a prompt with their tokens and reasons, then the lines of `left_out`."""
    budget, parts = prompt.explain["budget"], prompt.explain["parts"]
    rows = [(part["name"], part["tokens"], _render_share(part["tokens"], budget), part["reason"]) for part in parts]
    free = f"of {budget:,}; {budget - prompt.tokens:,} free"
    rows.append(("together", prompt.tokens, _render_share(prompt.tokens, budget), free))
    print_table(("part", "tokens", "", "what it is"), rows, numbers=("tokens",))
    if left_out:
        print_items(*left_out)


def _render_share(tokens: int, budget: int) -> Text:
    """Return a bar of the tokens, filled up with dots to the length of the budget."""
    filled = render_bar(tokens, budget, width=SHARE_COLUMNS)
    return Text.assemble((filled, "green"), ("·" * (SHARE_COLUMNS - len(filled)), "dim"))


def render_left_out(memory: MemoryAccess, conversation: str, prompt: Context) -> list[Text]:
    """Return lines that name what a prompt left out: for each reason the first few items, and how many more."""
    lines: list[Text] = []
    for reason, group in groupby(prompt.explain["left_out"], key=lambda item: str(item["reason"])):
        items = list(group)
        lines.append(Text(f"left out: {to_line(reason)}", "dim"))
        for item in items[:MAX_LEFT_OUT_ITEMS]:
            text = item.get("text") or _render_message(memory, item.get("conversation", conversation), item.get("seq"))
            cut = text if len(text) <= LEFT_OUT_CHARS else text[:LEFT_OUT_CHARS] + "…"
            lines += [Text(INDENT) + row for row in render_excerpt(cut, 1)[: bool(text)]]
        if len(items) > MAX_LEFT_OUT_ITEMS:
            lines.append(Text(f"{INDENT}and {len(items) - MAX_LEFT_OUT_ITEMS} more; --json names them", "dim"))
    return lines


def _render_message(memory: MemoryAccess, conversation: str, seq: int | None) -> str:
    """Return a message's conversation, number and text; an empty text if there is no number."""
    messages = [] if seq is None else memory.history(conversation, before=seq + 1, limit=1)
    return "".join(f"{conversation} {message.seq}: {message.content}" for message in messages)


def similar(
    call: Call,
    conversation: ConversationName,
    query: Query,
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most N questions.")] = 3,
) -> None:
    """Find similar questions that you asked before, with answers.

    Only conversations other than the one you name are searched.
    """
    question = _read_query(query)
    with call.open(must_exist=True) as memory:
        catch_up_new_messages(memory)
        questions = memory.similar(conversation, question, limit=limit)
    if call.json:
        print_json(questions)
        return
    if not questions:
        print_note("Nothing similar was asked in other conversations.")
    for asked_before in questions:
        _print_similar(asked_before)


def _print_similar(question: Similar) -> None:
    head = Text(f"You asked something similar {question.age} in {to_line(question.conversation)}", style="bold")
    head.append(f"  ({question.similarity:.2f})", style="dim")
    print_items(head, *(Text(INDENT) + row for row in render_excerpt(question.text, HIT_LINES)))
    if question.answer is not None:
        rows = render_excerpt(question.answer, ANSWER_LINES)
        print_items(*(Text(f"{INDENT}{'  ' if index else '→ '}") + row for index, row in enumerate(rows)))


def metrics(
    call: Call,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Count questions from this time on, in ISO 8601; by default all 30 days."),
    ] = None,
) -> None:
    """Show how fast and how well recall worked: times, hit rate.

    A row is kept for each question for 30 days: times and counts, not its words.
    """
    with call.open(must_exist=True) as memory:
        figures = memory.metrics(since=since)
    if call.json:
        print_json(figures)
    elif not figures["queries"]:
        print_note("Nothing was asked yet.")
    else:
        _print_metrics(figures)


def _print_metrics(figures: JsonObject) -> None:
    sources, types = (
        ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in figures[part].items() if count)
        for part in ("sources", "types")
    )
    print_pairs(
        [
            ("questions", figures["queries"]),
            ("with a hit", _render_percent(figures["hit_rate"])),
            ("best score, on average", figures["top_score"]),
            ("its similarity, on average", figures["top_similarity"]),
            ("hits by source", sources or None),
            ("hits by type", types or None),
            ("with full text and vectors", _render_percent(figures["flags"]["hybrid"])),
            ("with passages", _render_percent(figures["flags"]["chunking"])),
            ("with briefs after every N answers", _render_percent(figures["flags"]["summary_frequency"])),
            ("budget used, on average", _render_percent(figures["budget_use"])),
            ("prompts without room for all", _render_percent(figures["overflows"])),
            ("briefs written", _render_briefs(figures["briefs"])),
            ("degraded", figures["degraded"]),
        ]
    )
    print_line("")
    print_times(figures["ms"])


def _render_briefs(briefs: JsonObject) -> str:
    answers = render_count(briefs["answers"], "answer")
    each = f", one for every {briefs['answers_per_brief']:g}" if briefs["answers_per_brief"] else ""
    return f"{briefs['written']:,} for {answers}{each}"


def print_times(ms: Mapping[str, Mapping[str, float]]) -> None:
    """Print milliseconds by stage, in the order of the stages. `ms` has the percentiles of each stage."""
    percentiles = list(next(iter(ms.values()), ()))
    stages = [*(stage for stage in STAGES if stage in ms), *(stage for stage in ms if stage not in STAGES)]
    rows = [(stage, *(f"{ms[stage][percentile]:.1f}" for percentile in percentiles)) for stage in stages]
    columns = [f"{percentile} ms" for percentile in percentiles]
    print_table(("stage", *columns), rows, numbers=columns)


def _render_percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
