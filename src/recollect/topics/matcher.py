"""Decides which topic of its conversation a message belongs to. Pure: it knows vectors and times, no texts, no store.

A topic is one vector, its centroid: the running sum of its messages' vectors, in which older messages count less and
less. A user message joins the most similar topic if it is similar enough, else it opens a new one. All other messages
follow the active topic. Before vectors are compared, the part that all topics of the conversation share is taken away
(its speakers, its tone, its field). Otherwise everything that the same two people say would be one topic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MICROS_PER_MINUTE: Final = 60 * 1_000_000
INITIAL_CAPACITY: Final = 16  # topics; it doubles when they are more


@dataclass(frozen=True, slots=True)
class MatchRules:
    """The numbers that decide when a message belongs to a topic. Similarities are cosines.

    Good numbers differ between embedders; `bench/topics.py` shows where ours come from. The defaults are the plain
    rule, for embedders that were not measured.
    """

    threshold: float = 0.7  # similarity from which a user message joins a topic
    active_bonus: float = 0.0  # added to the similarity of the active topic: most messages go on with it
    active_bonus_after_pause: float = 0.0  # the same for the first user message after a pause
    pause_micros: int = 30 * MICROS_PER_MINUTE  # silence from which it is a pause
    clear_threshold: float = math.inf  # a lower threshold, for a topic that leads all others by `clear_lead`
    clear_lead: float = 0.25
    min_reply_words: int = 6  # shorter replies of the assistant do not move the topic: "Noted." suits any
    min_answer_similarity: float = -1.0  # of a reply to its question: "Sure, I can help with that" is no answer
    min_words: int = 3  # shorter user messages stay with the active topic and do not move it
    decay: float = 0.9  # the factor on a topic's centroid before each new message is added
    neutral_weight: float = math.inf  # zero vectors averaged into the shared part; infinite: nothing is shared
    merge_threshold: float = 0.8  # similarity from which two topics are proposed for a merge


# Tuned on the even half of LongMemEval (pooled), BEAM 100K, DialogSum and LoCoMo. None of their text is in here.
_MINILM: Final = MatchRules(
    threshold=0.35,
    active_bonus=0.25,
    active_bonus_after_pause=0.05,
    neutral_weight=8.0,
    merge_threshold=0.4,
    clear_threshold=0.2,
    min_answer_similarity=0.25,  # answers have 0.5 and more, empty phrases 0.23 at most
)
_CALIBRATED: Final = {"all-MiniLM-L6-v2/int8": _MINILM, "all-MiniLM-L6-v2/int8+ar1": _MINILM}


def calibrated_rules(embedder_name: str) -> MatchRules:
    """Return the rules for the vectors of an embedder; the plain rule if it was not measured."""
    return _CALIBRATED.get(embedder_name, MatchRules())


@dataclass(frozen=True, slots=True)
class MatcherState:
    """The state of a conversation after a message. With the centroids of the topics it is all that a matcher needs.

    The last two fields are set while the active topic is new and has no reply yet: its first reply may dissolve it.
    """

    active: int | None = None  # the topic of the last message
    last_at: int | None = None  # the time of the last message, in microseconds
    previous: int | None = None  # the topic that was active before the new one
    paused: bool = False  # whether there was a pause before the new topic was opened


@dataclass(frozen=True, slots=True)
class Assignment:
    """The topic of a message, as an index into the matcher's topics."""

    topic: int
    similarity: float | None = None  # to the topic before the message joined, without bonus; None if not compared
    opened: bool = False  # the topic is new, and the last one
    dissolved: bool = False  # the last topic no longer exists: its messages belong to `topic`, too


