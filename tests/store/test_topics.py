"""Topics as people meet them: how messages find theirs, how they fade, rest in the archive and come back."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import Conflict, InvalidInput, Memory, NotFound, ProviderUnavailable
from recollect.core.models import Message
from recollect.core.topics import Topic, from_stored
from recollect.testing import FakeClock
from tables import ask
from talks import Directions, Open, chat, enough_on_sqlite, opened, say, topic_of

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FAINT = 0.05
# Accesses at both ends of each row of document C's table, and the half-life in days.
CONSOLIDATION = {0: 1, 4: 1, 5: 2, 9: 2, 10: 4, 14: 4, 15: 8, 19: 8, 20: 16, 24: 16, 25: 30, 31: 30}
SMALL = {"max_messages_per_topic": 4, "recent_message_keep": 2}


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return opened(open_memory)


def states(memory: Memory, to: str = "trip") -> dict[str, str]:
    """By the marker that opened each topic."""
    return {one.title.split()[0].removeprefix("#"): one.state for one in memory.topics(to)}


def members(memory: Memory, to: str = "trip") -> dict[str, list[str]]:
    """The messages of each topic, by its id."""
    return {one.id: [m.id for m in memory.topic_history(to, topic=one.id)] for one in memory.topics(to)}


def adds_up(memory: Memory, to: str = "trip") -> None:
    """Every message belongs to one topic, and the counts say so."""
    found = members(memory, to)
    assert sorted(one for ids in found.values() for one in ids) == sorted(m.id for m in memory.history(to))
    for topic in memory.topics(to):
        assert topic.messages == len(found[topic.id]) == topic.active_messages + topic.archived_messages


def texts_at_hand(location: str) -> set[str]:
    return {text for (text,) in ask(location, "SELECT content FROM texts")}


def lasting(topic: Topic) -> dict[str, Any]:
    """What a rebuild makes again."""
    names = ("id", "title", "tags", "pinned", "importance", "access_count", "messages", "merged", "created_at")
    return {name: value for name, value in topic.to_dict().items() if name in names}


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


# 3. Placing


def test_messages_join_open_and_return(memory: Memory) -> None:
    for marker in (1, 1, 2, 1, 3, 2):
        say(memory, marker)
    say(memory, 1, "#1 #2 nearly the same as before")
    memory.drain()
    seqs = [[m.seq for m in memory.topic_history("trip", topic=topic_of(memory, n).id)] for n in (1, 2, 3)]
    assert seqs == [[1, 2, 4, 7], [3, 6], [5]]
    assert states(memory) == {"1": "active", "2": "warm", "3": "warm"}


def test_the_threshold_is_a_setting(open_memory: Open) -> None:
    """#1 and #1 #1 #2 are at 0.894."""
    for threshold, topics in ((0.88, 1), (0.91, 2)):
        memory = opened(open_memory, similarity_threshold=threshold)
        name = f"at {threshold}"
        say(memory, 1, to=name)
        say(memory, 1, "#1 #2 another matter it is", to=name)
        memory.drain()
        assert len(memory.topics(name)) == topics


def test_answers_and_tools_follow_the_talk(memory: Memory) -> None:
    say(memory, 1)
    say(memory, 2)
    memory.add("trip", "assistant", "#2 I shall look", tool_calls=[{"id": "c", "function": {"name": "f"}}])
    memory.add("trip", "tool", "#1 this is what was found", tool_call_id="c")
    memory.add("trip", "assistant", "#1 #2 #2 #2 so it is")
    memory.add("trip", "system", "#3 be kind to all of them")
    memory.drain()
    assert [m.seq for m in memory.topic_history("trip")] == [2, 3, 4, 5, 6]
    assert topic_of(memory, 1).messages == 1


def test_a_conversation_that_begins_with_the_system_has_its_topic(memory: Memory) -> None:
    memory.add("trip", "system", "you are helpful and kind")
    memory.add("trip", "assistant", "#1 how can I help you")
    say(memory, 1)
    memory.drain()
    adds_up(memory)


def test_a_title_is_the_first_80_characters(memory: Memory) -> None:
    text = "#1  where\nto eat " + "well " * 40
    memory.add("trip", "user", text)
    memory.drain()
    (topic,) = memory.topics("trip")
    assert topic.title == " ".join(text.split())[:80].strip()


def test_a_reply_may_show_that_a_new_topic_was_none(memory: Memory) -> None:
    """A second look: question and answer together are near to the first topic."""
    say(memory, 1)
    memory.drain()
    memory.add("trip", "user", "#1 #2 #2 now this is different")
    memory.drain()
    assert len(memory.topics("trip")) == 2
    memory.add("trip", "assistant", "#1 #1 #1 no it is not")
    memory.drain()
    (topic,) = memory.topics("trip")
    assert (topic.messages, topic.access_count, topic.state) == (3, 1, "active")
    adds_up(memory)


def test_users_messages_are_accesses_and_answers_are_none(memory: Memory) -> None:
    chat(memory, 1, 3)
    chat(memory, 2, 1)
    chat(memory, 1, 4, first=4)
    memory.drain()
    assert (topic_of(memory, 1).access_count, topic_of(memory, 2).access_count) == (6, 0)
    assert (topic_of(memory, 1).memory_type, topic_of(memory, 2).memory_type) == ("medium", "short")


def test_access_counts_do_not_depend_on_how_often_the_worker_looks(memory: Memory) -> None:
    for name, often in (("once", False), ("often", True)):
        for marker in (1, 2, 1, 1, 3, 2, 1):
            say(memory, marker, to=name)
            if often:
                memory.drain()
    memory.drain()
    found = [
        sorted((one.title, one.access_count, one.messages) for one in memory.topics(name)) for name in ("once", "often")
    ]
    assert found[0] == found[1]


def test_a_topic_was_last_active_when_it_was_last_spoken_of(memory: Memory, clock: FakeClock) -> None:
    start = clock.now()
    say(memory, 1)
    clock.advance(HOUR)
    say(memory, 2)
    clock.advance(HOUR)
    memory.add("trip", "assistant", "#2 an answer to that")
    clock.advance(5 * HOUR)
    memory.drain()
    assert (topic_of(memory, 1).created_at, topic_of(memory, 1).last_active_at) == (start, start)
    assert (topic_of(memory, 2).created_at, topic_of(memory, 2).last_active_at) == (start + HOUR, start + 2 * HOUR)
    stats = memory.topic_stats("trip")
    assert stats is not None
    assert (stats.age_seconds, stats.inactive_seconds) == (6 * 3600, 5 * 3600)


def test_importance_given_with_a_message_is_its_topics(memory: Memory) -> None:
    say(memory, 1, importance=0.4)
    say(memory, 2)
    say(memory, 1, importance=0.6)
    say(memory, 1, importance=0.1)
    memory.drain()
    assert (topic_of(memory, 1).importance, topic_of(memory, 2).importance) == (0.6, 1.0)
    assert topic_of(memory, 1).priority == 0.6


def test_importance_is_kept_when_a_new_topic_was_none(memory: Memory) -> None:
    chat(memory, 1, 2)
    memory.add("trip", "user", "#1 #2 #2 now this is different", importance=0.4)
    memory.add("trip", "assistant", "#1 #1 #1 no it is not")
    memory.drain()
    (topic,) = memory.topics("trip")
    assert topic.importance == 0.4


