"""Which topic of its conversation a message belongs to. Pure: it knows vectors and times, no texts and no database.

A topic is one vector: the running sum of its messages' vectors, which fades as new ones come. A user message joins the
most similar topic if that is similar enough, else it opens one. Everyone else's messages follow the talk. Similarity is
measured apart from what all topics of the conversation have in common (its speakers, its tone, its field), or else
talk between the same two people would be one topic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MINUTE: Final = 60 * 1_000_000  # microseconds
ROOM: Final = 16  # topics there is room for at first


@dataclass(frozen=True, slots=True)
class Rules:
    """When a message belongs to a topic. Numbers hold for one embedder; `bench/topics.py` shows where they come from.

    As they stand here they are the plain rule, for embedders that nobody has measured.
    """

    threshold: float = 0.7  # similarity from which a user message joins a topic
    bonus: float = 0.0  # similarity that the active topic is given, since most messages go on with it,
    after_pause: float = 0.0  # and what it is given when the talk has rested
    pause: int = 30 * MINUTE
    clear: float = math.inf  # similarity that is enough for a topic which is
    ahead: float = 0.25  # so much more similar than any other
    least_reply: int = 6  # words of an assistant's message that tells what a topic is about; "Noted." suits any
    least_words: int = 3  # what is shorter stays with the active topic, and does not move it
    decay: float = 0.9  # what is left of a topic's sum with each message it gets
    reserve: float = math.inf  # messages about nothing that the common part is averaged with; infinite: it is nothing
    alike: float = 0.8  # similarity of two topics that may be one


# Tuned on the even half of LongMemEval (pooled), BEAM 100K, DialogSum and LoCoMo; nothing of them is in here.
_CALIBRATED: Final = {
    "all-MiniLM-L6-v2/int8": Rules(threshold=0.35, bonus=0.25, after_pause=0.05, reserve=8.0, alike=0.4, clear=0.2),
}


def calibrated(name: str) -> Rules:
    """The rules for the vectors of an embedder, by its name."""
    return _CALIBRATED.get(name, Rules())


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the talk stands after a message: with the topics' sums, all that is needed to go on."""

    active: int | None = None  # the topic of the last message
    at: int | None = None  # the time of the last message, in microseconds
    before: int | None = None  # while the active topic is new and has no reply: the topic that was active before it,
    paused: bool = False  # and whether the talk had rested when it was opened


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a message belongs."""

    topic: int
    similarity: float | None = None  # to that topic before it joined, without any bonus; None if nothing was compared
    opened: bool = False  # the topic is new, and the last one
    folded: bool = False  # the last topic was none: it is gone, and its messages belong to this one's topic


class Matcher:
    """The topics of one conversation. Messages are placed in their order.

    What has to be stored, exactly, to place the next messages as if there had been no break: for each topic its row of
    `sums` (its length is its weight; 16 bits a number hold it exactly), in the order in which topics were opened; and
    for the conversation its `standing`. After a `folded` message there is one topic less.
    """

    def __init__(self, rules: Rules, sums: Floats, standing: Standing | None = None) -> None:
        """The sums are copied; for a new conversation, of shape (0, dimensions)."""
        count, dimensions = len(sums), sums.shape[1]
        self.rules, self.standing = rules, standing or Standing()
        self._count: int = count
        self._sums = np.zeros((max(ROOM, 2 * count), dimensions), np.float32)
        self._sums[:count] = sums
        self._lengths = np.zeros(len(self._sums), np.float32)
        for topic in range(count):
            self._lengths[topic] = _length(self._sums[topic])

    def __len__(self) -> int:
        return self._count

    @property
    def sums(self) -> Floats:
        """A row for each topic."""
        return self._sums[: self._count]

    def place(self, vector: Floats | None, *, role: str, words: int, at: int) -> Placed:
        """The topic of the next message. Its vector is the mean of its passages' vectors; None if it has none."""
        unit = None if vector is None else _unit(vector)
        placed = self._place_user(unit, words, at) if role == "user" else self._follow(unit, role, words)
        self.standing = replace(self.standing, active=placed.topic, at=at)
        return placed

    def put(self, topic: int | None, vector: Floats | None, *, role: str, at: int) -> Placed:
        """The next message belongs to this topic, or opens one (None), whatever it is similar to."""
        unit = None if vector is None else _unit(vector)
        placed = self._open() if topic is None else Placed(topic)
        if unit is not None and role in ("user", "assistant"):
            self._add(placed.topic, unit)
        self.standing = Standing(placed.topic, at)
        return placed

    def _place_user(self, unit: Floats | None, words: int, at: int) -> Placed:
        before, last = self.standing.active, self.standing.at
        paused = last is not None and at - last >= self.rules.pause
        self.standing = replace(self.standing, before=None, paused=False)
        placed = None
        if before is not None and self._goes_on(before, unit, words, paused):
            placed = Placed(before)
        elif unit is not None:
            placed = self._nearest(unit, self._count, before, paused)
        if placed is None:
            placed = self._open()
            self.standing = replace(self.standing, before=before, paused=paused)
        if unit is not None and words >= self.rules.least_words:
            self._add(placed.topic, unit)
        return placed

    def _goes_on(self, active: int, unit: Floats | None, words: int, paused: bool) -> bool:
        """Whether a message can only belong to the active topic: it says too little, or nothing was said there yet."""
        return unit is None or self._lengths[active] == 0 or (words < self.rules.least_words and not paused)

    def _follow(self, unit: Floats | None, role: str, words: int) -> Placed:
        """Messages that are no user's stay with the active topic; the assistant's tell what it is about.

        If that topic has just been opened, the first reply gives it a second look: question and answer together may
        well belong to a topic that the question alone was not similar to.
        """
        active = self.standing.active
        if active is None:
            return self._open()
        placed = Placed(active)
        if role == "assistant" and unit is not None and words >= self.rules.least_reply and self._lengths[active] > 0:
            if self.standing.before is not None:
                placed = self._second_look(active, self.standing.before, unit)
            self.standing = replace(self.standing, before=None, paused=False)
            self._add(placed.topic, unit)
        return placed

    def _second_look(self, new: int, before: int, reply: Floats) -> Placed:
        question = self._sums[new].copy()
        both = _unit(question + reply)
        found = None if both is None else self._nearest(both, new, before, self.standing.paused)
        if found is None:
            return Placed(new)
        self._sums[new], self._lengths[new] = 0, 0
        self._count = new
        self._add(found.topic, question)
        return replace(found, folded=True)

    def _nearest(self, unit: Floats, count: int, active: int | None, paused: bool) -> Placed | None:
        """The most similar of the first so many topics, if it is similar enough."""
        if not count:
            return None
        found = self._similarities(unit, count)
        bonus = 0.0 if active is None else self.rules.after_pause if paused else self.rules.bonus
        given = found.copy()
        if active is not None:
            given[active] += bonus
        best = int(given.argmax())
        joins = given[best] >= self.rules.threshold or self._is_clear(found, best)
        return Placed(best, float(found[best])) if joins else None

    def _is_clear(self, found: Floats, best: int) -> bool:
        """Whether a topic is a little similar and no other nearly as much: who comes back says it in other words."""
        others = np.delete(found, best)
        ahead = found[best] - others.max() if len(others) else 0.0
        return bool(found[best] >= self.rules.clear and ahead >= self.rules.ahead)

    def _similarities(self, unit: Floats, count: int) -> Floats:
        """Cosines between a message and topics after the common part was taken from both.

        They are put together from a few products, so that no matrix is made anew.
        """
        sums, lengths = self._sums[:count], self._lengths[:count]
        common = _common(sums, lengths, self.rules.reserve)
        scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        own, shared = (sums @ unit) * scale, (sums @ common) * scale
        square, said = float(common @ common), float(common @ unit)
        size = np.sqrt(np.maximum(1 - 2 * shared + square, 0) * max(1 - 2 * said + square, 0.0))
        found: Floats = np.divide(own - shared - said + square, size, out=np.zeros_like(size), where=size > 1e-6)
        found[lengths == 0] = 0
        return found

    def _open(self) -> Placed:
        if self._count == len(self._sums):
            self._sums = np.concatenate((self._sums, np.zeros_like(self._sums)))
            self._lengths = np.concatenate((self._lengths, np.zeros_like(self._lengths)))
        self._count += 1
        return Placed(self._count - 1, opened=True)

    def _add(self, topic: int, unit: Floats) -> None:
        row = self._sums[topic]
        row *= np.float32(self.rules.decay)
        row += unit
        row[:] = row.astype(np.float16)  # so that 16 bits hold it exactly
        self._lengths[topic] = _length(row)


