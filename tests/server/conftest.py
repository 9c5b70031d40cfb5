"""A server on the test's database, and a chat model beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.serving import Served, made
from support.upstream import ModelServer


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(scope="module")
def shared_model() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(scope="module")
def shared(shared_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for tests that keep to conversations of their own. It has little patience with its model."""
    location = str(tmp_path_factory.mktemp("shared") / "memory.db")
    settings: dict[str, Any] = {"provider_timeout_seconds": 0.8, "chat_timeout_seconds": 2}
    with made(location, shared_model, **settings) as served:
        yield served
