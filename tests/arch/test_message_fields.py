"""The fields of a message are declared once; records, schema, REST body, export and `add` follow the declaration."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from recollect import AsyncMemory, Memory
from recollect.core.message import FIELDS, Draft, Message, MessageField
from recollect.formats import native
from recollect.server.schemas import MessageIn
from recollect.storage import queries
from recollect.testing import FakeEmbedder
from support.tables import ask

COLUMN_TYPES = {"sqlite": {"TEXT", "INTEGER", "REAL"}, "postgres": {"text", "bigint", "double precision"}}
POSTGRES = {"TEXT": "text", "INTEGER": "bigint", "REAL": "double precision"}


def names(*, given: bool | None = None, imported: bool | None = None) -> set[str]:
    """Return the names of declared fields that callers, or imports, may set."""
    return {field.name for field in FIELDS if given in (None, field.given) and imported in (None, field.imported)}


def test_the_record_has_the_declared_fields() -> None:
    assert {field.name for field in fields(Message)} == names()


def test_a_draft_has_those_that_an_import_may_set() -> None:
    assert {field.name for field in fields(Draft)} - {"id_is_new"} == names(imported=True)


def test_add_takes_those_that_a_caller_may_give() -> None:
    for method in (Memory.add, AsyncMemory.add):
        parameters = set(inspect.signature(method).parameters) - {"self", "conversation"}
        assert parameters == names(given=True)


def test_the_rest_body_takes_those_that_a_caller_may_give() -> None:
    assert set(MessageIn.model_fields) == names(given=True)


def test_an_export_carries_those_that_an_import_may_set(memory: Memory) -> None:
    message = memory.add(
        "trip", "assistant", "hello", name="Sara", model_variant="m", metadata={"a": 1}, importance=0.5
    )
    exported = set(native.message_fields(message)) - {"type", "conversation"}
    assert exported == names(imported=True)


def test_the_table_has_the_declared_columns(memory: Memory, location: str) -> None:
    memory.add("trip", "user", "hello")
    if location.startswith("postgresql:"):
        rows = ask(
            location,
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_name = 'messages' AND table_schema = current_schema()",
        )
        expected = {field.name: POSTGRES[field.column] for field in FIELDS if field.column is not None}
        keys = {"key": "bigint", "conversation_key": "bigint"}
    else:
        rows = ask(location, "SELECT name, type FROM pragma_table_info('messages')")
        expected = {field.name: field.column for field in FIELDS if field.column is not None}
        keys = {"key": "INTEGER", "conversation_key": "INTEGER"}
    assert dict(rows) == expected | keys


@pytest.mark.parametrize("dialect", queries.DIALECTS)
def test_every_declared_column_is_written(dialect: str) -> None:
    sql = queries.load(dialect)["insert_messages"].sql
    assert all(sql.count(field.name) >= 2 for field in FIELDS if field.column is not None)
    assert "{" not in sql


GIVEN: dict[str, Any] = {
    "role": "assistant", "content": "hello", "id": "m1", "at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "name": "Sara",
    "source": "imported", "tool_calls": ({"id": "c", "function": {"name": "f", "arguments": "{}"}},),
    "tool_call_id": "c", "model_variant": "deep", "metadata": {"a": 1}, "importance": 0.5,
}  # fmt: skip


def test_every_field_that_a_caller_gives_is_stored_and_read_back(memory: Memory) -> None:
    assert set(GIVEN) == names(given=True)
    given = GIVEN | {"tool_calls": list(GIVEN["tool_calls"])}
    memory.add("one", **given)
    memory.add_many("many", [given])

    async def add_and_read() -> Message:
        async with AsyncMemory(":memory:", worker=False, embedder=FakeEmbedder()) as other:
            await other.add("one", **given)
            return (await other.history("one"))[0]

    for message in (memory.history("one")[0], memory.history("many")[0], asyncio.run(add_and_read())):
        assert {name: getattr(message, name) for name in GIVEN} == GIVEN


def test_a_field_that_is_declared_but_not_followed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arch.test_message_fields.FIELDS", (*FIELDS, MessageField("planted_field", "TEXT")))
    for check in (
        test_the_record_has_the_declared_fields,
        test_a_draft_has_those_that_an_import_may_set,
        test_add_takes_those_that_a_caller_may_give,
        test_the_rest_body_takes_those_that_a_caller_may_give,
    ):
        with pytest.raises(AssertionError):
            check()
