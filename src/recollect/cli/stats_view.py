"""Says the counts of `Memory.stats` in words: what there is, whether all of it can be found, what waits."""

from __future__ import annotations

from typing import Final

from recollect.cli.display import print_pairs, render_count, render_value
from recollect.core.models import JsonObject

_UNIT_BYTES: Final = 1024


def print_stats(counts: JsonObject) -> None:
    """Print the counts as short sentences. `--json` has every figure."""
    if not counts["messages"]:
        print_pairs([("messages", "none yet"), ("database", _describe_database(counts))])
        return
    print_pairs(
        [
            ("messages", _describe_messages(counts)),
            ("text", _describe_text(counts)),
            ("searchable", _describe_search(counts)),
            ("waiting", _describe_waiting(counts)),
            ("briefs", _describe_briefs(counts)),
            ("topics", _describe_topics(counts)),
            ("database", _describe_database(counts)),
        ]
    )


def _describe_messages(counts: JsonObject) -> str:
    roles = ", ".join(f"{count:,} by {_ROLES.get(role, role)}" for role, count in counts["roles"].items())
    where = render_count(counts["conversations"], "conversation")
    first, last = (render_value(counts[name]) for name in ("first_at", "last_at"))
    return f"{counts['messages']:,} in {where}: {roles}; the first of {first}, the last of {last}"


_ROLES: Final = {
    "user": "the person", "assistant": "the assistant", "system": "the system", "tool": "tools",
}  # fmt: skip


def _describe_text(counts: JsonObject) -> str:
    size = f"{_render_bytes(counts['text_bytes'])} of text, {counts['tokens']:,} tokens"
    uncounted = counts["messages"] - counts["counted"]
    notes = [f"{uncounted:,} messages are not counted yet"] if uncounted else []
    if counts["estimated"]:
        notes.append(f"{counts['estimated']:,} messages are only estimated")
    if counts["replaced"]:
        notes.append(
            f"{render_count(counts['replaced'], 'character')} could not be stored and became \N{REPLACEMENT CHARACTER}"
        )
    return "; ".join([size, *notes])


def _describe_search(counts: JsonObject) -> str:
    """Say how many messages are found by words, which are stored with each message, and by meaning."""
    by_meaning = f"{counts['embedded']:,} of {counts['messages']:,}"
    if counts["embedded"] == counts["messages"]:
        return "all by their words and by meaning"
    if counts["due"]:
        return f"all by their words; {by_meaning} by meaning too, the rest waits"
    return f"{by_meaning} by their words and by meaning; the rest is instructions, or has no text"


def _describe_waiting(counts: JsonObject) -> str:
    if not counts["due"]:
        return "nothing: all derived work is done"
    waiting = render_count(counts["due"], "conversation")
    return f"derived work of {waiting}; a running server does it, or: recollect worker --once"


def _describe_briefs(counts: JsonObject) -> str:
    if not counts["briefs"]:
        return "none yet: no conversation is long enough to be compressed"
    return f"{render_count(counts['briefs'], 'version')} of what older turns said in short"


def _describe_topics(counts: JsonObject) -> str:
    archived = counts["archived"]
    if not archived:
        return f"{counts['topics']:,}"
    size = _render_bytes(counts["archive_bytes"])
    return (
        f"{counts['topics']:,}; {render_count(archived, 'message')} of quiet topics packed into {size}, word for word"
    )


def _describe_database(counts: JsonObject) -> str:
    own = counts["vector_bytes"] + counts["entry_bytes"]
    return (
        f"{_render_bytes(counts['bytes'])} for all people; {_render_bytes(own)} of it to search this person's messages"
    )


def _render_bytes(size: int) -> str:
    if size < _UNIT_BYTES:
        return f"{size:,} bytes"
    value, units = float(size), iter(("KB", "MB", "GB", "TB"))
    unit = ""
    while value >= _UNIT_BYTES and (following := next(units, None)) is not None:
        value, unit = value / _UNIT_BYTES, following
    return f"{value:,.1f} {unit}"
