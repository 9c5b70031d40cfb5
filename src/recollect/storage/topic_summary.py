"""Packs the statements of topic summaries into the bytes that the database stores, and reads them back.

They are compressed like messages in the archive, with the shipped dictionary: there are many small topics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from recollect.core import archive, times
from recollect.core.compression.narrative import Statement
from recollect.core.topics import TopicGroup
from recollect.storage.shipped_dictionary import shipped_dictionary


def pack_statements(statements: Sequence[Statement]) -> bytes:
    """Return statements in their stored form. Weights are rounded to four digits."""
    rows = [
        [statement.text, list(statement.sources), times.to_micros(statement.at), round(statement.weight, 4)]
        for statement in statements
    ]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return archive.encode([text], shipped_dictionary())


def unpack_statements(packed: bytes | None) -> list[Statement]:
    """Return the stored statements. Damaged bytes give an empty list: the next fold writes the summary again."""
    try:
        rows = json.loads(archive.decode(packed, lambda _: shipped_dictionary())[0]) if packed else []
        return [
            Statement(str(text), tuple(map(str, sources)), times.from_micros(int(at)), float(weight))
            for text, sources, at, weight in rows
        ]
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError):
        return []


def unpack_group_statements(group: TopicGroup) -> list[Statement]:
    """Return the statements of a topic and of those merged into it, in the order of time."""
    statements = [statement for row in group.rows for statement in unpack_statements(row["summary"])]
    return sorted(statements, key=lambda statement: statement.at)
