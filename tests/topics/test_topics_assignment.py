"""Messages are assigned to topics, and to the same topics again by a rebuild."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from recollect import Memory, ProviderUnavailable
from recollect.testing import FakeClock
from support.talks import (
    SMALL_TOPICS,
    MarkerEmbedder,
    OpenMemory,
    add_message,
    add_turns,
    check_assignment,
    fields_after_rebuild,
    message_ids_by_topic,
    open_for_topics,
    states_by_marker,
    topic_of_marker,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_for_topics(open_memory)


# Assigning


def test_messages_join_open_and_return(memory: Memory) -> None:
    for marker in (1, 1, 2, 1, 3, 2):
        add_message(memory, marker)
    add_message(memory, 1, "#1 #2 nearly the same as before")
    memory.drain()
    seqs = [[m.seq for m in memory.topic_history("trip", topic=topic_of_marker(memory, n).id)] for n in (1, 2, 3)]
    assert seqs == [[1, 2, 4, 7], [3, 6], [5]]
    assert states_by_marker(memory) == {"1": "active", "2": "warm", "3": "warm"}


def test_the_threshold_is_a_setting(open_memory: OpenMemory) -> None:
    """#1 and #1 #1 #2 are at 0.894."""
    for threshold, topics in ((0.88, 1), (0.91, 2)):
        memory = open_for_topics(open_memory, similarity_threshold=threshold)
        name = f"at {threshold}"
        add_message(memory, 1, to=name)
        add_message(memory, 1, "#1 #2 another matter it is", to=name)
        memory.drain()
        assert len(memory.topics(name)) == topics


def test_answers_and_tools_follow_the_active_topic(memory: Memory) -> None:
    add_message(memory, 1)
    add_message(memory, 2)
    memory.add("trip", "assistant", "#2 I shall look", tool_calls=[{"id": "c", "function": {"name": "f"}}])
    memory.add("trip", "tool", "#1 this is what was found", tool_call_id="c")
    memory.add("trip", "assistant", "#1 #2 #2 #2 so it is")
    memory.add("trip", "system", "#3 be kind to all of them")
    memory.drain()
    assert [m.seq for m in memory.topic_history("trip")] == [2, 3, 4, 5], "the system's words belong to no topic"
    assert topic_of_marker(memory, 1).messages == 1


def test_a_conversation_that_begins_with_the_system_has_the_topic_of_what_follows(memory: Memory) -> None:
    memory.add("trip", "system", "you are helpful and kind")
    memory.add("trip", "assistant", "#1 how can I help you")
    add_message(memory, 1)
    memory.drain()
    check_assignment(memory)
    assert [topic.title for topic in memory.topics("trip")] == ["#1 how can I help you"]


def test_a_title_is_the_first_80_characters(memory: Memory) -> None:
    text = "#1  where\nto eat " + "well " * 40
    memory.add("trip", "user", text)
    memory.drain()
    (topic,) = memory.topics("trip")
    assert topic.title == " ".join(text.split())[:80].strip()


def test_a_reply_may_dissolve_a_new_topic(memory: Memory) -> None:
    """Question and answer together are near to the first topic."""
    add_message(memory, 1)
    memory.drain()
    memory.add("trip", "user", "#1 #2 #2 now this is different")
    memory.drain()
    assert len(memory.topics("trip")) == 2
    memory.add("trip", "assistant", "#1 #1 #1 no it is not")
    memory.drain()
    (topic,) = memory.topics("trip")
    assert (topic.messages, topic.access_count, topic.state) == (3, 1, "active")
    check_assignment(memory)


def test_messages_of_the_user_are_accesses_and_answers_are_not(memory: Memory) -> None:
    add_turns(memory, 1, 3)
    add_turns(memory, 2, 1)
    add_turns(memory, 1, 4, first=4)
    memory.drain()
    assert (topic_of_marker(memory, 1).access_count, topic_of_marker(memory, 2).access_count) == (6, 0)
    assert (topic_of_marker(memory, 1).memory_type, topic_of_marker(memory, 2).memory_type) == ("medium", "short")


def test_access_counts_do_not_depend_on_how_often_the_worker_looks(memory: Memory) -> None:
    for name, often in (("once", False), ("often", True)):
        for marker in (1, 2, 1, 1, 3, 2, 1):
            add_message(memory, marker, to=name)
            if often:
                memory.drain()
    memory.drain()
    found = [
        sorted((topic.title, topic.access_count, topic.messages) for topic in memory.topics(name))
        for name in ("once", "often")
    ]
    assert found[0] == found[1]


