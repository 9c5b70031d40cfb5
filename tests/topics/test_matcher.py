"""The matcher on made-up vectors, and the measures of grouping on examples worked out by hand."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from bench.topic_groupings import adjusted_rand, assign_all, v_measure
from bench.topic_threads import MatchedMessage, Thread, interleave
from hypothesis import given
from hypothesis import strategies as st

from recollect.recall.embedding import BUILT_IN_EMBEDDER
from recollect.topics.matcher import MICROS_PER_MINUTE, Assignment, Matcher, MatchRules, calibrated_rules, find_related

PLAIN = MatchRules(threshold=0.7)
HOUR = 60 * MICROS_PER_MINUTE
A, B, C = np.eye(3, 4, dtype=np.float32)


def towards(near: np.ndarray, other: np.ndarray, cosine: float) -> np.ndarray:
    """Return a unit vector between two at right angles, with this cosine to the first."""
    return (cosine * near + math.sqrt(1 - cosine * cosine) * other).astype(np.float32)


def new_matcher(rules: MatchRules = PLAIN) -> Matcher:
    return Matcher(rules, np.empty((0, 4), np.float32))


def assign(
    matcher: Matcher, vector: np.ndarray | None, role: str = "user", *, words: int = 9, at: int = 0
) -> Assignment:
    return matcher.assign(vector, role=role, words=words, at=at)


def test_the_first_message_opens_a_topic():
    assert assign(new_matcher(), A) == Assignment(0, opened=True)


def test_a_similar_message_joins_and_another_opens_a_topic():
    matcher = new_matcher()
    assign(matcher, A)
    near, far = assign(matcher, towards(A, B, 0.75)), assign(matcher, C)
    assert (near.topic, near.opened) == (0, False)
    assert near.similarity == pytest.approx(0.75, abs=1e-6)
    assert far == Assignment(1, opened=True)


def test_just_below_the_threshold_is_not_similar():
    matcher = new_matcher()
    assign(matcher, A)
    assert assign(matcher, towards(A, B, 0.69)).opened


def test_a_message_returns_to_a_topic_that_was_left():
    matcher = new_matcher()
    assert [assign(matcher, each).topic for each in (A, B, C, towards(A, B, 0.9), B, C)] == [0, 1, 2, 0, 1, 2]


def test_the_length_of_a_vector_does_not_matter():
    matcher = new_matcher()
    assign(matcher, A * 40)
    assert assign(matcher, towards(A, B, 0.75) * 0.01).topic == 0
    assert np.linalg.norm(matcher.centroids[0]) < 2


def test_a_topic_moves_towards_its_newest_messages():
    matcher = new_matcher(MatchRules(threshold=0.5, decay=0.5))
    for each in (A, A, A, towards(A, B, 0.6), towards(A, B, 0.3), B, B):
        assert assign(matcher, each).topic == 0
    assert matcher.centroids[0] @ B > 3 * (matcher.centroids[0] @ A)


def test_the_active_topic_is_preferred():
    rules = MatchRules(threshold=0.6, active_bonus=0.2)
    between = towards(A, B, 0.65)  # a little nearer to the other one
    matcher, indifferent = new_matcher(rules), new_matcher(replace(rules, active_bonus=0.0))
    for each in (A, B):
        assign(matcher, each), assign(indifferent, each)
    for each in (A, A):
        assign(matcher, each), assign(indifferent, each)
    assert assign(matcher, between).topic == 0
    assert assign(indifferent, between).topic == 1


def test_the_bonus_of_the_active_topic_is_not_part_of_the_similarity():
    matcher = new_matcher(MatchRules(threshold=0.7, active_bonus=0.3))
    assign(matcher, A)
    assignment = assign(matcher, towards(A, B, 0.5))
    assert assignment.topic == 0
    assert assignment.similarity == pytest.approx(0.5, abs=1e-6)


def test_after_a_pause_the_active_topic_is_preferred_less():
    rules = MatchRules(threshold=0.7, active_bonus=0.3, active_bonus_after_pause=0.1)
    for waited, opened in ((20 * MICROS_PER_MINUTE, False), (30 * MICROS_PER_MINUTE, True)):
        matcher = new_matcher(rules)
        assign(matcher, A, at=HOUR)
        assert assign(matcher, towards(A, B, 0.5), at=HOUR + waited).opened is opened


def test_a_pause_begins_with_the_last_message_of_any_role():
    matcher = new_matcher(MatchRules(threshold=0.7, active_bonus=0.3))
    assign(matcher, A, at=0)
    assign(matcher, A, "assistant", at=25 * MICROS_PER_MINUTE)
    assert assign(matcher, towards(A, B, 0.5), at=50 * MICROS_PER_MINUTE).topic == 0


def test_short_messages_stay_unless_there_was_a_pause():
    matcher = new_matcher()
    assign(matcher, A)
    assert assign(matcher, B, words=2) == Assignment(0)
    assert assign(matcher, B, words=2, at=HOUR).opened


def test_short_messages_do_not_move_a_topic_and_a_topic_of_short_ones_takes_the_next():
    matcher = new_matcher()
    assert [assign(matcher, B, words=1).topic, assign(matcher, C, "assistant").topic, assign(matcher, A).topic] == [
        0,
        0,
        0,
    ]
    assign(matcher, B, words=1)
    assert (matcher.centroids[0] == A).all()


def test_messages_of_other_roles_follow_the_active_topic():
    matcher = new_matcher()
    assign(matcher, A)
    assign(matcher, A, "assistant")
    assert [assign(matcher, B, role).topic for role in ("assistant", "tool", "system")] == [0, 0, 0]
    assert len(matcher) == 1


def test_a_message_of_the_assistant_moves_the_topic_and_one_of_a_tool_does_not():
    matcher = new_matcher()
    assign(matcher, A)
    assign(matcher, towards(A, B, 0.8), "assistant")
    after = matcher.centroids[0].copy()
    assert after @ B > 0
    assign(matcher, C, "tool")
    assert (matcher.centroids[0] == after).all()


def test_messages_before_the_first_user_message_belong_to_its_topic():
    matcher = new_matcher()
    assignment = [assign(matcher, C, "system"), assign(matcher, B, "assistant"), assign(matcher, A)]
    assert [each.topic for each in assignment] == [0, 0, 0]
    assert (matcher.centroids[0] == A).all()


@pytest.mark.parametrize("nothing", [None, np.zeros(4, np.float32), np.full(4, np.nan, np.float32)])
def test_a_message_without_a_vector_stays_with_the_active_topic(nothing: np.ndarray | None):
    matcher = new_matcher()
    assert assign(matcher, nothing) == Assignment(0, opened=True)
    assert assign(matcher, nothing) == Assignment(0)
    assert assign(matcher, A) == Assignment(0)  # nothing had been said yet
    assert assign(matcher, B).topic == 1
    assert assign(matcher, nothing) == Assignment(1)
    assert np.isfinite(matcher.centroids).all()


def test_a_topic_without_a_vector_is_similar_to_nothing():
    matcher = Matcher(MatchRules(threshold=0.7), np.zeros((1, 4), np.float32))
    assert assign(matcher, A) == Assignment(1, opened=True)


def test_the_first_reply_may_dissolve_a_new_topic_into_an_older_one():
    """'And in July?' is like nothing; with its answer it is about the trip that was talked about."""
    matcher = new_matcher(MatchRules(threshold=0.6, active_bonus=0.1))
    assign(matcher, A), assign(matcher, A, "assistant")
    asked = assign(matcher, B)
    answered = assign(matcher, A, "assistant")  # 0.71 for both together
    assert asked == Assignment(1, opened=True)
    assert (answered.topic, answered.opened, answered.dissolved) == (0, False, True)
    assert len(matcher) == 1
    assert matcher.state.active == 0
    assert assign(matcher, C) == Assignment(1, opened=True)


def test_a_question_whose_reply_is_similar_keeps_its_topic():
    matcher = new_matcher()
    assign(matcher, A)
    assign(matcher, B)
    assert assign(matcher, towards(B, A, 0.9), "assistant") == Assignment(1)
    assert len(matcher) == 2


def test_only_the_first_reply_dissolves_a_topic():
    matcher = new_matcher(MatchRules(threshold=0.6))
    assign(matcher, A), assign(matcher, B), assign(matcher, B, "assistant")
    assert not assign(matcher, A, "assistant").dissolved
    assert len(matcher) == 2


def test_a_tool_between_question_and_reply_does_not_matter():
    matcher = new_matcher(MatchRules(threshold=0.6))
    assign(matcher, A), assign(matcher, B), assign(matcher, C, "tool")
    assert assign(matcher, A, "assistant").dissolved


def test_the_part_that_all_topics_share_does_not_make_messages_similar():
    """Two speakers whose names are in each vector: 0.8 of it is the same."""
    said = [towards(A, each, 0.9) for each in (B, C)]
    plain, apart = new_matcher(MatchRules(threshold=0.7)), new_matcher(MatchRules(threshold=0.7, neutral_weight=1.0))
    assert {assign(plain, each).topic for each in said * 3} == {0}
    assert [assign(apart, each).topic for each in said * 3] == [0, 1] * 3


def test_the_built_in_embedder_is_calibrated_and_others_have_the_plain_rule():
    assert calibrated_rules(BUILT_IN_EMBEDDER[0]) != MatchRules()
    assert calibrated_rules("text-embedding-3-small") == MatchRules()
    assert MatchRules().threshold == 0.7
    assert MatchRules().active_bonus == 0


def test_there_is_capacity_for_many_topics():
    matcher = Matcher(PLAIN, np.empty((0, 64), np.float32))
    rows = np.eye(64, dtype=np.float32)
    assert [assign(matcher, each).topic for each in rows] == list(range(64))
    assert (matcher.centroids == rows).all()


def test_a_message_can_be_assigned_to_a_given_topic():
    matcher = new_matcher()
    assign(matcher, A)
    assert matcher.assign_to(0, B, role="user", at=0) == Assignment(0)
    assert matcher.assign_to(None, A, role="user", at=0) == Assignment(1, opened=True)
    assert matcher.state.active == 1
    assert not assign(matcher, B, "assistant").dissolved


# Going on after a break

MESSAGES = st.tuples(
    st.sampled_from(["user", "user", "assistant", "tool"]),
    st.lists(st.integers(-3, 3), min_size=4, max_size=4) | st.none(),
    st.integers(1, 8),
    st.sampled_from([0, MICROS_PER_MINUTE, HOUR]),
)


@given(
    st.lists(MESSAGES, max_size=40),
    st.lists(st.integers(1, 40), max_size=12),
    st.sampled_from(
        [
            PLAIN,
            calibrated_rules(BUILT_IN_EMBEDDER[0]),
            MatchRules(threshold=0.5, active_bonus=0.2, active_bonus_after_pause=0.1, neutral_weight=2.0),
        ]
    ),
)
def test_slices_of_any_size_give_the_same_topics(messages, cuts, rules):
    at, messages_with_times = 0, []
    for role, vector, words, waited in messages:
        at += waited
        messages_with_times.append((None if vector is None else np.array(vector, np.float32), role, words, at))
    whole = new_matcher(rules)
    expected = [whole.assign(vector, role=role, words=words, at=at) for vector, role, words, at in messages_with_times]
    part, found = new_matcher(rules), []
    for index, (vector, role, words, at) in enumerate(messages_with_times):
        if index in cuts:  # stored and read again
            stored = [row.astype("<f4").tobytes() for row in part.centroids]
            centroids = np.array([np.frombuffer(row, "<f4") for row in stored], np.float32).reshape(-1, 4)
            part = Matcher(rules, centroids, part.state)
        found.append(part.assign(vector, role=role, words=words, at=at))
    assert found == expected
    assert (part.centroids == whole.centroids).all()
    assert part.state == whole.state


@given(st.lists(MESSAGES, min_size=1, max_size=40))
def test_every_message_is_assigned_to_a_topic_that_exists(messages):
    matcher = new_matcher(calibrated_rules(BUILT_IN_EMBEDDER[0]))
    for role, vector, words, _ in messages:
        before = len(matcher)
        assignment = assign(matcher, None if vector is None else np.array(vector, np.float32), role, words=words)
        assert 0 <= assignment.topic < len(matcher)
        assert len(matcher) == before + assignment.opened - assignment.dissolved
        assert np.isfinite(matcher.centroids).all()


def test_the_stored_centroids_are_not_changed():
    stored = np.stack((A, B))
    assign(Matcher(PLAIN, stored), A)
    assert (stored == np.stack((A, B))).all()


# Topics that could be merged


def test_related_topics_come_most_similar_first():
    centroids = np.stack((A, 3 * towards(A, B, 0.85), C, 2 * towards(C, B, 0.95)))
    found = find_related(centroids, MatchRules(merge_threshold=0.8))
    assert [(earlier, later) for earlier, later, _ in found] == [(2, 3), (0, 1)]
    assert [similarity for *_, similarity in found] == pytest.approx([0.95, 0.85], abs=1e-6)


def test_topics_without_a_vector_are_not_related():
    nothing = np.zeros(4, np.float32)
    assert find_related(np.stack((nothing, A, nothing, A)), MatchRules()) == [(1, 3, pytest.approx(1))]
    assert find_related(np.stack((nothing, nothing)), MatchRules(merge_threshold=0.0)) == []
    assert find_related(np.empty((0, 4), np.float32), MatchRules()) == []


# Measures


def labels(text: str) -> np.ndarray:
    return np.array([ord(each) for each in text])


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
        Thread(
            0,
            str(number),
            "",
            [MatchedMessage("user" if n % 2 == 0 else "assistant", 10 * number + n, A) for n in range(10)],
        )
        for number in range(4)
    ]
    talk = interleave(threads, (3, 3), random.Random(5))
    assert len(set(talk.threads.tolist())) == 3
    for thread in range(3):
        words = [message.words for message, own in zip(talk.messages, talk.threads, strict=True) if own == thread]
        assert words == sorted(words)
    assert len(words) == 10
    changes = np.flatnonzero(np.diff(talk.stretches)) + 1
    assert {talk.messages[index].role for index in changes} == {"user"}
    assert all(later > earlier for at in talk.at.values() for earlier, later in pairwise(at))


def test_messages_of_a_dissolved_topic_move_with_it():
    said = [
        MatchedMessage("user", 9, A),
        MatchedMessage("assistant", 9, A),
        MatchedMessage("user", 9, B),
        MatchedMessage("assistant", 9, A),
    ]
    found, matcher = assign_all(said, [0, 1, 2, 3], MatchRules(threshold=0.6))
    assert found.tolist() == [0, 0, 0, 0]
    assert len(matcher) == 1


# Replies without content


def test_a_phrase_that_follows_every_question_does_not_make_one_topic_of_them():
    phrase = towards(C, A, 0.999)
    for least, topics in ((-1.0, 1), (0.3, 2)):
        matcher = new_matcher(replace(PLAIN, threshold=0.45, min_answer_similarity=least))
        for question in (A, B):
            assign(matcher, question)
            assign(matcher, phrase, "assistant")
        assert len(matcher) == topics


def test_an_answer_may_still_show_that_its_question_belongs_to_an_older_topic():
    matcher = new_matcher(replace(PLAIN, threshold=0.5, min_answer_similarity=0.3))
    assign(matcher, A)
    assign(matcher, B)
    assert assign(matcher, towards(A, B, 0.9), "assistant").dissolved