def test_what_says_too_little_stays_with_the_talk(memory: Memory) -> None:
    say(memory, 1)
    memory.add("trip", "user", "#2 ok")
    memory.add("trip", "user", "")
    memory.add("trip", "user", "#2 yes please do it")
    memory.drain()
    assert [m.seq for m in memory.topic_history("trip", topic=topic_of(memory, 1).id)] == [1, 2, 3]


def test_messages_wait_for_their_topic_while_the_embedder_is_away(open_memory: Open) -> None:
    embedder = Directions()
    memory = opened(open_memory, embedder=embedder)
    chat(memory, 1, 2)
    memory.drain()
    embedder.failure = ProviderUnavailable("provider_unreachable", "nobody answers")
    chat(memory, 2, 2)
    assert not memory.drain().complete
    assert len(memory.topics("trip")) == 1
    assert len(memory.history("trip")) == 8
    embedder.failure = None
    assert memory.drain().complete
    assert [topic_of(memory, n).messages for n in (1, 2)] == [4, 4]
    adds_up(memory)


def test_two_that_place_at_the_same_time_place_each_message_once(open_memory: Open) -> None:
    memories = [opened(open_memory) for _ in range(2)]
    failures: list[BaseException] = []

    def use(memory: Memory, first: int) -> None:
        try:
            for n in range(20):
                say(memory, 1 + (first + n) % 5)
                if n % 3 == 0:
                    memory.drain()
            memory.drain()
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=use, args=(one, 2 * place)) for place, one in enumerate(memories)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    memory = memories[0]
    assert memory.drain().complete
    adds_up(memory)
    before = sorted((lasting(one) for one in memory.topics("trip")), key=lambda one: str(one["id"]))
    assert [one["messages"] for one in before] == [8] * 5
    memory.rebuild()
    assert sorted((lasting(one) for one in memory.topics("trip")), key=lambda one: str(one["id"])) == before


def test_topics_go_on_with_another_embedder(open_memory: Open) -> None:
    first = opened(open_memory)
    chat(first, 1, 2)
    chat(first, 2, 2)
    first.drain()
    before = members(first)
    first.close()
    second = opened(open_memory, embedder=Directions(32, name="other"))
    say(second, 1)
    say(second, 3)
    say(second, 2)
    second.drain()
    after = members(second)
    assert len(after) == 3
    assert {one: after[one][:4] for one in before} == before
    assert [topic_of(second, n).messages for n in (1, 2, 3)] == [5, 5, 1]
    adds_up(second)


# Rebuilding


def test_a_rebuild_makes_the_same_topics_again(open_memory: Open, clock: FakeClock) -> None:
    memory = opened(open_memory, **SMALL, max_topics=3)
    for n, marker in enumerate((1, 2, 1, 3, 4, 1, 5, 2, 1, 1)):
        chat(memory, marker, 1, first=n)
        clock.advance(DAY)
        memory.drain()
    before, whose, said = memory.topics("trip"), members(memory), memory.history("trip")
    assert memory.rebuild().complete
    after = memory.topics("trip")
    by_id = {one.id: one for one in after}
    assert [lasting(by_id[one.id]) for one in before] == [lasting(one) for one in before]
    assert [by_id[one.id].last_active_at for one in before] == [one.last_active_at for one in before]
    assert members(memory) == whose
    assert memory.history("trip") == said
    assert after[0].id == before[0].id
    adds_up(memory)


def test_a_rebuild_knows_what_rests_in_the_archive(memory: Memory) -> None:
    chat(memory, 1, 8)
    chat(memory, 2, 1)
    memory.drain()
    before = [(one.id, one.state, one.active_messages, one.archived_messages) for one in memory.topics("trip")]
    assert topic_of(memory, 1).archived_messages == 11
    memory.rebuild()
    after = [(one.id, one.state, one.active_messages, one.archived_messages) for one in memory.topics("trip")]
    assert after == before
    assert topic_of(memory, 1).summary


def test_a_rebuild_keeps_tags_pins_titles_and_weights(memory: Memory) -> None:
    for marker in (1, 2, 3, 4, 5):
        chat(memory, marker, 2)
    memory.drain()
    memory.tag_topic(topic_of(memory, 1).id, ["food", "travel"])
    memory.pin_topic(topic_of(memory, 2).id)
    memory.weigh_topic(topic_of(memory, 3).id, 0.3)
    memory.rename_topic(topic_of(memory, 4).id, "#4 my own title")
    before = [lasting(topic_of(memory, n)) for n in (1, 2, 3, 4, 5)]
    whose = members(memory)
    assert memory.rebuild().complete
    assert [lasting(topic_of(memory, n)) for n in (1, 2, 3, 4, 5)] == before
    assert list(before[0]["tags"]) == ["food", "travel"]
    assert members(memory) == whose


@pytest.mark.parametrize("later_first", [False, True])
def test_a_rebuild_keeps_a_merge(memory: Memory, later_first: bool) -> None:
    chat(memory, 1, 2)
    chat(memory, 2, 2)
    memory.drain()
    pair = [topic_of(memory, n).id for n in ((2, 1) if later_first else (1, 2))]
    before = lasting(memory.merge_topics(*pair))
    memory.drain()
    done = memory.rebuild()
    assert (done.failed, done.complete) == ({}, True)
    (topic,) = memory.topics("trip")
    assert lasting(topic) == before
    adds_up(memory)


def test_a_rebuild_keeps_a_merge_of_topics_that_are_alike(memory: Memory) -> None:
    chat(memory, 1, 2)
    memory.add("trip", "user", "#1 #1 #2 #2 #2 nearly the same thing")
    memory.drain()
    a, b = (one.id for one in sorted(memory.topics("trip"), key=lambda one: one.messages, reverse=True))
    memory.merge_topics(a, b)
    say(memory, 1)
    memory.drain()
    assert memory.rebuild().complete
    (topic,) = memory.topics("trip")
    assert (topic.id, topic.messages, topic.merged) == (a, 6, (b,))


@pytest.mark.parametrize("which", [slice(0, 2), slice(2, 4), slice(4, 6)], ids=["opening", "middle", "last"])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_rebuild_keeps_a_split(memory: Memory, which: slice, tagged: bool) -> None:
    ids = chat(memory, 1, 3)
    memory.drain()
    topic = topic_of(memory, 1).id
    if tagged:
        memory.tag_topic(topic, ["food"])
    part = memory.split_topic(topic, ids[which], title="apart").id
    memory.drain()
    before = members(memory)
    assert before == {topic: [one for one in ids if one not in ids[which]], part: ids[which]}
    assert memory.rebuild().complete
    after = members(memory)
    assert after[part] == ids[which]
    assert after == before


# 4. Folding


def test_above_12_messages_all_but_the_last_4_rest_in_the_archive(memory: Memory, location: str) -> None:
    """The conversation's first user message stays at hand, too: it gives the title."""
    say(memory, 9, "this is how it all began")
    chat(memory, 1, 6)
    memory.drain()
    assert (topic_of(memory, 1).archived_messages, topic_of(memory, 1).summary) == (0, None)
    say(memory, 1, "the thirteenth message it is")
    memory.drain()
    topic = topic_of(memory, 1)
    assert (topic.messages, topic.archived_messages, topic.active_messages) == (13, 9, 4)
    said = [m.content for m in memory.history("trip")]
    assert texts_at_hand(location) == {said[0], *said[-4:]}
    adds_up(memory)