def related(sums: Floats, rules: Rules) -> list[tuple[int, int, float]]:
    """Pairs of topics that may be one, as (earlier, later, similarity), the most similar first."""
    lengths = np.linalg.norm(sums, axis=1)
    present = np.flatnonzero(lengths > 0)
    if len(present) < 2:
        return []
    sums, lengths = sums[present], lengths[present]
    centred = sums / lengths[:, None] - _common(sums, lengths, rules.reserve)
    sizes = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = np.divide(centred, sizes, out=np.zeros_like(centred), where=sizes > 1e-6)
    found = np.triu(centred @ centred.T, 1)
    one, other = np.nonzero(found >= rules.alike)
    order = np.argsort(-found[one, other], kind="stable")
    return [(int(present[one[at]]), int(present[other[at]]), float(found[one[at], other[at]])) for at in order]


def _common(sums: Floats, lengths: Floats, reserve: float) -> Floats:
    """What all topics have in common: their mean, by weight, as if some messages about nothing were among them."""
    found: Floats = np.ones(len(sums), np.float32) @ sums / np.float32(float(lengths.sum()) + reserve)
    return found


def _unit(vector: Floats) -> Floats | None:
    """At length 1, as floats of 32 bits; None if it points nowhere."""
    vector = np.asarray(vector, np.float32)
    length = _length(vector)
    return vector / np.float32(length) if 0 < length < math.inf else None


def _length(vector: Floats) -> float:
    return math.sqrt(float(vector @ vector))
