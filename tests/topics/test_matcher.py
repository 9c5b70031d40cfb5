"""Which topic a message joins, on made-up vectors; and the measures of grouping, on examples worked out by hand."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from bench.topics import Said, Thread, adjusted_rand, interleaved, place_all, v_measure
from hypothesis import given
from hypothesis import strategies as st

from recollect.recall.embedding import BUILT_IN
from recollect.topics.matcher import MINUTE, Matcher, Placed, Rules, calibrated, related

PLAIN = Rules(threshold=0.7)
HOUR = 60 * MINUTE
A, B, C = np.eye(3, 4, dtype=np.float32)


def towards(one: np.ndarray, other: np.ndarray, cosine: float) -> np.ndarray:
    """A unit vector between two that are at right angles, so near to the first."""
    return (cosine * one + math.sqrt(1 - cosine * cosine) * other).astype(np.float32)


def fresh(rules: Rules = PLAIN) -> Matcher:
    return Matcher(rules, np.empty((0, 4), np.float32))


def say(matcher: Matcher, vector: np.ndarray | None, role: str = "user", *, words: int = 9, at: int = 0) -> Placed:
    return matcher.place(vector, role=role, words=words, at=at)


def test_the_first_message_opens_a_topic():
    assert say(fresh(), A) == Placed(0, opened=True)


def test_a_similar_message_joins_and_another_opens_a_topic():
    matcher = fresh()
    say(matcher, A)
    near, far = say(matcher, towards(A, B, 0.75)), say(matcher, C)
    assert (near.topic, near.opened) == (0, False)
    assert near.similarity == pytest.approx(0.75, abs=1e-6)
    assert far == Placed(1, opened=True)


def test_just_below_the_threshold_is_not_similar():
    matcher = fresh()
    say(matcher, A)
    assert say(matcher, towards(A, B, 0.69)).opened


def test_a_topic_that_was_left_is_found_again():
    matcher = fresh()
    assert [say(matcher, one).topic for one in (A, B, C, towards(A, B, 0.9), B, C)] == [0, 1, 2, 0, 1, 2]


def test_the_length_of_a_vector_does_not_matter():
    matcher = fresh()
    say(matcher, A * 40)
    assert say(matcher, towards(A, B, 0.75) * 0.01).topic == 0
    assert np.linalg.norm(matcher.sums[0]) < 2


def test_a_topic_moves_towards_its_newest_messages():
    matcher = fresh(Rules(threshold=0.5, decay=0.5))
    for one in (A, A, A, towards(A, B, 0.6), towards(A, B, 0.3), B, B):
        assert say(matcher, one).topic == 0
    assert matcher.sums[0] @ B > 3 * (matcher.sums[0] @ A)


def test_the_active_topic_is_preferred():
    rules = Rules(threshold=0.6, bonus=0.2)
    between = towards(A, B, 0.65)  # a little nearer to the other one
    matcher, indifferent = fresh(rules), fresh(replace(rules, bonus=0.0))
    for one in (A, B):
        say(matcher, one), say(indifferent, one)
    for one in (A, A):
        say(matcher, one), say(indifferent, one)
    assert say(matcher, between).topic == 0
    assert say(indifferent, between).topic == 1


def test_what_the_active_topic_is_given_does_not_show_in_the_similarity():
    matcher = fresh(Rules(threshold=0.7, bonus=0.3))
    say(matcher, A)
    placed = say(matcher, towards(A, B, 0.5))
    assert placed.topic == 0
    assert placed.similarity == pytest.approx(0.5, abs=1e-6)


def test_after_a_pause_the_active_topic_is_preferred_less():
    rules = Rules(threshold=0.7, bonus=0.3, after_pause=0.1)
    for waited, opened in ((20 * MINUTE, False), (30 * MINUTE, True)):
        matcher = fresh(rules)
        say(matcher, A, at=HOUR)
        assert say(matcher, towards(A, B, 0.5), at=HOUR + waited).opened is opened


def test_a_pause_is_counted_from_whoever_spoke_last():
    matcher = fresh(Rules(threshold=0.7, bonus=0.3))
    say(matcher, A, at=0)
    say(matcher, A, "assistant", at=25 * MINUTE)
    assert say(matcher, towards(A, B, 0.5), at=50 * MINUTE).topic == 0


def test_short_messages_stay_unless_the_talk_had_rested():
    matcher = fresh()
    say(matcher, A)
    assert say(matcher, B, words=2) == Placed(0)
    assert say(matcher, B, words=2, at=HOUR).opened


def test_short_messages_do_not_move_a_topic_and_their_own_takes_what_comes():
    matcher = fresh()
    assert [say(matcher, B, words=1).topic, say(matcher, C, "assistant").topic, say(matcher, A).topic] == [0, 0, 0]
    say(matcher, B, words=1)
    assert (matcher.sums[0] == A).all()


def test_messages_that_are_no_users_follow_the_talk():
    matcher = fresh()
    say(matcher, A)
    say(matcher, A, "assistant")
    assert [say(matcher, B, role).topic for role in ("assistant", "tool", "system")] == [0, 0, 0]
    assert len(matcher) == 1


def test_the_assistant_tells_what_a_topic_is_about_and_a_tool_does_not():
    matcher = fresh()
    say(matcher, A)
    say(matcher, towards(A, B, 0.8), "assistant")
    after = matcher.sums[0].copy()
    assert after @ B > 0
    say(matcher, C, "tool")
    assert (matcher.sums[0] == after).all()


def test_what_stands_before_the_first_user_message_belongs_to_its_topic():
    matcher = fresh()
    placed = [say(matcher, C, "system"), say(matcher, B, "assistant"), say(matcher, A)]
    assert [one.topic for one in placed] == [0, 0, 0]
    assert (matcher.sums[0] == A).all()


@pytest.mark.parametrize("nothing", [None, np.zeros(4, np.float32), np.full(4, np.nan, np.float32)])
def test_a_message_without_a_vector_stays(nothing: np.ndarray | None):
    matcher = fresh()
    assert say(matcher, nothing) == Placed(0, opened=True)
    assert say(matcher, nothing) == Placed(0)
    assert say(matcher, A) == Placed(0)  # nothing had been said yet
    assert say(matcher, B).topic == 1
    assert say(matcher, nothing) == Placed(1)
    assert np.isfinite(matcher.sums).all()


def test_a_topic_without_a_vector_is_similar_to_nothing():
    matcher = Matcher(Rules(threshold=0.7), np.zeros((1, 4), np.float32))
    assert say(matcher, A) == Placed(1, opened=True)


def test_the_first_reply_may_show_that_a_question_belonged_elsewhere():
    """'And in July?' is like nothing; with its answer it is about the trip that was talked about."""
    matcher = fresh(Rules(threshold=0.6, bonus=0.1))
    say(matcher, A), say(matcher, A, "assistant")
    asked = say(matcher, B)
    answered = say(matcher, A, "assistant")  # 0.71 for both together
    assert asked == Placed(1, opened=True)
    assert (answered.topic, answered.opened, answered.folded) == (0, False, True)
    assert len(matcher) == 1
    assert matcher.standing.active == 0
    assert say(matcher, C) == Placed(1, opened=True)


def test_a_question_whose_reply_is_like_it_keeps_its_topic():
    matcher = fresh()
    say(matcher, A)
    say(matcher, B)
    assert say(matcher, towards(B, A, 0.9), "assistant") == Placed(1)
    assert len(matcher) == 2


def test_only_the_first_reply_takes_a_topic_back():
    matcher = fresh(Rules(threshold=0.6))
    say(matcher, A), say(matcher, B), say(matcher, B, "assistant")
    assert not say(matcher, A, "assistant").folded
    assert len(matcher) == 2


def test_a_tool_between_question_and_reply_does_not_matter():
    matcher = fresh(Rules(threshold=0.6))
    say(matcher, A), say(matcher, B), say(matcher, C, "tool")
    assert say(matcher, A, "assistant").folded


def test_what_all_topics_share_does_not_make_messages_similar():
    """Two speakers whose names are in each vector: 0.8 of it is the same."""
    said = [towards(A, one, 0.9) for one in (B, C)]
    plain, apart = fresh(Rules(threshold=0.7)), fresh(Rules(threshold=0.7, reserve=1.0))
    assert {say(plain, one).topic for one in said * 3} == {0}
    assert [say(apart, one).topic for one in said * 3] == [0, 1] * 3


def test_the_built_in_embedder_is_calibrated_and_others_have_the_plain_rule():
    assert calibrated(BUILT_IN[0]) != Rules()
    assert calibrated("text-embedding-3-small") == Rules()
    assert Rules().threshold == 0.7
    assert Rules().bonus == 0


def test_there_is_room_for_many_topics():
    matcher = Matcher(PLAIN, np.empty((0, 64), np.float32))
    rows = np.eye(64, dtype=np.float32)
    assert [say(matcher, one).topic for one in rows] == list(range(64))
    assert (matcher.sums == rows).all()


def test_a_message_may_be_put_where_people_want_it():
    matcher = fresh()
    say(matcher, A)
    assert matcher.put(0, B, role="user", at=0) == Placed(0)
    assert matcher.put(None, A, role="user", at=0) == Placed(1, opened=True)
    assert matcher.standing.active == 1
    assert not say(matcher, B, "assistant").folded


# Going on after a break

MESSAGES = st.tuples(
    st.sampled_from(["user", "user", "assistant", "tool"]),
    st.lists(st.integers(-3, 3), min_size=4, max_size=4) | st.none(),
    st.integers(1, 8),
    st.sampled_from([0, MINUTE, HOUR]),
)


@given(
    st.lists(MESSAGES, max_size=40),
    st.lists(st.integers(1, 40), max_size=12),
    st.sampled_from([PLAIN, calibrated(BUILT_IN[0]), Rules(threshold=0.5, bonus=0.2, after_pause=0.1, reserve=2.0)]),
)
def test_slices_of_any_size_give_the_same_topics(messages, cuts, rules):
    at, said = 0, []
    for role, vector, words, waited in messages:
        at += waited
        said.append((None if vector is None else np.array(vector, np.float32), role, words, at))
    whole = fresh(rules)
    expected = [whole.place(one, role=role, words=words, at=at) for one, role, words, at in said]
    part, found = fresh(rules), []
    for place, (one, role, words, at) in enumerate(said):
        if place in cuts:  # stored and read again
            stored = [row.astype("<f4").tobytes() for row in part.sums]
            sums = np.array([np.frombuffer(row, "<f4") for row in stored], np.float32).reshape(-1, 4)
            part = Matcher(rules, sums, part.standing)
        found.append(part.place(one, role=role, words=words, at=at))
    assert found == expected
    assert (part.sums == whole.sums).all()
    assert part.standing == whole.standing


@given(st.lists(MESSAGES, min_size=1, max_size=40))
def test_every_message_has_a_topic_that_is_there(messages):
    matcher = fresh(calibrated(BUILT_IN[0]))
    for role, vector, words, _ in messages:
        before = len(matcher)
        placed = say(matcher, None if vector is None else np.array(vector, np.float32), role, words=words)
        assert 0 <= placed.topic < len(matcher)
        assert len(matcher) == before + placed.opened - placed.folded
        assert np.isfinite(matcher.sums).all()


def test_the_stored_sums_are_not_changed():
    stored = np.stack((A, B))
    say(Matcher(PLAIN, stored), A)
    assert (stored == np.stack((A, B))).all()


# Topics that may be one


def test_related_topics_come_with_the_nearest_first():
    sums = np.stack((A, 3 * towards(A, B, 0.85), C, 2 * towards(C, B, 0.95)))
    found = related(sums, Rules(alike=0.8))
    assert [(one, other) for one, other, _ in found] == [(2, 3), (0, 1)]
    assert [similarity for *_, similarity in found] == pytest.approx([0.95, 0.85], abs=1e-6)


def test_topics_without_a_vector_are_not_related():
    nothing = np.zeros(4, np.float32)
    assert related(np.stack((nothing, A, nothing, A)), Rules()) == [(1, 3, pytest.approx(1))]
    assert related(np.stack((nothing, nothing)), Rules(alike=0.0)) == []
    assert related(np.empty((0, 4), np.float32), Rules()) == []


# Measures


def labels(text: str) -> np.ndarray:
    return np.array([ord(one) for one in text])


def test_the_same_groups_under_other_names_are_right():
    assert v_measure(labels("aabbc"), labels("xxyyz")) == pytest.approx((1, 1, 1))
    assert adjusted_rand(labels("aabbc"), labels("xxyyz")) == pytest.approx(1)


def test_one_group_for_all_is_complete_and_says_nothing():
    assert v_measure(labels("aabb"), labels("xxxx")) == pytest.approx((0, 0, 1))
    assert adjusted_rand(labels("aabb"), labels("xxxx")) == pytest.approx(0)


def test_a_group_for_each_is_homogeneous():
    """Completeness: 1 bit of the 2 bits that the groups hold."""
    assert v_measure(labels("aabb"), labels("wxyz")) == pytest.approx((2 / 3, 1, 0.5))
    assert adjusted_rand(labels("aabb"), labels("wxyz")) == pytest.approx(0)


def test_a_group_that_is_split_is_worked_out_by_hand():
    """Truth aaabbb, found xxyyyy: 4 pairs together in both of 6 and 7, by chance 6 · 7 / 15 = 2.8."""
    truth, found = labels("aaabbb"), labels("xxyyyy")
    assert adjusted_rand(truth, found) == pytest.approx((4 - 2.8) / (6.5 - 2.8))
    true, own = 1.0, -(1 / 3 * math.log2(1 / 3) + 2 / 3 * math.log2(2 / 3))
    joint = -(1 / 3 * math.log2(1 / 3) + 1 / 6 * math.log2(1 / 6) + 1 / 2 * math.log2(1 / 2))
    shared = true + own - joint
    h, c = shared / true, shared / own
    assert v_measure(truth, found) == pytest.approx((2 * h * c / (h + c), h, c))


def test_groups_worse_than_chance_are_below_zero():
    """Truth aabb, found xyxy: no pair together in both, by chance 2 · 2 / 6."""
    assert adjusted_rand(labels("aabb"), labels("xyxy")) == pytest.approx(-(2 / 3) / (2 - 2 / 3))


def test_interleaved_threads_keep_their_order_and_change_at_user_messages():
    threads = [
        Thread(0, str(number), "", [Said("user" if n % 2 == 0 else "assistant", 10 * number + n, A) for n in range(10)])
        for number in range(4)
    ]
    talk = interleaved(threads, (3, 3), random.Random(5))
    assert len(set(talk.threads.tolist())) == 3
    for thread in range(3):
        words = [one.words for one, own in zip(talk.messages, talk.threads, strict=True) if own == thread]
        assert words == sorted(words)
    assert len(words) == 10
    changes = np.flatnonzero(np.diff(talk.stretches)) + 1
    assert {talk.messages[place].role for place in changes} == {"user"}
    assert all(later > earlier for at in talk.at.values() for earlier, later in pairwise(at))


def test_messages_of_a_topic_that_was_taken_back_move_with_it():
    said = [Said("user", 9, A), Said("assistant", 9, A), Said("user", 9, B), Said("assistant", 9, A)]
    found, matcher = place_all(said, [0, 1, 2, 3], Rules(threshold=0.6))
    assert found.tolist() == [0, 0, 0, 0]
    assert len(matcher) == 1
