"""Random programs of all operations on topics: in any order, nothing is lost, doubled or left over.

Each program comes from a seed, which a failure names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recollect import Memory, ProviderUnavailable, RecollectError
from recollect.core.topics import Topic
from recollect.testing import FakeClock
from support.tables import ask, wrong_counts
from support.talks import MarkerEmbedder, OpenMemory, check_assignment, open_for_topics

STEPS = 34
WORD = re.compile(r"zq\d+x")  # each message has one of its own
# Errors that earlier steps can cause. Any other is a bug.
EXPECTED_CODES = {"nothing_left", "same_topic", "conversation_not_found", "topic_being_rebuilt"}
NO_OPENING = """
SELECT t.id FROM topics t WHERE NOT EXISTS (
    SELECT 1 FROM topic_messages o WHERE o.topic_key = t.key AND o.seq = t.opened_seq
)
"""
NOT_THERE = """
SELECT c.name FROM conversations c
WHERE c.active_topic IS NOT NULL AND NOT EXISTS (SELECT 1 FROM topics t WHERE t.key = c.active_topic)
"""


class Program:
    """A random program and the messages that must be stored after each step."""

    def __init__(self, open_memory: OpenMemory, location: str, clock: FakeClock, folder: Path, seed: int) -> None:
        self.dice, self.clock, self.location, self.folder, self.seed = (
            random.Random(seed),
            clock,
            location,
            folder,
            seed,
        )
        self.embedder = MarkerEmbedder(16, f"of-{seed}")
        choose = self.dice.choice
        self.memory = open_for_topics(
            open_memory,
            embedder=self.embedder,
            person=f"person {seed}",
            max_topics=choose((1, 2, 3, 20)),
            max_messages_per_topic=choose((1, 3, 6)),
            recent_message_keep=choose((0, 1, 2)),
            access_threshold_for_lt=choose((1, 5)),
            similarity_threshold=choose((None, None, None, 0.0, 0.5, 1.0)),
        )
        self.texts: dict[str, str] = {}  # texts by the ids of messages
        self.erased: set[str] = set()  # ids of messages, which no restore brings back
        self.backups: list[tuple[Path, dict[str, str]]] = []
        self.count = 0

    def run(self) -> None:
        for _ in range(STEPS):
            act = self.dice.choice(ACTS)
            try:
                act(self, self.memory)
            except RecollectError as error:
                assert error.code in EXPECTED_CODES, (act.__name__, error)
        self.work(self.memory)
        assert all(finding.state == "ok" for finding in self.memory.check())

    def add(self, memory: Memory) -> None:
        marker = self.dice.randint(1, 5)
        for _ in range(self.dice.randint(1, 6)):
            self.count += 1
            word = f"zq{self.seed}{self.count:03d}x"
            text = f"#{marker} {word} and some words that say what it is" if self.dice.random() < 0.85 else word
            role = self.dice.choice(("user", "user", "assistant", "assistant", "system"))
            importance = self.dice.random() if role == "user" and self.dice.random() < 0.1 else None
            self.texts[memory.add("trip", role, text, importance=importance).id] = text
            self.clock.advance(timedelta(minutes=self.dice.choice((1, 1, 50, 400))))

    def work(self, memory: Memory) -> None:
        self.embedder.failure = None
        done = memory.drain()
        assert (done.failed, done.complete) == ({}, True)
        self.check()

    def check(self) -> None:
        assert {message.id: message.content for message in self.memory.history("trip")} == self.texts
        check_assignment(self.memory)
        for topic in self.memory.topics("trip"):
            assert topic.messages, "a topic without messages"
            words = {word for message_id in self.members(topic) for word in WORD.findall(self.texts[message_id])}
            shown = WORD.findall(f"{topic.title} {topic.summary or ''}")
            assert words.issuperset(shown), "title or summary has words of messages that are not in the topic"
            assert (
                topic.state != "cold" or topic.active_messages <= 1
            )  # the conversation's first message is never archived
        assert wrong_counts(self.location) == []
        assert ask(self.location, NO_OPENING) == ask(self.location, NOT_THERE) == []

    def erase(self, memory: Memory) -> None:
        if self.texts:
            message = self.dice.choice(sorted(self.texts))
            memory.erase(message=message)
            self.forget({message})

    def erase_day(self, memory: Memory) -> None:
        if self.texts:
            memory.erase(day=str(self.dice.choice(memory.history("trip")).at.date()), conversation="trip")
            self.forget(self.texts.keys() - {message.id for message in memory.history("trip")})

    def erase_topic(self, memory: Memory) -> None:
        for topic in self.choose_topics(1):
            ids = self.members(topic)
            memory.erase(topic=topic.id)
            self.forget(set(ids))

    def forget(self, ids: set[str]) -> None:
        """Note that these messages were erased."""
        self.erased |= ids
        self.texts = {message_id: text for message_id, text in self.texts.items() if message_id not in ids}

    def merge(self, memory: Memory) -> None:
        if len(chosen := self.choose_topics(2)) == 2:
            memory.merge_topics(chosen[0].id, chosen[1].id)

    def unmerge(self, memory: Memory) -> None:
        parts = [part for topic in memory.topics("trip") for part in topic.merged]
        if parts:
            memory.unmerge_topic(self.dice.choice(parts))

    def split(self, memory: Memory) -> None:
        for topic in self.choose_topics(1):
            ids = self.members(topic)
            if ids:
                memory.split_topic(topic.id, self.dice.sample(ids, self.dice.randint(1, len(ids))))

    def change(self, memory: Memory) -> None:
        for topic in self.choose_topics(1):
            self.dice.choice(
                (
                    memory.archive_topic,
                    memory.restore_topic,
                    memory.pin_topic,
                    lambda topic_id: memory.pin_topic(topic_id, pinned=False),
                    lambda topic_id: memory.tag_topic(topic_id, ["tagged"]),
                    lambda topic_id: memory.weigh_topic(topic_id, 0.3),
                )
            )(topic.id)

    def feedback(self, memory: Memory) -> None:
        if self.texts:
            memory.feedback(self.dice.choice(sorted(self.texts)), self.dice.choice((-1, 0, 0.5, 1)))

    def wait(self, memory: Memory) -> None:
        self.clock.advance(timedelta(days=self.dice.choice((1, 5, 40, -3))))

    def rebuild(self, memory: Memory) -> None:
        """Rebuild, half of the time without an embedder, so that topics await their messages."""
        if self.dice.random() < 0.5:
            self.embedder.failure = ProviderUnavailable("embedder_down", "away")
        memory.rebuild()

    def backup(self, memory: Memory) -> None:
        self.backups.append((self.folder / f"{self.seed}-{len(self.backups)}.backup", dict(self.texts)))
        memory.backup(self.backups[-1][0])

    def restore(self, memory: Memory) -> None:
        if self.backups:
            path, said = self.dice.choice(self.backups)
            memory.restore(path)
            self.texts = {message_id: text for message_id, text in said.items() if message_id not in self.erased}

    def ask(self, memory: Memory) -> None:
        memory.search_topics("some words")
        memory.related_topics("trip")
        memory.context("trip", "which words?", budget=1000)
        for topic in memory.topics("trip"):
            memory.topic_context("trip", topic=topic.id)
            memory.topic_stats("trip", topic=topic.id)

    def choose_topics(self, count: int) -> list[Topic]:
        topics = self.memory.topics("trip")
        return self.dice.sample(topics, min(count, len(topics)))

    def members(self, topic: Topic) -> list[str]:
        return [message.id for message in self.memory.topic_history("trip", topic=topic.id)]


P = Program
ACTS: tuple[Callable[[Program, Memory], None], ...] = (
    *(P.add,) * 8, *(P.work,) * 3, *(P.erase,) * 2, *(P.merge,) * 3, *(P.unmerge,) * 2, *(P.split,) * 3,
    *(P.change,) * 4,    P.erase_day, P.erase_topic, P.feedback, P.wait, *(P.rebuild,) * 2, P.backup, P.restore, P.ask,
)  # fmt: skip


@pytest.mark.kill
@pytest.mark.parametrize("first", range(4))
def test_random_programs_over_topics_lose_and_leave_nothing(
    open_memory: OpenMemory, location: str, clock: FakeClock, tmp_path: Path, full_count: bool, first: int
) -> None:
    programs = 100 if full_count else 2 if location.startswith("postgresql") else 12
    for seed in range(first, 4 * programs, 4):
        program = Program(open_memory, location, clock, tmp_path, seed)
        try:
            program.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        program.memory.erase(person=f"person {seed}")