def test_the_first_message_of_a_conversation_stays_at_hand(memory: Memory, location: str) -> None:
    chat(memory, 1, 8)
    memory.drain()
    said = [m.content for m in memory.history("trip")]
    assert texts_at_hand(location) == {said[0], *said[-4:]}
    assert topic_of(memory, 1).archived_messages == 11
    (conversation,) = memory.conversations()
    assert conversation.title.startswith("#1 question number 1")


def test_folding_again_extends_the_archive_and_the_summary(open_memory: Open, location: str) -> None:
    memory = opened(open_memory, topic_summary_token_cap=400)
    facts = (
        "My piano teacher is called Ingrid.",
        "I live in Lisbon with two cats.",
        "We must not spend over 900 euros.",
    )
    told = []
    for place, fact in enumerate(facts):
        say(memory, 1, fact)
        chat(memory, 1, 7, first=10 * place)
        memory.drain()
        topic = topic_of(memory, 1)
        assert topic.summary is not None
        told.append(topic.summary)
        assert topic.messages - topic.archived_messages == 5
    for place, word in enumerate(("Lisbon", "900")):
        assert word not in told[place]
        assert word in told[place + 1]
    said = [m.content for m in memory.history("trip")]
    assert texts_at_hand(location) == {said[0], *said[-4:]}
    assert [m.content for m in memory.topic_history("trip")] == said
    assert ask(location, "SELECT count(*) FROM archived") == [(len(said) - 5,)]


def test_a_summary_tells_something_of_what_is_archived_and_names_its_sources(memory: Memory, location: str) -> None:
    say(memory, 9, "this is how it all began")
    say(memory, 1, "My piano teacher is called Ingrid and lives in Oslo.", id="fact")
    chat(memory, 1, 8)
    memory.drain()
    topic = topic_of(memory, 1)
    assert topic.summary is not None
    assert "Ingrid" in topic.summary
    ((stored,),) = ask(location, "SELECT summary FROM topics WHERE summary IS NOT NULL")
    sources = {source for one in from_stored(bytes(stored)) for source in one.sources}
    known = {m.id for m in memory.history("trip")}
    assert "fact" in sources
    assert sources <= known


def test_what_rests_in_the_archive_reads_the_same_everywhere(open_memory: Open, tmp_path: Path, location: str) -> None:
    """The same talk of two people, one of whom keeps all at hand."""
    whole = opened(open_memory, person="whole", max_messages_per_topic=1000)
    folded = opened(open_memory, person="folded")
    for memory in (whole, folded):
        for n in range(20):
            text = f"#1 message {n} tells of marmalade{n} café ☕ \u202eright to left\r\n\ttab"
            memory.add("trip", "user" if n % 2 == 0 else "assistant", text, id=f"m{n}")
        memory.drain()
    archived = topic_of(folded, 1).archived_messages
    assert (archived, topic_of(whole, 1).archived_messages) == (15, 0)
    assert ask(location, "SELECT count(*) FROM texts") == [(25,)]
    assert folded.history("trip") == whole.history("trip")
    assert folded.history("trip", before=9, limit=3) == whole.history("trip", before=9, limit=3)
    assert folded.topic_history("trip") == whole.topic_history("trip")

    def hits(memory: Memory, query: str) -> list[tuple[str | None, str, float]]:
        return [(one.message_id, one.text, one.score) for one in memory.recall(query)]

    for query in ("marmalade3", "marmalade7 café", "tells of right to left"):
        assert hits(folded, query) == hits(whole, query)
        tails = [memory.context("trip", query).messages[1:] for memory in (folded, whole)]  # without what is told
        assert tails[0] == tails[1]
    assert hits(folded, "marmalade3")[0][0] == "m3"
    files = [tmp_path / "whole.ndjson", tmp_path / "folded.ndjson"]
    for memory, file in zip((whole, folded), files, strict=True):
        memory.export(file)
    lines = [[line for line in file.read_bytes().splitlines() if b'"content"' in line] for file in files]
    assert len(lines[0]) == 20
    assert lines[0] == lines[1]


def test_the_history_without_the_archive_is_what_is_at_hand(open_memory: Open) -> None:
    memory = opened(open_memory, **SMALL)
    say(memory, 9, "this is how it all began")
    ids = chat(memory, 1, 4)
    memory.drain()

    def seen(**asked: Any) -> list[str]:
        return [m.id for m in memory.topic_history("trip", **asked)]

    assert seen(include_archived=False) == ids[-2:]
    assert seen() == ids
    say(memory, 2)
    memory.drain()
    assert seen(topic=topic_of(memory, 1).id, include_archived=False) == ids[-2:]
    more = chat(memory, 1, 1)
    memory.drain()
    assert seen(include_archived=False) == ids + more


def test_an_archived_topic_is_back_for_as_long_as_it_is_the_active_one(open_memory: Open, location: str) -> None:
    memory = opened(open_memory, **SMALL)
    say(memory, 9, "this is how it all began")
    chat(memory, 1, 4)
    say(memory, 2)
    memory.drain()
    assert (topic_of(memory, 1).state, topic_of(memory, 1).archived_messages) == ("archived", 6)
    for n in range(6):  # more than enough to fold, were it not back
        chat(memory, 1, 1, first=5 + n)
        memory.drain()
        topic = topic_of(memory, 1)
        assert (topic.state, topic.archived_messages, topic.active_messages) == ("active", 0, 10 + 2 * n)
        assert len([text for text in texts_at_hand(location) if text.startswith("#1")]) == 4 + 2 * n
        talk = memory.topic_context("trip")
        assert [one["content"] for one in talk] == [m.content for m in memory.topic_history("trip")]
    say(memory, 2)
    memory.drain()
    topic = topic_of(memory, 1)
    assert (topic.state, topic.messages, topic.archived_messages) == ("archived", 20, 18)
    assert len([text for text in texts_at_hand(location) if text.startswith("#1")]) == 2
    adds_up(memory)


def test_a_topic_is_told_to_a_model_as_it_stands(open_memory: Open) -> None:
    memory = opened(open_memory, **SMALL)
    assert memory.topic_context("trip") == []
    say(memory, 9, "this is how it all began")
    say(memory, 1, "My piano teacher is called Ingrid.")
    memory.add("trip", "assistant", "#1 what a nice name")
    memory.drain()
    warm = memory.topic_context("trip")
    assert warm == [
        {"role": "user", "content": "#1 My piano teacher is called Ingrid."},
        {"role": "assistant", "content": "#1 what a nice name"},
    ]
    chat(memory, 1, 3)
    memory.drain()
    for asked in ({}, {"topic": topic_of(memory, 1).id}):
        first, *rest = memory.topic_context("trip", **asked)
        assert first["role"] == "user"
        assert "Ingrid" in first["content"]
        assert [one["content"] for one in rest] == [m.content for m in memory.history("trip")[-2:]]
    chat(memory, 2, 1)
    memory.drain()
    assert len(memory.topic_context("trip")) == 2
    assert len(memory.topic_context("trip", topic=topic_of(memory, 1).id)) == 3
    say(memory, 1)
    memory.drain()
    assert len(memory.topic_context("trip")) == 9


