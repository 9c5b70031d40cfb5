"""Fixtures for the command line: a database, a function that runs commands on it, a conversation, an embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from recollect import Memory
from recollect.cli import app
from support.fault_server import FaultServer

RUNNER = CliRunner()
assert typer.testing._get_command is typer.main.get_command
typer.testing._get_command = cache(typer.main.get_command)  # made anew for every command, it takes longer than most
Run = Callable[..., Any]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "chat.db")


@pytest.fixture
def run(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command on the test's database, in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def invoke(*args: object, input: str | bytes | None = None, code: int = 0, at: str = db) -> Any:
        result = RUNNER.invoke(app, [*map(str, args), *(("--db", at) if at else ())], input=input)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return invoke


@pytest.fixture
def trip(db: str) -> str:
    """Return a database with 60 messages in one conversation, three minutes before midnight in Riyadh."""
    with Memory(db, worker=False) as memory:
        messages = [{"role": "user", "content": f"message {n}", "id": f"m{n}"} for n in range(1, 61)]
        moment = datetime(2026, 3, 1, 20, 57, tzinfo=UTC)
        memory.add_many("trip", [message | {"at": moment} for message in messages])
        memory.update_conversation("trip", title="Andalusia", tags=["travel"], zone="Asia/Riyadh")
    return db


@pytest.fixture(scope="module")
def embedder() -> Iterator[FaultServer]:
    """Run a server that returns fake vectors: texts that share words are near each other."""
    with FaultServer(dimensions=64) as running:
        yield running


@pytest.fixture
def quick_vectors(tmp_path: Path, embedder: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands embed at the fake server: the built-in model takes a second to load in each command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER_URL", embedder.url)
    monkeypatch.setenv("RECOLLECT_EMBEDDER_NAME", "fake")
    monkeypatch.setenv("RECOLLECT_EMBEDDER_DIMENSIONS", "64")
    monkeypatch.setenv("RECOLLECT_PROVIDER_RETRIES", "0")
