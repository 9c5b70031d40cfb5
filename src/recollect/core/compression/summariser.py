"""The built-in summariser: chooses statements of who said what, without a model, in any language.

A candidate is a sentence with its speaker, or a question with its short answer. Its weight says how central its words
are to the dialogue, what it speaks of, who says it and where. Statements of an earlier summary keep their weights and
compete with the new ones for the length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from math import exp, fsum, log
from typing import Final, NamedTuple

from recollect.core.compression.attribution import (
    ADDED_WORDS,
    DayLabels,
    quote,
    speaker_label,
    strip_day_label,
    strip_fillers,
    to_third_person,
)
from recollect.core.compression.narrative import Length, Statement, count_words
from recollect.core.compression.selection import Selection, StatementCandidate, with_pauses
from recollect.core.compression.statement_weights import WEIGHTS
from recollect.core.language import analyser, sentences, speech
from recollect.core.language.talk_language import talk_language
from recollect.core.message import Message

MAX_CANDIDATES: Final = 600  # units of new turns that are compared; those with less weight could hardly win


def summarise(
    turns: Sequence[Sequence[Message]],
    *,
    old: Sequence[Statement] = (),
    length: Length,
    zone: str = "UTC",
    already_shown: Iterable[str] = (),
    pause: Callable[[], None] = lambda: None,
) -> list[Statement]:
    """Return the most important statements of an old summary and of new turns, in the order of time.

    Together they stay within `length`. `already_shown` are texts that a prompt shows beside the summary; statements
    that repeat them count less. `pause` is called often, so that a caller on a thread can let others run.
    """
    new_candidates, word_weights = _read_turns(turns, pause, first=not old)
    statements = sorted(
        (*old, *(candidate.statement for candidate in new_candidates)), key=lambda statement: statement.at
    )
    language = talk_language([strip_day_label(statement.text) for statement in statements])
    days = DayLabels(zone, [statement.at for statement in statements], language)
    candidates = {candidate.statement.text: candidate for candidate in (*new_candidates, *_to_old_candidates(old))}
    covered = {word for text in already_shown for word in analyser.words(text)}
    dated = [candidate.resolve_days(days) for candidate in candidates.values()]
    return Selection(dated, word_weights, length, days, covered, pause).select()


_MIN_DIALOGUE_LINES: Final = 40  # a shorter dialogue counts as this long: it cannot show which words are common
_MAX_ANSWER_WORDS: Final = 8  # an answer with more words, characters or content words is understood by itself
_MAX_ANSWER_CHARS: Final = 60
_MAX_ANSWER_CONTENT_WORDS: Final = 3
_DENIAL: Final = re.compile(
    r"(?:no|nope|nah|never|not|wrong|لا|كلا|ليس)\b(?! (?:problem|worries|doubt|idea))", re.IGNORECASE
)
_MAX_DENIAL_CHARS: Final = 160  # a longer denial is not joined to its question
_SHORT_DIALOGUE_LINES: Final = 12  # up to here the opening is one or two lines
_ATTRIBUTION_WORDS: Final = frozenset(analyser.words(" ".join(ADDED_WORDS)))


class _Line(NamedTuple):
    """A message with its speaker and its sentences; never without a sentence."""

    message: Message
    speaker: str
    sentences: list[str]


class _Unit(NamedTuple):
    """A sentence that may become a statement, or a question with the answer at the beginning of the next line."""

    line: int
    sentence: int  # index in its message
    text: str
    content_words: frozenset[str]
    reply: str = ""


def _read_turns(
    turns: Iterable[Iterable[Message]], pause: Callable[[], None], *, first: bool
) -> tuple[list[StatementCandidate], dict[str, float]]:
    """Return the best candidates of new turns, and the weight of each word. `first`: there is no old summary."""
    lines = _to_lines(with_pauses(turns, pause))
    units = list(with_pauses(_to_units(lines), pause))
    word_weights = _weigh_words(units, len(lines))
    bases = [
        fsum(map(word_weights.__getitem__, unit.content_words)) / (len(unit.content_words) + 3) ** WEIGHTS.mean_exponent
        for unit in units
    ]
    mean = sum(bases) / len(bases) if bases else 1.0
    pairs = with_pauses(zip(bases, units, strict=True), pause)
    weighed = [(base / mean * _weigh_unit(unit, lines, first=first), unit) for base, unit in pairs]
    speakers = {line.speaker for line in lines}
    best = nlargest(MAX_CANDIDATES, weighed, key=lambda pair: pair[0])
    return [_to_candidate(unit, weight, lines, speakers) for weight, unit in with_pauses(best, pause)], word_weights


def _to_lines(turns: Iterable[Iterable[Message]]) -> list[_Line]:
    spoken = (message for turn in turns for message in turn if message.role in ("user", "assistant"))
    lines = (
        _Line(message, speaker_label(message), sentences.split(speech.extract_own_words(message.content)))
        for message in spoken
    )
    return [line for line in lines if line.sentences]


def _to_units(lines: Sequence[_Line]) -> Iterator[_Unit]:
    """Yield the units of a dialogue. An answer that needs its question is no unit of its own."""
    ends_with_question = False
    for index, line in enumerate(lines):
        is_answer = (
            ends_with_question and lines[index - 1].speaker != line.speaker and _needs_question(line.sentences[0])
        )
        last = len(line.sentences) - 1
        ends_with_question = sentences.is_question(line.sentences[last])
        for position, text in enumerate(line.sentences):
            is_question = ends_with_question and position == last
            content_words = frozenset(analyser.words(text))
            reply = _find_reply(lines, index) if is_question else ""
            if reply and (joined := content_words | frozenset(analyser.words(reply))):
                yield _Unit(index, position, text, joined, reply)
            if is_question and _is_unsafe_alone(lines, index, reply):
                continue
            if content_words and not (is_answer and position == 0) and not sentences.is_acknowledgement(text):
                yield _Unit(index, position, text, content_words)


def _is_unsafe_alone(lines: Sequence[_Line], index: int, reply: str) -> bool:
    """Return whether a question must not stand without its reply.

    That is so if it was denied, and for an assistant's question whose answer is not known yet.
    """
    unanswered = index + 1 == len(lines) and lines[index].message.role == "assistant" and not lines[index].message.name
    return unanswered or _DENIAL.match(reply) is not None


def _find_reply(lines: Sequence[_Line], index: int) -> str:
    """Return the short answer that the next line begins with; "" if there is none."""
    if index + 1 == len(lines) or lines[index + 1].speaker == lines[index].speaker:
        return ""
    first, *rest = lines[index + 1].sentences
    if _DENIAL.match(first) and len(first) <= _MAX_DENIAL_CHARS:
        return first
    if not _needs_question(first) or sentences.is_question(first) or sentences.is_small_talk(first):
        return ""
    has_more = count_words(first) <= 2 and rest and _needs_question(rest[0]) and not sentences.is_question(rest[0])
    return f"{first} {rest[0]}" if has_more else first


def _needs_question(text: str) -> bool:
    """Return whether a sentence is so short that it says nothing without the question before it."""
    return (
        count_words(text) <= _MAX_ANSWER_WORDS
        and len(text) <= _MAX_ANSWER_CHARS
        and len(analyser.words(text)) <= _MAX_ANSWER_CONTENT_WORDS
    )


def _weigh_words(units: Sequence[_Unit], lines: int) -> dict[str, float]:
    """Return a weight for each word. Words of many lines weigh more, words of very many lines little."""
    line_counts = Counter(word for _, word in {(unit.line, word) for unit in units for word in unit.content_words})
    frequency = (
        WEIGHTS.frequency_exponent * (_MIN_DIALOGUE_LINES / max(lines, _MIN_DIALOGUE_LINES)) ** WEIGHTS.frequency_decay
    )
    common = WEIGHTS.common_share * max(lines, _MIN_DIALOGUE_LINES)
    return {
        word: count**frequency
        * log(1 + lines / count) ** WEIGHTS.rarity_exponent
        / (1 + (count / common) ** WEIGHTS.common_exponent)
        for word, count in line_counts.items()
    }


def _weigh_unit(unit: _Unit, lines: Sequence[_Line], *, first: bool) -> float:
    """Return the factor by which size, position and content change a unit's weight."""
    text, line = unit.text, lines[unit.line]
    factor = (1 - exp(-len(unit.content_words) / WEIGHTS.short_words)) / (1 + unit.sentence / WEIGHTS.depth_sentences)
    factor *= 1 + WEIGHTS.fact_bonus * min(sentences.count_facts(text), 3)
    factor *= WEIGHTS.question_factor if sentences.is_question(text) else 1
    factor *= (1 + WEIGHTS.personal_bonus * sentences.is_personal(text)) * (
        1 + WEIGHTS.intent_bonus * sentences.is_intent(text)
    )
    factor *= WEIGHTS.small_talk_factor if sentences.is_small_talk(text) else 1
    factor *= WEIGHTS.assistant_factor if line.message.role == "assistant" and not line.message.name else 1
    if first:
        fade_lines = WEIGHTS.fade_lines * max(len(lines) / _SHORT_DIALOGUE_LINES, 1) ** WEIGHTS.fade_growth
        factor *= 1 + WEIGHTS.opening_bonus * exp(-unit.line / fade_lines)
        factor *= 1 + WEIGHTS.ending_bonus * exp((unit.line + 1 - len(lines)) / fade_lines)
    return factor