def test_a_topic_was_last_active_when_it_was_last_spoken_of(memory: Memory, clock: FakeClock) -> None:
    start = clock.now()
    add_message(memory, 1)
    clock.advance(HOUR)
    add_message(memory, 2)
    clock.advance(HOUR)
    memory.add("trip", "assistant", "#2 an answer to that")
    clock.advance(5 * HOUR)
    memory.drain()
    assert (topic_of_marker(memory, 1).created_at, topic_of_marker(memory, 1).last_active_at) == (start, start)
    assert (topic_of_marker(memory, 2).created_at, topic_of_marker(memory, 2).last_active_at) == (
        start + HOUR,
        start + 2 * HOUR,
    )
    stats = memory.topic_stats("trip")
    assert stats is not None
    assert (stats.age_seconds, stats.inactive_seconds) == (6 * 3600, 5 * 3600)


def test_the_importance_of_a_message_is_that_of_its_topic(memory: Memory) -> None:
    add_message(memory, 1, importance=0.4)
    add_message(memory, 2)
    add_message(memory, 1, importance=0.6)
    add_message(memory, 1, importance=0.1)
    memory.drain()
    assert (topic_of_marker(memory, 1).importance, topic_of_marker(memory, 2).importance) == (0.6, 1.0)
    assert topic_of_marker(memory, 1).priority == 0.6


def test_importance_is_kept_when_a_new_topic_is_dissolved(memory: Memory) -> None:
    add_turns(memory, 1, 2)
    memory.add("trip", "user", "#1 #2 #2 now this is different", importance=0.4)
    memory.add("trip", "assistant", "#1 #1 #1 no it is not")
    memory.drain()
    (topic,) = memory.topics("trip")
    assert topic.importance == 0.4


def test_a_message_that_says_too_little_stays_with_the_active_topic(memory: Memory) -> None:
    add_message(memory, 1)
    memory.add("trip", "user", "#2 ok")
    memory.add("trip", "user", "")
    memory.add("trip", "user", "#2 yes please do it")
    memory.drain()
    assert [m.seq for m in memory.topic_history("trip", topic=topic_of_marker(memory, 1).id)] == [1, 2, 3]


def test_messages_wait_for_their_topic_while_the_embedder_is_away(open_memory: OpenMemory) -> None:
    embedder = MarkerEmbedder()
    memory = open_for_topics(open_memory, embedder=embedder)
    add_turns(memory, 1, 2)
    memory.drain()
    embedder.failure = ProviderUnavailable("provider_unreachable", "nobody answers")
    add_turns(memory, 2, 2)
    assert not memory.drain().complete
    assert len(memory.topics("trip")) == 1
    assert len(memory.history("trip")) == 8
    embedder.failure = None
    assert memory.drain().complete
    assert [topic_of_marker(memory, n).messages for n in (1, 2)] == [4, 4]
    check_assignment(memory)


def test_two_processes_at_once_assign_each_message_once(open_memory: OpenMemory) -> None:
    memories = [open_for_topics(open_memory) for _ in range(2)]
    failures: list[BaseException] = []

    def use(memory: Memory, first: int) -> None:
        try:
            for n in range(20):
                add_message(memory, 1 + (first + n) % 5)
                if n % 3 == 0:
                    memory.drain()
            memory.drain()
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=use, args=(each, 2 * number)) for number, each in enumerate(memories)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    memory = memories[0]
    assert memory.drain().complete
    check_assignment(memory)
    before = sorted(
        (fields_after_rebuild(topic) for topic in memory.topics("trip")), key=lambda fields: str(fields["id"])
    )
    assert [each["messages"] for each in before] == [8] * 5
    memory.rebuild()
    assert (
        sorted((fields_after_rebuild(topic) for topic in memory.topics("trip")), key=lambda fields: str(fields["id"]))
        == before
    )


def test_topics_continue_with_another_embedder(open_memory: OpenMemory) -> None:
    first = open_for_topics(open_memory)
    add_turns(first, 1, 2)
    add_turns(first, 2, 2)
    first.drain()
    before = message_ids_by_topic(first)
    first.close()
    second = open_for_topics(open_memory, embedder=MarkerEmbedder(32, name="other"))
    add_message(second, 1)
    add_message(second, 3)
    add_message(second, 2)
    second.drain()
    after = message_ids_by_topic(second)
    assert len(after) == 3
    assert {each: after[each][:4] for each in before} == before
    assert [topic_of_marker(second, n).messages for n in (1, 2, 3)] == [5, 5, 1]
    check_assignment(second)