def test_statistics_have_the_documents_fields(memory: Memory, clock: FakeClock) -> None:
    assert memory.topic_stats("trip") is None
    say(memory, 9, "this is how it all began")
    memory.drain()
    chat(memory, 1, 8)
    clock.advance(2 * HOUR)
    memory.drain()
    topic, stats = topic_of(memory, 1), memory.topic_stats("trip")
    assert stats is not None
    assert stats.to_dict() == {
        "topic_id": topic.id, "topic_title": "#1 question number 1 of this matter", "active_messages": 4,
        "compressed_messages": 12, "total_messages": 16, "has_summary": True, "importance_score": 1.0,
        "access_count": 7, "memory_type": "medium", "half_life_days": 2.0, "age_seconds": 7200.0,
        "inactive_seconds": 7200.0,
    }  # fmt: skip
    other = memory.topic_stats("trip", topic=topic_of(memory, 9).id)
    assert other is not None
    assert (other.total_messages, other.has_summary) == (1, False)


def test_a_cold_topic_rests_whole_and_comes_back_whole(open_memory: Open, clock: FakeClock, location: str) -> None:
    memory = opened(open_memory, max_topics=1)
    say(memory, 9, "this is how it all began")
    ids = chat(memory, 1, 3)
    say(memory, 2)
    memory.drain()
    clock.advance(6 * DAY)
    memory.drain()
    topic = topic_of(memory, 1)
    assert (topic.state, topic.archived_messages) == ("cold", 6)
    assert topic.summary
    assert not [text for text in texts_at_hand(location) if text.startswith("#1")]
    assert memory.recall("question number 2")[0].message_id == ids[2]
    say(memory, 1)
    memory.drain()
    back = topic_of(memory, 1)
    assert (back.id, back.state, back.archived_messages, back.priority) == (topic.id, "active", 0, 1.0)
    assert [one["content"] for one in memory.topic_context("trip")][:6] == [
        m.content for m in memory.history("trip")[1:7]
    ]


def test_a_decay_curve_is_that_of_the_topic(memory: Memory) -> None:
    say(memory, 1, importance=0.5)
    memory.drain()
    topic = topic_of(memory, 1)
    curve = memory.topic_decay(topic.id, days=2, points=3)
    assert curve == [(topic.last_active_at + n * DAY, 0.5 ** (n + 1)) for n in range(3)]
    assert len(memory.topic_decay(topic.id)) == 60


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


# 6. By hand


def two(memory: Memory) -> tuple[str, str]:
    """Two topics; the second is active."""
    chat(memory, 1, 2)
    chat(memory, 2, 2)
    memory.drain()
    return topic_of(memory, 1).id, topic_of(memory, 2).id


def test_tags_take_the_place_of_those_before(memory: Memory) -> None:
    topic, other = two(memory)
    assert memory.tag_topic(topic, ["food", "trip", "food"]).tags == ("food", "trip")
    assert memory.tag_topic(topic, ["work"]).tags == ("work",)
    assert topic_of(memory, 1).tags == ("work",)
    assert topic_of(memory, 2).tags == ()
    assert memory.tag_topic(topic, []).tags == ()
    assert memory.tag_topic(other, ("سفر",)).tags == ("سفر",)


def test_a_title_that_was_given_stays(memory: Memory) -> None:
    topic, _ = two(memory)
    assert memory.rename_topic(topic, "Where to eat").title == "Where to eat"
    chat(memory, 1, 2, first=5)
    memory.drain()
    memory.erase(message=memory.topic_history("trip", topic=topic)[0].id)
    assert memory.topic_history("trip", topic=topic)
    assert next(one for one in memory.topics("trip") if one.id == topic).title == "Where to eat"


def test_what_weighs_less_leaves_sooner(open_memory: Open, clock: FakeClock) -> None:
    memory = opened(open_memory, max_topics=1)
    light, heavy = two(memory)
    say(memory, 3)
    memory.drain()
    assert memory.weigh_topic(light, 0.1).importance == 0.1
    assert memory.weigh_topic(heavy, 1).importance == 1.0
    clock.advance(1.1 * DAY)
    memory.drain()
    assert states(memory) == {"1": "cold", "2": "warm", "3": "active"}


def test_a_topic_can_be_let_rest_and_brought_back(memory: Memory, clock: FakeClock, location: str) -> None:
    topic, _ = two(memory)
    accesses = topic_of(memory, 1).access_count
    clock.advance(DAY)
    assert memory.archive_topic(topic).state == "cold"
    memory.drain()
    assert topic_of(memory, 1).archived_messages == 3  # the conversation's first one stays
    back = memory.restore_topic(topic)
    assert (back.state, back.priority, back.access_count) == ("warm", 1.0, accesses + 1)
    assert (back.last_active_at, back.active_messages) == (clock.now(), 4)
    memory.drain()
    assert topic_of(memory, 1).state == "warm"
    assert len(memory.topic_context("trip", topic=topic)) == 4
    adds_up(memory)


def test_an_answer_to_a_topic_that_was_let_rest_opens_no_other(memory: Memory) -> None:
    chat(memory, 1, 2)
    say(memory, 1, "one more question of mine")
    memory.drain()
    topic = memory.topics("trip")[0]
    assert memory.archive_topic(topic.id).state == "cold"
    memory.drain()
    memory.add("trip", "assistant", "#5 an answer about something quite different")
    memory.drain()
    assert [(one.id, one.state, one.messages) for one in memory.topics("trip")] == [(topic.id, "cold", 6)]
    say(memory, 1, "and it is spoken of again")
    memory.drain()
    (back,) = memory.topics("trip")
    assert (back.state, back.archived_messages, back.messages) == ("active", 0, 7)


def test_what_is_split_off_takes_its_accesses_and_its_importance_along(memory: Memory) -> None:
    ids = [say(memory, 1, "this again and again", importance=0.2) for _ in range(12)]
    memory.drain()
    (whole,) = memory.topics("trip")
    part = memory.split_topic(whole.id, ids[2:])
    assert (whole.access_count, part.access_count, memory.topic(whole.id).access_count) == (11, 9, 1)
    assert (part.importance, memory.topic(whole.id).importance) == (0.2, 0.2)


def test_what_is_said_of_the_whole_is_not_said_of_a_part_that_leaves(memory: Memory) -> None:
    one, other = two(memory)
    memory.tag_topic(other, ["own"])
    merged = memory.merge_topics(one, other)
    assert merged.tags == ("own",)
    memory.tag_topic(one, ["whole"])
    memory.pin_topic(one)
    memory.weigh_topic(one, 0.2)
    part = memory.unmerge_topic(other)
    assert (part.tags, part.pinned, part.importance) == (("own",), False, 1.0)


def test_half_lives_below_a_second_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInput):
        memory.change_settings(base_half_life_seconds=1e-9)


@pytest.mark.parametrize("title", ["", "  \n "])
def test_a_title_says_something(memory: Memory, title: str) -> None:
    one, _ = two(memory)
    with pytest.raises(InvalidInput):
        memory.rename_topic(one, title)


def test_a_topic_that_rests_is_back_when_it_is_spoken_of(memory: Memory) -> None:
    topic, _ = two(memory)
    memory.archive_topic(topic)
    memory.drain()
    say(memory, 1)
    memory.drain()
    back = topic_of(memory, 1)
    assert (back.state, back.archived_messages, back.messages) == ("active", 0, 5)
    say(memory, 2)
    memory.drain()
    assert topic_of(memory, 1).state != "cold"


