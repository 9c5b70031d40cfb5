"""What a PostgreSQL server refuses is told apart: what to change, and whether it is worth trying again."""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from recollect import Memory, RecollectError, StoreUnavailable
from recollect.storage import postgres_errors
from recollect.storage.postgres import PostgresDriver
from support.pooler import Pooler
from support.postgres import as_role, guest_role
from support.serving import TIMEOUT_SECONDS

SECRET = "hunter2hunter2"


def failure_at(location: str) -> tuple[str, bool]:
    """Return the code of the error when a memory is opened, and whether it is retryable."""
    with pytest.raises(RecollectError) as caught:
        Memory(location, worker=False)
    assert SECRET not in str(caught.value)
    return caught.value.code, caught.value.retryable


def with_parameter(location: str, parameter: str) -> str:
    return f"{location}{'&' if '?' in location else '?'}{parameter}"


@contextmanager
def fake_server(answer: bytes) -> Iterator[str]:
    """Yield the address of a server that sends these bytes to whoever connects, and ends the connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"postgresql://sara:{SECRET}@127.0.0.1:{listening.getsockname()[1]}/memory?sslmode=disable"
        listening.shutdown(socket.SHUT_RDWR)


def fatal(sqlstate: str, text: str) -> bytes:
    """Return the message of PostgreSQL's protocol for a fatal error."""
    fields = b"".join(
        kind + value.encode() + b"\0" for kind, value in ((b"S", "FATAL"), (b"C", sqlstate), (b"M", text))
    )
    return b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0"


@pytest.mark.parametrize(
    ("sqlstate", "text", "failure"),
    [
        ("28P01", 'password authentication failed for user "sara"', ("store_denied", False)),
        (
            "28000",
            'no pg_hba.conf entry for host "::1", user "sara", database "memory", SSL off',
            ("store_denied", False),
        ),
        ("08P01", "no such user: sara", ("store_denied", False)),
        ("08P01", "no such database: memory", ("store_not_found", False)),
        ("08P01", "SSL required", ("store_tls", False)),
        ("08P01", "no more connections allowed (max_client_conn)", ("store_too_many_connections", True)),
        ("53300", "sorry, too many clients already", ("store_too_many_connections", True)),
        ("57P03", "the database system is starting up", ("store_unreachable", True)),
    ],
)
def test_a_refused_connection_says_what_to_change(sqlstate: str, text: str, failure: tuple[str, bool]) -> None:
    with fake_server(fatal(sqlstate, text)) as location:
        assert failure_at(location) == failure


def test_a_server_refuses_roles_databases_and_parameters_by_their_names(pg: str, pg_server: str) -> None:
    assert failure_at(as_role(pg, "nobody_of_this_name", SECRET)) == ("store_denied", False)
    assert failure_at(pg_server.replace("/postgres?", "/no_such_database?")) == ("store_not_found", False)
    assert failure_at(with_parameter(pg, "sslmode=sometimes")) == ("store_refused_parameter", False)
    assert failure_at(with_parameter(pg_server, "options=-cno_such_thing%3D1")) == ("store_refused_parameter", False)


def test_a_pooler_without_tls_is_not_called_unreachable(pooler: Pooler) -> None:
    assert failure_at(with_parameter(pooler.dsn(), "sslmode=require")) == ("store_tls", False)


def test_a_role_with_too_many_connections_may_try_again(pg: str) -> None:
    with guest_role(pg) as location, psycopg.connect(pg, autocommit=True) as server:
        role = psycopg.conninfo.conninfo_to_dict(location)["user"]
        server.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 0").format(sql.Identifier(str(role))))
        assert failure_at(location) == ("store_too_many_connections", True)