def _to_candidate(unit: _Unit, weight: float, lines: Sequence[_Line], speakers: set[str]) -> StatementCandidate:
    """Return the unit as a statement with its speaker. "You" has a known meaning only between two speakers."""
    message, speaker, _ = lines[unit.line]
    listener = next(name for name in speakers if name != speaker) if len(speakers) == 2 else None
    asked = sentences.is_question(unit.text)
    if message.role == "assistant" and not message.name and not asked and sentences.is_personal(unit.text):
        # The "I" of an assistant without a name may be the user's, as in a letter that it drafts.
        text = quote(strip_fillers(unit.text), speaker)
    else:
        text = to_third_person(strip_fillers(unit.text), speaker, listener, asked=asked)
    sources = [message.id]
    if unit.reply:
        text = f"{text} {quote(unit.reply, lines[unit.line + 1].speaker)}"
        sources.append(lines[unit.line + 1].message.id)
    position = (unit.line, unit.sentence)
    reply_positions = ((unit.line + 1, 0), (unit.line + 1, 1)) if unit.reply else ()
    statement = Statement(text, tuple(sources), message.at, weight)
    return StatementCandidate(statement, unit.content_words, position, (position, *reply_positions))


def _to_old_candidates(old: Sequence[Statement]) -> Iterator[StatementCandidate]:
    """Yield the statements of the old summary, without the words that say nothing about any one of them.

    Those are the words that attribution adds, and words of more than a third of the statements, mostly names.
    """
    statements = [replace(statement, text=strip_day_label(statement.text)) for statement in old]
    content_words = [frozenset(analyser.words(statement.text)) - _ATTRIBUTION_WORDS for statement in statements]
    counts = Counter(word for words in content_words for word in words)
    names = {word for word, count in counts.items() if count > max(2, len(old) / 3)}
    for index, (statement, words) in enumerate(zip(statements, content_words, strict=True)):
        yield StatementCandidate(statement, words - names, (index - len(old), 0))