def test_the_active_topic_is_back_too_when_it_is_spoken_of(memory: Memory) -> None:
    _, active = two(memory)
    memory.archive_topic(active)
    memory.drain()
    ids = chat(memory, 2, 1)
    memory.drain()
    assert [m.id for m in memory.topic_history("trip", include_archived=False)][-2:] == ids
    say(memory, 1)
    memory.drain()
    assert topic_of(memory, 2).state != "cold"


def test_merged_topics_are_one_and_can_be_parted_again(memory: Memory) -> None:
    one, other = two(memory)
    before = members(memory)
    merged = memory.merge_topics(one, other)
    assert (merged.id, merged.merged, merged.messages, merged.access_count) == (one, (other,), 8, 2)
    assert merged.state == "active"
    assert [m.id for m in memory.topic_history("trip")] == before[one] + before[other]
    assert memory.topic_history("trip", topic=other) == memory.topic_history("trip", topic=one)
    assert len(memory.topics("trip")) == 1
    adds_up(memory)
    parted = memory.unmerge_topic(other)
    assert (parted.id, parted.merged, parted.messages) == (other, (), 4)
    assert members(memory) == before
    with pytest.raises(Conflict):
        memory.unmerge_topic(other)
    with pytest.raises(Conflict):
        memory.unmerge_topic(one)


def test_what_joins_a_merged_topic_stays_with_it_when_they_part(memory: Memory) -> None:
    one, other = two(memory)
    before = members(memory)
    memory.merge_topics(one, other)
    memory.drain()
    later = [memory.add("trip", "user", "#1 #2 both of them at once").id, *chat(memory, 3, 1)]
    later[1:1] = [memory.add("trip", "user", "#1 #2 both of them again").id]
    memory.drain()
    assert topic_of(memory, 1).messages == 10
    memory.unmerge_topic(other)
    memory.drain()
    after = members(memory)
    assert after[other] == before[other]
    assert after[one] == before[one] + later[:2]
    adds_up(memory)
    say(memory, 2)
    say(memory, 1)
    memory.drain()
    assert (topic_of(memory, 2).messages, topic_of(memory, 1).messages) == (5, 7)


def test_merges_can_be_chained_and_undone_one_by_one(memory: Memory) -> None:
    for marker in (1, 2, 3, 4):
        chat(memory, marker, 1)
    memory.drain()
    a, b, c, d = (topic_of(memory, n).id for n in (1, 2, 3, 4))
    before = members(memory)
    memory.merge_topics(b, c)
    memory.merge_topics(a, b)
    assert set(memory.merge_topics(d, c).merged) == {a, b, c}  # c is part of a by now
    assert len(memory.topics("trip")) == 1
    for topic in (a, b, c):
        memory.unmerge_topic(topic)
    memory.drain()
    assert members(memory) == before
    adds_up(memory)


def test_a_topic_forgets_what_a_part_of_its_part_was_about(open_memory: Open) -> None:
    memory = opened(open_memory, similarity_threshold=0.9)
    for marker in (1, 2, 3):
        chat(memory, marker, 1)
    memory.drain()
    a, b, c = (topic_of(memory, n).id for n in (1, 2, 3))
    memory.merge_topics(b, c)
    memory.merge_topics(a, b)
    memory.add("trip", "user", "#1 #2 #3 all of them at once")  # near to all three together
    say(memory, 4)
    memory.drain()
    assert topic_of(memory, 1).messages == 7
    memory.unmerge_topic(c)
    memory.add("trip", "user", "#2 #1 and these two at once")  # 0.98 to these two, 0.75 to all three
    memory.drain()
    assert topic_of(memory, 1).messages == 6


def test_a_topic_tells_nothing_of_what_was_parted_from_it(memory: Memory) -> None:
    chat(memory, 1, 4)
    for n in range(6):
        say(memory, 2, f"My piano teacher is called Ingrid and I pay {n}00 euros.")
    chat(memory, 1, 2, first=5)
    memory.drain()
    one, other = topic_of(memory, 1).id, topic_of(memory, 2).id
    memory.merge_topics(one, other)
    memory.drain()
    assert "Ingrid" in (topic_of(memory, 1).summary or "")
    memory.unmerge_topic(other)
    memory.drain()
    assert "Ingrid" in (topic_of(memory, 2).summary or "")
    assert "Ingrid" not in (topic_of(memory, 1).summary or "")


def test_a_topic_is_not_merged_with_itself_or_with_another_conversations(memory: Memory) -> None:
    one, other = two(memory)
    chat(memory, 1, 1, to="elsewhere")
    memory.drain()
    apart = topic_of(memory, 1, to="elsewhere").id
    for pair in ((one, one), (one, apart), (apart, one)):
        with pytest.raises(InvalidInput):
            memory.merge_topics(*pair)
    memory.merge_topics(one, other)
    for pair in ((one, other), (other, one)):
        with pytest.raises(InvalidInput):
            memory.merge_topics(*pair)
    assert len(memory.topics("trip")) == 1


def test_messages_are_split_off_into_a_topic_of_their_own(memory: Memory) -> None:
    ids = chat(memory, 1, 4)
    chat(memory, 2, 1)
    memory.drain()
    topic = topic_of(memory, 1).id
    part = memory.split_topic(topic, [ids[3], ids[2]])
    assert (part.title, part.messages, part.state) == ("#1 question number 2 of this matter", 2, "warm")
    named = memory.split_topic(topic, ids[6:], title="The end")
    assert named.title == "The end"
    found = members(memory)
    assert (found[topic], found[part.id], found[named.id]) == (ids[:2] + ids[4:6], ids[2:4], ids[6:])
    memory.drain()
    adds_up(memory)
    memory.merge_topics(topic, part.id)
    assert members(memory)[topic] == ids[:6]


def test_what_rests_in_the_archive_can_be_split_off_too(open_memory: Open) -> None:
    memory = opened(open_memory, **SMALL)
    say(memory, 9, "this is how it all began")
    ids = chat(memory, 1, 5)
    memory.drain()
    topic = topic_of(memory, 1).id
    part = memory.split_topic(topic, ids[1:4], title="apart")
    memory.drain()
    found = {one.id: one for one in memory.topics("trip")}
    assert (found[part.id].messages, found[part.id].archived_messages) == (3, 3)
    assert (found[topic].messages, found[topic].archived_messages) == (7, 5)
    assert found[part.id].summary
    assert "number 2 of" not in (found[topic].summary or "")
    adds_up(memory)
    assert [m.content for m in memory.topic_history("trip", topic=part.id)] == [
        m.content for m in memory.history("trip") if m.id in ids[1:4]
    ]


def test_a_split_that_cannot_be_is_refused(memory: Memory) -> None:
    one, other = two(memory)
    found = members(memory)
    with pytest.raises(NotFound):
        memory.split_topic(one, ["nowhere"])
    with pytest.raises(NotFound):
        memory.split_topic(one, [found[one][0], found[other][0]])
    with pytest.raises(InvalidInput):
        memory.split_topic(one, found[one])
    with pytest.raises(InvalidInput):
        memory.split_topic(one, [])
    assert members(memory) == found


def test_the_same_messages_can_be_split_off_again(memory: Memory) -> None:
    topic, _ = two(memory)
    first = members(memory)[topic][:2]
    part = memory.split_topic(topic, first)
    memory.merge_topics(topic, part.id)
    again = memory.split_topic(topic, first)
    assert members(memory)[again.id] == first


