"""Summarises dialogue without a model, in any language: statements of who said what, chosen from what was said.

Units are sentences told with their speaker, and questions together with their short answers. Each has a weight: how
central its words are, how much fact it holds, who says it and where. Statements of an earlier summary keep theirs and
compete with the new ones: the best of the best of parts are the best of all. No unit is chosen for what others said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import exp, log
from typing import Final, NamedTuple

from recollect.core import analysis
from recollect.core.models import Message, Record
from recollect.core.sentences import sentences, shorten, tidy
from recollect.core.telling import NAME_LIMIT, quoted, told, trimmed
from recollect.core.times import load_zone

POOL: Final = 600  # units that are told and compared; the rest could hardly win
_LADDER: Final = ((100, 150), (200, 250), (300, 350), (400, 450), (500, 750))
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Statement(Record):
    """One statement of a narrative, complete in itself, with the messages it rests on.

    `at` is the time of the first of them. `weight` says how much it matters, so that a later fold can compare.
    """

    text: str
    sources: tuple[str, ...]
    at: datetime
    weight: float


@dataclass(frozen=True, slots=True)
class Length:
    """How long a narrative may be and should be, by any measure of text (words, tokens)."""

    least: int
    most: int
    measure: Callable[[str], int]


def words(text: str) -> int:
    return len(text.split())


def ladder(version: int) -> Length:
    """The words of a brief's narrative, growing with its version (counted from 1)."""
    least, most = _LADDER[min(max(version, 1), len(_LADDER)) - 1]
    return Length(least, most, words)


def narrative(statements: Sequence[Statement]) -> str:
    return " ".join(statement.text for statement in statements)


def summarise(
    turns: Sequence[Sequence[Message]], *, old: Sequence[Statement] = (), length: Length, zone: str = "UTC"
) -> list[Statement]:
    """The statements that tell most of the old ones and the new turns within the length, in the order of time."""
    choices = [*_remembered(old, zone), *_candidates(turns, first=not old)]
    chosen = _Choice(choices, length, zone).made()
    return _dated([choice.statement for choice in chosen], zone)


# Reading: from messages to units.


class Weights(NamedTuple):
    """Found on the dialogues of DialogSum's dev set from the 200th on, and on QMSum's."""

    frequency: float = 1.088
    rarity: float = 0.287
    size: float = 0.5
    lead: float = 1.216
    fade: float = 1.379
    facts: float = 0.3
    own: float = 0.361
    question: float = 1.556
    pair: float = 1.44
    small_talk: float = 0.6
    depth: float = 3.75
    novelty: float = 1.0
    cost: float = 0.768
    floor: float = 0.211
    short: float = 4.8
    end: float = 0.122
    intent: float = 0.623
    common: float = 0.2
    damp: float = 2.0
    spare: float = 0.1


WEIGHTS = Weights()

_ASKED: Final = re.compile(r"[?？؟;]\W*$")
_ASKED_PLAIN: Final = re.compile(r"[?？؟]\W*$")
_FACT: Final = re.compile(r"\d+(?:[.,:]\d+)*|(?<=[a-z,;] )[A-Z][\w'-]+")
_OWN: Final = re.compile(
    r"\b(?:i|i'm|i've|i'll|my|me|mine)\b|أنا|عندي|لدي|我|私|\b(?:ich|mein|je|mon|ma|yo|mi)\b", re.I
)
_SMALL_TALK: Final = re.compile(
    r"\b(?:hello|hi|hey|bye|goodbye|good-bye|thanks?|thank you|welcome|good (?:morning|afternoon|evening|night|luck)"
    r"|how are you|how do you do|see you|nice to|take care|you're right|sounds (?:good|great)|no problem|excuse me"
    r"|great to hear|happy to help|glad to|let me know if|feel free|sorry)\b"
    r"|شكرا|مرحبا|السلام عليكم|صباح الخير|مع السلامة|谢谢|你好|再见|ありがとう|こんにちは",
    re.I,
)
_INTENT: Final = re.compile(
    r"\b(?:want|need|would like|plan|planning|decided?|going to|have to|prefer|suggest|recommend|agree|must|should|let's"
    r"|i'll|i'd like|why don't|how about|what about|invite|allergic|hate|love|because)\b|أريد|أحتاج|يجب|قررت|想|要|需要|决定",
    re.I,
)
_ANSWER_WORDS: Final = 8  # an answer up to so many words needs its question


class _Line(NamedTuple):
    """A message that can be told."""

    message: Message
    who: str
    sentences: list[str]


class _Unit(NamedTuple):
    """What may become a statement: a sentence, or a question and the answer to it."""

    line: int
    place: int  # of the sentence in its message
    text: str
    concepts: frozenset[str]
    answer: str = ""  # by the next line


class _Choice_(NamedTuple):
    statement: Statement
    concepts: frozenset[str]
    order: int


def _speaker(message: Message) -> str:
    name = tidy(message.name or "")[:NAME_LIMIT].strip()
    return name if name and name.lower() not in ("user", "assistant") else f"the {message.role}"


def _lines(turns: Iterable[Iterable[Message]]) -> list[_Line]:
    heard = (message for turn in turns for message in turn if message.role in ("user", "assistant"))
    lines = (_Line(message, _speaker(message), sentences(message.content)) for message in heard)
    return [line for line in lines if line.sentences]


def _units(lines: Sequence[_Line]) -> Iterator[_Unit]:
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) and lines[at + 1].who != line.who else None
        before = lines[at - 1] if at and lines[at - 1].who != line.who else None
        for place, text in enumerate(line.sentences):
            concepts = frozenset(analysis.words(text))
            asked = bool(_ASKED_PLAIN.search(text))
            if asked and following is not None and place == len(line.sentences) - 1 and (reply := _reply(following)):
                yield _Unit(at, place, text, concepts | frozenset(analysis.words(reply)), reply)
            elif place == 0 and before is not None and _ASKED_PLAIN.search(before.sentences[-1]) and _needs(text):
                continue
            if concepts or not text.isascii():
                yield _Unit(at, place, text, concepts)


