"""Fixtures of the command line: a database, a way to run commands on it, a conversation, an embedder over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recollect import Memory
from recollect.cli import app
from support.fault_server import FaultServer

RUNNER = CliRunner()
Run = Callable[..., Any]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "chat.db")


@pytest.fixture
def run(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the test's database, in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run_it(*args: object, input: str | bytes | None = None, code: int = 0, at: str = db) -> Any:
        result = RUNNER.invoke(app, [*map(str, args), *(("--db", at) if at else ())], input=input)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run_it


@pytest.fixture
def trip(db: str) -> str:
    """A database with 60 messages in one conversation, three minutes before midnight in Riyadh."""
    with Memory(db, worker=False) as memory:
        said = [{"role": "user", "content": f"message {n}", "id": f"m{n}"} for n in range(1, 61)]
        moment = datetime(2026, 3, 1, 20, 57, tzinfo=UTC)
        memory.add_many("trip", [one | {"at": moment} for one in said])
        memory.update_conversation("trip", title="Andalusia", tags=["travel"], zone="Asia/Riyadh")
    return db


@pytest.fixture(scope="module")
def embedder() -> Iterator[FaultServer]:
    """Vectors from a server with a fake: texts that share words are near each other."""
    with FaultServer(dimensions=64) as running:
        yield running


@pytest.fixture
def quick_vectors(tmp_path: Path, embedder: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands embed there: the built-in model takes a second to load in each of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER_URL", embedder.url)
    monkeypatch.setenv("RECOLLECT_EMBEDDER_NAME", "fake")
    monkeypatch.setenv("RECOLLECT_EMBEDDER_DIMENSIONS", "64")
    monkeypatch.setenv("RECOLLECT_PROVIDER_RETRIES", "0")