# Rebuilding


def test_a_rebuild_makes_the_same_topics_again(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS, max_topics=3)
    for n, marker in enumerate((1, 2, 1, 3, 4, 1, 5, 2, 1, 1)):
        add_turns(memory, marker, 1, first=n)
        clock.advance(DAY)
        memory.drain()
    before, whose, said = memory.topics("trip"), message_ids_by_topic(memory), memory.history("trip")
    assert memory.rebuild().complete
    after = memory.topics("trip")
    by_id = {each.id: each for each in after}
    assert [fields_after_rebuild(by_id[each.id]) for each in before] == [fields_after_rebuild(each) for each in before]
    assert [by_id[each.id].last_active_at for each in before] == [each.last_active_at for each in before]
    assert message_ids_by_topic(memory) == whose
    assert memory.history("trip") == said
    assert after[0].id == before[0].id
    check_assignment(memory)


def test_a_rebuild_keeps_counts_of_archived_messages(memory: Memory) -> None:
    add_turns(memory, 1, 8)
    add_turns(memory, 2, 1)
    memory.drain()
    before = [
        (topic.id, topic.state, topic.active_messages, topic.archived_messages) for topic in memory.topics("trip")
    ]
    assert topic_of_marker(memory, 1).archived_messages == 11
    memory.rebuild()
    after = [(topic.id, topic.state, topic.active_messages, topic.archived_messages) for topic in memory.topics("trip")]
    assert after == before
    assert topic_of_marker(memory, 1).summary


def test_a_rebuild_keeps_tags_pins_titles_and_weights(memory: Memory) -> None:
    for marker in (1, 2, 3, 4, 5):
        add_turns(memory, marker, 2)
    memory.drain()
    memory.tag_topic(topic_of_marker(memory, 1).id, ["food", "travel"])
    memory.pin_topic(topic_of_marker(memory, 2).id)
    memory.weigh_topic(topic_of_marker(memory, 3).id, 0.3)
    memory.rename_topic(topic_of_marker(memory, 4).id, "#4 my own title")
    before = [fields_after_rebuild(topic_of_marker(memory, n)) for n in (1, 2, 3, 4, 5)]
    whose = message_ids_by_topic(memory)
    assert memory.rebuild().complete
    assert [fields_after_rebuild(topic_of_marker(memory, n)) for n in (1, 2, 3, 4, 5)] == before
    assert list(before[0]["tags"]) == ["food", "travel"]
    assert message_ids_by_topic(memory) == whose


@pytest.mark.parametrize("later_first", [False, True])
def test_a_rebuild_keeps_a_merge(memory: Memory, later_first: bool) -> None:
    add_turns(memory, 1, 2)
    add_turns(memory, 2, 2)
    memory.drain()
    pair = [topic_of_marker(memory, n).id for n in ((2, 1) if later_first else (1, 2))]
    before = fields_after_rebuild(memory.merge_topics(*pair))
    memory.drain()
    done = memory.rebuild()
    assert (done.failed, done.complete) == ({}, True)
    (topic,) = memory.topics("trip")
    assert fields_after_rebuild(topic) == before
    check_assignment(memory)


def test_a_rebuild_keeps_a_merge_of_similar_topics(memory: Memory) -> None:
    add_turns(memory, 1, 2)
    memory.add("trip", "user", "#1 #1 #2 #2 #2 nearly the same thing")
    memory.drain()
    a, b = (topic.id for topic in sorted(memory.topics("trip"), key=lambda each: each.messages, reverse=True))
    memory.merge_topics(a, b)
    add_message(memory, 1)
    memory.drain()
    assert memory.rebuild().complete
    (topic,) = memory.topics("trip")
    assert (topic.id, topic.messages, topic.merged) == (a, 6, (b,))


@pytest.mark.parametrize("which", [slice(0, 2), slice(2, 4), slice(4, 6)], ids=["opening", "middle", "last"])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_rebuild_keeps_a_split(memory: Memory, which: slice, tagged: bool) -> None:
    ids = add_turns(memory, 1, 3)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    if tagged:
        memory.tag_topic(topic, ["food"])
    part = memory.split_topic(topic, ids[which], title="apart").id
    memory.drain()
    before = message_ids_by_topic(memory)
    assert before == {topic: [each for each in ids if each not in ids[which]], part: ids[which]}
    assert memory.rebuild().complete
    after = message_ids_by_topic(memory)
    assert after[part] == ids[which]
    assert after == before
