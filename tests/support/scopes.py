"""Reads scopes with and without segments, and compares them array by array."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from recollect import Memory
from recollect.core.models import Principal
from recollect.recall.message_run import MessageRun, make_vector_run
from recollect.recall.postings import Postings
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.segment_form import pack_segment
from recollect.recall.vectors import VectorPart
from recollect.storage import scope_updates
from recollect.storage.scope_updates import ScopeUpdate


def read_update(memory: Memory, index: ScopeIndex, *, person: str = "local") -> ScopeUpdate | None:
    """Return what is new in the scope of all of a person's conversations."""
    store = memory._engine._store
    return memory._wait(store.load_scope(Principal(person), None, index.marks, index.state))[0]


def read_scope(memory: Memory, index: ScopeIndex | None = None) -> ScopeIndex:
    """Return the scope as it is now, read from the beginning, or from an earlier state of it."""
    index = ScopeIndex() if index is None else index
    update = read_update(memory, index)
    rows = memory._wait(memory._engine._store.vectors.embedders())
    return index if update is None else index.updated(update, {row["key"]: row["dimensions"] for row in rows})


def read_scope_from_rows(memory: Memory) -> ScopeIndex:
    """Return the scope as it is now, read without segments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scope_updates, "read_segments", lambda tx, embedders: ([], []))
        return read_scope(memory)


def describe(value: Any) -> Any:
    """Return a scope as plain values: types and values of all arrays, in their order."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, ScopeIndex):
        return {one.name: describe(getattr(value, one.name)) for one in fields(value) if one.name != "texts"}
    if isinstance(value, Postings):
        return [describe(getattr(value, name)) for name in Postings.__slots__]
    if isinstance(value, VectorPart):
        return {name: describe(array) for name, array in vars(value).items() if not name.startswith("_")}
    if isinstance(value, dict):
        return {key: describe(one) for key, one in value.items()}
    return [describe(one) for one in value] if isinstance(value, tuple) else value


def pack_rows(entries: list[dict[str, Any]], vectors: list[dict[str, Any]], embedder: int, dimensions: int) -> bytes:
    """Return the body of the segment of some rows of one conversation."""
    run = MessageRun.from_rows(entries)
    return pack_segment(replace(run, vectors=make_vector_run(run, vectors, embedder, dimensions)))
