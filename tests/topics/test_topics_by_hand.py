"""What people do with topics: tags, titles, weights, rest, feedback, searches."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from recollect import InvalidInput, Memory, NotFound, ProviderUnavailable
from recollect.testing import FakeClock
from support.talks import Directions, Open, adds_up, chat, members, opened, say, states, topic_of, two

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return opened(open_memory)


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


def test_a_topic_that_waits_for_its_messages_is_not_proposed(open_memory: Open) -> None:
    embedder = Directions()
    memory = opened(open_memory, embedder=embedder, similarity_threshold=0.95)
    say(memory, 1)
    say(memory, 2, "#1 #1 #1 much like the first")
    memory.drain()
    memory.pin_topic(topic_of(memory, 1).id)
    embedder.failure = ProviderUnavailable("embedder_down", "away")
    memory.rebuild()
    (waiting,) = memory.topics("trip")
    assert (waiting.pinned, waiting.messages) == (True, 0)
    assert memory.related_topics("trip") == []
    embedder.failure = None
    memory.drain()
    assert len(memory.related_topics("trip")) == 1


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
