"""No regular expression of the package takes more than linear time, whatever somebody writes.

Every pattern is found by itself, also a new one. It is tried on texts that are made from it and on a list of common
ones, at growing sizes. A pattern that is only ever matched at the beginning of a text is tried in that way alone. One
that is only ever given short texts is listed in `LIMITS` with the constant that holds its caller to them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Final

import pytest

from recollect.core.dates import date_words
from recollect.core.language import analyser, identifiers
from support.patterns import END, FoundPattern, Pump, find_calls, find_patterns, find_uses, load_modules, make_pumps

SIZES: Final = (20, 100, 400, 1600)  # characters
STEP: Final = 4  # by which each size but the first exceeds the one before
SUSPICIOUS_FACTOR: Final = 1.6  # times as long for each character as at the size before
SUSPICIOUS_SECONDS: Final = 0.0003
MAX_GROWTH: Final = 8.0  # for four times the text; linear work has 4, quadratic 16
MAX_START_GROWTH: Final = 100.0  # from 10 to 20 characters; an exponential pattern has 1024
SLOW_SECONDS: Final = 0.05  # four times the text is not tried any more
REPEATS: Final = 5
CONFIRMATIONS: Final = 4  # times that slow growth must be seen: a busy machine shows it once or twice
COMMON: Final = (
    " ", "\n", "\t", "<", "[", "(", "a", "A", "1", "١", "ا", "و", "é", "字", ":", "- ", "a ", "a.", "`", "http://", "&",
)  # fmt: skip
MORE_COMMON: Final = (
    ".", ",", "'", '"', "/", "\\", "_", "-", "a-", "1-", "1.", "a, ", "a/", "a: b\n", "- a\n", "# a\n", "```\n", "|",
    "=", "。", "🤷", "\u0301", "?", "!", " و", "A ", "Aa ", "<a ", "</", "< ", "&amp;", "@", "a@", "a.b", "%", "{", "*",
    "~", "+", "\r", "\x0b", " ,", "\u2028", "\u200b", "I ", "I'm ", "the ", "in ", "at ", "to ", "and ", "not ", "my ",
    "of ", "is ", "x\n", "> ", "]", ")", ">", "$", "#", ";", "\x1c", "\u202e", "ａ", "ㅏ", "ไ", "א", "\U00010348",
)  # fmt: skip

# Patterns of tables whose rows are matched at the beginning of a text: `for rule in …: rule.pattern.match(…)`.
MATCHED_AT_START: Final = frozenset((
    "recollect.core.extract.arabic._RULES.pattern", "recollect.core.extract.arabic._STANDING_ORDERS",
    "recollect.core.extract.english._SPEAKER.pattern", "recollect.core.extract.english._RELATIVES.pattern",
    "recollect.core.extract.english._THINGS.pattern", "recollect.core.extract.english._DECISIONS.pattern",
    "recollect.core.extract.english._ORDERS.pattern", "recollect.core.extract.english._STANDING_ORDERS",
    "recollect.core.language.identifiers._TICKET", "recollect.core.language.identifiers._CODE",
    "recollect.core.language.identifiers._VERSION", "recollect.core.language.identifiers._HEX",
))  # fmt: skip
# The longest text that a pattern is given, in characters.
LIMITS: Final = {
    "recollect.core.language.identifiers._CAMEL": identifiers.MAX_NAME_CHARACTERS,
    "recollect.core.language.stemmer._STEP_4": analyser.MAX_WORD_CHARACTERS,
}
# Functions that make patterns from their arguments, and what they make. Nothing: the patterns lie in a table.
MADE: Final = {
    "recollect.core.dates.date_words.find_key": tuple(date_words.CALENDAR.values()),
    "recollect.core.dates.date_rules._count": tuple(date_words.VAGUE.values()),
    "recollect.core.dates.date_rules._rule": (),
    "recollect.core.dates.day_notes._distance_precision": tuple(date_words.VAGUE.values()),
    "recollect.core.dates.periods._ending": (),
    "recollect.core.extract.document_structure._find_slot": (r"\bslides?\b",),
    "recollect.core.extract.rules.combine_patterns": (),
    "recollect.core.language.speech_acts.compile_words": (),
    "recollect.core.extract.rules.parse_rules": (),
    "recollect.recall.prompt.excerpts.QueryTerms._patterns": (r"(?:gard|gat|ga|東京|code)\w{0,30}",),
}


@cache
def _modules() -> list[ModuleType]:
    return load_modules()


@cache
def _calls() -> tuple[list[FoundPattern], set[str]]:
    return find_calls(_modules(), MADE)


@cache
def _patterns() -> list[FoundPattern]:
    return [*find_patterns(_modules()), *_calls()[0]]


def _ways(found: FoundPattern, uses: dict[str, set[str]]) -> list[Callable[[str], None]]:
    """Return how a pattern is used. Where nothing is known, it is searched for, which is the hardest."""
    methods = uses.get(found.place) or uses.get(found.place.rpartition(".")[2], set())
    if found.place in MATCHED_AT_START:
        methods = {"match", "fullmatch"}
    if methods and methods <= {"match", "fullmatch"}:
        return [found.match_start if method == "match" else found.match_whole for method in methods]
    return [found.search_all] + ([found.match_whole] if "fullmatch" in methods else [])


def _seconds(run: Callable[[str], None], text: str, repeats: int = 1) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        run(text)
        best = min(best, time.thread_time() - start)
    return best


def find_growth(run: Callable[[str], None], pump: Pump, sizes: Iterable[int] = SIZES) -> str | None:
    """Return a sentence about how the time grows, if it grows faster than the text. Small sizes come first."""
    size_before, seconds_before = 0, 0.0
    for size in sizes:
        text = pump.text(size)
        seconds = _seconds(run, text)
        is_suspicious = seconds > max(
            SUSPICIOUS_SECONDS, SUSPICIOUS_FACTOR * size / max(size_before, 1) * seconds_before
        )
        if is_suspicious:
            whys = [why for _ in range(CONFIRMATIONS) if (why := _confirm(run, pump, size))]
            if len(whys) == CONFIRMATIONS:
                return whys[0]
        size_before, seconds_before = size, seconds
    return None


def _confirm(run: Callable[[str], None], pump: Pump, size: int) -> str | None:
    """Measure again, at a quarter of the size and at four times the size.

    The second shows whether it goes on: `[^)]{1,80}` takes quadratic time up to 80 characters, and linear time above.
    """
    if size <= SIZES[0]:
        small, large = _seconds(run, pump.text(size // 2), REPEATS), _seconds(run, pump.text(size))
        return f"{pump!r} grows exponentially" if large > MAX_START_GROWTH * small else None
    small, large = _seconds(run, pump.text(size // STEP), REPEATS), _seconds(run, pump.text(size))
    if MAX_GROWTH * small < large < SLOW_SECONDS:
        large = min(large, _seconds(run, pump.text(size), REPEATS))
    if large <= MAX_GROWTH * small:
        return None
    if large < SLOW_SECONDS and _seconds(run, pump.text(STEP * size), 2) <= MAX_GROWTH * large:
        return None
    return f"{pump!r}: {1e3 * small:.2f} ms at {size // STEP} characters, {1e3 * large:.2f} ms at {size}"


def _check(found: FoundPattern, ways: Iterable[Callable[[str], None]], pumps: Iterable[Pump]) -> str | None:
    """Return the first text on which a pattern is slow, and how slow it is."""
    limit = LIMITS.get(found.place)
    sizes = SIZES if limit is None else tuple(size for size in SIZES if size <= limit)
    whys = (find_growth(run, pump, sizes) for run in ways for pump in pumps)
    return next((f"{found.place} {found.pattern.pattern[:60]!r}: {why}" for why in whys if why), None)


def test_every_function_that_makes_a_pattern_is_declared() -> None:
    patterns, undeclared = _calls()
    assert not undeclared, "say in MADE which patterns these make"
    assert len(patterns) > 15 and len(_patterns()) > 500


def test_every_declaration_still_names_a_pattern() -> None:
    places = {found.place for found in _patterns()}
    assert MATCHED_AT_START | LIMITS.keys() <= places


@pytest.mark.slow
def test_no_pattern_takes_more_than_linear_time(full_count: bool) -> None:
    uses = find_uses(_modules())
    common = [Pump("", text, END) for text in (*COMMON, *MORE_COMMON[: len(MORE_COMMON) if full_count else 0])]
    slow: list[str | None] = []
    for found in _patterns():
        ways = _ways(found, uses)
        derived = make_pumps(found.pattern)
        slow.append(_check(found, ways, dict.fromkeys([*derived, *common])))
    assert not any(slow), "\n".join(filter(None, slow))


@pytest.mark.parametrize(
    "source",
    [
        r"<(?=\s*/?\s*memory)", r" +$", r"(?:a+)+b", r"(?:a|a)*b", r"\s+x", r"[^<]*>", r"\d+(?=\.)", r"(\w+)\s*\1x",
        r"^[ \t]*[-=_ \t]{3,}$", r"(?:[\w-]+\.)*[\w-]+@", r"(?:و|ا)+\s*؟", r"http\S*://\S*x", r"(?s)\[.*\]",
    ],
)  # fmt: skip
def test_a_careless_pattern_is_caught(source: str) -> None:
    found = FoundPattern(re.compile(source), "planted")
    common = [Pump("", text, END) for text in COMMON]
    assert _check(found, [found.search_all], [*make_pumps(found.pattern), *common])


@pytest.mark.parametrize(
    "source", [r"\s*(?:/\s*)?memory", r"(?<! ) ++$", r"\w+", r"(?<!a)a++b", r"<[^<>]{0,200}>", r"\n(?=\S)"]
)
def test_a_careful_pattern_passes(source: str) -> None:
    found = FoundPattern(re.compile(source), "planted")
    common = [Pump("", text, END) for text in COMMON]
    ways = [found.match_start] if source.startswith(r"\s*") else [found.search_all]
    assert not _check(found, ways, [*make_pumps(found.pattern), *common])
