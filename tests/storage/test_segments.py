"""Segments hold nothing but what rows hold: a scope is the same with them and without them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import Memory
from recollect.core import word_index
from recollect.core.models import Principal
from recollect.core.scope import ConversationScope, PersonScope
from recollect.storage import segments
from recollect.storage.segments import Stretch, find_gaps
from recollect.testing import FakeClock, FakeEmbedder
from support.scopes import describe, read_scope, read_scope_from_rows, read_update
from support.tables import ask

Open = Callable[..., Memory]
QUESTION = "which city has the longest river?"
WORDS = (
    "river",
    "city",
    "train",
    "bread",
    "the",
    "a",
    "of",
    "my",
    "Riyadh",
    "2026",
    "x_y",
    "مدرسة",
    "東京",
    "longest",
    "I",
)
BORDERS = "SELECT c.name, s.first_seq, s.last_seq FROM segments s JOIN conversations c ON c.key = s.conversation_key"


def make_messages(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Return messages of all roles: without words, with one word, with several passages; some of named speakers."""
    lengths = dice.choices((0, 1, 8, 30, 400), weights=(1, 3, 20, 8, 1), k=count)
    return [
        {
            "role": dice.choices(("user", "assistant", "system", "tool"), weights=(9, 9, 1, 1))[0],
            "content": " ".join(dice.choices(WORDS, k=length)),
            "name": dice.choice((None, None, "Sara", "Ahmed Ali")),
        }
        for length in lengths
    ]


def fill(memory: Memory, conversation: str, count: int, seed: int = 1) -> list[str]:
    """Add messages and do the derived work. Return the ids of the messages."""
    stored = memory.add_many(conversation, make_messages(random.Random(seed), count))
    assert memory.drain(briefs=False).complete
    return [message.id for message in stored]


def stored_borders(location: str) -> list[tuple[str, int, int]]:
    return sorted(ask(location, BORDERS))


def check_same(memory: Memory) -> None:
    """Check that a scope is the same with segments and without them."""
    assert describe(read_scope(memory)) == describe(read_scope_from_rows(memory))


def test_messages_are_packed_when_they_have_vectors_and_not_before(open_memory: Open, location: str) -> None:
    embedder = FakeEmbedder(16)
    memory = open_memory(embedder=embedder)
    embedder.failure = RuntimeError("planned")
    memory.add_many("trip", make_messages(random.Random(1), 40))
    memory.drain(briefs=False)
    assert stored_borders(location) == []
    embedder.failure = None
    assert memory.drain(briefs=False).counts["segments"] == 1
    assert stored_borders(location) == [("trip", 1, 40)]
    assert memory.drain(briefs=False).counts.get("segments", 0) == 0
    update = read_update(memory, type(read_scope(memory))())
    assert update is not None
    assert (len(update.segments), update.word_rows, update.vectors) == (1, [], [])
    check_same(memory)


def test_a_short_conversation_has_no_segment(memory: Memory, location: str) -> None:
    fill(memory, "trip", 31)
    assert stored_borders(location) == []
    check_same(memory)


def test_the_last_segment_is_packed_again_as_a_conversation_grows(memory: Memory, location: str) -> None:
    ends = set[int]()
    for seed in range(8):
        fill(memory, "trip", 20, seed)
        borders = stored_borders(location)
        assert len(borders) <= 1
        ends.update(last for _, _, last in borders)
        check_same(memory)
    assert ends == {40, 80, 140}  # by an eighth and 32 messages at least


def test_an_import_is_packed_once_when_all_of_it_has_vectors(memory: Memory, location: str) -> None:
    memory.add_many("trip", make_messages(random.Random(1), 700))  # more than one turn of the embedder
    assert memory.drain(briefs=False).counts["segments"] == 1
    assert stored_borders(location) == [("trip", 1, 700)]