def test_a_cancelled_statement_has_a_code_of_its_own_and_is_logged_once_without_its_text(
    pg: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_errors, "_logged", set())
    driver = PostgresDriver(with_parameter(pg, "connect_timeout=9"))
    driver.open(0)

    def wait_too_long(tx: object) -> None:
        tx._connection.execute("SET LOCAL statement_timeout = 1")  # type: ignore[attr-defined]
        tx._connection.execute("SELECT pg_sleep(60), 'what sara said'")  # type: ignore[attr-defined]

    with closing(driver), caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as caught:
                driver.write(wait_too_long).result()
            assert (caught.value.code, caught.value.retryable) == ("store_timeout", True)
    (record,) = [record for record in caplog.records if record.name == postgres_errors.__name__]
    assert record.getMessage() == "store_timeout: QueryCanceled, SQLSTATE 57014"


@pytest.mark.parametrize(
    "table",
    ["schema_migrations (version varchar PRIMARY KEY)", "messages (id bigint, body text)", "conversations (id bigint)"],
)
def test_tables_of_another_program_are_left_alone_and_another_schema_is_advised(table: str, empty_pg: str) -> None:
    with psycopg.connect(empty_pg, autocommit=True) as server:
        server.execute(sql.SQL("CREATE TABLE {}").format(sql.SQL(table)))
        with pytest.raises(StoreUnavailable, match=r"\?schema=") as caught:
            Memory(empty_pg, worker=False)
        assert (caught.value.code, caught.value.retryable) == ("schema_in_use", False)
        rows = server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()
        assert rows == (1,)


def test_a_search_path_without_a_schema_is_explained(pg_server: str) -> None:
    location = with_parameter(pg_server, "options=-csearch_path%3Dno_such_schema")
    assert failure_at(location) == ("store_not_found", False)


@pytest.mark.parametrize(
    ("statements", "failure"),
    [
        (["SELECT no_such_column FROM messages"], ("store_failed", False)),
        (["SELECT 1 / 0"], ("store_failed", False)),
        (["DECLARE c CURSOR FOR SELECT 1", "FETCH ABSOLUTE 0 FROM d"], ("store_failed", False)),
        (["SET LOCAL idle_in_transaction_session_timeout = 1", None, "SELECT 1"], ("store_timeout", True)),
    ],
)
def test_whatever_a_server_says_becomes_an_error_of_ours(
    statements: list[str | None], failure: tuple[str, bool], pg: str
) -> None:
    driver = PostgresDriver(pg)
    driver.open(0)

    def execute(tx: object) -> None:
        connection: psycopg.Connection = tx._connection  # type: ignore[attr-defined]
        for statement in statements:
            if statement is None:
                select.select([connection], [], [], TIMEOUT_SECONDS)  # until the server ends it
            else:
                connection.execute(sql.SQL(statement))

    with closing(driver), pytest.raises(RecollectError) as caught:
        driver.read(execute).result()
    assert (caught.value.code, caught.value.retryable) == failure


LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout")


def test_backups_restores_and_migrations_have_no_limit_of_time(empty_pg: str, tmp_path: Path) -> None:
    limits = "%20".join(f"-c{name}%3D77s" for name in LIMITS)
    driver = PostgresDriver(empty_pg.replace("options=", f"options={limits}%20"))
    seen: list[set[str]] = []  # the limits in each transaction
    run = driver._run

    def run_noted(connection: Any, begin: Any, function: Callable[[Any], Any]) -> Any:
        def note_and_run(tx: Any) -> Any:
            rows = [connection.execute(f"SHOW {name}").fetchone() for name in LIMITS]
            seen.append({value for row in rows for value in row.values()})
            return function(tx)

        return run(connection, begin, note_and_run)

    driver._run = run_noted  # type: ignore[method-assign]
    with closing(driver):
        driver.open(0)
        assert seen[0] == {"77s"} and seen[1:] and all(values == {"0"} for values in seen[1:])
        driver.backup(str(tmp_path / "copy.backup")).result()
        driver.restore(str(tmp_path / "copy.backup"), 0, epoch="ab" * 16).result()
        assert seen[-2:] == [{"0"}, {"0"}]
        driver.read(lambda tx: tx.one("schema_version")).result()
        assert seen[-1] == {"77s"}  # elsewhere the role's limits hold
