"""Summarises dialogue without a model, in any language: statements of who said what, chosen from what was said.

Units are sentences told with their speaker, and questions with their short answers. Each has a weight: how central its
words are, what it is about, who says it and where. Statements of an earlier summary keep theirs and compete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from heapq import heapify, heappop, heappush, nlargest
from math import exp, fsum, log
from typing import Final, NamedTuple, TypeVar

from recollect.core.compression.attribution import ADDED, Days, quoted, speaker, told, trimmed, undated
from recollect.core.compression.narrative import Length, Statement, narrative, words
from recollect.core.language import analyser, sentences, speech
from recollect.core.models import Message

T = TypeVar("T")

POOL: Final = 600  # units that are told and compared; the rest could hardly win


def summarise(
    turns: Sequence[Sequence[Message]],
    *,
    old: Sequence[Statement] = (),
    length: Length,
    zone: str = "UTC",
    known: Iterable[str] = (),
    pause: Callable[[], None] = lambda: None,
) -> list[Statement]:
    """The statements that tell most of the old ones and of the new turns within the length, in the order of time.

    What is `known` stands beside the summary, and need not be told by it. `pause` is called every now and then.
    """
    new, worth = _read(turns, pause, first=not old)
    days = Days(zone, [*(one.at for one in old), *(one.statement.at for one in new)])
    candidates = {one.statement.text: one for one in (*new, *_remembered(old))}
    covered = {word for text in known for word in analyser.words(text)}
    return _Choice([one.dated(days) for one in candidates.values()], worth, length, days, covered, pause).made()


class Weights(NamedTuple):
    """Tuned on DialogSum's dev set and the public halves of QMSum and LoCoMo; see bench/summaries.py."""

    frequency: float = 1.1  # of words that many lines share,
    calm: float = 0.13  # a little less in long talks
    rarity: float = 0.3
    common: float = 0.125  # the share of lines in which a word is too common to tell anything,
    damp: float = 3.2  # and how sharply that sets in
    size: float = 0.66  # 1: the mean of a unit's words counts, 0: their sum
    short: float = 7.3  # words a unit should have
    lead: float = 1.9  # what opens a conversation says what it is about,
    fade: float = 1.4  # for so many lines,
    stretch: float = 0.8  # more in long talks,
    end: float = 0.12  # and its end what came out
    facts: float = 0.2  # numbers and names
    own: float = 0.36  # what people say of themselves
    intent: float = 0.8  # wishes, plans, decisions, reasons
    question: float = 1.25  # with or without its answer
    small_talk: float = 0.6
    machine: float = 0.45  # an assistant without a name: its answers are long and can be asked for again
    depth: float = 4.5  # sentences of a message until one counts half
    cost: float = 0.55  # how much a short unit is preferred,
    spare: float = 0.18  # where it is not short beside the whole length anyway
    floor: float = 0.21  # of the best value: what is below is not told once the least length is reached


WEIGHTS: Final = Weights()
_SMALLEST: Final = 40  # lines; in a shorter talk it cannot be seen which words are too common
_ANSWER: Final = (8, 60, 3)  # words, characters, telling words; an answer with more is understood by itself
_DENIAL: Final = re.compile(
    r"(?:no|nope|nah|never|not|wrong|لا|كلا|ليس)\b(?! (?:problem|worries|doubt|idea))", re.IGNORECASE
)
_DENIED: Final = 160  # characters of a denial that are told whole
_BRIEF: Final = 12  # lines of a talk of which the first one or two tell the subject
_TELLING: Final = frozenset(analyser.words(" ".join(ADDED)))
_REPEATED: Final = 0.02  # what is left of the value of what others have said


class _Line(NamedTuple):  # a message that can be told
    message: Message
    who: str
    sentences: list[str]


class _Unit(NamedTuple):  # what may become a statement: a sentence, or a question with the answer in the next line
    line: int
    place: int  # of the sentence in its message
    text: str
    concepts: frozenset[str]
    reply: str = ""


class _Candidate(NamedTuple):
    statement: Statement
    concepts: frozenset[str]
    order: tuple[int, int]  # among statements of the same time
    tells: tuple[tuple[int, int], ...] = ()  # the sentences it is made of, by line and place

    def dated(self, days: Days) -> _Candidate:
        """Of several messages it is not known which one spoke of "yesterday"."""
        one = self.statement
        return (
            self._replace(statement=replace(one, text=days.meant(one.text, one.at))) if len(one.sources) == 1 else self
        )


def _paced(items: Iterable[T], pause: Callable[[], None]) -> Iterator[T]:
    for item in items:
        pause()
        yield item