def test_questions_are_answered_alike_with_segments_and_when_the_table_was_emptied(
    open_memory: Open, location: str
) -> None:
    with open_memory() as memory:
        for name in ("trip", "work", "home"):
            fill(memory, name, 70, seed=len(name))
        assert len(stored_borders(location)) == 3
    with open_memory() as memory:
        packed = memory.recall(QUESTION, limit=20)
    ask(location, "DELETE FROM segments")
    with open_memory() as memory:
        hits = memory.recall(QUESTION, limit=20)
    assert len(hits) == 20
    assert [(hit.message_id, hit.score, hit.why) for hit in hits] == [
        (hit.message_id, hit.score, hit.why) for hit in packed
    ]


def test_a_scope_that_was_read_with_segments_takes_in_new_messages(memory: Memory) -> None:
    fill(memory, "trip", 50)
    index = read_scope(memory)
    fill(memory, "trip", 7, seed=2)
    fill(memory, "new", 60, seed=3)  # read from its segment
    index = read_scope(memory, index)
    expected = read_scope_from_rows(memory)
    assert len(index) == len(expected) == 117
    order = index.index(expected.conversation_keys, expected.seqs)
    for name in ("at", "roles", "speaker_ids", "flags", "word_counts"):
        assert getattr(index, name)[order].tolist() == getattr(expected, name).tolist()
    assert sum(map(len, index.vectors[1])) == sum(map(len, expected.vectors[1]))


def test_erasing_a_message_deletes_the_segment_in_the_same_transaction(memory: Memory, location: str) -> None:
    ids = fill(memory, "trip", 60)
    fill(memory, "work", 60)
    memory.erase(message=ids[17], conversation="trip")
    assert stored_borders(location) == [("work", 1, 60)]
    check_same(memory)
    assert memory.drain(briefs=False).counts["segments"] == 1
    assert stored_borders(location) == [("trip", 1, 60), ("work", 1, 60)]
    check_same(memory)
    assert 18 not in read_scope(memory).seqs[:59]


def test_erasing_a_conversation_a_day_or_a_person_deletes_its_segments(
    open_memory: Open, location: str, clock: FakeClock
) -> None:
    memory = open_memory()
    fill(memory, "trip", 40)
    fill(memory, "work", 40)
    memory.erase(conversation="trip")
    assert stored_borders(location) == [("work", 1, 40)]
    clock.advance(timedelta(days=3))
    memory.add_many("work", make_messages(random.Random(5), 40))
    day = memory.history("work")[-1].at.date()
    memory.drain(briefs=False)
    memory.erase(day=day.isoformat())
    assert stored_borders(location) == []
    memory.drain(briefs=False)
    assert stored_borders(location) == [("work", 1, 80)]
    check_same(memory)
    memory.erase(person="local")
    assert ask(location, "SELECT count(*) FROM segments") == [(0,)]


def test_a_conversation_without_a_message_left_can_be_packed_and_read(memory: Memory, location: str) -> None:
    for message_id in fill(memory, "trip", 34):
        memory.erase(message=message_id, conversation="trip")
    memory.drain(briefs=False)
    assert stored_borders(location) == [("trip", 1, 34)]
    check_same(memory)
    assert len(memory.recall(QUESTION)) == 0
    fill(memory, "trip", 40)
    check_same(memory)
    assert len(read_scope(memory)) == 40


def test_messages_without_words_and_vectors_are_packed(memory: Memory, location: str) -> None:
    memory.add_many("trip", [{"role": "system", "content": "Answer briefly."}] * 40)
    memory.drain(briefs=False)
    assert stored_borders(location) == [("trip", 1, 40)]
    check_same(memory)
    assert len(read_scope(memory)) == 40


def test_a_rebuild_drops_segments_and_they_are_packed_again(memory: Memory, location: str) -> None:
    fill(memory, "trip", 50)
    before = ask(location, "SELECT body FROM segments")
    store, work = memory._engine._store, memory._engine._work
    memory._wait(store.jobs.rewind(Principal("local"), ConversationScope("trip"), work.rewinds))
    assert stored_borders(location) == []
    check_same(memory)
    assert memory.drain(briefs=False).complete
    assert [bytes(body) for (body,) in ask(location, "SELECT body FROM segments")] == [
        bytes(body) for (body,) in before
    ]


