"""`recollect brief` and `recollect compress`: prints a brief, its versions and their changes; compresses on demand."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.brief_changes import BriefChange, compare_versions
from recollect.cli.display import (
    print_items,
    print_json,
    print_line,
    print_note,
    print_pairs,
    print_table,
    render_count,
    render_hanging,
    render_time,
    spinner,
    to_line,
    to_paragraph,
)
from recollect.cli.log import ConversationName, find_conversation
from recollect.cli.options import Call
from recollect.core import times
from recollect.core.compression import ledger
from recollect.core.compression.brief import BUILT_IN_MODEL, Brief
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import count_words
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Conversation, JsonObject
from recollect.core.turns import split_into_turns
from recollect.settings import Settings
from recollect.sync import Memory

_LEDGER_HEADINGS: Final = {
    ledger.PREFERENCE: "preferences",
    ledger.DECISION: "decisions",
    ledger.FACT: "facts",
    ledger.INTENT: "goals",
    ledger.QUESTION: "open questions",
    ledger.STRUCTURE: "structure",
    ledger.URL: "links",
    ledger.ENTITY: "names",
}
SourceRenderer = Callable[[Sequence[str]], str]  # takes ids of messages, returns what is printed of them


def brief(
    call: Call,
    conversation: ConversationName,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="Show version N, counted from 1; by default the newest.")
    ] = None,
    versions: Annotated[bool, typer.Option("--versions", help="List all versions.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what changed since the version before.")] = False,
    since: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --diff: compare with version N; 0 compares with nothing, so all is new."),
    ] = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Show which messages each statement is based on, as #number.")
    ] = False,
) -> None:
    """Show the brief: a summary of all but the newest turns.

    First comes the narrative, then the ledger (facts, decisions, preferences and so on, also superseded ones), then
    what this version compressed. Days are in the conversation's time zone.
    """
    _check_options(version, since, versions=versions, diff=diff, sources=sources)
    with call.open(must_exist=True) as memory:
        info = find_conversation(memory, conversation)
        chosen = _find_brief(memory, conversation, version)
        listed = memory.brief_versions(conversation) if versions else []
        change = _load_change(memory, chosen, since, info.zone) if chosen is not None and diff else None
        shows_sources = chosen is not None and sources and not call.json
        render_sources = _make_source_renderer(memory, info) if shows_sources else _hide_sources
        settings = memory.settings()
    if call.json:
        print_json(listed if versions else change if diff else chosen)
    elif chosen is None:
        print_note(explain_no_brief(info, settings))
    elif versions:
        _print_versions(listed, info)
    elif change is not None:
        _print_change(change, render_sources, times.load_zone(info.zone))
    else:
        print_brief(chosen, info, render_sources)


def _check_options(version: int | None, since: int | None, *, versions: bool, diff: bool, sources: bool) -> None:
    if versions and (diff or sources or version is not None or since is not None):
        raise InvalidInput("invalid_output", "--versions lists all versions; it goes with no other option.")
    if since is not None and not diff:
        raise InvalidInput("invalid_output", "--since needs --diff.")


def _find_brief(memory: Memory, conversation: str, version: int | None) -> Brief | None:
    """Return the version, or the newest; None if there is no brief yet. Raise NotFound if the version is missing."""
    found = memory.brief(conversation, version=version)
    if found is None and version is not None:
        raise NotFound(
            "brief_not_found",
            f"There is no version {version}. `recollect brief {shlex.quote(conversation)} --versions` lists them.",
        )
    return found


def explain_no_brief(info: Conversation, settings: Settings) -> str:
    """Return a text that says when there will be a brief, and how to make one now."""
    state = f"There is no brief of the {render_count(info.messages, 'message')} yet. {_render_triggers(settings)}"
    return f"{state}\n`recollect compress {shlex.quote(info.name)} --force` makes one now."


def _render_triggers(settings: Settings) -> str:
    """Return a sentence that says when older turns are compressed."""
    rules = (
        (settings.compress_messages_at, f"from {render_count(settings.compress_messages_at, 'message')} on"),
        (settings.compress_tokens_above, f"above {render_count(settings.compress_tokens_above, 'token')}"),
        (settings.memory_chunk_summarize_threshold, f"above {settings.memory_chunk_summarize_threshold:,} tokens"),
        (settings.compress_daily, "when a new day begins"),
        (settings.rag_summary_frequency, f"after every {render_count(settings.rag_summary_frequency, 'answer')}"),
    )
    active = [text for is_on, text in rules if is_on]
    if not active:
        return "By the settings older turns are never compressed."
    return f"A worker compresses older turns {' or '.join(active)}."


def _make_source_renderer(memory: Memory, info: Conversation) -> SourceRenderer:
    """Return a function that renders messages by their numbers; an erased message by its id."""
    numbers = {message.id: message.seq for message in memory.history(info.name)}
    return lambda ids: "".join(f" #{to_line(str(numbers.get(each, each)))}" for each in ids)


def _hide_sources(_: Sequence[str]) -> str:
    return ""


# Printing a version


def print_brief(brief: Brief, info: Conversation, render_sources: SourceRenderer = _hide_sources) -> None:
    """Print the narrative, the ledger, and what this version compressed."""
    zone = times.load_zone(info.zone)
    print_items(_render_head(brief, info, zone))
    print_line("")
    if render_sources is _hide_sources and brief.form == "prose":
        print_items(*render_hanging("", to_paragraph(brief.narrative)))
    else:
        mark = "- " if brief.form == "bullets" else ""
        for statement in brief.statements:
            sources = (render_sources(statement.sources), "cyan")
            print_items(*render_hanging(mark, to_paragraph(statement.text), sources))
    for kind, heading in _LEDGER_HEADINGS.items():
        if entries := [entry for entry in brief.entries if entry.kind == kind]:
            rows = _render_entries(entries, zone, render_sources, on_one_line=kind == ledger.ENTITY)
            print_items(Text(), Text(heading, "bold"), *rows)
    print_line("")
    print_pairs(_render_record(brief))


def _render_head(brief: Brief, info: Conversation, zone: tzinfo) -> Text:
    head = Text.assemble((f"{to_line(info.name)} · version {brief.version}", "bold"))
    head.append(f" · through message {brief.through_seq:,} of {info.last_seq:,}")
    head.append(f" · {render_time(brief.created_at, zone)} · {_render_writer(brief.model_used)}", "dim")
    if brief.degraded:
        head.append(f" · the model failed: {to_line(brief.degraded)}", "yellow")
    return head


def _render_writer(model: str) -> str:
    return "built-in summariser" if model == BUILT_IN_MODEL else to_line(model)


def _render_entries(
    entries: Sequence[Entry], zone: tzinfo, render_sources: SourceRenderer, *, on_one_line: bool
) -> list[Text]:
    """Return the entries that hold, then dimmed those that were superseded.

    With `on_one_line` only those that hold, unless each shows its sources.
    """
    ordered = sorted(entries, key=lambda entry: not entry.holds)
    if on_one_line and render_sources is _hide_sources:
        names = dict.fromkeys(to_paragraph(entry.value) for entry in ordered if entry.holds)
        return render_hanging("  ", ", ".join(names))
    rows: list[Text] = []
    for entry in ordered:
        text = (_render_entry(entry, zone), "" if entry.holds else "dim")
        rows += render_hanging("  ", text, (render_sources(entry.sources), "cyan"))
    return rows


def _render_entry(entry: Entry, zone: tzinfo) -> str:
    """Return the entry in words: with its source if that was not typed, and the day on which it ended."""
    is_bare = entry.kind in (ledger.URL, ledger.ENTITY)
    text = to_paragraph(entry.value if is_bare else ledger.render_entry(entry))
    if entry.trust not in (("typed",) if is_bare else ("typed", "assistant")):
        text += f" ({to_line(entry.trust)})"
    return text if entry.valid_to is None else f"{text}, until {entry.valid_to.astimezone(zone):%Y-%m-%d}"


def _render_record(brief: Brief) -> list[tuple[str, object]]:
    """Return names and values of what this version compressed. A list has a row for each item."""
    record = brief.record
    messages = render_count(int(_to_number(record, "original_message_count")), "message")
    rows: list[tuple[str, object]] = [("compressed", messages)]
    for name in ("timespan", "intent", "key_facts", "decisions", "missing_data"):
        value = record.get(name) or []
        values = value if isinstance(value, list) else [value]
        label = name.replace("_", " ")
        rows += [("" if index else label, to_paragraph(str(item))) for index, item in enumerate(values)]
    saved = f"{_to_number(record, 'compression_ratio'):.0%}; the brief takes about {brief.tokens:,}"
    rows.append(("tokens saved", saved))
    if brief.dropped:
        rows.append(("dropped", f"{render_count(brief.dropped, 'statement')} that no message supports"))
    return rows


def _to_number(record: JsonObject, name: str) -> float:
    """Return the number, or 0 if the record has something else there: a model may have written it."""
    value = record.get(name)
    return value if isinstance(value, int | float) else 0


# Versions and what changed between them


def _print_versions(listed: Sequence[JsonObject], info: Conversation) -> None:
    zone, before, rows = times.load_zone(info.zone), 0, []
    for version in listed:
        made = render_time(version["created_at"], zone)
        messages, writer = version["messages"] - before, _render_writer(version["model"])
        rows.append((version["version"], messages, version["through_seq"], made, writer))
        before = version["messages"]
    numbers = ("version", "messages compressed", "through")
    print_table((*numbers, "made", "by"), rows, numbers=numbers)


def _load_change(memory: Memory, new: Brief, since: int | None, zone: str) -> BriefChange:
    before = new.version - 1 if since is None else since
    if not 0 <= before < new.version:
        raise InvalidInput("invalid_version", f"Version {new.version} can only be compared with an earlier one.")
    old = _find_brief(memory, new.conversation, before) if before else None
    return compare_versions(old, new, zone)


def _print_change(change: BriefChange, render_sources: SourceRenderer, zone: tzinfo) -> None:
    before = f"version {change.from_version}" if change.from_version else "nothing"
    print_items(Text(f"from {before} to version {change.to_version}", "bold"))
    narrative = [(("-", "red"), each.text, each.sources) for each in change.statements_removed]
    narrative += [(("+", "green"), each.text, each.sources) for each in change.statements_added]
    _print_marked("narrative", narrative, render_sources)
    for kind, heading in _LEDGER_HEADINGS.items():
        on_one_line = kind == ledger.ENTITY and render_sources is _hide_sources
        marked = _mark_entries(("~", "yellow"), change.entries_superseded, kind, zone, on_one_line=on_one_line)
        marked += _mark_entries(("+", "green"), change.entries_added, kind, zone, on_one_line=on_one_line)
        _print_marked(heading, marked, render_sources)
    if not (narrative or change.entries_added or change.entries_superseded):
        print_note("No statement and no entry changed.")


_MarkedLines = list[tuple[tuple[str, str], str, tuple[str, ...]]]  # mark and style, text, ids of sources


def _mark_entries(
    mark: tuple[str, str], entries: Iterable[Entry], kind: str, zone: tzinfo, *, on_one_line: bool
) -> _MarkedLines:
    lines = [(mark, _render_entry(entry, zone), entry.sources) for entry in entries if entry.kind == kind]
    return [(mark, ", ".join(text for _, text, _ in lines), ())] if lines and on_one_line else lines


def _print_marked(heading: str, lines: _MarkedLines, render_sources: SourceRenderer) -> None:
    if lines:
        print_items(Text(), Text(heading, "bold"))
    for (mark, style), text, sources in lines:
        print_items(*render_hanging(f"  {mark} ", (to_paragraph(text), style), (render_sources(sources), "cyan")))


# Compressing on demand


def compress(
    call: Call,
    conversation: ConversationName,
    force: Annotated[
        bool, typer.Option("--force", help="Compress all but the newest turns, even if they are not due.")
    ] = False,
) -> None:
    """Compress older turns into the brief now, if they are due.

    A worker does the same by itself. Nothing is lost: the messages stay stored, and recall finds them.
    """
    with call.open(must_exist=True) as memory:
        info = find_conversation(memory, conversation)
        old = memory.brief(conversation)
        with spinner("Compressing"):
            new = memory.compress(conversation, force=force)
        summary = [] if new is None or call.json else _describe_compression(memory, old, new)
        settings = memory.settings()
    if call.json:
        print_json(new)
    elif new is None:
        print_note(_explain_nothing_compressed(info, old, settings, force=force))
    else:
        print_pairs(summary)
    if new is not None and new.degraded:
        print_note(f"warning: the model failed ({to_line(new.degraded)}), so the built-in summariser wrote this.")


def _explain_nothing_compressed(info: Conversation, old: Brief | None, settings: Settings, *, force: bool) -> str:
    waiting = render_count(info.messages - (old.messages_summarized_count if old else 0), "message")
    kept = render_count(settings.memory_k_raw_turns, "turn")
    if force:
        return f"Nothing can be compressed. Not in the brief yet: {waiting}. The newest {kept} are never compressed."
    rule = f"{_render_triggers(settings)}\n--force compresses all but the newest {kept} now."
    return f"Nothing is due. Not in the brief yet: {waiting}. {rule}"


def _describe_compression(memory: Memory, old: Brief | None, new: Brief) -> list[tuple[str, object]]:
    """Return names and values: what was compressed, and what the new version is like."""
    before, old_entries = (old.messages_summarized_count, old.entries) if old else (0, ())
    count = max(0, new.messages_summarized_count - before)
    messages = memory.history(new.conversation, before=new.through_seq + 1, limit=count)
    superseded = sum(not entry.holds for entry in new.entries) - sum(not entry.holds for entry in old_entries)
    turns = render_count(len(split_into_turns(messages)), "turn")
    return [
        ("version", new.version),
        ("compressed", f"{render_count(len(messages), 'message')} of {turns}"),
        ("tokens", _render_tokens(memory, old, new)),
        ("narrative", render_count(count_words(new.narrative), "word")),
        ("ledger", f"{len(new.entries) - len(old_entries):,} new, {superseded:,} superseded"),
        ("by", _render_writer(new.model_used)),
    ]


def _render_tokens(memory: Memory, old: Brief | None, new: Brief) -> str:
    """Return the tokens of the old brief and the compressed turns, and those of the new brief.

    A record keeps only the share that was saved, so the tokens before are computed from it, version by version.
    """
    before = last = old.tokens if old else 0
    for version in range((old.version if old else 0) + 1, new.version + 1):
        step = new if version == new.version else memory.brief(new.conversation, version=version)
        saved = 0 if step is None else _to_number(step.record, "compression_ratio")
        if step is None or not 0 < saved < 1:
            return f"{new.tokens:,}, no fewer than before" if step else f"{new.tokens:,}"
        before += round(step.tokens / (1 - saved)) - last
        last = step.tokens
    return f"about {before:,} → {new.tokens:,}"