def _read(
    turns: Iterable[Iterable[Message]], pause: Callable[[], None], *, first: bool
) -> tuple[list[_Candidate], dict[str, float]]:
    """The units worth comparing, told; and what each word is worth."""
    lines = _lines(_paced(turns, pause))
    units = list(_paced(_units(lines), pause))
    worth = _worth(units, len(lines))
    bases = [fsum(map(worth.__getitem__, unit.concepts)) / (len(unit.concepts) + 3) ** WEIGHTS.size for unit in units]
    mean = sum(bases) / len(bases) if bases else 1.0
    pairs = _paced(zip(bases, units, strict=True), pause)
    weighed = [(base / mean * _merit(unit, lines, first=first), unit) for base, unit in pairs]
    names = {line.who for line in lines}
    best = nlargest(POOL, weighed, key=lambda pair: pair[0])
    return [_candidate(unit, weight, lines, names) for weight, unit in _paced(best, pause)], worth


def _lines(turns: Iterable[Iterable[Message]]) -> list[_Line]:
    heard = (message for turn in turns for message in turn if message.role in ("user", "assistant"))
    lines = (_Line(message, speaker(message), sentences.split(speech.own_words(message.content))) for message in heard)
    return [line for line in lines if line.sentences]


def _units(lines: Sequence[_Line]) -> Iterator[_Unit]:
    """An answer that needs its question is no unit of its own."""
    asked = False
    for at, line in enumerate(lines):
        answers = asked and lines[at - 1].who != line.who and _needs_question(line.sentences[0])
        last = len(line.sentences) - 1
        asked = sentences.is_question(line.sentences[last])
        for place, text in enumerate(line.sentences):
            concepts = frozenset(analyser.words(text))
            reply = _reply(lines, at) if asked and place == last else ""
            if reply and (both := concepts | frozenset(analyser.words(reply))):
                yield _Unit(at, place, text, both, reply)
            if asked and place == last and _is_doubtful(lines, at, reply):
                continue
            if concepts and not (answers and place == 0) and not sentences.is_acknowledgement(text):
                yield _Unit(at, place, text, concepts)


def _is_doubtful(lines: Sequence[_Line], at: int, reply: str) -> bool:
    """Whether a question may not be told alone: it was denied, or an assistant's whose answer is not known yet."""
    unanswered = at + 1 == len(lines) and lines[at].message.role == "assistant" and not lines[at].message.name
    return unanswered or _DENIAL.match(reply) is not None


def _reply(lines: Sequence[_Line], at: int) -> str:
    """The short answer that the next line begins with, if any."""
    if at + 1 == len(lines) or lines[at + 1].who == lines[at].who:
        return ""
    first, *rest = lines[at + 1].sentences
    if _DENIAL.match(first) and len(first) <= _DENIED:
        return first
    if not _needs_question(first) or sentences.is_question(first) or sentences.is_small_talk(first):
        return ""
    more = words(first) <= 2 and rest and _needs_question(rest[0]) and not sentences.is_question(rest[0])
    return f"{first} {rest[0]}" if more else first


def _needs_question(text: str) -> bool:
    return words(text) <= _ANSWER[0] and len(text) <= _ANSWER[1] and len(analyser.words(text)) <= _ANSWER[2]


def _worth(units: Sequence[_Unit], lines: int) -> dict[str, float]:
    """Words of many lines are what it is about; words of very many are only how people talk."""
    spread = Counter(concept for _, concept in {(unit.line, concept) for unit in units for concept in unit.concepts})
    frequency = WEIGHTS.frequency * (_SMALLEST / max(lines, _SMALLEST)) ** WEIGHTS.calm
    common = WEIGHTS.common * max(lines, _SMALLEST)
    return {
        concept: count**frequency * log(1 + lines / count) ** WEIGHTS.rarity / (1 + (count / common) ** WEIGHTS.damp)
        for concept, count in spread.items()
    }


def _merit(unit: _Unit, lines: Sequence[_Line], *, first: bool) -> float:
    text, line = unit.text, lines[unit.line]
    merit = (1 - exp(-len(unit.concepts) / WEIGHTS.short)) / (1 + unit.place / WEIGHTS.depth)
    merit *= 1 + WEIGHTS.facts * min(sentences.facts(text), 3)
    merit *= WEIGHTS.question if sentences.is_question(text) else 1
    merit *= (1 + WEIGHTS.own * sentences.is_personal(text)) * (1 + WEIGHTS.intent * sentences.is_intent(text))
    merit *= WEIGHTS.small_talk if sentences.is_small_talk(text) else 1
    merit *= WEIGHTS.machine if line.message.role == "assistant" and not line.message.name else 1
    if first:
        fade = WEIGHTS.fade * max(len(lines) / _BRIEF, 1) ** WEIGHTS.stretch
        merit *= 1 + WEIGHTS.lead * exp(-unit.line / fade)
        merit *= 1 + WEIGHTS.end * exp((unit.line + 1 - len(lines)) / fade)
    return merit