def test_feedback_raises_and_lowers_importance(memory: Memory) -> None:
    topic, _ = two(memory)
    question, answer = members(memory)[topic][:2]

    def importance() -> float:
        return topic_of(memory, 1).importance

    memory.feedback(question, -1)
    assert importance() == pytest.approx(0.5**0.5)
    memory.feedback(question, -1)  # the newest word counts
    assert importance() == pytest.approx(0.5**0.5)
    memory.feedback(answer, -1)
    assert importance() == 0.5
    memory.feedback(question, 0)
    assert importance() == pytest.approx(0.5**0.5)
    memory.feedback(answer, -1, kind="edited")  # beside the thumb, and half as much
    assert importance() == pytest.approx(0.5**0.75)
    memory.feedback(answer, 0)
    memory.feedback(answer, 0, kind="edited")
    assert importance() == 1.0
    memory.weigh_topic(topic, 0.25)
    memory.feedback(answer, 1)
    memory.feedback(answer, 1, kind="used")
    memory.feedback(question, 1, kind="used")
    assert importance() == 0.5
    assert topic_of(memory, 2).importance == 1.0


def test_what_is_praised_lasts_longer(open_memory: Open, clock: FakeClock) -> None:
    memory = opened(open_memory, max_topics=1)
    praised, _ = two(memory)
    say(memory, 3)
    memory.drain()
    assert topic_of(memory, 1).access_count == 1
    for one in members(memory)[praised]:
        memory.feedback(one, 1)
    topic = topic_of(memory, 1)
    assert (topic.access_count, topic.half_life_days) == (5, 2.0)
    clock.advance(5 * DAY)
    memory.drain()
    assert states(memory) == {"1": "warm", "2": "cold", "3": "active"}


def test_feedback_before_a_message_has_its_topic_counts_when_it_has(memory: Memory) -> None:
    said = say(memory, 1)
    memory.feedback(said, -1)
    memory.drain()
    assert topic_of(memory, 1).importance == pytest.approx(0.5**0.5)
    memory.rebuild()
    assert topic_of(memory, 1).importance == pytest.approx(0.5**0.5)


def test_an_erased_message_lowers_the_importance_of_its_topic(memory: Memory) -> None:
    topic, _ = two(memory)
    memory.erase(message=members(memory)[topic][1])
    memory.drain()
    assert topic_of(memory, 1).importance == pytest.approx(0.5**0.5)


def test_feedback_on_a_message_that_is_not_one_is_refused(memory: Memory) -> None:
    memory.add("one", "user", "#1 hello to all of you", id="m")
    memory.add("two", "user", "#1 hello to all of you", id="m")
    with pytest.raises(NotFound):
        memory.feedback("nowhere", 1)
    with pytest.raises(NotFound):
        memory.feedback("m", 1, conversation="three")
    with pytest.raises(InvalidInput) as caught:
        memory.feedback("m", -1)
    assert caught.value.code == "ambiguous_message"
    memory.feedback("m", -1, conversation="two")
    memory.drain()
    assert [memory.topics(name)[0].importance for name in ("one", "two")] == [1.0, pytest.approx(0.5**0.5)]
    for value, kind in ((2, "thumb"), (-1.1, "thumb"), (math.nan, "thumb"), (1, "liked"), (1, "")):
        with pytest.raises(InvalidInput):
            memory.feedback("m", value, conversation="two", kind=kind)


def test_topics_that_are_alike_are_proposed_for_a_merge(open_memory: Open) -> None:
    memory = opened(open_memory, similarity_threshold=0.95)
    say(memory, 1)
    say(memory, 2, "#1 #1 #1 much like the first")
    say(memory, 3)
    memory.drain()
    assert len(memory.topics("trip")) == 3
    (pair,) = memory.related_topics("trip")
    assert (pair.into.id, pair.topic.id) == (topic_of(memory, 1).id, topic_of(memory, 2).id)
    assert 0.8 <= pair.similarity < 0.95
    memory.merge_topics(pair.into.id, pair.topic.id)
    memory.drain()
    assert memory.related_topics("trip") == []
    assert memory.related_topics("nowhere") == []


def test_topics_are_found_across_conversations_and_within_one(memory: Memory) -> None:
    say(memory, 1, "the marmalade is in the cupboard", to="home", id="a")
    say(memory, 1, "more marmalade must be bought", to="home", id="b")
    say(memory, 2, "the train leaves at nine", to="home")
    say(memory, 1, "marmalade for the picnic", to="trip", id="c")
    memory.drain()
    found = memory.search_topics("marmalade")
    assert [(one.topic.conversation, set(one.message_ids)) for one in found[:2]] == [
        ("home", {"a", "b"}),
        ("trip", {"c"}),
    ]
    assert found[0].score >= found[1].score > 0
    (hit, *_) = memory.search_topics("marmalade", conversation="trip")
    assert (hit.topic.id, hit.message_ids) == (topic_of(memory, 1).id, ("c",))
    assert {one.topic.conversation for one in memory.search_topics("marmalade", conversation="trip")} == {"trip"}
    assert len(memory.search_topics("marmalade", limit=1)) == 1
    assert memory.search_topics("marmalade", limit=0) == []
    assert memory.search_topics("marmalade", conversation="nowhere") == []


def test_a_cold_topic_is_found_by_a_search(memory: Memory) -> None:
    say(memory, 9, "this is how it all began")
    say(memory, 1, "the marmalade is in the cupboard")
    say(memory, 2)
    memory.drain()
    memory.archive_topic(topic_of(memory, 1).id)
    memory.drain()
    hit = memory.search_topics("marmalade cupboard")[0]
    assert (hit.topic.id, hit.topic.state) == (topic_of(memory, 1).id, "cold")


COUNTED = {"messages": "messages", "entries": "entries", "vectors": "vectors", "token_counts": "message_tokens",
           "archived": "archived", "topics": "topics", "topic_messages": "topic_messages",
           "feedback": "feedback"}  # fmt: skip


def rows(location: str) -> dict[str, int]:
    questions = {name: f"SELECT count(*) FROM {table}" for name, table in COUNTED.items()}  # noqa: S608 - as above
    return {name: ask(location, question)[0][0] for name, question in questions.items()}


def test_an_erased_topic_takes_its_messages_and_nothing_else(open_memory: Open, location: str) -> None:
    memory = opened(open_memory, **SMALL)
    for n in range(1, 5):
        chat(memory, 1, 1, first=n)
        say(memory, 2, f"secretword{n} is what I say")
        memory.drain()
    say(memory, 1, "and this is the last", to="other")
    memory.drain()
    memory.feedback(topic_history_ids(memory, 2)[0], 1)
    kept = [m for m in memory.history("trip") if "secretword" not in m.content]
    before, topic = rows(location), topic_of(memory, 2)
    assert topic.archived_messages == 0
    receipt = memory.erase(topic=topic.id)
    after = rows(location)
    assert {name: receipt.counts[name] for name in COUNTED} == {name: before[name] - after[name] for name in COUNTED}
    assert (receipt.counts["messages"], receipt.counts["topics"], receipt.counts["feedback"]) == (4, 1, 1)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.history("trip") == kept
    assert states(memory) == {"1": "warm"} or states(memory) == {"1": "archived"}
    assert not any("secretword" in one.text for one in memory.recall("secretword2"))
    with pytest.raises(NotFound):
        memory.erase(topic=topic.id)
    memory.drain()
    adds_up(memory)
    assert len(memory.history("other")) == 1
    assert all(finding.state == "ok" for finding in memory.check())


