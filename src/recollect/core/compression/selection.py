"""Selects the statements of a summary: the most valuable candidates that fit into its length together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from heapq import heapify, heappop, heappush
from math import exp, fsum, log
from typing import Final, NamedTuple, TypeVar

from recollect.core.compression.attribution import DayLabels
from recollect.core.compression.narrative import Length, Statement
from recollect.core.compression.statement_weights import WEIGHTS
from recollect.core.language import sentences

T = TypeVar("T")

_MIN_NOVELTY: Final = 0.02  # factor that remains when a statement adds no new content word


class StatementCandidate(NamedTuple):
    """A statement that may be selected, with its content words."""

    statement: Statement
    content_words: frozenset[str]
    order: tuple[int, int]  # among statements of the same time
    sentences: tuple[tuple[int, int], ...] = ()  # that it is made of: (line, sentence)

    def resolve_days(self, days: DayLabels) -> StatementCandidate:
        """Return the candidate with dates after words like "yesterday".

        A statement of several messages stays as it is, for it is not known which message has the word.
        """
        statement = self.statement
        if len(statement.sources) != 1:
            return self
        return self._replace(statement=replace(statement, text=days.resolve(statement.text, statement.at)))


def with_pauses(items: Iterable[T], pause: Callable[[], None]) -> Iterator[T]:
    """Yield the items, and call `pause` before each."""
    for item in items:
        pause()
        yield item


@dataclass(slots=True)
class Selection:
    """Takes the candidate with the highest value, again and again, as long as one fits into the length."""

    candidates: list[StatementCandidate]
    word_weights: Mapping[str, float]
    length: Length
    days: DayLabels
    covered: set[str]  # content words of taken candidates, and of texts shown elsewhere in the prompt
    pause: Callable[[], None]
    size: int = 0  # of the taken candidates with their day labels, in units of `length`
    taken: list[StatementCandidate] = field(default_factory=list)
    used_sentences: set[tuple[int, int]] = field(default_factory=set)

    def select(self) -> list[Statement]:
        """Return the chosen statements in the order of time, with day labels."""
        too_long = self._take_fitting()
        if self.size < self.length.minimum:
            self._take_shortened(too_long)
        self.taken.sort(key=lambda candidate: (candidate.statement.at, candidate.order))
        return self._label_days([candidate.statement for candidate in self.taken])

    def _take_fitting(self) -> list[StatementCandidate]:
        """Take candidates while they fit, and return those that were too long.

        Values can only fall while others are taken. So the queue is ordered by the last known value of each, and a
        value is computed anew only when its candidate comes first.
        """
        sizes = [  # without day labels
            self.length.measure(candidate.statement.text) for candidate in with_pauses(self.candidates, self.pause)
        ]
        queue = [(-self._value(candidate, sizes[index]), index) for index, candidate in enumerate(self.candidates)]
        heapify(queue)
        best_value = -queue[0][0] if queue else 0.0
        too_long: list[StatementCandidate] = []
        while queue:
            self.pause()
            _, index = heappop(queue)
            candidate = self.candidates[index]
            value = self._value(candidate, sizes[index])
            if queue and -value > queue[0][0]:
                heappush(queue, (-value, index))
            elif value < WEIGHTS.min_value_share * best_value and self.size >= self.length.minimum:
                break
            elif self.used_sentences.intersection(candidate.sentences):
                continue  # one of its sentences is in the summary already
            elif self.size + sizes[index] <= self.length.maximum and self._fits(
                candidate.statement.at, candidate.statement.text
            ):
                self._take(candidate)
            else:
                too_long.append(candidate)
        return too_long

    def _value(self, candidate: StatementCandidate, size: int) -> float:
        """Return the weight, less for content words that are covered, and less for a larger share of the length."""
        total = self._sum_weights(candidate.content_words)
        novelty = 1 - self._sum_weights(candidate.content_words & self.covered) / total if total else 0.0
        share = WEIGHTS.size_allowance + size / max(self.length.maximum, 1)
        return candidate.statement.weight * max(novelty, _MIN_NOVELTY) * exp(-WEIGHTS.size_exponent * log(share))

    def _sum_weights(self, content_words: Iterable[str]) -> float:
        """Return the exact sum, which does not depend on the order of a set.

        Words without a weight (they are only in older summaries) count 1.
        """
        return fsum(self.word_weights.get(word, 1.0) for word in content_words)

    def _size_with_label(self, at: datetime, text: str) -> int:
        day_is_labelled = any(
            self.days.local_date(at) == self.days.local_date(candidate.statement.at) for candidate in self.taken
        )
        return self.length.measure_next(f"{'' if day_is_labelled else self.days.label(at)}{text}")

    def _fits(self, at: datetime, text: str) -> bool:
        return self.size + self._size_with_label(at, text) <= self.length.maximum

    def _take(self, candidate: StatementCandidate) -> None:
        self.size += self._size_with_label(candidate.statement.at, candidate.statement.text)
        self.taken.append(candidate)
        self.used_sentences.update(candidate.sentences)
        self.covered |= candidate.content_words

    def _take_shortened(self, too_long: Iterable[StatementCandidate]) -> None:
        """Take candidates that do not fit as a whole, shortened, until the minimum length is reached."""
        for candidate in too_long:
            text = sentences.shorten(candidate.statement.text, partial(self._fits, candidate.statement.at))
            if text and self.size < self.length.minimum:
                self._take(candidate._replace(statement=replace(candidate.statement, text=text)))

    def _label_days(self, statements: list[Statement]) -> list[Statement]:
        """Return the statements with day labels. Drop those of least weight while the whole is too long.

        The sizes were summed, but a whole text may have more tokens than its parts.
        """
        while True:
            times_before = [None, *(statement.at for statement in statements)]
            labels = [
                self.days.label(statement.at, before)
                for statement, before in zip(statements, times_before, strict=False)
            ]
            labelled = [
                replace(statement, text=label + statement.text)
                for statement, label in zip(statements, labels, strict=True)
            ]
            if not labelled or self.length.measure_all(labelled) <= self.length.maximum:
                return labelled
            statements.remove(min(statements, key=lambda statement: statement.weight))
