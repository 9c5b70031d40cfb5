"""Topics that are merged, parted and split: whose messages they are, which is spoken of, and what folds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recollect import Conflict, InvalidInput, Memory, NotFound, ProviderUnavailable
from recollect.testing import FakeClock
from support.talks import SMALL, Directions, Open, adds_up, chat, members, opened, say, states, topic_of, two

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return opened(open_memory)


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


def test_what_is_spoken_of_does_not_rest_because_it_was_merged_into_what_does(memory: Memory) -> None:
    cold, active = two(memory)
    memory.archive_topic(cold)
    memory.drain()
    merged = memory.merge_topics(cold, active)
    memory.drain()
    assert (merged.state, memory.topic(cold).state, memory.topic(cold).archived_messages) == ("active", "active", 0)
    assert len(memory.topic_context("trip")) == 8
    memory.unmerge_topic(active)
    memory.drain()
    assert (memory.topic(active).state, memory.topic(active).messages) == ("active", 4)
    adds_up(memory)


def test_two_topics_that_rest_rest_as_one(memory: Memory) -> None:
    one, other = two(memory)
    say(memory, 3)
    memory.drain()
    memory.archive_topic(one)
    assert memory.merge_topics(other, one).state == "warm"
    memory.unmerge_topic(one)
    memory.archive_topic(other)
    assert memory.merge_topics(other, one).state == "cold"


def test_a_topic_that_came_back_folds_again_though_it_was_merged_and_parted(open_memory: Open) -> None:
    memory = opened(open_memory, **SMALL)
    chat(memory, 9)
    chat(memory, 1, 5)
    chat(memory, 2)
    memory.drain()
    say(memory, 1, "back to this old matter again")
    memory.drain()
    back, other = topic_of(memory, 1), topic_of(memory, 2)
    assert (back.state, back.active_messages) == ("active", 11)
    memory.merge_topics(other.id, back.id)
    memory.drain()
    chat(memory, 3)
    memory.drain()
    memory.unmerge_topic(back.id)
    memory.drain()
    parted = memory.topic(back.id)
    assert (parted.state, parted.messages) == ("archived", 11)
    assert parted.active_messages <= SMALL["recent_message_keep"]
    adds_up(memory)


def test_what_is_split_off_a_merged_topic_takes_accesses_from_where_they_were(memory: Memory) -> None:
    root, part = two(memory)
    moved = members(memory)[part][2:]
    before = [memory.topic(one).access_count for one in (root, part)]
    memory.merge_topics(root, part)
    memory.split_topic(root, moved)
    memory.unmerge_topic(part)
    assert [memory.topic(one).access_count for one in (root, part)] == [before[0], before[1] - 1]


def test_the_same_messages_can_be_split_off_again_after_a_restore(
    open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory = opened(open_memory)
    topic, _ = two(memory)
    moved = members(memory)[topic][:1]
    part = memory.split_topic(topic, moved)
    memory.merge_topics(topic, part.id)
    memory.backup(tmp_path / "copy.backup")
    memory.restore(tmp_path / "copy.backup")
    again = memory.split_topic(topic, moved)
    assert again.id not in (topic, part.id)
    assert again.messages == 1


def test_what_waits_for_its_messages_is_not_merged_split_or_erased(open_memory: Open) -> None:
    embedder = Directions()
    memory = opened(open_memory, embedder=embedder)
    topic, other = two(memory)
    before = members(memory)
    for one in (topic, other):
        memory.pin_topic(one)
    embedder.failure = ProviderUnavailable("embedder_down", "away")
    memory.rebuild()
    calls: list[Callable[[], object]] = [
        lambda: memory.merge_topics(topic, other),
        lambda: memory.split_topic(topic, before[topic][:1]),
        lambda: memory.erase(topic=topic),
    ]
    for call in calls:
        with pytest.raises(Conflict) as refused:
            call()
        assert (refused.value.code, refused.value.retryable) == ("topic_being_rebuilt", True)
    embedder.failure = None
    assert memory.drain().complete
    assert members(memory) == before
    assert memory.merge_topics(topic, other).messages == 8


def test_a_topic_that_came_back_folds_again_when_what_is_spoken_of_is_split_off(open_memory: Open) -> None:
    memory = opened(open_memory, **SMALL)
    chat(memory, 9)
    chat(memory, 1, 5)
    chat(memory, 2)
    memory.drain()
    newest = say(memory, 1, "back to this old matter again")
    memory.drain()
    topic = topic_of(memory, 1)
    assert (topic.state, topic.active_messages) == ("active", 11)
    part = memory.split_topic(topic.id, [newest])
    memory.drain()
    assert (part.state, memory.topic(topic.id).state) == ("active", "archived")
    assert memory.topic(topic.id).active_messages <= SMALL["recent_message_keep"]
    adds_up(memory)


def test_what_is_split_off_is_spoken_of_if_it_takes_the_active_part_along(memory: Memory) -> None:
    chat(memory, 1, 2)
    part = chat(memory, 2)
    chat(memory, 3)
    last = chat(memory, 2, first=5)
    memory.drain()
    into = topic_of(memory, 1).id
    merged = memory.merge_topics(into, topic_of(memory, 2).id)
    for message in last:  # so that the newest message is another topic's
        memory.erase(message=message)
    assert (merged.state, memory.topic(into).state) == ("active", "active")
    made = memory.split_topic(into, part)
    assert made.state == "active"
    assert memory.topic_context("trip")
    adds_up(memory)


def test_a_topic_that_takes_over_a_part_was_last_spoken_of_when_that_was(memory: Memory, clock: FakeClock) -> None:
    chat(memory, 2, 2)
    memory.drain()
    then = clock.now()
    clock.advance(40 * DAY)
    new = chat(memory, 1, 2)
    chat(memory, 3)
    memory.drain()
    into, part = topic_of(memory, 1).id, topic_of(memory, 2).id
    memory.merge_topics(into, part)
    memory.split_topic(into, new)
    assert memory.topic(into).last_active_at == then


def test_no_topic_becomes_active_because_a_message_is_gone(memory: Memory) -> None:
    said = chat(memory, 1, 3)
    chat(memory, 2, 2)
    memory.drain()
    late = say(memory, 1, "soon to be erased")
    memory.erase(message=said[2])
    memory.erase(topic=topic_of(memory, 2).id)
    memory.erase(message=late)
    memory.drain()
    assert states(memory) == {"1": "warm"}


def test_a_part_that_was_brought_back_by_hand_brings_the_whole_back(open_memory: Open) -> None:
    memory = opened(open_memory, **SMALL)
    chat(memory, 9)
    chat(memory, 1, 4)
    chat(memory, 2)
    chat(memory, 3)
    memory.drain()
    part, into = topic_of(memory, 1).id, topic_of(memory, 2).id
    memory.restore_topic(part)
    memory.merge_topics(into, part)
    memory.drain()
    assert (memory.topic(into).state, memory.topic(into).active_messages) == ("warm", 10)
