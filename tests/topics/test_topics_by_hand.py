"""Topics by hand: tags, titles, importance, archive, feedback, search."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from recollect import InvalidInput, Memory, NotFound, ProviderUnavailable
from recollect.testing import FakeClock
from support.talks import (
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


def test_new_tags_replace_the_old_ones(memory: Memory) -> None:
    topic, other = add_two_topics(memory)
    assert memory.tag_topic(topic, ["food", "trip", "food"]).tags == ("food", "trip")
    assert memory.tag_topic(topic, ["work"]).tags == ("work",)
    assert topic_of_marker(memory, 1).tags == ("work",)
    assert topic_of_marker(memory, 2).tags == ()
    assert memory.tag_topic(topic, []).tags == ()
    assert memory.tag_topic(other, ("سفر",)).tags == ("سفر",)


def test_a_title_set_by_hand_stays(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    assert memory.rename_topic(topic, "Where to eat").title == "Where to eat"
    add_turns(memory, 1, 2, first=5)
    memory.drain()
    memory.erase(message=memory.topic_history("trip", topic=topic)[0].id)
    assert memory.topic_history("trip", topic=topic)
    assert next(each for each in memory.topics("trip") if each.id == topic).title == "Where to eat"


def test_a_less_important_topic_goes_cold_sooner(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory = open_for_topics(open_memory, max_topics=1)
    light, heavy = add_two_topics(memory)
    add_message(memory, 3)
    memory.drain()
    assert memory.weigh_topic(light, 0.1).importance == 0.1
    assert memory.weigh_topic(heavy, 1).importance == 1.0
    clock.advance(1.1 * DAY)
    memory.drain()
    assert states_by_marker(memory) == {"1": "cold", "2": "warm", "3": "active"}


def test_a_topic_can_be_archived_and_restored(memory: Memory, clock: FakeClock, location: str) -> None:
    topic, _ = add_two_topics(memory)
    accesses = topic_of_marker(memory, 1).access_count
    clock.advance(DAY)
    assert memory.archive_topic(topic).state == "cold"
    memory.drain()
    assert topic_of_marker(memory, 1).archived_messages == 3  # the conversation's first one stays
    back = memory.restore_topic(topic)
    assert (back.state, back.priority, back.access_count) == ("warm", 1.0, accesses + 1)
    assert (back.last_active_at, back.active_messages) == (clock.now(), 4)
    memory.drain()
    assert topic_of_marker(memory, 1).state == "warm"
    assert len(memory.topic_context("trip", topic=topic)) == 4
    check_assignment(memory)


def test_an_answer_to_a_topic_archived_by_hand_opens_no_other(memory: Memory) -> None:
    add_turns(memory, 1, 2)
    add_message(memory, 1, "one more question of mine")
    memory.drain()
    topic = memory.topics("trip")[0]
    assert memory.archive_topic(topic.id).state == "cold"
    memory.drain()
    memory.add("trip", "assistant", "#5 an answer about something quite different")
    memory.drain()
    assert [(topic.id, topic.state, topic.messages) for topic in memory.topics("trip")] == [(topic.id, "cold", 6)]
    add_message(memory, 1, "and it is spoken of again")
    memory.drain()
    (back,) = memory.topics("trip")
    assert (back.state, back.archived_messages, back.messages) == ("active", 0, 7)


def test_a_topic_split_off_takes_its_accesses_and_importance_along(memory: Memory) -> None:
    ids = [add_message(memory, 1, "this again and again", importance=0.2) for _ in range(12)]
    memory.drain()
    (whole,) = memory.topics("trip")
    part = memory.split_topic(whole.id, ids[2:])
    assert (whole.access_count, part.access_count, memory.topic(whole.id).access_count) == (11, 9, 1)
    assert (part.importance, memory.topic(whole.id).importance) == (0.2, 0.2)


def test_tags_pin_and_importance_of_the_whole_do_not_stay_with_an_unmerged_part(memory: Memory) -> None:
    first, other = add_two_topics(memory)
    memory.tag_topic(other, ["own"])
    merged = memory.merge_topics(first, other)
    assert merged.tags == ("own",)
    memory.tag_topic(first, ["whole"])
    memory.pin_topic(first)
    memory.weigh_topic(first, 0.2)
    part = memory.unmerge_topic(other)
    assert (part.tags, part.pinned, part.importance) == (("own",), False, 1.0)


def test_half_lives_below_a_second_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInput):
        memory.change_settings(base_half_life_seconds=1e-9)


@pytest.mark.parametrize("title", ["", "  \n "])
def test_a_blank_title_is_refused(memory: Memory, title: str) -> None:
    first, _ = add_two_topics(memory)
    with pytest.raises(InvalidInput):
        memory.rename_topic(first, title)


def test_a_cold_topic_is_back_when_it_is_spoken_of(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    memory.archive_topic(topic)
    memory.drain()
    add_message(memory, 1)
    memory.drain()
    back = topic_of_marker(memory, 1)
    assert (back.state, back.archived_messages, back.messages) == ("active", 0, 5)
    add_message(memory, 2)
    memory.drain()
    assert topic_of_marker(memory, 1).state != "cold"


def test_the_active_topic_is_back_too_when_it_is_spoken_of(memory: Memory) -> None:
    _, active = add_two_topics(memory)
    memory.archive_topic(active)
    memory.drain()
    ids = add_turns(memory, 2, 1)
    memory.drain()
    assert [m.id for m in memory.topic_history("trip", include_archived=False)][-2:] == ids
    add_message(memory, 1)
    memory.drain()
    assert topic_of_marker(memory, 2).state != "cold"


def test_feedback_raises_and_lowers_importance(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    question, answer = message_ids_by_topic(memory)[topic][:2]

    def importance() -> float:
        return topic_of_marker(memory, 1).importance

    memory.feedback(question, -1)
    assert importance() == pytest.approx(0.5**0.5)
    memory.feedback(question, -1)  # the newest value counts
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
    assert topic_of_marker(memory, 2).importance == 1.0


def test_a_praised_topic_lasts_longer(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory = open_for_topics(open_memory, max_topics=1)
    praised, _ = add_two_topics(memory)
    add_message(memory, 3)
    memory.drain()
    assert topic_of_marker(memory, 1).access_count == 1
    for each in message_ids_by_topic(memory)[praised]:
        memory.feedback(each, 1)
    topic = topic_of_marker(memory, 1)
    assert (topic.access_count, topic.half_life_days) == (5, 2.0)
    clock.advance(5 * DAY)
    memory.drain()
    assert states_by_marker(memory) == {"1": "warm", "2": "cold", "3": "active"}


def test_feedback_on_a_message_without_a_topic_counts_when_it_is_assigned(memory: Memory) -> None:
    said = add_message(memory, 1)
    memory.feedback(said, -1)
    memory.drain()
    assert topic_of_marker(memory, 1).importance == pytest.approx(0.5**0.5)
    memory.rebuild()
    assert topic_of_marker(memory, 1).importance == pytest.approx(0.5**0.5)


def test_an_erased_message_lowers_the_importance_of_its_topic(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    memory.erase(message=message_ids_by_topic(memory)[topic][1])
    memory.drain()
    assert topic_of_marker(memory, 1).importance == pytest.approx(0.5**0.5)


def test_feedback_on_an_unknown_or_ambiguous_message_is_refused(memory: Memory) -> None:
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


def test_similar_topics_are_proposed_for_a_merge(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, similarity_threshold=0.95)
    add_message(memory, 1)
    add_message(memory, 2, "#1 #1 #1 much like the first")
    add_message(memory, 3)
    memory.drain()
    assert len(memory.topics("trip")) == 3
    (pair,) = memory.related_topics("trip")
    assert (pair.into.id, pair.topic.id) == (topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id)
    assert 0.8 <= pair.similarity < 0.95
    memory.merge_topics(pair.into.id, pair.topic.id)
    memory.drain()
    assert memory.related_topics("trip") == []
    assert memory.related_topics("nowhere") == []


def test_a_topic_that_awaits_its_messages_is_not_proposed_for_a_merge(open_memory: OpenMemory) -> None:
    embedder = MarkerEmbedder()
    memory = open_for_topics(open_memory, embedder=embedder, similarity_threshold=0.95)
    add_message(memory, 1)
    add_message(memory, 2, "#1 #1 #1 much like the first")
    memory.drain()
    memory.pin_topic(topic_of_marker(memory, 1).id)
    embedder.failure = ProviderUnavailable("embedder_down", "away")
    memory.rebuild()
    (waiting,) = memory.topics("trip")
    assert (waiting.pinned, waiting.messages) == (True, 0)
    assert memory.related_topics("trip") == []
    embedder.failure = None
    memory.drain()
    assert len(memory.related_topics("trip")) == 1


def test_topics_are_found_across_conversations_and_within_one(memory: Memory) -> None:
    add_message(memory, 1, "the marmalade is in the cupboard", to="home", id="a")
    add_message(memory, 1, "more marmalade must be bought", to="home", id="b")
    add_message(memory, 2, "the train leaves at nine", to="home")
    add_message(memory, 1, "marmalade for the picnic", to="trip", id="c")
    memory.drain()
    found = memory.search_topics("marmalade")
    assert [(each.topic.conversation, set(each.message_ids)) for each in found[:2]] == [
        ("home", {"a", "b"}),
        ("trip", {"c"}),
    ]
    assert found[0].score >= found[1].score > 0
    (hit, *_) = memory.search_topics("marmalade", conversation="trip")
    assert (hit.topic.id, hit.message_ids) == (topic_of_marker(memory, 1).id, ("c",))
    assert {hit.topic.conversation for hit in memory.search_topics("marmalade", conversation="trip")} == {"trip"}
    assert len(memory.search_topics("marmalade", limit=1)) == 1
    assert memory.search_topics("marmalade", limit=0) == []
    assert memory.search_topics("marmalade", conversation="nowhere") == []


def test_a_cold_topic_is_found_by_a_search(memory: Memory) -> None:
    add_message(memory, 9, "this is how it all began")
    add_message(memory, 1, "the marmalade is in the cupboard")
    add_message(memory, 2)
    memory.drain()
    memory.archive_topic(topic_of_marker(memory, 1).id)
    memory.drain()
    hit = memory.search_topics("marmalade cupboard")[0]
    assert (hit.topic.id, hit.topic.state) == (topic_of_marker(memory, 1).id, "cold")
