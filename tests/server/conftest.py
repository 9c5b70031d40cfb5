"""A server on the test's database, and a chat model beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.serving import RunningServer, make_server
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
def shared(shared_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield one server for all tests that keep to conversations of their own."""
    location = str(tmp_path_factory.mktemp("shared") / "memory.db")
    with make_server(location, shared_model) as server:
        yield server