class Matcher:
    """The topics of one conversation. Messages are assigned in their order.

    A caller that wants to go on later stores two things exactly. One is the `state`. The other is the centroid of each
    topic, in the order in which topics were opened; 16 bits a number hold it exactly, and its length is its weight.
    After an assignment that is `dissolved` there is one topic less.
    """

    def __init__(self, rules: MatchRules, centroids: Floats, state: MatcherState | None = None) -> None:
        """Copy the centroids. For a new conversation they have the shape (0, dimensions)."""
        count, dimensions = len(centroids), centroids.shape[1]
        self.rules, self.state = rules, state or MatcherState()
        self._count: int = count
        self._centroids = np.zeros((max(INITIAL_CAPACITY, 2 * count), dimensions), np.float32)
        self._centroids[:count] = centroids
        self._lengths = np.zeros(len(self._centroids), np.float32)
        for topic in range(count):
            self._lengths[topic] = _length(self._centroids[topic])

    def __len__(self) -> int:
        return self._count

    @property
    def centroids(self) -> Floats:
        """Return the centroids, a row for each topic."""
        return self._centroids[: self._count]

    def assign(self, vector: Floats | None, *, role: str, words: int, at: int) -> Assignment:
        """Decide the topic of the next message. `vector` is the mean of its passages' vectors; None if it has none."""
        unit = None if vector is None else _to_unit(vector)
        assignment = self._assign_user(unit, words, at) if role == "user" else self._follow_active(unit, role, words)
        self.state = replace(self.state, active=assignment.topic, last_at=at)
        return assignment

    def assign_to(self, topic: int | None, vector: Floats | None, *, role: str, at: int) -> Assignment:
        """Assign the next message to this topic, or to a new one (None), whatever it is similar to."""
        unit = None if vector is None else _to_unit(vector)
        assignment = self._open_topic() if topic is None else Assignment(topic)
        if unit is not None and role in ("user", "assistant"):
            self._add(assignment.topic, unit)
        self.state = MatcherState(assignment.topic, at)
        return assignment

    def _assign_user(self, unit: Floats | None, words: int, at: int) -> Assignment:
        active, last_at = self.state.active, self.state.last_at
        paused = last_at is not None and at - last_at >= self.rules.pause_micros
        self.state = replace(self.state, previous=None, paused=False)
        assignment = None
        if active is not None and self._must_continue(active, unit, words, paused):
            assignment = Assignment(active)
        elif unit is not None:
            assignment = self._find_match(unit, self._count, active, paused)
        if assignment is None:
            assignment = self._open_topic()
            self.state = replace(self.state, previous=active, paused=paused)
        if unit is not None and words >= self.rules.min_words:
            self._add(assignment.topic, unit)
        return assignment

    def _must_continue(self, active: int, unit: Floats | None, words: int, paused: bool) -> bool:
        """Say whether a user message stays with the active topic without a comparison.

        It does if it says too little to be compared, or if the active topic has no vector yet.
        """
        return unit is None or self._lengths[active] == 0 or (words < self.rules.min_words and not paused)

    def _follow_active(self, unit: Floats | None, role: str, words: int) -> Assignment:
        """Assign a message that is not the user's to the active topic. Only the assistant's messages move the topic.

        The first reply in a new topic is the occasion to match again: question and answer together may well belong to
        an older topic, to which the question alone was not similar.
        """
        active = self.state.active
        if active is None:
            return self._open_topic()
        assignment = Assignment(active)
        is_reply = role == "assistant" and words >= self.rules.min_reply_words
        if is_reply and unit is not None and self._lengths[active] > 0:
            if self.state.previous is not None and self._is_answer(active, unit):
                assignment = self._match_again(active, self.state.previous, unit)
            self.state = replace(self.state, previous=None, paused=False)
            self._add(assignment.topic, unit)
        return assignment

    def _is_answer(self, topic: int, reply: Floats) -> bool:
        """Say whether the first reply in a topic is about its question.

        A phrase that fits anywhere says nothing of the question. Matched with it, one question after another would join
        the topic in which the phrase was said before.
        """
        similarity = float(self._centroids[topic] @ reply) / float(self._lengths[topic])
        return similarity >= self.rules.min_answer_similarity

    def _match_again(self, new: int, previous: int, reply: Floats) -> Assignment:
        """Match question and reply together. If an older topic suits them, dissolve the new one into it."""
        question = self._centroids[new].copy()
        both = _to_unit(question + reply)
        match = None if both is None else self._find_match(both, new, previous, self.state.paused)
        if match is None:
            return Assignment(new)
        self._centroids[new], self._lengths[new] = 0, 0
        self._count = new
        self._add(match.topic, question)
        return replace(match, dissolved=True)

    def _find_match(self, unit: Floats, count: int, active: int | None, paused: bool) -> Assignment | None:
        """Return the most similar of the first `count` topics if it is similar enough, else None."""
        if not count:
            return None
        similarities = self._similarities(unit, count)
        with_bonus = similarities.copy()
        if active is not None:
            with_bonus[active] += self.rules.active_bonus_after_pause if paused else self.rules.active_bonus
        best = int(with_bonus.argmax())
        joins = with_bonus[best] >= self.rules.threshold or self._leads_clearly(similarities, best)
        return Assignment(best, float(similarities[best])) if joins else None

    def _leads_clearly(self, similarities: Floats, best: int) -> bool:
        """Say whether a topic is somewhat similar and no other nearly as much.

        People who come back to a topic use other words, so its similarity may be below the threshold.
        """
        others = np.delete(similarities, best)
        lead = similarities[best] - others.max() if len(others) else 0.0
        return bool(similarities[best] >= self.rules.clear_threshold and lead >= self.rules.clear_lead)

    def _similarities(self, unit: Floats, count: int) -> Floats:
        """Return the cosines between a message and the first `count` topics, without the part that topics share.

        With t a topic's unit vector, m the message and s the shared part, it is the cosine of t - s and m - s. It is
        expanded into a few products, so that no matrix of differences is built.
        """
        centroids, lengths = self._centroids[:count], self._lengths[:count]
        shared = _shared_part(centroids, lengths, self.rules.neutral_weight)
        scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        topic_message, topic_shared = (centroids @ unit) * scale, (centroids @ shared) * scale
        shared_square, message_shared = float(shared @ shared), float(shared @ unit)
        size = np.sqrt(
            np.maximum(1 - 2 * topic_shared + shared_square, 0) * max(1 - 2 * message_shared + shared_square, 0.0)
        )
        product = topic_message - topic_shared - message_shared + shared_square
        cosines: Floats = np.divide(product, size, out=np.zeros_like(size), where=size > 1e-6)
        cosines[lengths == 0] = 0
        return cosines

    def _open_topic(self) -> Assignment:
        if self._count == len(self._centroids):
            self._centroids = np.concatenate((self._centroids, np.zeros_like(self._centroids)))
            self._lengths = np.concatenate((self._lengths, np.zeros_like(self._lengths)))
        self._count += 1
        return Assignment(self._count - 1, opened=True)

    def _add(self, topic: int, unit: Floats) -> None:
        row = self._centroids[topic]
        row *= np.float32(self.rules.decay)
        row += unit
        row[:] = row.astype(np.float16)  # so that 16 bits hold it exactly
        self._lengths[topic] = _length(row)


