"""What people do with topics: tags, titles, weights, rest, merges, splits, feedback, searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recollect import Conflict, InvalidInput, Memory, NotFound, ProviderUnavailable
from recollect.testing import FakeClock
from talks import SMALL, Directions, Open, adds_up, chat, members, opened, say, states, topic_of, two

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