def topic_history_ids(memory: Memory, marker: int) -> list[str]:
    return [m.id for m in memory.topic_history("trip", topic=topic_of(memory, marker).id)]


@pytest.mark.parametrize("merged", [False, True])
def test_an_erased_topic_leaves_nothing_in_the_archive(open_memory: Open, location: str, merged: bool) -> None:
    memory = opened(open_memory, **SMALL)
    say(memory, 9, "this is how it all began")
    ids = [say(memory, 1, f"secretword{n} is what I say") for n in range(8)]
    chat(memory, 2, 4)
    memory.drain()
    one, other = topic_of(memory, 1), topic_of(memory, 2)
    assert (one.archived_messages, other.archived_messages) == (6, 6)
    if merged:
        say(memory, 3)
        memory.drain()
        whole = memory.merge_topics(topic_of(memory, 3).id, one.id).id
        memory.drain()
        with pytest.raises(Conflict, match=whole):  # a part of something larger
            memory.erase(topic=one.id)
    before = rows(location)
    receipt = memory.erase(topic=whole if merged else one.id)
    after = rows(location)
    assert {name: receipt.counts[name] for name in COUNTED} == {name: before[name] - after[name] for name in COUNTED}
    memory.drain()
    assert not set(ids) & {m.id for m in memory.history("trip")}
    assert len(memory.topics("trip")) == 2
    told = json.dumps([topic.to_dict() for topic in memory.topics("trip")], default=str)
    assert "secretword" not in told
    adds_up(memory)
    chat(memory, 2, 1)
    memory.drain()
    assert [m.content for m in memory.topic_history("trip")][:8] == [m.content for m in memory.history("trip")][1:9]


def test_an_erased_message_is_not_told_by_the_topic_it_was_merged_into(memory: Memory, location: str) -> None:
    chat(memory, 1, 4)
    for n in range(6):
        say(memory, 2, f"My piano teacher is called Ingrid{n} and I pay {n}00 euros.", id=f"b{n}")
    chat(memory, 1, 2, first=5)
    memory.drain()
    memory.merge_topics(topic_of(memory, 1).id, topic_of(memory, 2).id)
    memory.drain()
    summary = topic_of(memory, 1).summary or ""
    told = [n for n in range(6) if f"Ingrid{n}" in summary]
    assert told
    memory.erase(message=f"b{told[0]}")
    assert f"Ingrid{told[0]}" not in (topic_of(memory, 1).summary or "")
    stored = [bytes(one) for (one,) in ask(location, "SELECT summary FROM topics WHERE summary IS NOT NULL")]
    assert not [one for some in stored for one in from_stored(some) if f"Ingrid{told[0]}" in one.text]
    memory.drain()
    assert f"Ingrid{told[0]}" not in (topic_of(memory, 1).summary or "")


def test_an_erased_opening_gives_its_topic_another_title(memory: Memory) -> None:
    topic, _ = two(memory)
    memory.erase(message=members(memory)[topic][0])
    memory.drain()
    found = next(one for one in memory.topics("trip") if one.id == topic)
    assert (found.title, found.messages) == ("#1 question number 2 of this matter", 3)
    assert "number 1 of" not in json.dumps([one.to_dict() for one in memory.topics("trip")][1:], default=str)


def test_the_talk_goes_on_after_its_topic_was_erased(memory: Memory) -> None:
    _, active = two(memory)
    memory.erase(topic=active)
    assert memory.topic_context("trip") == []
    assert memory.topic_stats("trip") is None
    chat(memory, 1, 1)
    chat(memory, 2, 1)
    memory.drain()
    assert [topic_of(memory, n).messages for n in (1, 2)] == [6, 2]
    adds_up(memory)


# What others may see


BY_TOPIC: dict[str, Callable[[Memory, str], object]] = {
    "topic_context": lambda memory, topic: memory.topic_context("trip", topic=topic),
    "topic_history": lambda memory, topic: memory.topic_history("trip", topic=topic),
    "topic_history at hand": lambda memory, topic: memory.topic_history("trip", topic=topic, include_archived=False),
    "topic_stats": lambda memory, topic: memory.topic_stats("trip", topic=topic),
    "topic_decay": lambda memory, topic: memory.topic_decay(topic),
    "merge_topics into": lambda memory, topic: memory.merge_topics(topic, topic_of(memory, 1).id),
    "merge_topics from": lambda memory, topic: memory.merge_topics(topic_of(memory, 1).id, topic),
    "unmerge_topic": lambda memory, topic: memory.unmerge_topic(topic),
    "split_topic": lambda memory, topic: memory.split_topic(topic, ["theirs"]),
    "tag_topic": lambda memory, topic: memory.tag_topic(topic, ["x"]),
    "pin_topic": lambda memory, topic: memory.pin_topic(topic),
    "rename_topic": lambda memory, topic: memory.rename_topic(topic, "x"),
    "weigh_topic": lambda memory, topic: memory.weigh_topic(topic, 0.1),
    "archive_topic": lambda memory, topic: memory.archive_topic(topic),
    "restore_topic": lambda memory, topic: memory.restore_topic(topic),
    "erase": lambda memory, topic: memory.erase(topic=topic),
}


@pytest.mark.parametrize("call", BY_TOPIC.values(), ids=BY_TOPIC)
def test_a_topic_of_somebody_else_is_not_there(open_memory: Open, call: Callable[[Memory, str], object]) -> None:
    sara, omar = opened(open_memory, person="sara"), opened(open_memory, person="omar")
    for memory in (sara, omar):
        say(memory, 1, "something of my own")
    say(sara, 2, "the canary sings at dawn", id="theirs")
    sara.add("trip", "assistant", "#2 what a nice canary")
    sara.drain()
    before, foreign = sara.topics("trip"), topic_of(sara, 2).id
    told = []
    for name in (foreign, "t-000000000000000000000000", "nowhere"):
        with pytest.raises(NotFound) as caught:
            call(omar, name)
        assert "canary" not in str(caught.value)
        told.append((caught.value.code, str(caught.value).replace(name, "")))
    assert len(set(told)) == 1  # not even that it exists
    assert sara.topics("trip") == before
    with pytest.raises(NotFound):
        omar.feedback("theirs", 1)


def test_two_people_with_a_conversation_of_the_same_name_have_topics_of_their_own(open_memory: Open) -> None:
    sara, omar = opened(open_memory, person="sara"), opened(open_memory, person="omar")
    chat(sara, 1, 2)
    say(sara, 2, "the canary sings at dawn")
    sara.drain()
    assert (omar.topics("trip"), omar.topic_history("trip"), omar.topic_context("trip")) == ([], [], [])
    assert (omar.topic_stats("trip"), omar.related_topics("trip"), omar.search_topics("canary")) == (None, [], [])
    assert omar.search_topics("canary", conversation="trip") == []
    say(omar, 1)
    omar.drain()
    assert [one.messages for one in omar.topics("trip")] == [1]
    assert topic_of(sara, 1).messages == 4
    assert topic_of(omar, 1).id != topic_of(sara, 1).id
    assert [one.topic.id for one in omar.search_topics("canary")] in ([], [topic_of(omar, 1).id])


