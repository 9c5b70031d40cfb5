"""Topics that are merged, unmerged and split: their messages, which one is active, and what folds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recollect import Conflict, InvalidInput, Memory, NotFound, ProviderUnavailable
from recollect.testing import FakeClock
from support.talks import (
    SMALL_TOPICS,
    MarkerEmbedder,
    OpenMemory,
    add_message,
    add_turns,
    add_two_topics,
    check_assignment,
    message_ids_by_topic,
    open_for_topics,
    states_by_marker,
    topic_of_marker,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_for_topics(open_memory)


def test_merged_topics_are_one_and_can_be_unmerged(memory: Memory) -> None:
    first, other = add_two_topics(memory)
    before = message_ids_by_topic(memory)
    merged = memory.merge_topics(first, other)
    assert (merged.id, merged.merged, merged.messages, merged.access_count) == (first, (other,), 8, 2)
    assert merged.state == "active"
    assert [m.id for m in memory.topic_history("trip")] == before[first] + before[other]
    assert memory.topic_history("trip", topic=other) == memory.topic_history("trip", topic=first)
    assert len(memory.topics("trip")) == 1
    check_assignment(memory)
    parted = memory.unmerge_topic(other)
    assert (parted.id, parted.merged, parted.messages) == (other, (), 4)
    assert message_ids_by_topic(memory) == before
    with pytest.raises(Conflict):
        memory.unmerge_topic(other)
    with pytest.raises(Conflict):
        memory.unmerge_topic(first)


def test_messages_that_joined_a_merged_topic_stay_with_it_after_an_unmerge(memory: Memory) -> None:
    first, other = add_two_topics(memory)
    before = message_ids_by_topic(memory)
    memory.merge_topics(first, other)
    memory.drain()
    later = [memory.add("trip", "user", "#1 #2 both of them at once").id, *add_turns(memory, 3, 1)]
    later[1:1] = [memory.add("trip", "user", "#1 #2 both of them again").id]
    memory.drain()
    assert topic_of_marker(memory, 1).messages == 10
    memory.unmerge_topic(other)
    memory.drain()
    after = message_ids_by_topic(memory)
    assert after[other] == before[other]
    assert after[first] == before[first] + later[:2]
    check_assignment(memory)
    add_message(memory, 2)
    add_message(memory, 1)
    memory.drain()
    assert (topic_of_marker(memory, 2).messages, topic_of_marker(memory, 1).messages) == (5, 7)


def test_merges_can_be_chained_and_undone_one_by_one(memory: Memory) -> None:
    for marker in (1, 2, 3, 4):
        add_turns(memory, marker, 1)
    memory.drain()
    a, b, c, d = (topic_of_marker(memory, n).id for n in (1, 2, 3, 4))
    before = message_ids_by_topic(memory)
    memory.merge_topics(b, c)
    memory.merge_topics(a, b)
    assert set(memory.merge_topics(d, c).merged) == {a, b, c}  # c is part of a by now
    assert len(memory.topics("trip")) == 1
    for topic in (a, b, c):
        memory.unmerge_topic(topic)
    memory.drain()
    assert message_ids_by_topic(memory) == before
    check_assignment(memory)


def test_the_centroid_of_a_topic_changes_when_a_part_of_its_part_is_unmerged(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, similarity_threshold=0.9)
    for marker in (1, 2, 3):
        add_turns(memory, marker, 1)
    memory.drain()
    a, b, c = (topic_of_marker(memory, n).id for n in (1, 2, 3))
    memory.merge_topics(b, c)
    memory.merge_topics(a, b)
    memory.add("trip", "user", "#1 #2 #3 all of them at once")  # near to all three together
    add_message(memory, 4)
    memory.drain()
    assert topic_of_marker(memory, 1).messages == 7
    memory.unmerge_topic(c)
    memory.add("trip", "user", "#2 #1 and these two at once")  # 0.98 to these two, 0.75 to all three
    memory.drain()
    assert topic_of_marker(memory, 1).messages == 6


def test_a_summary_has_nothing_of_a_topic_that_was_unmerged(memory: Memory) -> None:
    add_turns(memory, 1, 4)
    for n in range(6):
        add_message(memory, 2, f"My piano teacher is called Ingrid and I pay {n}00 euros.")
    add_turns(memory, 1, 2, first=5)
    memory.drain()
    first, other = topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id
    memory.merge_topics(first, other)
    memory.drain()
    assert "Ingrid" in (topic_of_marker(memory, 1).summary or "")
    memory.unmerge_topic(other)
    memory.drain()
    assert "Ingrid" in (topic_of_marker(memory, 2).summary or "")
    assert "Ingrid" not in (topic_of_marker(memory, 1).summary or "")


def test_a_topic_is_not_merged_with_itself_or_with_another_conversations(memory: Memory) -> None:
    first, other = add_two_topics(memory)
    add_turns(memory, 1, 1, to="elsewhere")
    memory.drain()
    apart = topic_of_marker(memory, 1, to="elsewhere").id
    for pair in ((first, first), (first, apart), (apart, first)):
        with pytest.raises(InvalidInput):
            memory.merge_topics(*pair)
    memory.merge_topics(first, other)
    for pair in ((first, other), (other, first)):
        with pytest.raises(InvalidInput):
            memory.merge_topics(*pair)
    assert len(memory.topics("trip")) == 1


def test_messages_are_split_off_into_a_topic_of_their_own(memory: Memory) -> None:
    ids = add_turns(memory, 1, 4)
    add_turns(memory, 2, 1)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    part = memory.split_topic(topic, [ids[3], ids[2]])
    assert (part.title, part.messages, part.state) == ("#1 question number 2 of this matter", 2, "warm")
    named = memory.split_topic(topic, ids[6:], title="The end")
    assert named.title == "The end"
    found = message_ids_by_topic(memory)
    assert (found[topic], found[part.id], found[named.id]) == (ids[:2] + ids[4:6], ids[2:4], ids[6:])
    memory.drain()
    check_assignment(memory)
    memory.merge_topics(topic, part.id)
    assert message_ids_by_topic(memory)[topic] == ids[:6]


def test_archived_messages_can_be_split_off_too(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_message(memory, 9, "this is how it all began")
    ids = add_turns(memory, 1, 5)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    part = memory.split_topic(topic, ids[1:4], title="apart")
    memory.drain()
    found = {topic.id: topic for topic in memory.topics("trip")}
    assert (found[part.id].messages, found[part.id].archived_messages) == (3, 3)
    assert (found[topic].messages, found[topic].archived_messages) == (7, 5)
    assert found[part.id].summary
    assert "number 2 of" not in (found[topic].summary or "")
    check_assignment(memory)
    assert [m.content for m in memory.topic_history("trip", topic=part.id)] == [
        m.content for m in memory.history("trip") if m.id in ids[1:4]
    ]


def test_an_impossible_split_is_refused(memory: Memory) -> None:
    first, other = add_two_topics(memory)
    found = message_ids_by_topic(memory)
    with pytest.raises(NotFound):
        memory.split_topic(first, ["nowhere"])
    with pytest.raises(NotFound):
        memory.split_topic(first, [found[first][0], found[other][0]])
    with pytest.raises(InvalidInput):
        memory.split_topic(first, found[first])
    with pytest.raises(InvalidInput):
        memory.split_topic(first, [])
    assert message_ids_by_topic(memory) == found


def test_the_same_messages_can_be_split_off_again(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    first = message_ids_by_topic(memory)[topic][:2]
    part = memory.split_topic(topic, first)
    memory.merge_topics(topic, part.id)
    again = memory.split_topic(topic, first)
    assert message_ids_by_topic(memory)[again.id] == first


def test_the_active_topic_stays_active_when_it_is_merged_into_a_cold_one(memory: Memory) -> None:
    cold, active = add_two_topics(memory)
    memory.archive_topic(cold)
    memory.drain()
    merged = memory.merge_topics(cold, active)
    memory.drain()
    assert (merged.state, memory.topic(cold).state, memory.topic(cold).archived_messages) == ("active", "active", 0)
    assert len(memory.topic_context("trip")) == 8
    memory.unmerge_topic(active)
    memory.drain()
    assert (memory.topic(active).state, memory.topic(active).messages) == ("active", 4)
    check_assignment(memory)


def test_a_merged_topic_is_cold_only_if_both_were(memory: Memory) -> None:
    first, other = add_two_topics(memory)
    add_message(memory, 3)
    memory.drain()
    memory.archive_topic(first)
    assert memory.merge_topics(other, first).state == "warm"
    memory.unmerge_topic(first)
    memory.archive_topic(other)
    assert memory.merge_topics(other, first).state == "cold"


def test_a_topic_that_came_back_folds_again_after_a_merge_and_an_unmerge(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_turns(memory, 9)
    add_turns(memory, 1, 5)
    add_turns(memory, 2)
    memory.drain()
    add_message(memory, 1, "back to this old matter again")
    memory.drain()
    back, other = topic_of_marker(memory, 1), topic_of_marker(memory, 2)
    assert (back.state, back.active_messages) == ("active", 11)
    memory.merge_topics(other.id, back.id)
    memory.drain()
    add_turns(memory, 3)
    memory.drain()
    memory.unmerge_topic(back.id)
    memory.drain()
    parted = memory.topic(back.id)
    assert (parted.state, parted.messages) == ("archived", 11)
    assert parted.active_messages <= SMALL_TOPICS["recent_message_keep"]
    check_assignment(memory)


def test_messages_split_off_a_merged_topic_take_their_accesses_from_the_right_part(memory: Memory) -> None:
    root, part = add_two_topics(memory)
    moved = message_ids_by_topic(memory)[part][2:]
    before = [memory.topic(each).access_count for each in (root, part)]
    memory.merge_topics(root, part)
    memory.split_topic(root, moved)
    memory.unmerge_topic(part)
    assert [memory.topic(each).access_count for each in (root, part)] == [before[0], before[1] - 1]


def test_the_same_messages_can_be_split_off_again_after_a_restore(
    open_memory: OpenMemory, location: str, tmp_path: Path
) -> None:
    memory = open_for_topics(open_memory)
    topic, _ = add_two_topics(memory)
    moved = message_ids_by_topic(memory)[topic][:1]
    part = memory.split_topic(topic, moved)
    memory.merge_topics(topic, part.id)
    memory.backup(tmp_path / "copy.backup")
    memory.restore(tmp_path / "copy.backup")
    again = memory.split_topic(topic, moved)
    assert again.id not in (topic, part.id)
    assert again.messages == 1


def test_a_topic_that_awaits_its_messages_is_not_merged_split_or_erased(open_memory: OpenMemory) -> None:
    embedder = MarkerEmbedder()
    memory = open_for_topics(open_memory, embedder=embedder)
    topic, other = add_two_topics(memory)
    before = message_ids_by_topic(memory)
    for each in (topic, other):
        memory.pin_topic(each)
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
    assert message_ids_by_topic(memory) == before
    assert memory.merge_topics(topic, other).messages == 8


def test_a_topic_that_came_back_folds_again_when_its_active_part_is_split_off(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_turns(memory, 9)
    add_turns(memory, 1, 5)
    add_turns(memory, 2)
    memory.drain()
    newest = add_message(memory, 1, "back to this old matter again")
    memory.drain()
    topic = topic_of_marker(memory, 1)
    assert (topic.state, topic.active_messages) == ("active", 11)
    part = memory.split_topic(topic.id, [newest])
    memory.drain()
    assert (part.state, memory.topic(topic.id).state) == ("active", "archived")
    assert memory.topic(topic.id).active_messages <= SMALL_TOPICS["recent_message_keep"]
    check_assignment(memory)


def test_a_topic_split_off_is_active_if_it_takes_the_active_part_along(memory: Memory) -> None:
    add_turns(memory, 1, 2)
    part = add_turns(memory, 2)
    add_turns(memory, 3)
    last = add_turns(memory, 2, first=5)
    memory.drain()
    into = topic_of_marker(memory, 1).id
    merged = memory.merge_topics(into, topic_of_marker(memory, 2).id)
    for message in last:  # so that the newest message is another topic's
        memory.erase(message=message)
    assert (merged.state, memory.topic(into).state) == ("active", "active")
    made = memory.split_topic(into, part)
    assert made.state == "active"
    assert memory.topic_context("trip")
    check_assignment(memory)


def test_a_topic_that_takes_over_a_part_has_the_last_active_time_of_the_part(memory: Memory, clock: FakeClock) -> None:
    add_turns(memory, 2, 2)
    memory.drain()
    then = clock.now()
    clock.advance(40 * DAY)
    new = add_turns(memory, 1, 2)
    add_turns(memory, 3)
    memory.drain()
    into, part = topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id
    memory.merge_topics(into, part)
    memory.split_topic(into, new)
    assert memory.topic(into).last_active_at == then


def test_no_topic_becomes_active_because_a_message_is_erased(memory: Memory) -> None:
    said = add_turns(memory, 1, 3)
    add_turns(memory, 2, 2)
    memory.drain()
    late = add_message(memory, 1, "soon to be erased")
    memory.erase(message=said[2])
    memory.erase(topic=topic_of_marker(memory, 2).id)
    memory.erase(message=late)
    memory.drain()
    assert states_by_marker(memory) == {"1": "warm"}


def test_a_part_restored_by_hand_restores_the_whole(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_turns(memory, 9)
    add_turns(memory, 1, 4)
    add_turns(memory, 2)
    add_turns(memory, 3)
    memory.drain()
    part, into = topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id
    memory.restore_topic(part)
    memory.merge_topics(into, part)
    memory.drain()
    assert (memory.topic(into).state, memory.topic(into).active_messages) == ("warm", 10)


# Merges that nobody asks for one by one


def open_merging(open_memory: OpenMemory, **options: object) -> Memory:
    return open_for_topics(open_memory, similarity_threshold=0.95, topic_merge_threshold=0.8, **options)


def add_alike(memory: Memory) -> None:
    """Add two topics that are alike and one that is not."""
    add_message(memory, 1)
    add_message(memory, 2, "#1 #1 #1 much like the first")
    add_message(memory, 3)
    memory.drain()


def test_topics_that_are_alike_are_merged_by_themselves_only_where_that_is_wanted(open_memory: OpenMemory) -> None:
    plain = open_for_topics(open_memory, similarity_threshold=0.95)
    add_alike(plain)
    assert len(plain.topics("trip")) == 3
    memory = open_merging(open_memory, person="omar")
    add_alike(memory)
    assert [topic.messages for topic in memory.topics("trip")] == [1, 2]
    assert len(topic_of_marker(memory, 1).merged) == 1
    assert memory.related_topics("trip") == []
    check_assignment(memory)
    memory.rebuild()
    memory.drain()
    assert len(memory.topics("trip")) == 2


def test_topics_that_somebody_took_apart_are_never_merged_again_by_themselves(
    open_memory: OpenMemory, tmp_path: Path
) -> None:
    memory = open_merging(open_memory)
    add_alike(memory)
    (part,) = topic_of_marker(memory, 1).merged
    memory.unmerge_topic(part)
    for marker in (1, 3):
        add_message(memory, marker, "more of it")
        memory.drain()
    assert len(memory.topics("trip")) == 3
    memory.backup(tmp_path / "copy.db")
    memory.restore(tmp_path / "copy.db")
    add_message(memory, 3, "and more")
    memory.drain()
    assert len(memory.topics("trip")) == 3


@pytest.mark.parametrize("mark", ["title", "tag", "pin"])
def test_a_topic_that_somebody_marked_does_not_vanish_in_another(open_memory: OpenMemory, mark: str) -> None:
    memory = open_for_topics(open_memory, similarity_threshold=0.95)
    add_alike(memory)
    marked = topic_of_marker(memory, 2).id
    if mark == "title":
        memory.change_topic(marked, title="Mine")
    elif mark == "tag":
        memory.tag_topic(marked, ["mine"])
    else:
        memory.pin_topic(marked)
    memory.change_settings(topic_merge_threshold=0.8)
    add_message(memory, 3, "more of it")
    memory.drain()
    assert marked in {topic.id for topic in memory.topics("trip")}
