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
from recollect.core.message import ROLES, SOURCES, Message
from recollect.core.models import Conversation
from recollect.formats import Batch, Skipped, detect_file_format, read_file, write_ndjson
from recollect.formats.native import ExportedConversation

HEADER = b'{"format":"recollect","version":1}\n'


def export(items: list[ExportedConversation]) -> bytes:
    target = io.BytesIO()
    write_ndjson(target, items)
    return target.getvalue()


def import_records(data: bytes) -> list[ExportedConversation]:
    """Return the conversations that a store would hold after an import of these bytes."""
    conversations: dict[str, tuple[Batch, list[Message]]] = {}
    for item in read_file(io.BytesIO(data)):
        assert isinstance(item, Batch)
        _, messages = conversations.setdefault(item.conversation, (item, []))
        messages.extend(to_message(item.conversation, len(messages) + n, m) for n, m in enumerate(item.messages, 1))
    return [(conversation(b.conversation, b.tags, b.zone), b.title, messages) for b, messages in conversations.values()]


def to_message(conversation: str, seq: int, fields: dict[str, Any]) -> Message:
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
    assert export([(conversation("trip", ("x",)), None, [message(), full])]).decode() == (
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
    data = export(
        [
            (
                conversation(name, tuple(tags)),
                title,
                [message(**{**fields, "conversation": name}) for fields in messages],
            )
            for name, title, tags, messages in items
        ]
    )
    assert export(import_records(data)) == data


def test_conversation_without_messages_survives() -> None:
    data = export([(conversation("empty"), "A title", []), (conversation("trip"), None, [message()])])
    assert next(read_file(io.BytesIO(data))) == Batch("empty", "A title", (), "UTC", [])
    assert export(import_records(data)) == data


def test_source_and_replaced_are_kept_as_they_are_in_the_file() -> None:
    data = export([(conversation("trip"), None, [message(source="tool", replaced=3)])])
    [batch] = read_file(io.BytesIO(data))
    assert isinstance(batch, Batch)
    assert (batch.messages[0]["source"], batch.messages[0]["replaced"]) == ("tool", 3)


def test_messages_of_another_conversation_start_a_batch_of_their_own() -> None:
    lines = [{"type": "message", "conversation": c, "id": c, "role": "user", "content": c} for c in "aba"]
    data = HEADER + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert [item.conversation for item in read_file(io.BytesIO(data)) if isinstance(item, Batch)] == ["a", "b", "a"]


def test_long_conversation_comes_in_several_batches_with_the_same_heading() -> None:
    messages = [message(id=str(n)) for n in range(501)]
    first, second = read_file(io.BytesIO(export([(conversation("trip", ("t",)), "T", messages)])))
    assert isinstance(first, Batch) and isinstance(second, Batch)
    assert (len(first.messages), len(second.messages)) == (500, 1)
    assert (second.title, second.tags, second.zone) == (first.title, first.tags, first.zone) == ("T", ("t",), "UTC")


VALID_MESSAGE = {"type": "message", "conversation": "trip", "id": "m", "role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    "line",
    [
        {"type": "memory", "text": "from a later version"},
        {"type": "conversation", "name": ""},
        {"type": "conversation", "name": "x", "tags": "y"},
        {"type": "conversation", "name": "x", "zone": 3},
        {**VALID_MESSAGE, "id": ""},
        {**VALID_MESSAGE, "id": "x" * 201},
        {**VALID_MESSAGE, "role": ["user"]},
        {**VALID_MESSAGE, "content": None},
        {**VALID_MESSAGE, "conversation": 1},
        {**VALID_MESSAGE, "at": "yesterday"},
        {**VALID_MESSAGE, "source": {}},
        {**VALID_MESSAGE, "tool_calls": ["x"]},
        {**VALID_MESSAGE, "metadata": []},
        {**VALID_MESSAGE, "importance": True},
        {**VALID_MESSAGE, "replaced": 1.5},
        ["a", "list"],
        None,
    ],
)
def test_line_that_cannot_be_read_is_reported_and_the_next_one_is_read(line: Any) -> None:
    data = HEADER + json.dumps(line).encode() + b"\n" + json.dumps(VALID_MESSAGE).encode()
    skipped, batch = read_file(io.BytesIO(data))
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
        list(read_file(io.BytesIO(header), format="recollect"))
    assert refused.value.code == code


def test_demo_conversation_is_read_whole_and_is_written_as_the_writer_would() -> None:
    data = resources.files("recollect").joinpath("demo/trip.ndjson").read_bytes()
    assert detect_file_format(io.BytesIO(data)) == "recollect"
    [(trip, title, messages)] = import_records(data)
    messages = list(messages)
    assert (trip.name, title, len(messages)) == ("trip", "Andalusia in May", 24)
    assert len({item.at.date() for item in messages}) == 4
    assert export([(trip, title, messages)]) == data
