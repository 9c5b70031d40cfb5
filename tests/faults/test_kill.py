"""kill -9 at random points: what was acknowledged is stored once and whole; all else is stored whole or not at all.

The moments follow from a seed, printed when a test fails; FAULT_SEED repeats them (as far as a scheduler repeats).
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faults import inspection
from faults.older import COPIED, SLOWEST, build_older, write_migrations
from faults.processes import Victim, kill_at
from faults.victim import canary_of, fields_of, ids_of, size_of, text_of
from recollect import Memory
from recollect.storage import migrations
from recollect.storage.sqlite import SqliteDriver
from recollect.testing import FakeClock, FakeEmbedder

pytestmark = pytest.mark.kill
LANES = 2  # files that are worked on at the same time
Stored = dict[str, dict[str, tuple[int, str, object]]]


@pytest.fixture
def dice() -> random.Random:
    seed = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULT_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def times(full_count: bool) -> int:
    return 5 if full_count else 1


def in_lanes(life: Callable[[int, random.Random], int], count: int, dice: random.Random) -> int:
    """Run lives in parallel, each on a file of its own. Return how many kills there were."""
    seeds = [dice.randrange(2**32) for _ in range(count)]
    with ThreadPoolExecutor(LANES) as pool:
        return sum(pool.map(lambda number: life(number, random.Random(seeds[number])), range(count)))


class Witness:
    """Collects what one file must hold, from the lines of its victims, and checks it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.singles: dict[tuple[str, str], int] = {}
        self.batches: dict[tuple[str, str], int] = {}
        self.erasing: set[str] = set()
        self.erased: dict[str, tuple[int, bool, str]] = {}

    def hear(self, lines: Sequence[Sequence[str]]) -> None:
        for kind, *rest in lines:
            if kind == "added":
                self.singles[rest[0], rest[1]] = int(rest[2])
            elif kind == "added_many":
                self.batches[rest[0], rest[1]] = int(rest[2])
            elif kind == "erasing":
                self.erasing.add(rest[0])
            elif kind == "erased":
                self.erased[rest[0]] = (int(rest[1]), rest[2] == "1", rest[3])

    def check(self, hours: int = 1) -> Stored:
        """Check the file as the killed left it, then open it and let it finish their work.

        Killed processes may still hold leases, which have run out some hours later.
        """
        if not self.path.exists():
            assert not self.singles
            assert not self.batches
            return {}
        self._check_bytes([name for name, (_, pending, _) in self.erased.items() if not pending])
        found = self._look()
        self._check_promises(found)
        self._resume(found, FakeClock(datetime.now(UTC) + timedelta(hours=hours)))
        self._check_bytes([name for name in self.erasing if name not in found])
        return found

    def _look(self) -> Stored:
        inspection.check_file(self.path)
        with inspection.connected(self.path) as connection:
            if not inspection.has_log(connection):
                return {}
            found = inspection.stored(connection)
            if self.erased:
                receipts = {row[0] for row in inspection.rows(connection, "SELECT id FROM erasures")}
                assert receipts >= {receipt for _, _, receipt in self.erased.values()}
        return found

    def _check_promises(self, found: Stored) -> None:
        for (conversation, name), seq in self.singles.items():
            assert found.get(conversation, {}).get(name, (None,))[0] == seq, f"{name} was acknowledged with seq {seq}"
        for (conversation, batch), first in self.batches.items():
            if conversation not in self.erasing:
                got = [found.get(conversation, {}).get(name, (None,))[0] for name in ids_of(batch)]
                assert got == list(range(first, first + size_of(batch))), f"{batch} was acknowledged from seq {first}"
        for conversation, (count, _, _) in self.erased.items():
            assert conversation not in found, f"{conversation} was erased"
            assert count == size_of(conversation)
        parts: dict[str, int] = defaultdict(int)
        for messages in found.values():
            for name, (_, content, metadata) in messages.items():
                assert content == text_of(name)
                assert metadata == {"said": name}
                if "." in name:
                    parts[name.rsplit(".", 1)[0]] += 1
        assert {batch: size_of(batch) for batch in parts} == parts, "a batch is there in part"

    def _check_bytes(self, erased: Sequence[str]) -> None:
        """Check that no word of an erased text is left, even in the index, and no id (a name and a dot)."""
        needles = {name: (canary_of(name)[8:].encode(), f"{name}.".encode()) for name in erased}
        for file in (self.path, Path(f"{self.path}-wal")):
            if needles and file.exists():
                held = file.read_bytes()
                left = [name for name, wanted in needles.items() if any(needle in held for needle in wanted)]
                assert not left, f"{file.name} still holds what was erased: {left[:3]}"

    def _resume(self, found: Stored, clock: FakeClock) -> None:
        with Memory(self.path, worker=False, clock=clock, embedder=FakeEmbedder()) as memory:
            self._check_recall(memory, found)
            done = memory.drain(timeout=60)
            assert done.complete, f"derived work is not complete: {done}"
            assert memory.stats()["counted"] == sum(map(len, found.values()))
            self._check_recall(memory, found)
            with inspection.connected(self.path) as connection:
                inspection.check_words(connection)
                inspection.check_vectors(connection)
                assert inspection.rows(connection, _WITHOUT_VECTORS) == [(0,)]
            for conversation, messages in found.items():
                assert {m.id: (m.seq, m.content, m.metadata) for m in memory.history(conversation)} == messages
            assert [one for one in memory.check() if one.state == "error"] == []
            name = f"after-{len(self.singles)}-{len(self.batches)}"
            self.singles["after", name] = memory.add("after", **fields_of(name)).seq

    def _check_recall(self, memory: Memory, found: Stored) -> None:
        """Check that a word which only one batch has finds all of that batch and nothing else."""
        said = {name: name.rsplit(".", 1)[0] for messages in found.values() for name in messages}
        for batch in sorted(set(said.values()))[:: max(1, len(said) // 3)]:
            hits = memory.recall(canary_of(batch), limit=len(said))
            by_words = {str(hit.message_id) for hit in hits if hit.why.get("bm25")}
            assert by_words == {name for name, of in said.items() if of == batch}


_WITHOUT_VECTORS = (
    "SELECT count(*) FROM messages m LEFT JOIN vectors v ON v.conversation_key = m.conversation_key AND v.seq = m.seq"
    " WHERE v.seq IS NULL"
)
_UNPACKED = "SELECT count(*) FROM conversations WHERE embedded_seq >= packed_seq + 32 + (packed_seq % 4096) / 8"


def _moment(dice: random.Random, *, worker: bool) -> float:
    """Return when to kill a victim. With a worker it must live long enough to get to its work."""
    return dice.uniform(0.0, 1.0) if worker else dice.choice((dice.uniform(0.0, 0.06), dice.uniform(0.02, 0.3)))


def _threads_life(mode: str, tmp_path: Path, *, rounds: int, processes: int) -> Callable[[int, random.Random], int]:
    def life(number: int, dice: random.Random) -> int:
        witness = Witness(tmp_path / f"{processes}-{number}.db")
        for turn in range(rounds):
            worker = dice.random() < 0.25
            victims = [
                Victim(
                    mode,
                    path=str(witness.path),
                    run=f"r{turn}p{process}",
                    threads=dice.choice((1, 4, 8)),
                    conversations=dice.choice((1, 3)),
                    worker=worker,
                )
                for process in range(processes)
            ]
            witness.hear(kill_at(victims, [_moment(dice, worker=worker) for _ in victims]))
            witness.check()
        return rounds * processes

    return life


def test_every_acknowledged_add_survives_kills(tmp_path: Path, dice: random.Random, times: int) -> None:
    alone = in_lanes(_threads_life("add", tmp_path, rounds=4, processes=1), 10 * times, dice)
    together = in_lanes(_threads_life("add", tmp_path, rounds=2, processes=4), 5 * times, dice)
    assert alone + together == 80 * times


def test_every_acknowledged_batch_survives_kills_and_the_others_are_all_or_nothing(
    tmp_path: Path, dice: random.Random, times: int
) -> None:
    alone = in_lanes(_threads_life("add_many", tmp_path, rounds=3, processes=1), 6 * times, dice)
    together = in_lanes(_threads_life("add_many", tmp_path, rounds=1, processes=4), 3 * times, dice)
    assert alone + together == 30 * times


def _write_import_files(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Write files to import. Return the ids in their order, by file and conversation."""
    written: dict[str, dict[str, list[str]]] = {}
    for number in range(10):
        name = f"file{number}.ndjson"
        written[name] = {
            f"{name}-{part}": [f"i{number}-{part}-{place}" for place in range(count)]
            for part, count in enumerate((130, 620))
        }
        lines: list[dict[str, object]] = [{"format": "recollect", "version": 1}]
        for conversation, ids in written[name].items():
            lines.append({"type": "conversation", "name": conversation, "title": f"Title of {conversation}"})
            lines.extend({"type": "message", "conversation": conversation} | fields_of(one) for one in ids)
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return written


def test_a_killed_import_can_be_run_again_and_leaves_every_message_once(
    tmp_path: Path, dice: random.Random, times: int
) -> None:
    written = _write_import_files(tmp_path)
    names = list(written)

    def life(number: int, dice: random.Random) -> int:
        witness = Witness(tmp_path / f"{number}.db")
        finished: set[str] = set()
        for _ in range(5):
            start = max(0, len(finished) - 1)  # the last one that was finished is imported again
            files = [str(tmp_path / name) for name in names[start:]]
            victim = Victim("import_files", path=str(witness.path), files=files, worker=dice.random() < 0.2)
            for _, name, messages, added in kill_at([victim], [dice.uniform(0.0, 0.5)]):
                assert int(messages) == sum(map(len, written[name].values()))
                assert name not in finished or added == "0"
                finished.add(name)
            found = witness.check()
            for name, conversations in written.items():
                for conversation, ids in conversations.items():
                    got = list(found.get(conversation, {}))
                    assert got == ids[: len(got)]
                    assert name not in finished or got == ids
        with Memory(witness.path, worker=False) as memory:
            for name in names:
                memory.import_file(tmp_path / name)
            for conversations in written.values():
                for conversation, ids in conversations.items():
                    assert [(m.seq, m.id) for m in memory.history(conversation)] == list(enumerate(ids, 1))
        return 5

    assert in_lanes(life, 6 * times, dice) == 30 * times


def test_what_was_erased_before_a_kill_stays_gone_down_to_the_bytes(
    tmp_path: Path, dice: random.Random, times: int
) -> None:
    def life(number: int, dice: random.Random) -> int:
        witness = Witness(tmp_path / f"{number}.db")
        for turn in range(3):
            worker = dice.random() < 0.25
            victim = Victim("erase", path=str(witness.path), run=f"r{turn}", threads=dice.choice((1, 3)), worker=worker)
            witness.hear(kill_at([victim], [dice.uniform(0.0, 0.5)]))
            witness.check()
        return 3

    assert in_lanes(life, 10 * times, dice) == 30 * times


def test_a_kill_while_vectors_are_made_leaves_everything_to_be_found_and_the_rest_is_made_later(
    tmp_path: Path, dice: random.Random, times: int
) -> None:
    unfinished: list[int] = []

    def life(number: int, dice: random.Random) -> int:
        witness = Witness(tmp_path / f"{number}.db")
        for turn in range(5):
            victim = Victim("embed", path=str(witness.path), run=f"r{turn}", hours=2 * turn + 2)
            said = kill_at([victim], [dice.uniform(0.5, 2.0)])
            witness.hear(said)
            assert all(words[1] == "1" for words in said if words[0] == "drained")
            with inspection.connected(witness.path) as connection:
                unfinished.append(inspection.rows(connection, _WITHOUT_VECTORS)[0][0])
            witness.check(hours=2 * turn + 3)
        return 5

    assert in_lanes(life, 2 * times, dice) == 10 * times
    assert any(unfinished), "all vectors were there before each kill"


def test_a_kill_while_segments_are_packed_leaves_whole_segments_and_the_rest_is_packed_later(
    tmp_path: Path, dice: random.Random, times: int
) -> None:
    missing: list[int] = []  # segments after each kill

    def life(number: int, dice: random.Random) -> int:
        witness = Witness(tmp_path / f"{number}.db")
        with Memory(witness.path, worker=False, embedder=FakeEmbedder()) as memory:
            for place in range(8):
                for batch in (f"{place}-{part}" for part in range(4)):
                    stored = memory.add_many(f"c{place}", [fields_of(name) for name in ids_of(batch)])
                    witness.hear([("added_many", f"c{place}", batch, str(stored[0].seq))])
            segments = memory.drain(briefs=False).counts["segments"]
        for turn in range(5):
            victim = Victim("pack", path=str(witness.path), hours=2 * turn + 2)
            kill_at([victim], [dice.uniform(0.2, 0.8)])
            with inspection.connected(witness.path) as connection:
                missing.append(segments - inspection.rows(connection, "SELECT count(*) FROM segments")[0][0])
            witness.check(hours=2 * turn + 3)
            with inspection.connected(witness.path) as connection:
                inspection.check_segments(connection)
                assert inspection.rows(connection, _UNPACKED) == [(0,)]
        return 5

    assert in_lanes(life, 2 * times, dice) == 10 * times
    assert any(missing), "everything was packed before each kill"


def test_a_kill_during_a_migration_leaves_the_old_schema_or_the_new_one_and_every_row(
    tmp_path: Path, dice: random.Random, times: int
) -> None:
    older = tmp_path / "older.db"
    before = build_older(older, messages=3000)
    folder = write_migrations(tmp_path / "migrations", slow=True)
    head = migrations.load("sqlite", folder)
    seen: set[int] = set()

    def life(number: int, dice: random.Random) -> int:
        path = tmp_path / f"{number}" / "memory.db"
        path.parent.mkdir()
        shutil.copy(older, path)
        for _ in range(2):
            victim = Victim("migrate", path=str(path), folder=str(folder))
            kill_at([victim], [dice.choice((dice.uniform(0.0, COPIED), dice.uniform(0.0, SLOWEST)))])
            seen.add(_check_half_migrated(path, before, head))
        driver = SqliteDriver(str(path), migrations=head)
        driver.open(2)
        driver.close()
        assert _check_half_migrated(path, before, head) == len(head)
        return 2

    assert in_lanes(life, 15 * times, dice) == 30 * times
    assert 1 in seen, "every migration was through before its kill"


def _check_half_migrated(path: Path, before: str, head: Sequence[migrations.Migration]) -> int:
    with inspection.connected(path) as connection:
        inspection.check_sound(connection)
        inspection.check_words(connection)
        assert inspection.log_hash(connection) == before
        version = int(inspection.rows(connection, "PRAGMA user_version")[0][0])
        applied = inspection.rows(connection, "SELECT version, sha256 FROM schema_migrations ORDER BY version")
        assert applied == [(one.version, one.sha256) for one in head[:version]]
    for copy in path.parent.glob("*.backup"):
        with inspection.connected(copy) as connection:
            inspection.check_sound(connection)
            assert inspection.log_hash(connection) == before
            assert inspection.rows(connection, "PRAGMA user_version") == [(1,)]
    if version > 1:
        assert Path(f"{path}.before-schema-{len(head):04}.backup").exists()
    return version