def test_segments_of_another_embedder_serve_until_its_vectors_do_not(open_memory: Open, location: str) -> None:
    with open_memory(embedder=FakeEmbedder(16)) as memory:
        fill(memory, "trip", 50)
    with open_memory(embedder=FakeEmbedder(24)) as memory:
        memory.recall(QUESTION)
        assert ask(location, "SELECT embedder_key FROM segments") == [(1,)]
        check_same(memory)
        assert memory.drain(briefs=False).complete
        assert ask(location, "SELECT embedder_key FROM segments") == [(2,)]
        check_same(memory)
        assert read_scope(memory).vectors.keys() == {2}


DAMAGE = {
    "a bit of the body": "UPDATE segments SET body = {flipped} WHERE first_seq = 1",
    "an end that is cut off": "UPDATE segments SET body = {cut}",
    "an empty body": "UPDATE segments SET body = {empty}",
    "its place": "UPDATE segments SET last_seq = last_seq + 1",
    "its checksum": "UPDATE segments SET checksum = checksum + 1",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_segment_is_never_used_and_packed_again(open_memory: Open, location: str, damage: str) -> None:
    with open_memory() as memory:
        fill(memory, "trip", 50)
        expected = [(hit.message_id, hit.score) for hit in memory.recall(QUESTION)]
    ((body,),) = ask(location, "SELECT body FROM segments")
    bodies = {"flipped": bytes([*body[:700], body[700] ^ 4, *body[701:]]), "cut": body[:-9], "empty": b""}
    is_postgres = location.startswith("postgresql:")
    spelled = {name: f"'\\x{one.hex()}'" if is_postgres else f"x'{one.hex()}'" for name, one in bodies.items()}
    ask(location, DAMAGE[damage].format(**spelled))
    with open_memory() as memory:
        assert [(hit.message_id, hit.score) for hit in memory.recall(QUESTION)] == expected
        assert stored_borders(location) == []
        assert memory.drain(briefs=False).counts["segments"] == 1
        assert [bytes(one) for (one,) in ask(location, "SELECT body FROM segments")] == [bytes(body)]


def test_segments_of_an_older_version_are_not_used_and_packed_again(
    open_memory: Open, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory() as memory:
        fill(memory, "trip", 50)
    ask(location, "UPDATE segments SET version = version - 1")
    with open_memory() as memory:
        update = read_update(memory, type(read_scope(memory))())
        assert update is not None
        assert (len(update.segments), len(update.word_rows)) == (0, 50)
        assert memory.drain(briefs=False).counts["segments"] == 1
        assert ask(location, "SELECT DISTINCT version FROM segments") == [(segments.SEGMENT_VERSION,)]


def test_words_of_a_new_version_replace_segments(
    open_memory: Open, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory() as memory:
        fill(memory, "trip", 50)
    ask(location, "UPDATE conversations SET words_version = words_version - 1")
    with open_memory() as memory:
        check_same(memory)
        assert memory.drain(briefs=False).counts["segments"] == 1
        assert ask(location, "SELECT words_version FROM conversations") == [(word_index.VERSION,)]
        check_same(memory)


def test_an_erase_while_a_segment_is_packed_keeps_it_from_being_stored(
    memory: Memory, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = memory.add_many("trip", make_messages(random.Random(1), 50))
    store = memory._engine._store.segments
    read_rows = store.rows
    erased: list[str] = []

    async def read_and_erase(*args: Any) -> Any:
        rows = await read_rows(*args)
        if not erased:
            erased.append(stored[20].id)
            await memory._engine.erase(message=erased[0], conversation="trip")
        return rows

    monkeypatch.setattr(store, "rows", read_and_erase)
    assert memory.drain(briefs=False).complete
    assert stored_borders(location) == [("trip", 1, 50)]
    assert erased
    check_same(memory)
    assert len(read_scope(memory)) == 49


def test_a_restored_file_brings_no_segments_along(open_memory: Open, location: str, tmp_path: Path) -> None:
    with open_memory() as memory:
        fill(memory, "trip", 50)
        memory.backup(tmp_path / "backup.db")
        memory.restore(tmp_path / "backup.db")
        assert stored_borders(location) == []
        check_same(memory)
        memory.drain(briefs=False)
        assert stored_borders(location) == [("trip", 1, 50)]
        check_same(memory)


@pytest.mark.slow
def test_a_long_conversation_has_several_segments_and_an_erase_packs_one_again(memory: Memory, location: str) -> None:
    for seed in range(3):
        memory.add_many("long", make_messages(random.Random(seed), 3000))
    memory.drain(briefs=False)
    borders = stored_borders(location)
    assert [first for _, first, _ in borders] == [1, 4097, 8193]
    assert [last for _, _, last in borders] == [4096, 8192, 9000]
    check_same(memory)
    memory.erase(message=memory.history("long")[10].id, conversation="long")
    assert stored_borders(location) == borders[1:]
    check_same(memory)
    assert memory.drain(briefs=False).counts["segments"] == 1
    assert stored_borders(location) == borders
    check_same(memory)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=5),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_gaps_and_stretches_together_are_everything_once(
    steps: list[tuple[int, int]], after: int, through: int
) -> None:
    ends = list(itertools.accumulate(itertools.chain.from_iterable(steps)))
    stretches = [Stretch(*pair) for pair in zip(ends[::2], ends[1::2], strict=True)]
    gaps = list(find_gaps(stretches, 0, through + (ends[-1] if ends else 0)))
    seqs = [seq for one in [*stretches, *gaps] for seq in range(one.after + 1, one.through + 1)]
    assert sorted(seqs) == list(range(1, through + (ends[-1] if ends else 0) + 1))


class Program:
    """A random program of everything that makes, replaces or deletes rows of which segments are made."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.dice, self.clock, self.width = path, random.Random(seed), FakeClock(), 16
        self.memory = self._open()

    def _open(self) -> Memory:
        return Memory(self.path, worker=False, clock=self.clock, embedder=FakeEmbedder(self.width))

    def run(self, steps: int) -> Iterator[Memory]:
        try:
            for _ in range(steps):
                getattr(self, self.dice.choices(ACTS, WEIGHTS)[0])()
                yield self.memory
        finally:
            self.memory.close()

    def add(self) -> None:
        self.clock.advance(timedelta(hours=self.dice.choice((0, 0, 5, 40))))
        name = self.dice.choice(("a", "b", "c"))
        self.memory.add_many(name, make_messages(self.dice, self.dice.choice((1, 5, 40, 70))))

    def work(self) -> None:
        self.memory.drain(briefs=False)

    def erase_message(self) -> None:
        conversations = [one for one in self.memory.conversations() if one.messages]
        if conversations:
            name = self.dice.choice(conversations).name
            message = self.dice.choice(self.memory.history(name))
            self.memory.erase(message=message.id, conversation=name)

    def erase_conversation(self) -> None:
        conversations = self.memory.conversations()
        if conversations:
            self.memory.erase(conversation=self.dice.choice(conversations).name)

    def rebuild(self) -> None:
        self.memory._wait(
            self.memory._engine._store.jobs.rewind(
                Principal("local"), PersonScope("local"), self.memory._engine._work.rewinds
            )
        )

    def change_embedder(self) -> None:
        self.memory.close()
        self.width = self.dice.choice((8, 16, 24))
        self.memory = self._open()

    def damage(self) -> None:
        ask(str(self.path), "UPDATE segments SET body = x'00' WHERE conversation_key % 2 = 0")


ACTS = ("add", "work", "erase_message", "erase_conversation", "rebuild", "change_embedder", "damage")
WEIGHTS = (6, 7, 4, 1, 1, 2, 1)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_any_program_leaves_the_same_scope_with_segments_and_without(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    program = Program(tmp_path_factory.mktemp("program") / "memory.db", seed)
    for memory in program.run(14):
        check_same(memory)
