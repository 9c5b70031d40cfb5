"""No query that serves one person reads a whole table: its cost follows what the person has, not what the store has."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from recollect import Memory
from recollect.storage import queries
from recollect.storage.tombstones import MAX_SALTS
from recollect.testing import FakeEmbedder
from support.tables import ask

GOLDEN = max((Path(__file__).parents[1] / "golden").glob("schema_*.sqlite"))
SMALL = {
    "get_profile": "reads one row from a subquery",
    "topics_state": "reads the embedders, of which there are a few",
}


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    return apsw.Connection(str(shutil.copy(GOLDEN, tmp_path / "golden.db")))


def scans(connection: apsw.Connection, query: queries.Query) -> list[str]:
    """Return the steps of a query's plan that read a whole table. Rows handed over as JSON do not count."""
    plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sql}", dict.fromkeys(query.parameters))
    steps = [step for *_, step in plan]
    return [step for step in steps if step.startswith("SCAN ") and not step.endswith(("ROW", ":"))]


def test_no_query_of_one_person_reads_a_whole_table(connection: apsw.Connection) -> None:
    for query in queries.load("sqlite").values():
        is_template = "{columns}" in query.sql
        if query.system is None and not is_template and query.name not in SMALL:
            assert scans(connection, query) == [], query.name


def test_a_query_that_reads_a_whole_table_is_noticed(connection: apsw.Connection) -> None:
    planted = queries.parse("-- name: planted\nDELETE FROM message_tokens WHERE counter = :person;")["planted"]
    assert scans(connection, planted) == ["SCAN message_tokens"]


def test_an_erase_reads_a_few_tombstones_however_many_there_are(connection: apsw.Connection, pg: str) -> None:
    question = queries.load("sqlite")["tombstone_salts"].sql.replace(":limit", str(MAX_SALTS))
    steps = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {question}")]
    assert steps == ["SCAN tombstones"]  # up to the limit: nothing is sorted
    Memory(pg, worker=False, embedder=FakeEmbedder()).close()
    ask(
        pg,
        "INSERT INTO tombstones (hash, erasure, salt, at)"
        " SELECT sha256(n::text::bytea), 'erasure', 'salt', n FROM generate_series(1, 5000) AS n",
    )
    plan = [line for (line,) in ask(pg, f"EXPLAIN (COSTS OFF) {question}")]
    assert [line.strip() for line in plan] == ["Limit", "->  Index Scan using tombstones_pkey on tombstones"]
