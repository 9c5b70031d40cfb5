"""Cuts a message into passages, the pieces that recall finds, by position: no text is copied.

Code fences stay whole up to CAP tokens. Prose is cut at blank lines, short neighbours are joined up to AIM tokens
and long paragraphs are cut where a reader would pause. The core has no tokenizer, so tokens are estimated here, a
little too high: the cap must also hold for the exact count. A change that moves borders must raise VERSION.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

VERSION: Final = 1  # raised when borders change, so that the worker makes passages anew
AIM: Final = 120  # tokens of prose; short neighbours are joined up to here
LIMIT: Final = 160  # tokens of prose; nothing below is cut, so that no passage is a mere remainder
CAP: Final = 500  # tokens of code; what is longer is cut well below, where the estimate cannot be too low
SHORT: Final = 480  # characters of plain ASCII, which are one passage without being measured
DENSITY: Final = 8  # characters per token at most: no passage is longer, whatever its estimate says
LANGUAGE_LIMIT: Final = 32  # characters


class Passage(NamedTuple):
    start: int  # characters
    stop: int
    kind: str  # "code" | "prose"
    language: str | None


def split(text: str) -> list[Passage]:
    """The passages of a text: in order, apart, and together all of it but blank space."""
    if len(text) <= SHORT and text.isascii() and "```" not in text and "~~~" not in text:
        start, stop = _trim(text, 0, len(text))  # most messages, and every add passes here
        return [Passage(start, stop, "prose", None)] if start < stop else []
    ruler = _Ruler(text)
    passages: list[Passage] = []
    done = 0
    for start, stop, language in _fences(text):
        _add_prose(passages, ruler, done, start)
        done = stop
        start, stop = _trim(text, start, stop)
        if ruler.is_tiny(start, stop, CAP):
            passages.append(Passage(start, stop, "code", language))
        else:
            passages += [Passage(*span, "code", language) for span in _cut(ruler, start, stop, _CODE)]
    _add_prose(passages, ruler, done, len(text))
    return passages


def _add_prose(passages: list[Passage], ruler: _Ruler, start: int, stop: int) -> None:
    start, stop = _trim(ruler.text, start, stop)
    if start == stop:
        return
    if ruler.is_tiny(start, stop, LIMIT):  # a text may have very many
        passages.append(Passage(start, stop, "prose", None))
    else:
        passages += [Passage(*span, "prose", None) for span in _prose(ruler, start, stop)]


def estimate(text: str) -> int:
    """About how many tokens a text has; rather too many than too few."""
    return sum(map(_weight, _PIECE.findall(text)))


# Tokens. The pieces are roughly those of o200k; what they cost was measured on prose of each script and on code.
# No piece looks beyond its own end, so that a text and its parts, cut between pieces, have the same pieces.

_WORD: Final = 65  # characters of a piece, unless it is blank space
_KNOWN: Final = 1 << 15  # pieces whose cost is kept in mind
_OPAQUE: Final = 32  # characters without a break: keys and encoded data, which no vocabulary knows
_LOWER: Final = "a-z\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_UPPER: Final = "A-Z\u00c0-\u00d6\u00d8-\u00de"
_SCRIPTS: Final = (  # up to which character, so many tokens are so many characters
    ("\u024f", 1, 3),  # Latin with marks
    ("\u03ff", 1, 2),  # Greek
    ("\u052f", 1, 3),  # Cyrillic
    ("\u061f", 1, 2),  # Armenian, Hebrew
    ("\u064a", 1, 3),  # Arabic
    ("\u0eff", 1, 2),  # vowel signs, scripts of India, Thai, Lao
    ("\u0fff", 3, 1),  # Tibetan
    ("\u109f", 1, 2),  # Burmese
    ("\u10ff", 1, 3),  # Georgian
    ("\u1dff", 3, 1),  # Ethiopic, Khmer and rarer ones
    ("\u1eff", 1, 2),  # Vietnamese
    ("\uffff", 1, 1),  # signs, Chinese, Japanese, Korean
    ("\U0001efff", 4, 1),  # what hardly anyone writes
    ("\U0010ffff", 3, 1),  # emoji
)
_DEAREST: Final = max(tokens for _, tokens, _ in _SCRIPTS)  # no character costs more
_LASTS: Final = [last for last, _, _ in _SCRIPTS]
_PIECE: Final = re.compile(
    rf" ?(?:[A-Za-z0-9+]{{{_OPAQUE},64}}|[{_UPPER}]?[{_LOWER}]{{1,{_OPAQUE}}}|[{_UPPER}]{{1,{_OPAQUE}}}|[0-9]{{1,3}}"
    r"|\s+|[!-/:-@\[-`{-~]{1,4}|[\u0400-\u052f\u0620-\u064a\u10a0-\u10ff]{1,16}"
    r"|[\u0250-\u03ff\u0530-\u061f\u064b-\u0eff\u1000-\u109f]{1,16}"
    r"|[\u2000-\uffff]{1,16}|[\U0001f000-\U0010ffff]{1,4}|[\s\S])|\s"
)


def _weight(piece: str) -> int:
    core = piece.removeprefix(" ")
    if not core or core.isspace():
        return 0 if piece == " " else 1 + len(piece) // 32
    size, first = len(core), core[0]
    if not core.isascii():
        _, tokens, characters = _SCRIPTS[bisect_left(_LASTS, max(core))]
        return -(-size * tokens // characters)
    if size >= _OPAQUE:
        return -(-size * 3 // 4)
    if first.isdigit():
        return 1 if core is piece else 2  # a space before digits is a token of its own
    return -(-size // (3 if not first.isalpha() else 4 if core.isupper() else 6))


class _Weights(dict[str, int]):
    """What pieces cost, worked out when they are first met: the same words come again and again. Bounded."""

    def __missing__(self, piece: str) -> int:
        if len(piece) > _WORD:
            return _weight(piece)
        if len(self) >= _KNOWN:
            self.clear()
        return self.setdefault(piece, _weight(piece))


_weights: Final = _Weights()


class _Ruler:
    """Tells what any stretch of one text costs, after one walk over it, which many small texts can do without."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _sums(self) -> tuple[array[int], array[int]]:
        """Where each piece ends, and what all pieces before each one cost."""
        pieces = _PIECE.findall(self.text)
        ends = array("q", accumulate(map(len, pieces)))
        return ends, array("q", accumulate(map(_weights.__getitem__, pieces), initial=0))

    def tokens(self, start: int, stop: int) -> int:
        """What the pieces cost that lie in the stretch, wholly or in part."""
        ends, costs = self._sums
        first = bisect_right(ends, start)
        last = bisect_left(ends, stop, first)
        return costs[min(last + 1, len(ends))] - costs[first]

    def is_tiny(self, start: int, stop: int, limit: int) -> bool:
        """Whether it fits whatever its characters are."""
        return (stop - start) * _DEAREST <= limit

    def fits(self, start: int, stop: int, limit: int) -> bool:
        return self.is_tiny(start, stop, limit) or stop <= self.fitting(start, limit)

    def fitting(self, start: int, limit: int) -> int:
        """The furthest place up to which the stretch from `start` fits."""
        ends, costs = self._sums
        whole = bisect_right(costs, costs[bisect_right(ends, start)] + limit) - 1  # so many pieces of the text
        far = ends[whole - 1] if whole < len(ends) else len(self.text)
        return max(start + limit // _DEAREST, min(far, start + limit * DENSITY))

    def reach(self, start: int, limit: int) -> int:
        """How far from `start` one may go with so many tokens: one piece at least."""
        ends, costs = self._sums
        first = bisect_right(ends, start)
        last = bisect_right(costs, costs[first] + limit, first + 1)
        return min(ends[max(last - 2, first)], start + limit * DENSITY)


# Code fences, as CommonMark has them.

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}+(?![^\n]*`)|~{3,})([^\n]*)$", re.M)  # no tick behind the ticks
_LANGUAGE: Final = re.compile(r"[\w+#.-]+")


def _fences(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Every fenced block with its fence lines, and its language. An unclosed one runs to the end."""
    opening, mark, language = -1, "", None
    for line in _FENCE.finditer(text):
        fence, info = line.groups()
        if opening < 0:
            opening, mark, language = line.start(), fence, _language(info)
        elif fence.startswith(mark) and not info.strip():
            yield opening, line.end(), language
            opening = -1
    if opening >= 0:
        yield opening, len(text), language


def _language(info: str) -> str | None:
    """The first word of the info string: `python title="x"`, `{.python}`, `ts,ignore` all name one."""
    if not info:
        return None
    found = _LANGUAGE.match(info.strip().lstrip("{."))
    return found[0][:LANGUAGE_LIMIT].lower() if found else None


# Cutting what is too long.


_Span = tuple[int, int]


class _Cutting(NamedTuple):
    aim: int
    limit: int
    borders: tuple[re.Pattern[str], ...]  # where a cut is welcome, the best first; cut behind the match


_BLANK_LINE: Final = re.compile(r"\n\s*\n")
_LINE_END: Final = re.compile(r"\n")
# Starts only where a run of signs starts, so that a megabyte of dots is walked once.
_SENTENCE_END: Final = re.compile(r"(?<![.!?…؟۔।])[.!?…؟۔।]++[\"'”’»)\]*_`]*+(?=\s)|[。！？｡]++[」』”’）】]*+")
_SPACE: Final = re.compile(r"\s")
_VISIBLE: Final = re.compile(r"\S")
_PROSE: Final = _Cutting(AIM, LIMIT, (_LINE_END, _SENTENCE_END, _SPACE))
_CODE: Final = _Cutting(CAP * 7 // 10, CAP, (_BLANK_LINE, _LINE_END, _SPACE))


def _cut(ruler: _Ruler, start: int, stop: int, cutting: _Cutting) -> Iterator[_Span]:
    """The stretch as it is if it fits, else in pieces of about equal size; trimmed, without blank pieces."""
    start, stop = _trim(ruler.text, start, stop)
    while start < stop:
        if ruler.fits(start, stop, cutting.limit):
            yield start, stop
            return
        end = _border(ruler, start, stop, cutting)
        yield _trim(ruler.text, start, end)
        start, _ = _trim(ruler.text, end, stop)


def _trim(text: str, start: int, stop: int) -> _Span:
    """The stretch without the blank space around it."""
    if start < stop and not text[start].isspace() and not text[stop - 1].isspace():
        return start, stop
    visible = _VISIBLE.search(text, start, stop)
    if visible is None:
        return stop, stop
    while text[stop - 1].isspace():
        stop -= 1
    return visible.start(), stop


def _border(ruler: _Ruler, start: int, stop: int, cutting: _Cutting) -> int:
    """Where the next piece should end: at the best border not far from an even share of what is left."""
    left = ruler.tokens(start, stop)
    share = -(-left // -(-left // cutting.aim))
    slack = cutting.aim // 4
    high = min(ruler.reach(start, min(share + slack, cutting.limit)), stop)
    low = min(ruler.reach(start, max(share - slack, 1)), (start + high) // 2)
    for border in cutting.borders:
        if end := _last(border, ruler.text, low, high):
            return end
    return high


def _last(border: re.Pattern[str], text: str, low: int, high: int) -> int:
    """The end of the last border that ends behind `low`, at `high` at the latest; 0 if there is none."""
    if border is _LINE_END:  # the same, without walking over every short line
        return text.rfind("\n", low, high) + 1
    end = 0
    for match in border.finditer(text, low, high + 1):
        if low < match.end() <= high:
            end = match.end()
    return end


# Prose.

_BLOCK_END: Final = re.compile(r"\n\s*\n|\n(?=#{1,6} )")
_HEADING: Final = re.compile(r"\s*(?:#{1,6} |(\*\*|__)[^\n]*\1\s*\Z)")
_LEADS: Final = 8  # headings in a row that are moved on to what follows them
_LINE: Final = 200  # characters of a block's end that are looked at; a longer line is no heading
_ITEM: Final = re.compile(r"\s*(?:[-*+•]|[0-9]{1,9}[.)])\s")


def _prose(ruler: _Ruler, start: int, stop: int) -> Iterator[_Span]:
    """Groups of whole blocks, and the pieces of blocks that are too long to be in one."""
    start, stop = _trim(ruler.text, start, stop)
    if ruler.fits(start, stop, LIMIT):
        if start < stop:
            yield start, stop
        return
    blocks = _Blocks(ruler, start, stop)
    first = 0
    while first < blocks.count:
        last = blocks.group(first, start)
        pieces = list(_cut(ruler, start, blocks.stops[last], _PROSE))
        first = last + 1
        start = blocks.starts[first]
        if len(pieces) > 1 and first < blocks.count:  # what is left of a long one is joined like any short one
            first = last
            start, _ = pieces.pop()
        yield from pieces


class _Blocks:
    """The paragraphs, list items and headings of a stretch of prose, and which of them belong together.

    What a block is gets looked up only where a border may fall, since a text may have very many of them.
    """

    def __init__(self, ruler: _Ruler, start: int, stop: int) -> None:
        self.starts: list[int] = [start]
        self.stops: list[int] = []
        for border in _BLOCK_END.finditer(ruler.text, start, stop):
            self.stops.append(border.start())
            self.starts.append(border.end())
        self.starts.append(stop)
        self.stops.append(stop)
        self.count = len(self.stops)
        self._ruler = ruler

    def group(self, first: int, start: int) -> int:
        """The last block of the passage that begins at `start`, in the first block."""
        last = max(bisect_right(self.stops, self._ruler.reach(start, AIM)) - 1, first)
        if last + 1 == self.count:
            return last
        if self._leads(last):
            before, floor = last - 1, max(first, last - _LEADS)
            while before >= floor and self._leads(before):
                before -= 1
            return before if before >= floor else last + 1
        if self._is_item(last) and self._is_item(last + 1):
            return self._around_list(first, start, last)
        return last

    def _around_list(self, first: int, start: int, last: int) -> int:
        """Where to cut instead of inside a list: behind it or before it, if it fits there."""
        begin, end = last, last + 1
        while begin > first and self._is_item(begin - 1):
            begin -= 1
        while begin > first and self._leads(begin - 1):
            begin -= 1
        furthest = self._ruler.fitting(self.starts[begin], LIMIT)
        while end + 1 < self.count and self._is_item(end + 1):
            end += 1
            if self.stops[end] > furthest:
                return last
        if self._ruler.fits(start, self.stops[end], LIMIT):
            return end
        return begin - 1 if begin > first else last

    def _is_item(self, block: int) -> bool:
        return _ITEM.match(self._ruler.text, self.starts[block], self.stops[block]) is not None

    def _leads(self, block: int) -> bool:
        """Whether it says little without what follows: a heading, or the words before a list."""
        start, stop = _trim(self._ruler.text, max(self.starts[block], self.stops[block] - _LINE), self.stops[block])
        if start == stop:
            return True
        line = max(self._ruler.text.rfind("\n", start, stop) + 1, start)
        return self._ruler.text[stop - 1] in ":：" or _HEADING.match(self._ruler.text, line, stop) is not None