def _candidate(unit: _Unit, weight: float, lines: Sequence[_Line], names: set[str]) -> _Candidate:
    """Told with the speaker; "you" is known only where two talk."""
    message, who, _ = lines[unit.line]
    whom = next(name for name in names if name != who) if len(names) == 2 else None
    asked = sentences.is_question(unit.text)
    if message.role == "assistant" and not message.name and not asked and sentences.is_personal(unit.text):
        text = quoted(trimmed(unit.text), who)  # its "I" is nobody's: what it writes may be a letter for the user
    else:
        text = told(trimmed(unit.text), who, whom, asked=asked)
    sources = [message.id]
    if unit.reply:
        text = f"{text} {quoted(unit.reply, lines[unit.line + 1].who)}"
        sources.append(lines[unit.line + 1].message.id)
    place = (unit.line, unit.place)
    answer = ((unit.line + 1, 0), (unit.line + 1, 1)) if unit.reply else ()
    return _Candidate(Statement(text, tuple(sources), message.at, weight), unit.concepts, place, (place, *answer))


def _remembered(old: Sequence[Statement]) -> Iterator[_Candidate]:
    """Words of the telling and names stand in many of them and say nothing about any."""
    bare = [replace(one, text=undated(one.text)) for one in old]
    concepts = [frozenset(analyser.words(one.text)) - _TELLING for one in bare]
    spread = Counter(concept for each in concepts for concept in each)
    names = {concept for concept, count in spread.items() if count > max(2, len(old) / 3)}
    for at, (one, each) in enumerate(zip(bare, concepts, strict=True)):
        yield _Candidate(one, each - names, (at - len(old), 0))


@dataclass(slots=True)
class _Choice:
    """Takes the most telling candidate again and again, as long as one fits."""

    candidates: list[_Candidate]
    worth: Mapping[str, float]
    length: Length
    days: Days
    covered: set[str]
    pause: Callable[[], None]
    spent: int = 0
    taken: list[_Candidate] = field(default_factory=list)
    told: set[tuple[int, int]] = field(default_factory=set)

    def made(self) -> list[Statement]:
        left = self._fill()
        if self.spent < self.length.least:
            self._squeeze(left)
        self.taken.sort(key=lambda one: (one.statement.at, one.order))
        return self._fitted([one.statement for one in self.taken])

    def _fill(self) -> list[_Candidate]:
        """Values only fall while others are taken, so the best by its last value is looked at first."""
        sizes = [self.length.measure(one.statement.text) for one in _paced(self.candidates, self.pause)]
        queue = [(-self._value(one, sizes[at]), at) for at, one in enumerate(self.candidates)]
        heapify(queue)
        best = -queue[0][0] if queue else 0.0
        left: list[_Candidate] = []
        while queue:
            self.pause()
            _, at = heappop(queue)
            one = self.candidates[at]
            value = self._value(one, sizes[at])
            if queue and -value > queue[0][0]:
                heappush(queue, (-value, at))
            elif value < WEIGHTS.floor * best and self.spent >= self.length.least:
                break
            elif self.told.intersection(one.tells):
                continue  # as a question with its answer, or an answer with its question
            elif self.spent + sizes[at] <= self.length.most and self._fits(one.statement.at, one.statement.text):
                self._take(one)
            else:
                left.append(one)
        return left

    def _value(self, one: _Candidate, size: int) -> float:
        total = self._sum(one.concepts)
        new = 1 - self._sum(one.concepts & self.covered) / total if total else 0.0
        share = WEIGHTS.spare + size / max(self.length.most, 1)
        return one.statement.weight * max(new, _REPEATED) * exp(-WEIGHTS.cost * log(share))

    def _sum(self, concepts: Iterable[str]) -> float:
        """Exact, so that the order of a set does not matter. Words of old statements alone count like rare ones."""
        return fsum(self.worth.get(concept, 1.0) for concept in concepts)

    def _cost(self, at: datetime, text: str) -> int:
        known = any(self.days.of(at) == self.days.of(one.statement.at) for one in self.taken)
        return self.length.measure(f" {'' if known else self.days.label(at)}{text}")

    def _fits(self, at: datetime, text: str) -> bool:
        return self.spent + self._cost(at, text) <= self.length.most

    def _take(self, one: _Candidate) -> None:
        self.spent += self._cost(one.statement.at, one.statement.text)
        self.taken.append(one)
        self.told.update(one.tells)
        self.covered |= one.concepts

    def _squeeze(self, left: Iterable[_Candidate]) -> None:
        """Too little is told because nothing more fits as a whole: the best that is left comes in as far as it fits."""
        for one in left:
            text = sentences.shorten(one.statement.text, partial(self._fits, one.statement.at))
            if text and self.spent < self.length.least:
                self._take(one._replace(statement=replace(one.statement, text=text)))

    def _fitted(self, statements: list[Statement]) -> list[Statement]:
        """Costs were summed, and tokens of a whole may be more than those of its parts: the cap holds for the whole."""
        while True:
            befores = [None, *(one.at for one in statements)]
            labels = [self.days.label(one.at, before) for one, before in zip(statements, befores, strict=False)]
            dated = [replace(one, text=label + one.text) for one, label in zip(statements, labels, strict=True)]
            if not dated or self.length.measure(narrative(dated)) <= self.length.most:
                return dated
            statements.remove(min(statements, key=lambda one: one.weight))
