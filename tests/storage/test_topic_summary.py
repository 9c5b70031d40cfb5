"""Stored summaries of topics are read back as they were, and damaged ones are empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core import archive
from recollect.core.compression.narrative import Statement
from recollect.core.topics import TopicGroup
from recollect.storage.shipped_dictionary import shipped_dictionary
from recollect.storage.topic_summary import pack_statements, unpack_group_statements, unpack_statements

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
WEIGHTS = st.integers(-1_000_000, 1_000_000).map(lambda n: n / 10_000)
STATEMENTS = st.builds(Statement, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), MOMENTS, WEIGHTS)


@given(st.lists(STATEMENTS, max_size=5))
def test_statements_are_read_as_they_were_stored(statements: list[Statement]) -> None:
    assert unpack_statements(pack_statements(statements)) == statements


def packed(*damaged: str) -> bytes:
    return archive.encode(list(damaged), shipped_dictionary())


@pytest.mark.parametrize(
    "text",
    ["", "{", "5", "null", '"text"', "[1]", '[["a"]]', '[["a", 1, 2, 3]]', '[["a", [], "x", 1]]',
     '[["a", [], 1e400, 1]]', '[["a", [], 99999999999999999999, 1]]', '[["a", [], 1, 1, 1]]', '{"a": 1}',
     "[" * 100_000],
)  # fmt: skip
def test_a_damaged_summary_has_no_statements(text: str) -> None:
    assert unpack_statements(packed(text)) == []


def test_a_summary_of_damaged_bytes_has_no_statements() -> None:
    whole = pack_statements([Statement("It was a fine day.", ("m1",), NOW, 1.0)])
    assert unpack_statements(None) == unpack_statements(b"") == unpack_statements(packed()) == []
    for damaged in (b"x", b"\0" * 50, whole[:-1], whole[1:], whole[:5] + b"\xff" + whole[6:], whole + b"x"):
        assert unpack_statements(damaged) == []
    for index in range(len(whole)):
        flipped = unpack_statements(bytes([*whole[:index], whole[index] ^ 0x5A, *whole[index + 1 :]]))
        assert flipped in ([], unpack_statements(whole))


def test_the_statements_of_merged_topics_are_in_the_order_of_time() -> None:
    first, second, third = (
        Statement(f"It was day {day}.", (f"m{day}",), NOW + timedelta(days=day), 1.0) for day in range(3)
    )
    group = TopicGroup({"summary": pack_statements([first, third])}, [{"summary": pack_statements([second])}])
    assert unpack_group_statements(group) == [first, second, third]
