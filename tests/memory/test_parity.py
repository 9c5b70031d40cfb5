"""Random programs give equal results on SQLite, on PostgreSQL, and in a model that fits on one page."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from recollect import Memory, RecollectError
from recollect.core.language import analyser
from recollect.testing import FakeClock, FakeEmbedder

PEOPLE = st.sampled_from(["sara", "omar"])
NAMES = st.sampled_from(["trip", "work", "سفر"])
IDS = st.none() | st.sampled_from(["a", "b", "c"])
TEXT = st.text(max_size=20)
HOURS = st.integers(0, 80)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Parity(RuleBasedStateMachine):
    places: ClassVar[dict[str, str]] = {}

    @initialize()
    def begin(self) -> None:
        """Use new people for each program, since the databases are shared."""
        self.tag = uuid.uuid4().hex[:8]
        self.clock = FakeClock(START)
        self.memories: dict[tuple[str, str], Memory] = {}
        self.model: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.last: dict[tuple[str, str], int] = {}

    def both(self, person: str, call: str, *args: Any, **options: Any) -> Any:
        """Do the same on both databases and return the one result (or error code)."""
        results = []
        for place, location in self.places.items():
            key = (place, person)
            if key not in self.memories:
                fakes: dict[str, Any] = {"clock": self.clock, "embedder": FakeEmbedder()}
                self.memories[key] = Memory(location, person=f"{person}-{self.tag}", worker=False, **fakes)
            try:
                results.append(getattr(self.memories[key], call)(*args, **options))
            except RecollectError as error:
                results.append(error.code)
        assert _comparable(results[0]) == _comparable(results[1])
        return results[0]

    @rule(person=PEOPLE, name=NAMES, id=IDS, content=TEXT, hour=HOURS)
    def add(self, person: str, name: str, id: str | None, content: str, hour: int) -> None:
        given = id or uuid.uuid4().hex
        self.both(person, "add", name, "user", content, id=given, at=START + timedelta(hours=hour))
        self.expect(person, name, given, content, hour)

    @rule(person=PEOPLE, name=NAMES, batch=st.lists(st.tuples(IDS, TEXT, HOURS), max_size=4))
    def add_many(self, person: str, name: str, batch: list[tuple[str | None, str, int]]) -> None:
        rows = [(given or uuid.uuid4().hex, content, hour) for given, content, hour in batch]
        at = [{"role": "user", "content": c, "id": i, "at": START + timedelta(hours=h)} for i, c, h in rows]
        self.both(person, "add_many", name, at)
        for row in rows:
            self.expect(person, name, *row)

    def expect(self, person: str, name: str, id: str, content: str, hour: int) -> None:
        log = self.model.setdefault((person, name), [])
        if all(row["id"] != id for row in log):
            self.last[person, name] = self.last.get((person, name), 0) + 1
            log.append({"id": id, "content": content, "hour": hour, "seq": self.last[person, name]})

    @rule(person=PEOPLE, name=NAMES, before=st.none() | st.integers(0, 6), limit=st.none() | st.integers(0, 4))
    def history(self, person: str, name: str, before: int | None, limit: int | None) -> None:
        found = self.both(person, "history", name, before=before, limit=limit)
        log = [row for row in self.model.get((person, name), []) if before is None or row["seq"] < before]
        log = log if limit is None else log[max(0, len(log) - limit) :]
        assert [(m.id, m.content, m.seq) for m in found] == [
            (r["id"], r["content"].replace("\x00", "\ufffd"), r["seq"]) for r in log
        ]

    @rule(person=PEOPLE)
    def conversations(self, person: str) -> None:
        found = self.both(person, "conversations")
        expected = {name: len(log) for (who, name), log in self.model.items() if who == person}
        assert {c.name: c.messages for c in found} == expected

    @rule(person=PEOPLE, name=NAMES, title=TEXT)
    def describe(self, person: str, name: str, title: str) -> None:
        self.both(person, "update_conversation", name, title=title, tags=[t for t in title.split() if "\x00" not in t])

    @rule(person=PEOPLE, name=NAMES)
    def erase_conversation(self, person: str, name: str) -> None:
        receipt = self.both(person, "erase", conversation=name)
        gone = self.model.pop((person, name), None)
        self.last.pop((person, name), None)
        assert receipt == "conversation_not_found" if gone is None else receipt.counts["messages"] == len(gone)

    @rule(person=PEOPLE, name=NAMES, id=st.sampled_from(["a", "b", "c"]))
    def erase_message(self, person: str, name: str, id: str) -> None:
        receipt = self.both(person, "erase", conversation=name, message=id)
        log = self.model.get((person, name), [])
        if any(row["id"] == id for row in log):
            self.model[person, name] = [row for row in log if row["id"] != id]
            assert receipt.counts["messages"] == 1
        else:
            assert receipt == "message_not_found"

    @rule(person=PEOPLE, day=st.integers(0, 3))
    def erase_day(self, person: str, day: int) -> None:
        receipt = self.both(person, "erase", day=f"2026-01-0{day + 1}")
        gone = 0
        for (who, name), log in self.model.items():
            if who == person:
                kept = [row for row in log if row["hour"] // 24 != day]
                gone += len(log) - len(kept)
                self.model[who, name] = kept
        assert receipt.counts["messages"] == gone

    @rule(person=PEOPLE, name=st.none() | NAMES, query=TEXT, limit=st.integers(0, 4))
    def recall(self, person: str, name: str | None, query: str, limit: int) -> None:
        """Both databases rank alike, and only messages of the person."""
        found = self.both(person, "recall", query, conversation=name, limit=limit)
        said = {(where, row["id"]) for (who, where), log in self.model.items() if who == person for row in log}
        assert {(hit.conversation, hit.message_id) for hit in found} <= said
        assert len(found) <= limit

    @rule(person=PEOPLE, data=st.data())
    def recall_what_was_said(self, person: str, data: st.DataObject) -> None:
        """A message is found by its own words, at once."""
        said = [(name, row) for (who, name), log in self.model.items() if who == person for row in log]
        said = [(name, row) for name, row in said if analyser.words(row["content"])]
        if said:
            name, row = data.draw(st.sampled_from(said))
            found = self.both(person, "recall", row["content"], conversation=name, limit=1000)
            assert any(
                (hit.conversation, hit.message_id, "bm25" in hit.why) == (name, row["id"], True) for hit in found
            )

    @rule(person=PEOPLE)
    def stats(self, person: str) -> None:
        self.both(person, "drain")
        self.both(person, "stats")

    def teardown(self) -> None:
        for memory in getattr(self, "memories", {}).values():
            memory.close()


def _comparable(value: Any) -> Any:
    """Return a result without the fields that differ between databases: receipt ids, files, sizes, counts of work."""
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    value = value.to_dict() if hasattr(value, "to_dict") else value
    if isinstance(value, dict):
        own = {"files", "kept_elsewhere", "bytes", "complete"} | ({"id"} if "scope" in value else set())
        own |= {"counts"} if "failed" in value else set()
        own |= {"metrics"} if "hits" in value else set()
        return {name: item for name, item in value.items() if name not in own}
    return value


@pytest.mark.kill
def test_random_programs_give_equal_results_on_both_databases(tmp_path: Path, shared_pg: str, full_count: bool) -> None:
    Parity.places = {"sqlite": str(tmp_path / "memory.db"), "postgres": shared_pg}
    count = 500 if full_count else 100
    run_state_machine_as_test(Parity, settings=settings(settings.default, max_examples=count, stateful_step_count=20))


def test_a_database_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    for location, code in [
        ("postgresql://127.0.0.1:1/nowhere?connect_timeout=2", "store_unreachable"),
        (str(tmp_path / "no" / "folder" / "x.db"), "store_cannot_open"),
        (str(tmp_path), "store_cannot_open"),
        ("mysql://host/db", "invalid_location"),
        ("sqlite://host/db", "invalid_location"),
        ("", "invalid_location"),
    ]:
        with pytest.raises(RecollectError) as caught:
            Memory(location)
        assert caught.value.code == code


def test_a_postgresql_address_that_cannot_be_read_is_refused_without_repeating_it() -> None:
    with pytest.raises(RecollectError) as caught:
        Memory("postgresql://u:sec%ZZret@localhost/db")
    assert caught.value.code == "invalid_location"
    assert "sec" not in str(caught.value)


def test_connections_that_the_server_dropped_are_opened_again(pg: str) -> None:
    with Memory(pg, worker=False) as memory, psycopg.connect(pg, autocommit=True) as other:
        for n in range(20):
            memory.add("trip", "user", str(n))
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'recollect'")
        for n in range(20):
            memory.add("trip", "user", str(n))
            memory.history("trip")
        assert len(memory.history("trip")) == 40