def _reply(line: _Line) -> str:
    """The answer that a line begins with, if it is too short to be understood without the question."""
    first = line.sentences[0]
    if not _needs(first) or _ASKED_PLAIN.search(first):
        return ""
    if words(first) <= 2 and len(line.sentences) > 1 and words(line.sentences[1]) <= _ANSWER_WORDS:
        second = line.sentences[1]
        return first if _ASKED_PLAIN.search(second) else f"{first} {second}"
    return first


def _needs(text: str) -> bool:
    return words(text) <= _ANSWER_WORDS and len(text) <= 60


def _candidates(turns: Sequence[Sequence[Message]], *, first: bool) -> list[_Choice_]:
    lines = _lines(turns)
    units = list(_units(lines))
    if not units:
        return []
    scored = _weighed(units, lines, first=first)
    best = sorted(scored, key=lambda pair: -pair[0])[:POOL]
    names = list(dict.fromkeys(line.who for line in lines))
    return [_choice(unit, weight, lines, names) for weight, unit in best]


def _choice(unit: _Unit, weight: float, lines: Sequence[_Line], names: Sequence[str]) -> _Choice_:
    line = lines[unit.line]
    whom = None
    if len(names) == 2:
        whom = names[1] if line.who == names[0] else names[0]
    asked = bool(_ASKED_PLAIN.search(unit.text))
    text = told(trimmed(unit.text), line.who, whom, asked=asked)
    sources = [line.message.id]
    if unit.answer:
        reply = lines[unit.line + 1]
        text = f"{text} {quoted(unit.answer, reply.who)}"
        sources.append(reply.message.id)
    statement = Statement(text, tuple(sources), line.message.at, weight)
    return _Choice_(statement, unit.concepts, unit.line * 1000 + min(unit.place, 999))


def _weighed(units: Sequence[_Unit], lines: Sequence[_Line], *, first: bool) -> list[tuple[float, _Unit]]:
    w = WEIGHTS
    spread = Counter(concept for at in _by_line(units) for concept in at)
    count = len(lines)
    usual = w.common * max(count, 40)
    worth = {
        c: n**w.frequency * log(1 + count / n) ** w.rarity / (1 + (n / usual) ** w.damp) for c, n in spread.items()
    }
    bases = [sum(worth[c] for c in unit.concepts) / (len(unit.concepts) + 3) ** w.size for unit in units]
    mean = sum(bases) / len(bases) or 1.0
    return [
        (base / mean * _merit(unit, lines[unit.line], first=first, back=count - 1 - unit.line), unit)
        for base, unit in zip(bases, units)
    ]


def _by_line(units: Sequence[_Unit]) -> Iterator[frozenset[str]]:
    found: dict[int, set[str]] = {}
    for unit in units:
        found.setdefault(unit.line, set()).update(unit.concepts)
    return map(frozenset, found.values())


def _merit(unit: _Unit, line: _Line, *, first: bool, back: int) -> float:
    w = WEIGHTS
    text = unit.text
    merit = 1 + w.lead * exp(-unit.line / w.fade) if first else 1.0
    merit *= 1 + w.facts * min(3, len(_FACT.findall(text)))
    if _OWN.search(text):
        merit *= 1 + w.own
    if unit.answer:
        merit *= w.pair
    elif _ASKED_PLAIN.search(text):
        merit *= w.question
    if _SMALL_TALK.search(text):
        merit *= w.small_talk
    merit /= 1 + unit.place / w.depth
    merit *= 1 - exp(-len(unit.concepts) / w.short)
    if first:
        merit *= 1 + w.end * exp(-back / w.fade)
    if _INTENT.search(text):
        merit *= 1 + w.intent
    return merit


# Choosing.


def _remembered(old: Sequence[Statement], zone: str) -> Iterator[_Choice_]:
    for order, statement in enumerate(old):
        bare = replace(statement, text=_undated(statement, zone))
        yield _Choice_(bare, frozenset(analysis.words(bare.text)), order - len(old))


class _Choice:
    """Takes the most telling choice again and again, as long as one fits."""

    def __init__(self, choices: Sequence[_Choice_], length: Length, zone: str) -> None:
        self._left = list(choices)
        self._length = length
        self._zone = zone
        self._taken: list[_Choice_] = []
        self._covered: set[str] = set()

    def made(self) -> list[_Choice_]:
        w = WEIGHTS
        length = self._length
        costs = {id(c): max(1, length.measure(c.statement.text)) for c in self._left}
        room = length.most
        top = 0.0
        while True:
            best, value = None, 0.0
            for c in self._left:
                if costs[id(c)] > room:
                    continue
                known = len(c.concepts & self._covered) / len(c.concepts) if c.concepts else 0.5
                gain = c.statement.weight * (1 - w.novelty * known) / (costs[id(c)] / length.most + w.spare) ** w.cost
                if gain > value:
                    best, value = c, gain
            if best is None:
                break
            top = max(top, value)
            if length.most - room >= length.least and value < w.floor * top:
                break
            self._take(best)
            room -= costs[id(best)]
        return sorted(self._taken, key=lambda c: (c.statement.at, c.order))

    def _take(self, c: _Choice_) -> None:
        self._left.remove(c)
        self._taken.append(c)
        self._covered |= c.concepts


# Dates.


def _dated(statements: Sequence[Statement], zone: str) -> list[Statement]:
    return list(statements)


def _undated(statement: Statement, zone: str) -> str:
    return statement.text
