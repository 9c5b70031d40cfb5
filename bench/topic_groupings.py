"""Groups the messages of a conversation into topics, by our matcher and simpler methods, and compares with the truth.

A grouping is an array that holds the topic of each message. Used by `bench.topics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.topic_threads import Floats, Labels, MatchedMessage, Talk
from recollect.topics.matcher import MICROS_PER_MINUTE, Matcher, MatchRules

WINDOW_MESSAGES: Final = 12
PAUSE_MINUTES: Final = 30

Method = Callable[[Talk], Labels]


@dataclass(frozen=True, slots=True)
class GroupingFigures:
    """A comparison of a grouping with the true threads. The last two are numbers of topics."""

    v: float
    homogeneity: float
    completeness: float
    rand: float
    found_topics: float
    true_topics: float

    @property
    def score(self) -> float:
        """Return the figure that the rules are tuned for."""
        return (self.v + self.rand) / 2


# Measures


def count_shared(truth: Labels, grouping: Labels) -> NDArray[np.int64]:
    """Return how many messages each pair of a true topic (row) and a found topic (column) shares."""
    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (truth, grouping))
    table = np.zeros((rows.max() + 1, columns.max() + 1), np.int64)
    np.add.at(table, (rows, columns), 1)
    return table


def v_measure(truth: Labels, grouping: Labels) -> tuple[float, float, float]:
    """Return V, homogeneity and completeness. V is the harmonic mean of the other two.

    Homogeneity: a found topic holds messages of one true topic. Completeness: a true topic lies in one found topic.
    """
    table = count_shared(truth, grouping)
    true, found, joint = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0)), _entropy(table.ravel())
    shared = true + found - joint
    homogeneity, completeness = (shared / true if true > 0 else 1.0), (shared / found if found > 0 else 1.0)
    both = homogeneity + completeness
    return (2 * homogeneity * completeness / both if both > 0 else 0.0), homogeneity, completeness


def _entropy(sizes: NDArray[np.int64]) -> float:
    shares = sizes[sizes > 0] / sizes.sum()
    return float(-(shares * np.log(shares)).sum())


def adjusted_rand(truth: Labels, grouping: Labels) -> float:
    """Return the adjusted Rand index: pairs of messages that are rightly together or apart. 0 is chance, 1 is right."""
    table = count_shared(truth, grouping)
    true, found, both = _count_pairs(table.sum(axis=1)), _count_pairs(table.sum(axis=0)), _count_pairs(table.ravel())
    expected = true * found / _count_pairs(np.array([len(truth)])) if len(truth) > 1 else 0.0
    largest = (true + found) / 2
    return (both - expected) / (largest - expected) if largest != expected else 1.0


def _count_pairs(sizes: NDArray[np.int64]) -> float:
    return float((sizes * (sizes - 1) / 2).sum())


def compare(talk: Talk, grouping: Labels) -> GroupingFigures:
    """Compare a grouping with the true threads of a conversation."""
    sizes = (float(len(np.unique(labels))) for labels in (grouping, talk.threads))
    return GroupingFigures(*v_measure(talk.threads, grouping), adjusted_rand(talk.threads, grouping), *sizes)


def measure(talks: Sequence[Talk], method: Method) -> GroupingFigures:
    """Return the mean figures of a method over several conversations."""
    rows = [astuple(compare(talk, method(talk))) for talk in talks]
    return GroupingFigures(*map(float, np.mean(rows, axis=0)))


def nearest_thread_share(talk: Talk) -> float:
    """Return the share of user messages whose vector is nearest to the rest of their own thread.

    It shows how well vectors alone could tell threads apart.
    """
    rows = np.stack([_unit(message.vector) for message in talk.messages])
    sums = np.stack([rows[talk.threads == thread].sum(axis=0) for thread in range(talk.threads.max() + 1)])
    is_nearest = []
    for index, message in enumerate(talk.messages):
        if message.role == "user":
            others = sums.copy()
            others[talk.threads[index]] -= rows[index]
            cosines = (others @ rows[index]) / np.maximum(np.linalg.norm(others, axis=1), 1e-9)
            is_nearest.append(cosines.argmax() == talk.threads[index])
    return float(np.mean(is_nearest))


# Methods


def match_topics(rules: MatchRules, pauses: str = "some") -> Method:
    """Return the method that runs our matcher with these rules. `pauses` chooses the times of the messages."""

    def group(talk: Talk) -> Labels:
        return assign_all(talk.messages, talk.at[pauses], rules)[0]

    return group


def assign_all(messages: Sequence[MatchedMessage], at: Sequence[int], rules: MatchRules) -> tuple[Labels, Matcher]:
    """Run the matcher over all messages. Return the topic of each, and the matcher."""
    matcher = Matcher(rules, np.empty((0, len(messages[0].vector)), np.float32))
    topics: list[int] = []
    for message, moment in zip(messages, at, strict=True):
        topic_count = len(matcher)
        assignment = matcher.assign(message.vector, role=message.role, words=message.words, at=moment)
        if assignment.dissolved:
            topics = [assignment.topic if topic == topic_count - 1 else topic for topic in topics]
        topics.append(assignment.topic)
    return np.array(topics), matcher


def threshold_rule(threshold: float, decay: float = 0.9) -> Method:
    """Return the plain method: cosine to running centroids, and a threshold."""

    def group(talk: Talk) -> Labels:
        sums, topics = list[Floats](), list[int]()
        for message in talk.messages:
            unit = _unit(message.vector)
            cosines = [float(unit @ _unit(total)) for total in sums] if message.role == "user" else []
            if cosines and max(cosines) >= threshold:
                topics.append(cosines.index(max(cosines)))
            elif message.role == "user" or not sums:
                topics.append(len(sums))
                sums.append(np.zeros_like(unit))
            else:
                topics.append(topics[-1])
            sums[topics[-1]] = np.float32(decay) * sums[topics[-1]] + unit
        return np.array(topics)

    return group


def _unit(vector: Floats) -> Floats:
    unit: Floats = vector / np.float32(max(float(np.linalg.norm(vector)), 1e-9))
    return unit


BASELINES: Final[Mapping[str, Method]] = {
    "one topic": lambda talk: np.zeros(len(talk.messages), np.int64),
    "true borders": lambda talk: talk.stretches,
    "pauses": lambda talk: np.cumsum(np.diff(talk.at["some"], prepend=0) >= PAUSE_MINUTES * MICROS_PER_MINUTE),
    f"windows of {WINDOW_MESSAGES}": lambda talk: np.arange(len(talk.messages)) // WINDOW_MESSAGES,
}
