"""Behind a pooler that lends a server connection for one transaction, nothing of ours outlives a transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from recollect import InvalidInput, Memory, StoreUnavailable
from recollect.storage import postgres_connection
from recollect.storage.postgres import PostgresDriver
from recollect.storage.postgres_connection import connect, is_pooled, read_address
from recollect.testing import FakeEmbedder
from support.pooler import Pooler, find_pgbouncer, running_pooler
from support.postgres import SchemaPool, new_schema, schema_of

ROUNDS = 15
CLIENTS = 20


@contextmanager
def memory_at(location: str, **options: Any) -> Iterator[Memory]:
    with Memory(location, **{"worker": False, "embedder": FakeEmbedder(), **options}) as memory:
        yield memory


@pytest.fixture
def narrow(pg_server: str, pooler: Pooler) -> Iterator[Pooler]:
    """A pooler with one server connection: whoever is next gets the session of whoever was before."""
    with running_pooler(pg_server, connections=1) as running:
        yield running


def session_of(pooler: Pooler) -> dict[str, Any]:
    """Return what a client finds in the session that other clients of the pooler have used."""
    with psycopg.connect(pooler.dsn(), autocommit=True) as connection:
        row = connection.execute(
            "SELECT current_setting('search_path'), current_setting('synchronous_commit'),"
            " current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only'),"
            " (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors),"
            " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),"
            " (SELECT count(*) FROM pg_listening_channels()), pg_my_temp_schema()"
        ).fetchone()
    names = ("search_path", "synchronous_commit", "isolation", "read_only", "prepared", "cursors", "locks")
    return dict(zip((*names, "channels", "temporary"), row or (), strict=True))


def use_everything(memory: Memory) -> None:
    """Add, read, ask, compress, group, erase, check: often enough that psycopg would prepare its statements."""
    for number in range(ROUNDS):
        memory.add("trip", "user", f"I like tea number {number}, and trains.")
        memory.history("trip")
        memory.recall("tea")
    memory.drain()
    memory.compress("trip", force=True)
    memory.context("trip", "Which tea do I like?", budget=500)
    memory.topics("trip")
    memory.stats()
    memory.check()
    memory.erase(conversation="trip")


def test_nothing_of_a_session_stays_with_the_pooler(narrow: Pooler, schemas: SchemaPool, pg_server: str) -> None:
    before = session_of(narrow)
    with schemas.lend() as dsn, memory_at(narrow.dsn(schema_of(dsn))) as memory:
        use_everything(memory)
    with new_schema(pg_server) as dsn, memory_at(narrow.dsn(schema_of(dsn))) as memory:  # with migrations
        memory.add("trip", "user", "hello")
    assert session_of(narrow) == before
    assert before["prepared"] == before["locks"] == 0


def test_two_databases_behind_one_server_connection_never_see_each_others_rows(
    narrow: Pooler, schemas: SchemaPool
) -> None:
    with ExitStack() as stack:
        dsns = [stack.enter_context(schemas.lend()) for _ in range(2)]
        memories = [stack.enter_context(memory_at(narrow.dsn(schema_of(dsn)))) for dsn in dsns]
        for number in range(ROUNDS):
            for place, memory in enumerate(memories):  # their transactions take turns on the one session
                memory.add("trip", "user", f"tea {number} of place {place}")
                assert memory.recall(f"tea {number}", limit=100)[0].text.endswith(f"place {place}")
        for place, memory in enumerate(memories):
            assert [m.content for m in memory.history("trip")] == [f"tea {n} of place {place}" for n in range(ROUNDS)]


def test_many_people_behind_two_server_connections_never_meet(pooled_pg: str) -> None:
    failures: list[object] = []
    with memory_at(pooled_pg) as memory:

        def talk(person: str) -> None:
            try:
                own = memory.of(person)
                for number in range(ROUNDS):
                    own.add("trip", "user", f"{person} says tea {number}")
                    said = [hit.text for hit in own.recall("tea", limit=100)]
                    said += [message.content for message in own.history("trip")]
                    if len(said) != 2 * (number + 1) or not all(text.startswith(f"{person} says") for text in said):
                        failures.append((person, said))
            except BaseException as error:  # noqa: BLE001 - told by the test
                failures.append((person, error))

        threads = [threading.Thread(target=talk, args=(f"person {number}",)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_statements_are_prepared_on_a_direct_connection_alone(pg: str, pooled_pg: str) -> None:
    for location, pooled in ((pg, False), (pooled_pg, True)):
        with connect(read_address(location)) as connection:
            assert is_pooled(connection) is pooled
            for _ in range(20):
                connection.execute("SELECT %s::int AS number", (1,))
            (count,) = (
                connection.execute("SELECT count(*) AS n FROM pg_prepared_statements").fetchone() or {}
            ).values()
            assert (count > 0) is not pooled


def test_a_pooler_that_was_not_recognised_is_noticed_by_its_first_failure(
    narrow: Pooler, schemas: SchemaPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "is_pooled", lambda connection: False)
    with schemas.lend() as dsn, ExitStack() as stack:
        memories = [stack.enter_context(memory_at(narrow.dsn(schema_of(dsn)))) for _ in range(2)]
        for number in range(ROUNDS):
            for memory in memories:  # both name their statements alike, in the same session
                memory.add("trip", "user", f"tea {number}")
                assert len(memory.recall("tea", limit=100)) == len(memory.history("trip"))
        assert len(memories[0].history("trip")) == 2 * ROUNDS


@pytest.mark.slow
def test_a_restarted_pooler_or_server_connection_is_not_noticed_by_callers(
    pg_server: str, schemas: SchemaPool, pooler: Pooler
) -> None:
    with running_pooler(pg_server) as own, schemas.lend() as dsn, memory_at(own.dsn(schema_of(dsn))) as memory:
        for _ in range(ROUNDS):
            memory.add("trip", "user", "tea")
        own.stop()
        with pytest.raises(StoreUnavailable) as caught:
            memory.add("trip", "user", "into the void")
        assert (caught.value.code, caught.value.retryable) == ("store_unreachable", True)
        own.start()
        for _ in range(ROUNDS):
            memory.add("trip", "user", "tea")
            memory.history("trip")
        with psycopg.connect(dsn, autocommit=True) as direct:
            direct.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'recollect'"
            )
        for _ in range(ROUNDS):
            memory.add("trip", "user", "tea")
            memory.history("trip")
        assert len(memory.history("trip")) == 3 * ROUNDS


def test_many_that_open_a_new_database_at_once_migrate_it_once(pg_server: str, pooler: Pooler) -> None:
    failures: list[BaseException] = []
    with new_schema(pg_server) as dsn:

        def open_and_close() -> None:
            driver = PostgresDriver(pooler.dsn(schema_of(dsn)), connections=1)
            try:
                driver.open(0)
            except BaseException as error:  # noqa: BLE001 - told by the test
                failures.append(error)
            finally:
                driver.close()

        threads = [threading.Thread(target=open_and_close) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with psycopg.connect(dsn) as direct:
            versions = [version for (version,) in direct.execute("SELECT version FROM schema_migrations ORDER BY 1")]
        assert versions == list(range(1, len(versions) + 1)) != []


@pytest.mark.parametrize("kind", ["direct", "pooler"])
def test_a_schema_in_the_address_is_made_and_used(kind: str, pg_server: str, request: pytest.FixtureRequest) -> None:
    with new_schema(pg_server) as dsn, psycopg.connect(pg_server, autocommit=True) as server:
        name = f'{schema_of(dsn)} "Größe"'  # quoted where it must be
        pooler = request.getfixturevalue("pooler") if kind == "pooler" else None
        location = pooler.dsn(name) if pooler else f"{pg_server}&schema={quote(name)}"
        try:
            with memory_at(location) as memory:
                use_everything(memory)
                memory.add("trip", "user", "hello")
            (count,) = server.execute(
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = %s", (name,)
            ).fetchone() or (0,)
            assert count > 20
        finally:
            server.execute(psycopg.sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(psycopg.sql.Identifier(name)))


@pytest.mark.parametrize(
    "query",
    ["schema=", "schema=pg_mine", f"schema={'x' * 64}", "schema=%00", "schema=a%00b", f"schema={'%C3%B6' * 32}"],
)
def test_a_schema_that_cannot_be_named_is_refused(query: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_address(f"postgresql://user:secret@localhost/db?{query}")
    assert caught.value.code == "invalid_location"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("start", "query", "rest", "schema"),
    [
        ("postgresql://h/db", "", "", None),
        ("postgresql://h/db", "?schema=a", "", "a"),
        (
            "postgresql://h/db",
            "?sslmode=require&schema=a%20b&connect_timeout=3",
            "?sslmode=require&connect_timeout=3",
            "a b",
        ),
        ("postgresql://h1,h2:5433/db", "?target_session_attrs=any&schema=a", "?target_session_attrs=any", "a"),
    ],
)
def test_an_address_without_its_schema_is_what_libpq_reads(
    start: str, query: str, rest: str, schema: str | None
) -> None:
    assert read_address(start + query) == (start + rest, schema)


def test_a_parameter_that_the_pooler_refuses_is_explained(pooler: Pooler) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Memory(f"{pooler.dsn()}?options=-csearch_path%3Dx", worker=False)
    assert (caught.value.code, caught.value.retryable) == ("store_refused_parameter", False)
    assert "?schema=" in str(caught.value)


def test_pgbouncer_is_found_where_the_set_up_puts_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pgbouncer"
    for name in ("usr/sbin/pgbouncer", "usr/lib/x/libevent-2.1.so.7"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    nowhere: Callable[..., None] = lambda *args, **options: None  # noqa: E731
    monkeypatch.setattr("support.pooler.shutil.which", nowhere)
    monkeypatch.setattr("support.pooler.FETCHED", folder)
    program, environment = find_pgbouncer() or ("", {})
    assert program == str(folder / "usr/sbin/pgbouncer")
    assert environment["LD_LIBRARY_PATH"] == str(folder / "usr/lib/x")
    monkeypatch.setattr("support.pooler.FETCHED", tmp_path / "nothing")
    assert find_pgbouncer() is None
