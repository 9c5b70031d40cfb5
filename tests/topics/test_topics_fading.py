"""How topics fade and leave: document C's table by a simulated clock, a year of use, clocks that jump."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta

import pytest

from recollect import Memory
from recollect.testing import FakeClock
from support.tables import ask
from support.talks import Open, adds_up, chat, enough_on_sqlite, opened, say, states, topic_of

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FAINT = 0.05
# Accesses at both ends of each row of document C's table, and the half-life in days.
CONSOLIDATION = {0: 1, 4: 1, 5: 2, 9: 2, 10: 4, 14: 4, 15: 8, 19: 8, 20: 16, 24: 16, 25: 30, 31: 30}


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return opened(open_memory)


# 1. Consolidation


def consolidated(open_memory: Open) -> Memory:
    """A topic for each number of accesses, all spoken of just now; and another that is spoken of at last."""
    memory = opened(open_memory, max_topics=1)
    for marker, accesses in enumerate(CONSOLIDATION, 1):
        talk = [{"role": "user", "content": f"#{marker} this is time {n} of many"} for n in range(accesses + 1)]
        memory.add_many("trip", talk)
    say(memory, 50)
    memory.drain()
    found = {topic_of(memory, marker).access_count for marker in range(1, len(CONSOLIDATION) + 1)}
    assert found == set(CONSOLIDATION)
    return memory


def test_a_topic_leaves_on_the_day_of_the_documents_table(
    open_memory: Open, location: str, clock: FakeClock, full_count: bool
) -> None:
    """One look a day: the first one after 4.32 half-lives, and none before."""
    enough_on_sqlite(location, full_count)
    memory = consolidated(open_memory)
    left: dict[str, int] = {}
    for day in range(1, 132):
        clock.advance(DAY)
        memory.drain()
        for marker, state in states(memory).items():
            if state == "cold":
                left.setdefault(marker, day)
    due = {str(n): math.ceil(math.log2(20) * days) for n, days in enumerate(CONSOLIDATION.values(), 1)}
    assert set(due.values()) == {5, 9, 18, 35, 70, 130}
    assert left == due
    assert states(memory)["50"] == "active"
    adds_up(memory)


def test_a_topic_leaves_at_the_first_look_after_its_time_and_not_before(open_memory: Open, clock: FakeClock) -> None:
    memory = consolidated(open_memory)
    for marker, days in enumerate(CONSOLIDATION.values(), 1):
        topic = topic_of(memory, marker)
        assert topic.half_life_days == days
        assert topic.fades_at - topic.last_active_at == pytest.approx(math.log2(20) * days * DAY, abs=HOUR / 3600)
        if topic.state != "cold":  # it has a twin in its row, which fades at the same time
            clock.advance(topic.fades_at - timedelta(minutes=1) - clock.now())
            memory.drain()
            now = topic_of(memory, marker)
            assert now.state in ("warm", "archived")
            assert now.priority > FAINT
            clock.advance(HOUR)
            memory.drain()
        gone = topic_of(memory, marker)
        assert gone.state == "cold"
        assert gone.priority < FAINT


def test_no_topic_leaves_while_there_are_few(memory: Memory, clock: FakeClock) -> None:
    for marker in range(1, 21):
        say(memory, marker)
    memory.drain()
    clock.advance(365 * DAY)
    memory.drain()
    assert "cold" not in states(memory).values()
    say(memory, 21)
    memory.drain()
    assert list(states(memory).values()).count("cold") == 1


def test_the_lowest_leave_first_and_no_more_than_are_too_many(open_memory: Open, clock: FakeClock) -> None:
    memory = opened(open_memory, max_topics=3)
    for marker, importance in enumerate((0.9, 0.2, 0.6, 0.3, 0.7, 0.8), 1):
        say(memory, marker, importance=importance)
    memory.drain()
    clock.advance(30 * DAY)
    memory.drain()
    cold = {marker for marker, state in states(memory).items() if state == "cold"}
    assert cold == {"2", "4", "3"}


def test_a_topic_that_is_pinned_never_leaves(open_memory: Open, clock: FakeClock) -> None:
    memory = opened(open_memory, max_topics=1)
    for marker in (1, 2, 3):
        say(memory, marker)
    memory.drain()
    assert memory.pin_topic(topic_of(memory, 1).id).pinned
    clock.advance(1000 * DAY)
    memory.drain()
    assert states(memory) == {"1": "warm", "2": "cold", "3": "active"}
    assert not memory.pin_topic(topic_of(memory, 1).id, pinned=False).pinned
    memory.drain()
    assert states(memory)["1"] == "cold"


# 2. A year


PLACES = """
SELECT m.id, t.id FROM topic_messages o JOIN topics t ON t.key = o.topic_key
JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
"""


@pytest.mark.kill
def test_a_year_with_500_topics_loses_no_message(
    open_memory: Open, clock: FakeClock, location: str, full_count: bool
) -> None:
    """A look every fourth day, in the long lane every day."""
    enough_on_sqlite(location, full_count)
    seed = 20261115
    days = 365
    rng = random.Random(seed)
    memory = opened(open_memory, dimensions=512)
    everything: list[tuple[str, str, datetime]] = []
    words: dict[int, str] = {}  # by topic: a word that is said once
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
    told = [(m.role, m.content, m.at) for m in history]
    assert len(told) == len(everything)
    assert not [n for n, (one, other) in enumerate(zip(told, everything, strict=True)) if one != other], f"seed {seed}"
    assert all(m.seq == n for n, m in enumerate(history, 1))
    topics = memory.topics("trip")
    assert (len(topics), sum(one.messages for one in topics)) == (500 * days // 365, len(everything))
    places = ask(location, PLACES)
    assert len(places) == len(history)  # each in one topic
    titles, whose = {one.id: one.title.split()[0] for one in topics}, {m.id: m.content.split()[0] for m in history}
    assert not [message for message, topic in places if titles[topic] != whose[message]], f"seed {seed}"
    cold = [one for one in topics if one.state == "cold"]
    assert len(cold) > 300
    assert all(one.priority < FAINT and one.active_messages <= 1 for one in cold)
    for topic in rng.sample(cold, 3):
        marker = int(topic.title.split()[0].removeprefix("#"))
        assert words[marker] in memory.recall(words[marker])[0].text, f"seed {seed}"
        before = [m for m in history if whose[m.id] == f"#{marker}"]
        say(memory, marker)
        memory.drain()
        back = topic_of(memory, marker)
        assert (back.id, back.state, back.archived_messages) == (topic.id, "active", 0)
        assert memory.topic_history("trip")[:-1] == before
        assert [one["content"] for one in memory.topic_context("trip")[:-1]] == [m.content for m in before]


# 5. Clocks


def test_a_clock_that_jumps_makes_no_age_negative_and_moves_nothing_away(open_memory: Open, clock: FakeClock) -> None:
    """R12."""
    memory = opened(open_memory, max_topics=1)
    order = []
    for n, jump in enumerate((0, 48, -96, 48, -48, 48, -48, 96, -48)):
        clock.advance(jump * HOUR)
        order += chat(memory, 1 + n % 4, 1, first=n)
        memory.drain()
        for topic in memory.topics("trip"):
            stats = memory.topic_stats("trip", topic=topic.id)
            assert stats is not None
            assert min(stats.age_seconds, stats.inactive_seconds) >= 0
            assert 0 <= topic.priority <= topic.importance
        assert "cold" not in states(memory).values()
    assert [m.id for m in memory.history("trip")] == order
    seqs = [m.seq for topic in memory.topics("trip") for m in memory.topic_history("trip", topic=topic.id)]
    assert sorted(seqs) == list(range(1, 19))
    for topic in memory.topics("trip"):
        own = [m.seq for m in memory.topic_history("trip", topic=topic.id)]
        assert own == sorted(own)


def test_a_clock_that_was_ahead_for_a_while_does_not_keep_topics_from_fading(
    open_memory: Open, clock: FakeClock
) -> None:
    memory = opened(open_memory, max_topics=1)
    clock.advance(48 * HOUR)
    chat(memory, 1, 1)
    chat(memory, 2, 1)
    memory.drain()
    clock.advance(-48 * HOUR)
    memory.drain()
    assert states(memory) == {"1": "warm", "2": "active"}
    clock.advance(48 * HOUR + 4.4 * DAY)
    memory.drain()
    assert states(memory) == {"1": "cold", "2": "active"}


def test_messages_of_the_far_future_and_past_take_their_place_in_the_log(memory: Memory, clock: FakeClock) -> None:
    for n, at in enumerate(("2199-01-01T00:00:00Z", "1971-01-01T00:00:00Z", None, "2050-06-01T00:00:00Z", None)):
        say(memory, 1, f"message number {n} of these", at=at, id=f"m{n}")
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
    say(memory, 1)
    say(memory, 1, id="future", at="2199-01-01T00:00:00Z")
    say(memory, 1, id="early")
    clock.advance(DAY)
    say(memory, 1, id="late")
    memory.drain()
    topic = topic_of(memory, 1).id
    assert memory.split_topic(topic, ["future"], title="ahead").last_active_at <= clock.now()
    assert memory.split_topic(topic, ["early", "late"], title="both").last_active_at == start + DAY


def test_a_topic_that_was_brought_back_by_hand_rests_whole_when_it_fades(open_memory: Open, clock: FakeClock) -> None:
    memory = opened(open_memory, max_topics=2, max_messages_per_topic=4, recent_message_keep=2)
    chat(memory, 9)
    chat(memory, 1, 2)
    chat(memory, 2)
    memory.drain()
    topic = topic_of(memory, 1).id
    memory.weigh_topic(topic, 0.5)  # so that it leaves before the other
    memory.restore_topic(topic)
    clock.advance(60 * DAY)
    memory.drain()
    memory.drain()
    faded = memory.topic(topic)
    assert (faded.state, faded.active_messages, faded.archived_messages) == ("cold", 0, 4)
    assert faded.summary