def test_a_topic_is_not_in_another_conversation(memory: Memory) -> None:
    topic, _ = two(memory)
    say(memory, 1, to="elsewhere")
    memory.drain()
    for call in (memory.topic_context, memory.topic_history, memory.topic_stats):
        with pytest.raises(NotFound):
            call("elsewhere", topic=topic)


def test_a_conversation_without_topics_yet_has_none(memory: Memory) -> None:
    assert memory.topics("nowhere") == []
    say(memory, 1)
    assert (memory.topics("trip"), memory.topic_history("trip"), memory.topic_context("trip")) == ([], [], [])
    assert memory.topic_stats("trip") is None


# 7. Wrong arguments


Call = Callable[[Memory, str, Any], object]
NAMES: dict[str, Call] = {
    "topics": lambda memory, topic, wrong: memory.topics(wrong),
    "topic_context": lambda memory, topic, wrong: memory.topic_context(wrong),
    "topic_history": lambda memory, topic, wrong: memory.topic_history(wrong),
    "topic_stats": lambda memory, topic, wrong: memory.topic_stats(wrong),
    "related_topics": lambda memory, topic, wrong: memory.related_topics(wrong),
    "topic_decay": lambda memory, topic, wrong: memory.topic_decay(wrong),
    "merge_topics into": lambda memory, topic, wrong: memory.merge_topics(wrong, topic),
    "merge_topics": lambda memory, topic, wrong: memory.merge_topics(topic, wrong),
    "unmerge_topic": lambda memory, topic, wrong: memory.unmerge_topic(wrong),
    "split_topic": lambda memory, topic, wrong: memory.split_topic(wrong, ["m"]),
    "split_topic, one message": lambda memory, topic, wrong: memory.split_topic(topic, [wrong]),
    "tag_topic": lambda memory, topic, wrong: memory.tag_topic(wrong, []),
    "tag_topic, one tag": lambda memory, topic, wrong: memory.tag_topic(topic, [wrong]),
    "pin_topic": lambda memory, topic, wrong: memory.pin_topic(wrong),
    "rename_topic": lambda memory, topic, wrong: memory.rename_topic(wrong, "x"),
    "weigh_topic": lambda memory, topic, wrong: memory.weigh_topic(wrong, 1),
    "archive_topic": lambda memory, topic, wrong: memory.archive_topic(wrong),
    "restore_topic": lambda memory, topic, wrong: memory.restore_topic(wrong),
    "feedback": lambda memory, topic, wrong: memory.feedback(wrong, 1),
}
OPTIONAL_NAMES: dict[str, Call] = {
    "topic_context, topic": lambda memory, topic, wrong: memory.topic_context("trip", topic=wrong),
    "topic_history, topic": lambda memory, topic, wrong: memory.topic_history("trip", topic=wrong),
    "topic_stats, topic": lambda memory, topic, wrong: memory.topic_stats("trip", topic=wrong),
    "search_topics, conversation": lambda memory, topic, wrong: memory.search_topics("x", conversation=wrong),
    "feedback, conversation": lambda memory, topic, wrong: memory.feedback("m", 1, conversation=wrong),
    "erase, topic": lambda memory, topic, wrong: memory.erase(topic=wrong),
}
VALUES: dict[str, tuple[Call, list[Any]]] = {
    "search_topics": (lambda memory, topic, wrong: memory.search_topics(wrong), [None, 5, b"x", ["x"], {}]),
    "search_topics, limit": (
        lambda memory, topic, wrong: memory.search_topics("x", limit=wrong), [None, "5", 1.5, -1, True, [1], math.nan]
    ),
    "topic_decay, days": (
        lambda memory, topic, wrong: memory.topic_decay(topic, days=wrong),
        ["1", 0, -1, math.nan, math.inf, [1], True, 10**400],
    ),
    "topic_decay, points": (
        lambda memory, topic, wrong: memory.topic_decay(topic, points=wrong), [None, "5", 1, 2.5, True, [5]]
    ),
    "split_topic, messages": (
        lambda memory, topic, wrong: memory.split_topic(topic, wrong), ["m", None, 5, True, [], [5], [["m"]], b"m"]
    ),
    "split_topic, title": (
        lambda memory, topic, wrong: memory.split_topic(topic, ["m"], title=wrong), [5, b"x", ["x"], "x" * 501]
    ),
    "tag_topic, tags": (
        lambda memory, topic, wrong: memory.tag_topic(topic, wrong), ["x", None, 5, True, [None], [["x"]], b"x", ["\0"]]
    ),
    "pin_topic, pinned": (lambda memory, topic, wrong: memory.pin_topic(topic, pinned=wrong), ["no", None, 2, [False]]),
    "rename_topic, title": (
        lambda memory, topic, wrong: memory.rename_topic(topic, wrong), [None, 5, b"x", ["x"], "x" * 501]
    ),
    "weigh_topic, importance": (
        lambda memory, topic, wrong: memory.weigh_topic(topic, wrong),
        [None, "1", True, -0.1, 1.1, math.nan, math.inf, [1], 1j],
    ),
    "feedback, value": (
        lambda memory, topic, wrong: memory.feedback("m", wrong), [None, "1", True, 1.1, math.nan, [1], 1j]
    ),
    "feedback, kind": (
        lambda memory, topic, wrong: memory.feedback("m", 1, kind=wrong), [None, "liked", 5, True, [], {}, ["thumb"]]
    ),
    "topic_history, include_archived": (
        lambda memory, topic, wrong: memory.topic_history("trip", include_archived=wrong), ["no", None, 2, [False]]
    ),
}  # fmt: skip
WRONG_NAMES = [5, 1.5, True, b"trip", ["trip"], {"a": 1}, "", "  ", "x\0y", "x" * 201, "\ud800"]


def refused(memory: Memory, call: Call, wrong: list[Any]) -> None:
    """Every one of these is refused, as what it is and not by accident."""
    say(memory, 1, "this is the only message", id="m")
    memory.drain()
    before, said = memory.topics("trip"), memory.history("trip")
    outcomes = {}
    for value in wrong:
        try:
            outcomes[repr(value)[:40]] = f"accepted: {call(memory, before[0].id, value)!r}"[:80]
        except InvalidInput:
            pass
        except Exception as error:  # noqa: BLE001 - what came instead is told
            outcomes[repr(value)[:40]] = repr(error)
    assert outcomes == {}
    assert memory.topics("trip") == before
    assert memory.history("trip") == said


@pytest.mark.parametrize("call", [*NAMES.values(), *OPTIONAL_NAMES.values()], ids=[*NAMES, *OPTIONAL_NAMES])
def test_a_name_or_id_that_is_none_is_refused(memory: Memory, call: Call) -> None:
    refused(memory, call, [*WRONG_NAMES, *([None] if call in NAMES.values() else [])])


@pytest.mark.parametrize(("call", "wrong"), VALUES.values(), ids=VALUES)
def test_a_value_of_a_wrong_kind_is_refused(memory: Memory, call: Call, wrong: list[Any]) -> None:
    refused(memory, call, wrong)


def test_importance_that_is_none_is_refused_with_a_message(memory: Memory) -> None:
    for wrong in ("1", True, -0.1, 1.1, math.nan, [1]):
        with pytest.raises(InvalidInput):
            say(memory, 1, importance=wrong)
    assert memory.history("trip") == list[Message]()
