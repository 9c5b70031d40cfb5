"""A database that hangs keeps neither a probe nor the end of the server waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from recollect import StoreUnavailable
from recollect.core.times import to_micros
from recollect.storage import postgres
from recollect.storage.postgres import PostgresDriver
from recollect.testing import FakeClock
from support.pooler import Pooler, running_pooler
from support.postgres import SchemaPool, schema_of
from support.serving import TIMEOUT_SECONDS, make_server, wait_for

pytestmark = pytest.mark.slow
MESSAGES = "/api/v1/conversations/trip/messages"


@pytest.fixture
def own(pg_server: str, pooler: Pooler) -> Iterator[Pooler]:
    """A pooler that a test may freeze."""
    with running_pooler(pg_server) as running:
        yield running


def open_driver(location: str) -> PostgresDriver:
    driver = PostgresDriver(location)
    driver.open(to_micros(FakeClock().now()))
    return driver


def test_a_server_ends_although_its_database_hangs_and_the_request_gets_a_problem(
    own: Pooler, schemas: SchemaPool
) -> None:
    with schemas.lend() as dsn, make_server(own.dsn(schema_of(dsn))) as server:
        url, driver = server.url + MESSAGES, server.memory._components.driver
        assert isinstance(driver, PostgresDriver)
        assert server.client.post(MESSAGES, json={"role": "user", "content": "tea"}).status_code == 201
        with own.frozen(), ThreadPoolExecutor() as threads:
            body = {"role": "user", "content": "into the void"}
            sent = threads.submit(httpx.post, url, json=body, timeout=TIMEOUT_SECONDS, trust_env=False)
            wait_for(lambda: driver._connections.busy_count)  # by the request: there is no worker
            server.__exit__(None, None, None)  # fails if it takes too long
            reply = sent.result()
        assert (reply.status_code, reply.headers["content-type"]) == (503, "application/problem+json")
        assert (reply.json()["code"], reply.json()["retryable"]) == ("server_stopping", True)


def test_readyz_answers_although_the_database_hangs(own: Pooler, schemas: SchemaPool) -> None:
    with schemas.lend() as dsn, make_server(own.dsn(schema_of(dsn))) as server:
        assert server.client.get("/readyz").status_code == 200
        with own.frozen():
            reply = server.client.get("/readyz")
        assert (reply.status_code, reply.json()["code"]) == (503, "store_unreachable")
        assert reply.headers["content-type"] == "application/problem+json"
        assert wait_for(lambda: server.client.get("/readyz").status_code == 200)


def test_closing_cuts_calls_that_hang_and_begins_no_other(own: Pooler, schemas: SchemaPool) -> None:
    with schemas.lend() as dsn:
        driver = open_driver(own.dsn(schema_of(dsn)))
        driver.read(lambda tx: tx.one("schema_version")).result()
        with own.frozen():
            calls = [driver.read(lambda tx: tx.one("schema_version")) for _ in range(20)]  # more than there are threads
            closing = threading.Thread(target=driver.close, daemon=True)
            closing.start()
            closing.join(TIMEOUT_SECONDS)
            assert not closing.is_alive()
            for call in calls:
                with pytest.raises(StoreUnavailable, match="store_unreachable"):
                    call.result(TIMEOUT_SECONDS)


def test_closing_lets_calls_end_that_the_database_still_answers(pg: str) -> None:
    driver = open_driver(pg)
    begun, may_end = threading.Event(), threading.Event()

    def read(tx: Any) -> Any:
        begun.set()
        assert may_end.wait(TIMEOUT_SECONDS)
        return tx.one("schema_version")

    call = driver.read(read)
    assert begun.wait(TIMEOUT_SECONDS)
    closing = threading.Thread(target=driver.close)
    closing.start()
    may_end.set()
    closing.join(TIMEOUT_SECONDS)
    assert call.result()["version"] > 0


def test_whoever_waited_in_vain_for_a_server_connection_does_not_wait_again(
    pg_server: str, pooler: Pooler, schemas: SchemaPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "MAX_CHECK_SECONDS", 0.1)
    with running_pooler(pg_server, connections=1, query_wait_seconds=1) as narrow, schemas.lend() as dsn:
        driver = open_driver(narrow.dsn(schema_of(dsn)))
        driver.read(lambda tx: tx.one("schema_version")).result()
        opened: list[object] = []
        connect = driver._connections.connect
        monkeypatch.setattr(driver._connections, "connect", lambda: opened.append(1) or connect())
        with psycopg.connect(narrow.dsn()) as other:
            other.execute("SELECT 1")  # in a transaction, which keeps the only server connection
            with pytest.raises(StoreUnavailable, match="store_unreachable"):
                driver.read(lambda tx: tx.one("schema_version")).result()
        driver.close()
        assert opened == []