def find_related(centroids: Floats, rules: MatchRules) -> list[tuple[int, int, float]]:
    """Return pairs of topics that could be merged, as (earlier, later, similarity), the most similar first."""
    lengths = np.linalg.norm(centroids, axis=1)
    present = np.flatnonzero(lengths > 0)
    if len(present) < 2:
        return []
    centroids, lengths = centroids[present], lengths[present]
    centred = centroids / lengths[:, None] - _shared_part(centroids, lengths, rules.neutral_weight)
    sizes = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = np.divide(centred, sizes, out=np.zeros_like(centred), where=sizes > 1e-6)
    cosines = np.triu(centred @ centred.T, 1)
    earlier, later = np.nonzero(cosines >= rules.merge_threshold)
    similarities = cosines[earlier, later]
    order = np.argsort(-similarities, kind="stable")
    return [(int(present[earlier[n]]), int(present[later[n]]), float(similarities[n])) for n in order]


def _shared_part(centroids: Floats, lengths: Floats, neutral_weight: float) -> Floats:
    """Return the mean of all topics by weight, as if zero vectors of `neutral_weight` were among them."""
    mean: Floats = np.ones(len(centroids), np.float32) @ centroids / np.float32(float(lengths.sum()) + neutral_weight)
    return mean


def _to_unit(vector: Floats) -> Floats | None:
    """Return the vector at length 1, in floats of 32 bits; None if its length is zero or not finite."""
    vector = np.asarray(vector, np.float32)
    length = _length(vector)
    return vector / np.float32(length) if 0 < length < math.inf else None


def _length(vector: Floats) -> float:
    return math.sqrt(float(vector @ vector))
