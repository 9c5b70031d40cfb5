"""The brief: what it says and on what it rests, its versions and what changed between them, and folding on demand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.display import (
    counted,
    flat,
    hanging,
    line,
    note,
    out,
    show,
    show_json,
    show_pairs,
    show_table,
    shown_time,
    spinner,
)
from recollect.cli.log import ConversationName, find_conversation
from recollect.cli.options import Call
from recollect.core import times
from recollect.core.compression import ledger
from recollect.core.compression.brief import BUILT_IN, Brief
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Statement, words
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Conversation, JsonObject, Record
from recollect.core.turns import turns_of
from recollect.settings import Settings
from recollect.sync import Memory

_HEADINGS: Final = {
    ledger.PREFERENCE: "preferences",
    ledger.DECISION: "decisions",
    ledger.FACT: "facts",
    ledger.INTENT: "goals",
    ledger.QUESTION: "open questions",
    ledger.STRUCTURE: "structure",
    ledger.URL: "links",
    ledger.ENTITY: "names",
}
_DAY: Final = re.compile(r"^\[\d{1,2} [A-Z][a-z]{2}(?: \d{4})?\] ")
Rests = Callable[[Sequence[str]], str]  # from ids of messages to what is shown of them


@dataclass(frozen=True, slots=True)
class Change(Record):
    """What one version of a brief says and an earlier one did not, and the other way round."""

    conversation: str
    from_version: int  # 0: before there was one
    to_version: int
    statements_added: tuple[Statement, ...]
    statements_removed: tuple[Statement, ...]
    entries_added: tuple[Entry, ...]
    entries_superseded: tuple[Entry, ...]


def brief(
    call: Call,
    conversation: ConversationName,
    version: Annotated[int | None, typer.Option(metavar="N", help="This version; by default the newest.")] = None,
    versions: Annotated[bool, typer.Option("--versions", help="List all versions.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what changed since the version before.")] = False,
    since: Annotated[
        int | None, typer.Option(metavar="N", help="With --diff: since this version; 0 shows all.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Name the messages that each part rests on.")] = False,
) -> None:
    """Show the brief: what came before the newest turns, in short.

    First the narrative, then the ledger, with what was superseded, then what this version folded. Days are those of the
    conversation's zone.
    """
    _refuse_contradictions(version, since, versions=versions, diff=diff, sources=sources)
    with call.open(must_exist=True) as memory:
        about = find_conversation(memory, conversation)
        found = _find_brief(memory, conversation, version)
        listed = memory.brief_versions(conversation) if versions else []
        change = _find_change(memory, found, since) if found is not None and diff else None
        rests = _resting(memory, about) if found is not None and sources and not call.json else _unsaid
        settings = memory.settings()
    if call.json:
        show_json(listed if versions else change if diff else found)
    elif found is None:
        note(why_none(about, settings))
    elif versions:
        _show_versions(listed, about)
    elif change is not None:
        _show_change(change, rests, times.load_zone(about.zone))
    else:
        show_brief(found, about, rests)


def _refuse_contradictions(
    version: int | None, since: int | None, *, versions: bool, diff: bool, sources: bool
) -> None:
    if versions and (diff or sources or version is not None or since is not None):
        raise InvalidInput("invalid_output", "--versions lists them all; say it alone.")
    if since is not None and not diff:
        raise InvalidInput("invalid_output", "--since belongs to --diff.")


def _find_brief(memory: Memory, conversation: str, version: int | None) -> Brief | None:
    """None only where the newest is asked for and there is none."""
    found = memory.brief(conversation, version=version)
    if found is None and version is not None:
        raise NotFound("brief_not_found", f"There is no version {version}. `recollect brief --versions` lists them.")
    return found


def why_none(about: Conversation, settings: Settings) -> str:
    """When there will be a brief, and how to have one now."""
    there = f"No brief of {counted(about.messages, 'message')} yet. {_when(settings)}"
    return f"{there}\n`recollect compress {shlex.quote(about.name)} --force` makes one now."


def _when(settings: Settings) -> str:
    """When older turns are folded, in words."""
    rules = (
        (settings.compress_messages_at, f"from {counted(settings.compress_messages_at, 'message')} on"),
        (settings.compress_tokens_above, f"above {counted(settings.compress_tokens_above, 'token')}"),
        (settings.memory_chunk_summarize_threshold, f"above {settings.memory_chunk_summarize_threshold:,} tokens"),
        (settings.compress_daily, "when a new day begins"),
        (settings.rag_summary_frequency, f"after every {counted(settings.rag_summary_frequency, 'answer')}"),
    )
    active = [text for is_on, text in rules if is_on]
    return f"A worker folds older turns {' or '.join(active)}." if active else "The settings never fold older turns."


def _resting(memory: Memory, about: Conversation) -> Rests:
    """Messages by their place in the log; one that is not there any more by its id."""
    places = {message.id: message.seq for message in memory.history(about.name)}
    return lambda ids: "".join(f" #{line(str(places.get(one, one)))}" for one in ids)


def _unsaid(_: Sequence[str]) -> str:
    return ""


# Showing a version


def show_brief(found: Brief, about: Conversation, rests: Rests = _unsaid) -> None:
    """The narrative, the ledger, and what this version folded."""
    zone = times.load_zone(about.zone)
    show(_head(found, about, zone))
    out("")
    if rests is _unsaid:
        show(*hanging("", flat(found.narrative)))
    else:
        for one in found.statements:
            show(*hanging("", flat(one.text), (rests(one.sources), "cyan")))
    for kind, heading in _HEADINGS.items():
        if entries := [entry for entry in found.entries if entry.kind == kind]:
            show(Text(), Text(heading, "bold"), *_entries(entries, zone, rests, together=kind == ledger.ENTITY))
    out("")
    show_pairs(_record(found))


def _head(found: Brief, about: Conversation, zone: tzinfo) -> Text:
    head = Text.assemble((f"{line(about.name)} · version {found.version}", "bold"))
    head.append(f" · through message {found.through_seq:,} of {about.last_seq:,}")
    head.append(f" · {shown_time(found.created_at, zone)} · {_writer(found.model_used)}", "dim")
    if found.degraded:
        head.append(f" · the model failed: {line(found.degraded)}", "yellow")
    return head


def _writer(model: str) -> str:
    return "built in" if model == BUILT_IN else line(model)


def _entries(entries: Sequence[Entry], zone: tzinfo, rests: Rests, *, together: bool) -> list[Text]:
    """What holds, and after it, dimmed, what held before. Names stand on one line, unless each shows its sources."""
    ordered = sorted(entries, key=lambda entry: not entry.holds)
    if together and rests is _unsaid:
        return hanging("  ", ", ".join(dict.fromkeys(flat(entry.value) for entry in ordered if entry.holds)))
    shown: list[Text] = []
    for entry in ordered:
        shown += hanging("  ", (_told(entry, zone), "" if entry.holds else "dim"), (rests(entry.sources), "cyan"))
    return shown


def _told(entry: Entry, zone: tzinfo) -> str:
    """The entry in words, with who said so where it was not typed, and its end."""
    is_bare = entry.kind in (ledger.URL, ledger.ENTITY)
    text = flat(entry.value if is_bare else ledger.told(entry))
    if entry.trust not in (("typed",) if is_bare else ("typed", "assistant")):
        text += f" ({line(entry.trust)})"
    return text if entry.valid_to is None else f"{text}, until {entry.valid_to.astimezone(zone):%Y-%m-%d}"


def _record(found: Brief) -> list[tuple[str, object]]:
    """What this version folded; lists take a row for each item."""
    record = found.record
    rows: list[tuple[str, object]] = [("folded", counted(int(_number(record, "original_message_count")), "message"))]
    for name in ("timespan", "intent", "key_facts", "decisions", "missing_data"):
        value = record.get(name) or []
        values = value if isinstance(value, list) else [value]
        rows += [("" if place else name.replace("_", " "), flat(str(one))) for place, one in enumerate(values)]
    rows.append(("tokens saved", f"{_number(record, 'compression_ratio'):.0%}; the brief takes about {found.tokens:,}"))
    if found.dropped:
        rows.append(("dropped", f"{counted(found.dropped, 'statement')} that no message supports"))
    return rows


def _number(record: JsonObject, name: str) -> float:
    """Records hold what a model may have written."""
    value = record.get(name)
    return value if isinstance(value, int | float) else 0


# Versions and what changed between them


def _show_versions(listed: Sequence[JsonObject], about: Conversation) -> None:
    zone, before, rows = times.load_zone(about.zone), 0, []
    for one in listed:
        when = shown_time(one["created_at"], zone)
        rows.append((one["version"], one["messages"] - before, one["through_seq"], when, _writer(one["model"])))
        before = one["messages"]
    columns = ("version", "messages folded", "through", "made", "by")
    show_table(columns, rows, numbers=("version", "messages folded", "through"))


def _find_change(memory: Memory, new: Brief, since: int | None) -> Change:
    before = new.version - 1 if since is None else since
    if not 0 <= before < new.version:
        raise InvalidInput("invalid_version", f"Version {new.version} can be compared to an earlier one only.")
    old = _find_brief(memory, new.conversation, before) if before else None
    return compare(old, new)


def compare(old: Brief | None, new: Brief) -> Change:
    """What `new` has that `old` has not. Entries are never dropped, so the old ones are the first of the new."""
    said, entries = (old.statements, old.entries) if old else ((), ())
    before, after = ({_undated(one) for one in statements} for statements in (said, new.statements))
    ended = (one for was, one in zip(entries, new.entries, strict=False) if was.holds and not one.holds)
    return Change(
        conversation=new.conversation,
        from_version=old.version if old else 0,
        to_version=new.version,
        statements_added=tuple(one for one in new.statements if _undated(one) not in before),
        statements_removed=tuple(one for one in said if _undated(one) not in after),
        entries_added=new.entries[len(entries) :],
        entries_superseded=tuple(ended),
    )


def _undated(statement: Statement) -> str:
    """Without the day at its start, which it has or has not by what stands before it."""
    return _DAY.sub("", statement.text, count=1)


def _show_change(change: Change, rests: Rests, zone: tzinfo) -> None:
    before = f"version {change.from_version}" if change.from_version else "nothing"
    show(Text(f"from {before} to version {change.to_version}", "bold"))
    narrative = [(("-", "red"), one.text, one.sources) for one in change.statements_removed]
    narrative += [(("+", "green"), one.text, one.sources) for one in change.statements_added]
    _show_marked("narrative", narrative, rests)
    for kind, heading in _HEADINGS.items():
        together = kind == ledger.ENTITY and rests is _unsaid
        marked = _marked(("~", "yellow"), change.entries_superseded, kind, zone, together=together)
        marked += _marked(("+", "green"), change.entries_added, kind, zone, together=together)
        _show_marked(heading, marked, rests)
    if not (narrative or change.entries_added or change.entries_superseded):
        note("Nothing changed in its words.")


_Marked = list[tuple[tuple[str, str], str, tuple[str, ...]]]


def _marked(mark: tuple[str, str], entries: Iterable[Entry], kind: str, zone: tzinfo, *, together: bool) -> _Marked:
    found = [(mark, _told(entry, zone), entry.sources) for entry in entries if entry.kind == kind]
    return [(mark, ", ".join(text for _, text, _ in found), ())] if found and together else found


def _show_marked(heading: str, marked: _Marked, rests: Rests) -> None:
    if marked:
        show(Text(), Text(heading, "bold"))
    for (mark, style), text, sources in marked:
        show(*hanging(f"  {mark} ", (flat(text), style), (rests(sources), "cyan")))


# Folding on demand


def compress(
    call: Call,
    conversation: ConversationName,
    force: Annotated[bool, typer.Option("--force", help="All but the newest turns, due or not.")] = False,
) -> None:
    """Fold older turns into the brief now, if they are due, as a worker would.

    Nothing is lost: the messages stay in the log, and recall finds them.
    """
    with call.open(must_exist=True) as memory:
        about = find_conversation(memory, conversation)
        old = memory.brief(conversation)
        with spinner("Folding"):
            made = memory.compress(conversation, force=force)
        folded = [] if made is None or call.json else _folded(memory, old, made)
        settings = memory.settings()
    if call.json:
        show_json(made)
    elif made is None:
        note(_why_not(about, old, settings, force=force))
    else:
        show_pairs(folded)
    if made is not None and made.degraded:
        note(f"warning: the model failed ({line(made.degraded)}), so the built-in compressor wrote this.")


def _why_not(about: Conversation, old: Brief | None, settings: Settings, *, force: bool) -> str:
    waiting = about.messages - (old.messages_summarized_count if old else 0)
    there, kept = f"Not in the brief yet: {counted(waiting, 'message')}.", counted(settings.memory_k_raw_turns, "turn")
    if force:
        return f"Nothing can be folded. {there} The newest {kept} stay as they are."
    return f"Nothing is due. {there} {_when(settings)}\n--force folds all but the newest {kept} now."


def _folded(memory: Memory, old: Brief | None, made: Brief) -> list[tuple[str, object]]:
    before, entries = (old.messages_summarized_count, old.entries) if old else (0, ())
    count = max(0, made.messages_summarized_count - before)
    messages = memory.history(made.conversation, before=made.through_seq + 1, limit=count)
    ended = sum(not entry.holds for entry in made.entries) - sum(not entry.holds for entry in entries)
    return [
        ("version", made.version),
        ("folded", f"{counted(len(messages), 'message')} of {counted(len(turns_of(messages)), 'turn')}"),
        ("tokens", _tokens(memory, old, made)),
        ("narrative", counted(words(made.narrative), "word")),
        ("ledger", f"{len(made.entries) - len(entries):,} new, {ended:,} superseded"),
        ("by", _writer(made.model_used)),
    ]


def _tokens(memory: Memory, old: Brief | None, made: Brief) -> str:
    """From what the old brief and the turns took, to what the new one takes. A record keeps the share alone."""
    before = last = old.tokens if old else 0
    for version in range((old.version if old else 0) + 1, made.version + 1):
        step = made if version == made.version else memory.brief(made.conversation, version=version)
        saved = 0 if step is None else _number(step.record, "compression_ratio")
        if step is None or not 0 < saved < 1:
            return f"{made.tokens:,}, no fewer than before" if step else f"{made.tokens:,}"
        before += round(step.tokens / (1 - saved)) - last
        last = step.tokens
    return f"about {before:,} → {made.tokens:,}"
