"""Checks the values of a backup: a file of our schema may hold what nothing of ours writes.

Integrity checks of SQLite find wrong types, roles and sources. Here are the rules that its schema cannot express. A
value that breaks one would end in a failure of every read after the restore. Derived bytes that are read with care
anyway (vectors, packed texts and summaries) have no rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from recollect.core import arguments, profile, times
from recollect.core.errors import InvalidInput
from recollect.core.message import CONTENT_LIMIT, METADATA_LIMIT, TOOL_CALLS_LIMIT
from recollect.core.text import MAX_TITLE_CHARACTERS, check_identity, replace_unstorable, replace_unstorable_json

Check = Callable[[Any], object]  # says no by False, or raises one of `_REFUSALS`
ReadRows = Callable[[str, Sequence[str]], Iterable[Sequence[Any]]]  # yields columns of all rows of a table, one by one

MAX_LABEL_CHARACTERS: Final = 1000  # of names that other programs give
MAX_COUNT: Final = 2**53
MAX_DIMENSIONS: Final = 2**16  # of a vector
MAX_JSON_BYTES: Final = 16 * CONTENT_LIMIT  # of what is derived from many messages
# A time without an offset is read in the zone of its conversation, so it may lie a day beyond the bounds.
_FIRST_MOMENT: Final = times.to_micros(times.EARLIEST - timedelta(days=1))
_LAST_MOMENT: Final = times.to_micros(times.LATEST + timedelta(days=1))
_REFUSALS: Final = (InvalidInput, ValueError, TypeError, KeyError, OverflowError, RecursionError)


def _text(value: str, *, limit: int = MAX_LABEL_CHARACTERS) -> bool:
    return len(value) <= limit and not replace_unstorable(value)[1]


def _content(value: str) -> bool:
    return len(value.encode()) <= CONTENT_LIMIT and not replace_unstorable(value)[1]


def _json(value: str, *, kind: type = dict, items: type | None = None, limit: int = MAX_JSON_BYTES) -> bool:
    """Say whether a text is the JSON of an object or a list, as deep and as large as we write it."""
    if len(value.encode()) > limit:
        return False
    parsed, replaced = replace_unstorable_json(json.loads(value))
    fits = items is None or all(isinstance(item, items) for item in parsed)
    return fits and not replaced and isinstance(parsed, kind)


def _tags(value: str) -> bool:
    return arguments.check_tags(json.loads(value)) is not None


def _profile(value: str) -> bool:
    return profile.check_changes(profile.to_nested(json.loads(value))) is not None


def _setting(value: str) -> bool:
    """Say whether a setting is readable. Most are JSON; some of our own are plain words."""
    kind = {"[": list, "{": dict}.get(value[:1])
    return _text(value, limit=METADATA_LIMIT) and (kind is None or _json(value, kind=kind))


def _moment(value: int) -> bool:
    return _FIRST_MOMENT <= value < _LAST_MOMENT


def _count(value: int) -> bool:
    return 0 <= value <= MAX_COUNT


def _small(value: int, *, limit: int) -> bool:
    return 0 <= value <= limit


def _unit(value: float) -> bool:
    return 0 <= value <= 1


def _finite(value: float) -> bool:
    return abs(value) <= MAX_COUNT


def _whole_numbers(value: bytes, *, size: int) -> bool:
    return len(value) % size == 0


_identity: Final = partial(check_identity, what="name")
_title: Final = partial(_text, limit=MAX_TITLE_CHARACTERS)
_texts: Final = partial(_json, kind=list, items=str, limit=METADATA_LIMIT)
_SEQS: Final = ("worked_seq", "embedded_seq", "briefed_seq", "topiced_seq", "folded_seq")
CHECKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "conversations": {
        "person": _text, "name": _identity, "title": _title, "tags": _tags, "zone": times.load_zone,
        "created_at": _moment, "last_seq": _count, "messages": _count, "first_at": _moment, "last_at": _moment,
        "generation": _count, "words_version": _count, **dict.fromkeys(_SEQS, _finite),
    },
    "messages": {
        "seq": _count, "id": _identity, "at": _moment, "name": _text, "model_variant": _text,
        "tool_calls": partial(_json, kind=list, items=dict, limit=TOOL_CALLS_LIMIT), "tool_call_id": _identity,
        "metadata": partial(_json, limit=METADATA_LIMIT), "importance": _unit, "replaced": _count,
    },
    "texts": {"content": _content},
    "message_tokens": {"counter": _text, "tokens": _count},
    "settings": {"person": _text, "name": _text, "value": _setting, "changed_at": _moment},
    "erasures": {"id": _text, "owner": _text, "kind": _text, "counts": _json, "at": _moment},
    "entries": {"at": _moment, "role": partial(_small, limit=3), "words": partial(_whole_numbers, size=4)},
    "embedders": {
        "name": _text, "dimensions": partial(_small, limit=MAX_DIMENSIONS), "passages": _count, "since": _moment,
    },
    "recalls": {"person": _text, "at": _moment, "metrics": _json},
    "briefs": {
        "through_seq": _count, "messages": _count, "tokens": _count, "created_at": _moment, "model": _text,
        "body": _json,
    },
    "brief_entries": {"number": _count, "entry": _json, "ended_version": _count, "ended_at": _moment},
    "dictionaries": {"person": _text, "created_at": _moment, "learned_from": partial(_text, limit=MAX_JSON_BYTES)},
    "topics": {
        "id": _identity, "opened_seq": _count, "created_at": _moment, "active_at": _moment, "active_seq": _count,
        "accesses": _count, "messages": _count, "archived": _count, "folded_seq": _finite, "summary_seq": _finite,
        "sums": partial(_whole_numbers, size=2), "title": _title, "tags": _tags, "importance": _unit,
        "deletions": _count, "merged_at": _moment,
    },
    "feedback": {"kind": _text, "value": _finite, "at": _moment},
    "profiles": {"person": _text, "body": _profile, "updated_at": _moment},
    "consents": {"person": _text, "at": _moment},
    "audit": {"at": _moment, "person": _text, "actor": _text, "action": _text, "details": _json},
    "api_keys": {
        "id": _identity, "label": _text, "person": _text, "department": _text, "ministry": _text,
        "clearances": _texts, "scopes": _texts, "created_at": _moment, "expires_at": _moment, "revoked_at": _moment,
    },
    "sessions": {"created_at": _moment, "expires_at": _moment},
    "requests": {"person": _text, "id": _text, "at": _moment},
    "stops": {"person": _text, "conversation": _text, "at": _moment},
    "tombstones": {"erasure": _text, "at": _moment},
}  # fmt: skip


def find_foreign_column(read_rows: ReadRows) -> str | None:
    """Return the first column, as `table.column`, with a value that nothing of ours writes. None: there is none.

    Rows are read one by one. A missing value (NULL) passes: the schema says where it may be.
    """
    for table, checks in CHECKS.items():
        for row in read_rows(table, tuple(checks)):
            for (column, check), value in zip(checks.items(), row, strict=True):
                if value is not None and not _passes(check, value):
                    return f"{table}.{column}"
    return None


def _passes(check: Check, value: object) -> bool:
    try:
        return check(value) is not False
    except _REFUSALS:
        return False
