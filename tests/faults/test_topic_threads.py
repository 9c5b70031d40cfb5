"""Many threads on the topics of one memory, or of two on one database, and kills while topics fold: nothing is lost.

They add, fold, read, merge, split, tag, praise and erase, all at once. A thread may not find what another one removed;
every other error fails the test.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from faults.processes import Victim, ready
from faults.test_kill import Witness, dice, in_lanes, times
from faults.victim import FOLDING, fields_of, ids_of, text_of
from recollect import Conflict, InvalidInput, Memory, NotFound
from recollect.core.archive import MIN_LEARNING_BYTES
from recollect.core.message import Message
from recollect.core.topics import Topic
from recollect.settings import Settings
from recollect.testing import FakeEmbedder
from support.tables import ask, wrong_counts

__all__ = ["dice", "times"]  # fixtures
pytestmark = pytest.mark.kill
THREADS: Final = 32
CALL_TIMEOUT_SECONDS: Final = 300.0
MIN_ARCHIVED: Final = 20  # messages; with fewer, hardly anything was folded
CONVERSATIONS: Final = ("one", "two", "three")
THEMES: Final = (
    "garden roses soil water",
    "harbour ships cranes tide",
    "kitchen oven bread flour",
    "train ticket rails",
)
MAY_HAPPEN: Final = {"topic_not_found", "message_not_found", "not_merged", "same_topic", "nothing_left"}
SETTINGS: Final = Settings(
    similarity_threshold=0.2,
    max_messages_per_topic=6,
    recent_message_keep=2,
    memory_chunk_summarize_threshold=0,
    worker_poll_seconds=0.05,
)


class Crowd:
    """Threads that work on topics at random, and what they stored and erased."""

    def __init__(self, memories: list[Memory]) -> None:
        self.memories = memories
        self.stop = threading.Event()
        self.added: dict[str, Message] = {}
        self.doomed: set[str] = set()  # about to be erased
        self.erased: set[str] = set()
        self.done: Counter[str] = Counter()
        self.failures: list[BaseException] = []
        self._lock = threading.Lock()

    def run(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        """Work for so many seconds, and on a slow machine longer, until enough was done."""
        threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        self.stop.wait(seconds)
        deadline = time.monotonic() + CALL_TIMEOUT_SECONDS
        while not self.stop.wait(0.5) and not is_enough() and time.monotonic() < deadline:
            pass
        self.stop.set()
        deadline = time.monotonic() + CALL_TIMEOUT_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not [thread.name for thread in threads if thread.is_alive()], "they wait for each other"
        if self.failures:
            raise self.failures[0]

    def _work(self, number: int) -> None:
        memory, dice = self.memories[number % len(self.memories)], random.Random(number)
        work = WORK[number // len(self.memories) % len(WORK)]
        while not self.stop.is_set():
            try:
                work(self, memory, dice)
            except (NotFound, Conflict, InvalidInput) as error:
                if error.code not in MAY_HAPPEN:
                    self.failures.append(error)
                    self.stop.set()
            except BaseException as error:  # noqa: BLE001 - raised again by the test
                self.failures.append(error)
                self.stop.set()
            with self._lock:
                self.done[work.__name__] += 1

    # What they do.

    def add(self, memory: Memory, dice: random.Random) -> None:
        name = f"{dice.getrandbits(64):x}"
        role, theme = dice.choice(("user", "user", "assistant")), dice.choice(THEMES)
        message = memory.add(dice.choice(CONVERSATIONS), role, f"{theme} {text_of(name)[:500]}", id=name)
        with self._lock:
            self.added[name] = message
        self.stop.wait(0.01)  # so that folding keeps up

    def read(self, memory: Memory, dice: random.Random) -> None:
        conversation = dice.choice(CONVERSATIONS)
        for topic in memory.topics(conversation):
            held = memory.topic_history(conversation, topic=topic.id)
            memory.topic_context(conversation, topic=topic.id)
            self._look(held)
        self._look(memory.history(conversation))

    def recall(self, memory: Memory, dice: random.Random) -> None:
        conversation = dice.choice(CONVERSATIONS)
        memory.recall(dice.choice(THEMES), conversation=conversation)
        memory.context(conversation, dice.choice(THEMES))

    def drain(self, memory: Memory, dice: random.Random) -> None:
        memory.drain(timeout=dice.choice((0.05, 1.0)))
        self.stop.wait(0.05)

    def merge(self, memory: Memory, dice: random.Random) -> None:
        topics = memory.topics(dice.choice(CONVERSATIONS))
        if len(topics) > 1:
            into, other = dice.sample(topics, 2)
            memory.merge_topics(into.id, other.id)
            self.stop.wait(0.05)
            memory.unmerge_topic(other.id)

    def split(self, memory: Memory, dice: random.Random) -> None:
        topic, messages = self._topic(memory, dice)
        if topic is not None and len(messages) > 3:
            memory.split_topic(topic.id, [one.id for one in dice.sample(messages, len(messages) // 3)])
        self.stop.wait(0.1)

    def change(self, memory: Memory, dice: random.Random) -> None:
        topic, messages = self._topic(memory, dice)
        if topic is not None and messages:
            memory.tag_topic(topic.id, dice.sample(("a", "b", "c"), 2))
            memory.feedback(dice.choice(messages).id, dice.choice((-1, 0, 1)))
            memory.pin_topic(topic.id, pinned=dice.random() < 0.5)
            memory.rename_topic(topic.id, f"named {dice.random()}")
            dice.choice((memory.archive_topic, memory.restore_topic))(topic.id)

    def erase(self, memory: Memory, dice: random.Random) -> None:
        with self._lock:
            left = sorted(self.added.keys() - self.doomed)
            name = dice.choice(left) if left else None
            self.doomed |= {name} if name else set()
        if name is not None:
            assert memory.erase(message=name).counts["messages"] == 1
            self.erased.add(name)
        self.stop.wait(0.2)

    def _topic(self, memory: Memory, dice: random.Random) -> tuple[Topic | None, list[Message]]:
        conversation = dice.choice(CONVERSATIONS)
        topics = memory.topics(conversation)
        if not topics:
            return None, []
        topic = dice.choice(topics)
        return topic, memory.topic_history(conversation, topic=topic.id)

    def _look(self, found: list[Message]) -> None:
        """Check that a reader finds every text whole while others fold, erase and repack."""
        with self._lock:
            wrong = [one for one in found if one != self.added.get(one.id, one)]
        assert wrong == [], "read while others were at work"
        assert [one.seq for one in found] == sorted(one.seq for one in found)


Work = Callable[[Crowd, Memory, random.Random], None]
WORK: Final[tuple[Work, ...]] = (
    Crowd.add, Crowd.read, Crowd.add, Crowd.merge, Crowd.split, Crowd.add, Crowd.change, Crowd.drain, Crowd.erase,
    Crowd.add, Crowd.recall,
)  # fmt: skip


@pytest.mark.parametrize("many", [1, 2], ids=["one memory", "two memories"])
def test_thirty_two_threads_on_topics_lose_nothing(location: str, many: int, full_count: bool) -> None:
    with ExitStack() as stack:
        memories = [
            stack.enter_context(Memory(location, settings=SETTINGS, embedder=FakeEmbedder(), worker=True))
            for _ in range(many)
        ]
        crowd = Crowd(memories)
        crowd.run(30.0 if full_count else 4.0, lambda: int(memories[-1].stats()["archived"]) > MIN_ARCHIVED)
        for memory in memories:
            assert memory.drain(timeout=CALL_TIMEOUT_SECONDS).complete
        print(f"{len(crowd.added)} messages, {len(crowd.erased)} erased, {memories[0].stats()['archived']} archived;")
        print(dict(crowd.done))
        assert crowd.erased == crowd.doomed
        assert memories[-1].stats()["archived"] > MIN_ARCHIVED, "hardly anything was folded"
        for memory in memories:
            for name in CONVERSATIONS:
                kept = [one for one in crowd.added.values() if one.conversation == name and one.id not in crowd.erased]
                assert memory.history(name) == sorted(kept, key=lambda one: one.seq)
        _check_topics(memories[0], location)


def _check_topics(memory: Memory, location: str) -> None:
    """Check that each message has one topic and one text, that counts are right, and that nothing is damaged."""
    assert wrong_counts(location) == []
    for name in CONVERSATIONS:
        held = [one.id for topic in memory.topics(name) for one in memory.topic_history(name, topic=topic.id)]
        assert sorted(held) == sorted(one.id for one in memory.history(name))
    twice = "SELECT count(*) FROM archived a JOIN texts x ON x.message_key = a.message_key"
    nobodys = "SELECT count(*) FROM blocks b WHERE NOT EXISTS (SELECT 1 FROM archived a WHERE a.block_key = b.key)"
    lacking = (
        "SELECT count(*) FROM blocks b WHERE messages <> (SELECT count(*) FROM archived a WHERE a.block_key = b.key)"
    )
    assert [ask(location, question) for question in (twice, nobodys, lacking)] == [[(0,)]] * 3
    assert [one for one in memory.check() if one.state == "error"] == []


def _fill_archive(witness: Witness) -> None:
    """Archive almost enough text for a dictionary to be learned."""
    size = 0
    with Memory(witness.path, worker=False, embedder=FakeEmbedder(), settings=FOLDING) as memory:
        for part in count():
            said = [fields_of(name) for name in ids_of(f"before-{part}")]
            size += sum(len(one["content"].encode()) for one in said)
            if size > MIN_LEARNING_BYTES - 8000:
                break
            witness.batches["long", f"before-{part}"] = memory.add_many("long", said)[0].seq
        assert memory.drain().complete


def _killed_in_a_later_drain(victim: Victim, seconds: float) -> list[list[str]]:
    """Kill a victim some seconds after its first drain, which takes the longest. Return its lines."""
    with ready([victim]):
        victim.go()
        while not any(words[0] == "drained" for words in victim.lines()):
            assert victim.read(), "it ended by itself"
        threading.Event().wait(seconds)
        victim.kill()
    assert not [words for words in victim.lines() if words[0] == "error"]
    return victim.lines()


def test_a_kill_while_topics_fold_loses_nothing(tmp_path: Path, dice: random.Random, times: int) -> None:
    """Kills hit a fold, the learning of a dictionary, and the repacking of older blocks with it."""
    unfolded: list[int] = []
    learned: list[int] = []

    def life(number: int, dice: random.Random) -> int:
        witness = Witness(tmp_path / f"{number}.db")
        _fill_archive(witness)
        for turn in range(3):
            victim = Victim("fold", path=str(witness.path), run=f"l{number}r{turn}", hours=2 * turn + 2)
            said = _killed_in_a_later_drain(victim, dice.uniform(0.0, 1.0))
            witness.hear(said)
            assert all(words[1] == "1" for words in said if words[0] == "drained")
            assert wrong_counts(str(witness.path)) == []
            unfolded.append(ask(str(witness.path), "SELECT count(*) FROM texts")[0][0])
            witness.check(hours=2 * turn + 3)
            assert wrong_counts(str(witness.path)) == []
        learned.append(ask(str(witness.path), "SELECT count(*) FROM dictionaries")[0][0])
        return 3

    assert in_lanes(life, 2 * times, dice) == 6 * times
    print(f"texts that were not folded at a kill: {unfolded}, dictionaries at the end: {learned}")
    assert any(left > 2 for left in unfolded), "every fold was through before its kill"
    assert any(learned), "no dictionary was learned"
