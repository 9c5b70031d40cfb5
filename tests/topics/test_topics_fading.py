"""Topics fade and go cold: the table of half-lives by a simulated clock, a year of use, clocks that jump."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta

import pytest

from recollect import Memory
from recollect.testing import FakeClock
from support.tables import ask
from support.talks import (
    OpenMemory,
    add_message,
    add_turns,
    check_assignment,
    open_for_topics,
    skip_on_postgres_unless_full,
    states_by_marker,
    topic_of_marker,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FADED_PRIORITY = 0.05
# The half-life in days, by accesses: both ends of each row of the table in docs/topics.md.
HALF_LIFE_DAYS = {0: 1, 4: 1, 5: 2, 9: 2, 10: 4, 14: 4, 15: 8, 19: 8, 20: 16, 24: 16, 25: 30, 31: 30}


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_for_topics(open_memory)


# Half-lives


def open_with_accesses(open_memory: OpenMemory) -> Memory:
    """Open a memory with a topic for each number of accesses, and another that is the active one."""
    memory = open_for_topics(open_memory, max_topics=1)
    for marker, accesses in enumerate(HALF_LIFE_DAYS, 1):
        talk = [{"role": "user", "content": f"#{marker} this is time {n} of many"} for n in range(accesses + 1)]
        memory.add_many("trip", talk)
    add_message(memory, 50)
    memory.drain()
    found = {topic_of_marker(memory, marker).access_count for marker in range(1, len(HALF_LIFE_DAYS) + 1)}
    assert found == set(HALF_LIFE_DAYS)
    return memory


def test_a_topic_goes_cold_on_the_day_of_the_table(
    open_memory: OpenMemory, location: str, clock: FakeClock, full_count: bool
) -> None:
    """The worker looks once a day. A topic goes cold at the first look after 4.32 half-lives."""
    skip_on_postgres_unless_full(location, full_count)
    memory = open_with_accesses(open_memory)
    left: dict[str, int] = {}
    for day in range(1, 132):
        clock.advance(DAY)
        memory.drain()
        for marker, state in states_by_marker(memory).items():
            if state == "cold":
                left.setdefault(marker, day)
    due = {str(n): math.ceil(math.log2(20) * days) for n, days in enumerate(HALF_LIFE_DAYS.values(), 1)}
    assert set(due.values()) == {5, 9, 18, 35, 70, 130}
    assert left == due
    assert states_by_marker(memory)["50"] == "active"
    check_assignment(memory)


def test_a_topic_goes_cold_at_the_first_look_after_it_faded_and_not_before(
    open_memory: OpenMemory, clock: FakeClock
) -> None:
    memory = open_with_accesses(open_memory)
    for marker, days in enumerate(HALF_LIFE_DAYS.values(), 1):
        topic = topic_of_marker(memory, marker)
        assert topic.half_life_days == days
        assert topic.fades_at - topic.last_active_at == pytest.approx(math.log2(20) * days * DAY, abs=HOUR / 3600)
        if topic.state != "cold":  # it has a twin in its row, which fades at the same time
            clock.advance(topic.fades_at - timedelta(minutes=1) - clock.now())
            memory.drain()
            now = topic_of_marker(memory, marker)
            assert now.state in ("warm", "archived")
            assert now.priority > FADED_PRIORITY
            clock.advance(HOUR)
            memory.drain()
        gone = topic_of_marker(memory, marker)
        assert gone.state == "cold"
        assert gone.priority < FADED_PRIORITY


def test_no_topic_goes_cold_while_there_are_few(memory: Memory, clock: FakeClock) -> None:
    for marker in range(1, 21):
        add_message(memory, marker)
    memory.drain()
    clock.advance(365 * DAY)
    memory.drain()
    assert "cold" not in states_by_marker(memory).values()
    add_message(memory, 21)
    memory.drain()
    assert list(states_by_marker(memory).values()).count("cold") == 1


def test_the_lowest_priorities_go_cold_first_and_only_as_many_as_are_too_many(
    open_memory: OpenMemory, clock: FakeClock
) -> None:
    memory = open_for_topics(open_memory, max_topics=3)
    for marker, importance in enumerate((0.9, 0.2, 0.6, 0.3, 0.7, 0.8), 1):
        add_message(memory, marker, importance=importance)
    memory.drain()
    clock.advance(30 * DAY)
    memory.drain()
    cold = {marker for marker, state in states_by_marker(memory).items() if state == "cold"}
    assert cold == {"2", "4", "3"}


def test_a_pinned_topic_never_goes_cold(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory = open_for_topics(open_memory, max_topics=1)
    for marker in (1, 2, 3):
        add_message(memory, marker)
    memory.drain()
    assert memory.pin_topic(topic_of_marker(memory, 1).id).pinned
    clock.advance(1000 * DAY)
    memory.drain()
    assert states_by_marker(memory) == {"1": "warm", "2": "cold", "3": "active"}
    assert not memory.pin_topic(topic_of_marker(memory, 1).id, pinned=False).pinned
    memory.drain()
    assert states_by_marker(memory)["1"] == "cold"


# A year


TOPIC_OF_MESSAGES = """
SELECT m.id, t.id FROM topic_messages o JOIN topics t ON t.key = o.topic_key
JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
"""


@pytest.mark.kill
def test_a_year_with_500_topics_loses_no_message(
    open_memory: OpenMemory, clock: FakeClock, location: str, full_count: bool
) -> None:
    """The worker looks every fourth day, in the long lane every day."""
    skip_on_postgres_unless_full(location, full_count)
    seed = 20261115
    days = 365
    rng = random.Random(seed)
    memory = open_for_topics(open_memory, dimensions=512)
    everything: list[tuple[str, str, datetime]] = []
    words: dict[int, str] = {}  # by topic: a word that is in one message only
    for day in range(days):
        clock.advance(DAY)
        said, last = [], 500 * (day + 1) // 365
        new = range(len(words) + 1, last + 1)
        for marker in [*new, rng.randint(max(1, last - 40), last), rng.randint(1, last)]:
            word = "" if marker in words else f"zq{marker}x"
            words.setdefault(marker, word)
            for role, what in (("user", word), ("assistant", "what")):
                text = f"#{marker} {role} says {what} on day {day}, café ☕\n{'more ' * rng.randrange(9)}"
                said.append({"role": role, "content": text, "at": clock.now()})
                everything.append((role, text, clock.now()))
        memory.add_many("trip", said)
        if full_count or day % 4 == 0:
            assert memory.drain().complete, f"seed {seed}"
    history = memory.history("trip")
    stored = [(m.role, m.content, m.at) for m in history]
    assert len(stored) == len(everything)
    assert not [n for n, (got, added) in enumerate(zip(stored, everything, strict=True)) if got != added], (
        f"seed {seed}"
    )
    assert all(m.seq == n for n, m in enumerate(history, 1))
    topics = memory.topics("trip")
    assert (len(topics), sum(each.messages for each in topics)) == (500 * days // 365, len(everything))
    pairs = ask(location, TOPIC_OF_MESSAGES)
    assert len(pairs) == len(history)  # each in one topic
    titles, whose = {each.id: each.title.split()[0] for each in topics}, {m.id: m.content.split()[0] for m in history}
    assert not [message for message, topic in pairs if titles[topic] != whose[message]], f"seed {seed}"
    cold = [each for each in topics if each.state == "cold"]
    assert len(cold) > 300
    assert all(each.priority < FADED_PRIORITY and each.active_messages <= 1 for each in cold)
    for topic in rng.sample(cold, 3):
        marker = int(topic.title.split()[0].removeprefix("#"))
        assert words[marker] in memory.recall(words[marker])[0].text, f"seed {seed}"
        before = [m for m in history if whose[m.id] == f"#{marker}"]
        add_message(memory, marker)
        memory.drain()
        back = topic_of_marker(memory, marker)
        assert (back.id, back.state, back.archived_messages) == (topic.id, "active", 0)
        assert memory.topic_history("trip")[:-1] == before
        assert [message["content"] for message in memory.topic_context("trip")[:-1]] == [m.content for m in before]


# Clocks


def test_a_clock_that_jumps_makes_no_age_negative_and_no_topic_cold(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory = open_for_topics(open_memory, max_topics=1)
    order = []
    for n, jump in enumerate((0, 48, -96, 48, -48, 48, -48, 96, -48)):
        clock.advance(jump * HOUR)
        order += add_turns(memory, 1 + n % 4, 1, first=n)
        memory.drain()
        for topic in memory.topics("trip"):
            stats = memory.topic_stats("trip", topic=topic.id)
            assert stats is not None
            assert min(stats.age_seconds, stats.inactive_seconds) >= 0
            assert 0 <= topic.priority <= topic.importance
        assert "cold" not in states_by_marker(memory).values()
    assert [m.id for m in memory.history("trip")] == order
    seqs = [m.seq for topic in memory.topics("trip") for m in memory.topic_history("trip", topic=topic.id)]
    assert sorted(seqs) == list(range(1, 19))
    for topic in memory.topics("trip"):
        own = [m.seq for m in memory.topic_history("trip", topic=topic.id)]
        assert own == sorted(own)


def test_a_clock_that_was_ahead_for_a_while_does_not_keep_topics_from_fading(
    open_memory: OpenMemory, clock: FakeClock
) -> None:
    memory = open_for_topics(open_memory, max_topics=1)
    clock.advance(48 * HOUR)
    add_turns(memory, 1, 1)
    add_turns(memory, 2, 1)
    memory.drain()
    clock.advance(-48 * HOUR)
    memory.drain()
    assert states_by_marker(memory) == {"1": "warm", "2": "active"}
    clock.advance(48 * HOUR + 4.4 * DAY)
    memory.drain()
    assert states_by_marker(memory) == {"1": "cold", "2": "active"}


def test_messages_of_the_far_future_and_past_keep_the_order_of_the_log(memory: Memory, clock: FakeClock) -> None:
    for n, at in enumerate(("2199-01-01T00:00:00Z", "1971-01-01T00:00:00Z", None, "2050-06-01T00:00:00Z", None)):
        add_message(memory, 1, f"message number {n} of these", at=at, id=f"m{n}")
    memory.drain()
    (topic,) = memory.topics("trip")
    assert [m.id for m in memory.topic_history("trip")] == ["m0", "m1", "m2", "m3", "m4"]
    assert topic.last_active_at == clock.now()
    assert topic.priority == 1.0
    stats = memory.topic_stats("trip")
    assert stats is not None
    assert (stats.age_seconds, stats.inactive_seconds) == (0, 0)


def test_a_part_split_off_was_last_active_when_it_was_spoken_of(memory: Memory, clock: FakeClock) -> None:
    start = clock.now()
    add_message(memory, 1)
    add_message(memory, 1, id="future", at="2199-01-01T00:00:00Z")
    add_message(memory, 1, id="early")
    clock.advance(DAY)
    add_message(memory, 1, id="late")
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    assert memory.split_topic(topic, ["future"], title="ahead").last_active_at <= clock.now()
    assert memory.split_topic(topic, ["early", "late"], title="both").last_active_at == start + DAY


def test_a_topic_restored_by_hand_is_archived_whole_when_it_fades(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory = open_for_topics(open_memory, max_topics=2, max_messages_per_topic=4, recent_message_keep=2)
    add_turns(memory, 9)
    add_turns(memory, 1, 2)
    add_turns(memory, 2)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    memory.weigh_topic(topic, 0.5)  # so that it goes cold before the other
    memory.restore_topic(topic)
    clock.advance(60 * DAY)
    memory.drain()
    memory.drain()
    faded = memory.topic(topic)
    assert (faded.state, faded.active_messages, faded.archived_messages) == ("cold", 0, 4)
    assert faded.summary
