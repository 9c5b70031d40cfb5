"""Recollect's own NDJSON: what is written can be read, and written again to the same bytes."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.core.errors import InvalidInput
from recollect.core.models import ROLES, SOURCES, Conversation, Message
from recollect.formats import Batch, Skipped, format_of, read, write_ndjson
from recollect.formats.native import Exported

HEADER = b'{"format":"recollect","version":1}\n'


def written(items: list[Exported]) -> bytes:
    target = io.BytesIO()
    write_ndjson(target, items)
    return target.getvalue()


def records(data: bytes) -> list[Exported]:
    """What a store would hold after an import of these bytes."""
    found: dict[str, tuple[Batch, list[Message]]] = {}
    for item in read(io.BytesIO(data)):
        assert isinstance(item, Batch)
        _, messages = found.setdefault(item.conversation, (item, []))
        messages.extend(stored(item.conversation, len(messages) + n, m) for n, m in enumerate(item.messages, 1))
    return [(conversation(b.conversation, b.tags, b.zone), b.title, messages) for b, messages in found.values()]


def stored(conversation: str, seq: int, fields: dict[str, Any]) -> Message:
    calls = fields.pop("tool_calls", None)
    at = datetime.fromisoformat(fields.pop("at"))
    return Message(conversation=conversation, seq=seq, at=at, tool_calls=calls and tuple(calls), **fields)


def conversation(name: str, tags: tuple[str, ...] = (), zone: str | None = None) -> Conversation:
    return Conversation(name, "a derived title", tags, zone or "UTC", 0, 0, None, None)


def message(**fields: Any) -> Message:
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    given_fields = {"id": "m1", "conversation": "trip", "seq": 1, "role": "user", "content": "Hi", "at": at}
    return Message(**{**given_fields, "source": "typed", **fields})


def test_lines_have_fixed_keys_in_a_fixed_order_and_no_empty_fields() -> None:
    late = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    full = message(
        id="m2", at=late, metadata={"b": 1, "a": [{"d": 2, "c": 3}]}, name="سارة", importance=0.5, replaced=2,
        tool_calls=({"id": "c"},), tool_call_id="c", model_variant="m",
    )  # fmt: skip
    assert written([(conversation("trip", ("x",)), None, [message(), full])]).decode() == (
        '{"format":"recollect","version":1}\n'
        '{"type":"conversation","name":"trip","tags":["x"],"zone":"UTC"}\n'
        '{"type":"message","conversation":"trip","id":"m1","role":"user","content":"Hi",'
        '"at":"2026-05-01T12:00:00+00:00","source":"typed"}\n'
        '{"type":"message","conversation":"trip","id":"m2","role":"user","content":"Hi",'
        '"at":"2026-05-01T12:00:00+00:00","source":"typed","name":"سارة","model_variant":"m",'
        '"tool_calls":[{"id":"c"}],"tool_call_id":"c","metadata":{"a":[{"c":3,"d":2}],"b":1},'
        '"importance":0.5,"replaced":2}\n'
    )


texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=20)
objects = st.dictionaries(
    texts, st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2), max_size=3
)
message_fields = st.fixed_dictionaries(
    {
        "id": names,
        "role": st.sampled_from(ROLES),
        "content": texts,
        "source": st.sampled_from(SOURCES),
        "at": st.datetimes(timezones=st.just(UTC)),
    },
    optional={
        "name": texts,
        "model_variant": texts,
        "tool_calls": st.lists(objects, max_size=2).map(tuple),
        "tool_call_id": texts,
        "metadata": objects,
        "importance": st.floats(0, 1),
        "replaced": st.integers(0, 9),
    },
)
exports = st.lists(
    st.tuples(names, st.none() | texts, st.lists(names, max_size=2), st.lists(message_fields, max_size=4)),
    max_size=4,
    unique_by=lambda item: item[0],
)


@settings(deadline=None)
@given(exports)
def test_export_read_and_exported_again_is_the_same_bytes(items: list[Any]) -> None:
    data = written(
        [
            (conversation(name, tuple(tags)), title, [message(**{**fields, "conversation": name}) for fields in said])
            for name, title, tags, said in items
        ]
    )
    assert written(records(data)) == data


def test_conversation_without_messages_survives() -> None:
    data = written([(conversation("empty"), "A title", []), (conversation("trip"), None, [message()])])
    assert next(read(io.BytesIO(data))) == Batch("empty", "A title", (), "UTC", [])
    assert written(records(data)) == data


def test_source_and_replaced_are_kept_as_they_are_in_the_file() -> None:
    data = written([(conversation("trip"), None, [message(source="tool", replaced=3)])])
    [batch] = read(io.BytesIO(data))
    assert isinstance(batch, Batch)
    assert (batch.messages[0]["source"], batch.messages[0]["replaced"]) == ("tool", 3)


def test_messages_of_another_conversation_start_a_batch_of_their_own() -> None:
    lines = [{"type": "message", "conversation": c, "id": c, "role": "user", "content": c} for c in "aba"]
    data = HEADER + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert [item.conversation for item in read(io.BytesIO(data)) if isinstance(item, Batch)] == ["a", "b", "a"]


def test_long_conversation_comes_in_several_batches_with_the_same_heading() -> None:
    said = [message(id=str(n)) for n in range(501)]
    first, second = read(io.BytesIO(written([(conversation("trip", ("t",)), "T", said)])))
    assert isinstance(first, Batch) and isinstance(second, Batch)
    assert (len(first.messages), len(second.messages)) == (500, 1)
    assert (second.title, second.tags, second.zone) == (first.title, first.tags, first.zone) == ("T", ("t",), "UTC")


GOOD = {"type": "message", "conversation": "trip", "id": "m", "role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    "line",
    [
        {"type": "memory", "text": "from a later version"},
        {"type": "conversation", "name": ""},
        {"type": "conversation", "name": "x", "tags": "y"},
        {"type": "conversation", "name": "x", "zone": 3},
        {**GOOD, "id": ""},
        {**GOOD, "id": "x" * 201},
        {**GOOD, "role": ["user"]},
        {**GOOD, "content": None},
        {**GOOD, "conversation": 1},
        {**GOOD, "at": "yesterday"},
        {**GOOD, "source": {}},
        {**GOOD, "tool_calls": ["x"]},
        {**GOOD, "metadata": []},
        {**GOOD, "importance": True},
        {**GOOD, "replaced": 1.5},
        ["a", "list"],
        None,
    ],
)
def test_line_that_cannot_be_read_is_reported_and_the_next_one_is_read(line: Any) -> None:
    data = HEADER + json.dumps(line).encode() + b"\n" + json.dumps(GOOD).encode()
    skipped, batch = read(io.BytesIO(data))
    assert isinstance(skipped, Skipped) and skipped.where == "line 2"
    assert isinstance(batch, Batch) and len(batch.messages) == 1


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b'{"format":"recollect","version":2}', "format_too_new"),
        (b'{"format":"recollect","version":"1"}', "unknown_format"),
        (b'{"format":"recollect"}', "unknown_format"),
        (b'{"format":"other","version":1}', "unknown_format"),
        (b"", "unknown_format"),
    ],
)
def test_header_of_a_newer_version_or_none_at_all_is_refused(header: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        list(read(io.BytesIO(header), format="recollect"))
    assert refused.value.code == code


def test_demo_conversation_is_read_whole_and_is_written_as_the_writer_would() -> None:
    data = resources.files("recollect").joinpath("demo/trip.ndjson").read_bytes()
    assert format_of(io.BytesIO(data)) == "recollect"
    [(trip, title, said)] = records(data)
    messages = list(said)
    assert (trip.name, title, len(messages)) == ("trip", "Andalusia in May", 24)
    assert len({item.at.date() for item in messages}) == 4
    assert written([(trip, title, messages)]) == data
