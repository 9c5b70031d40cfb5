"""Splits a message into passages, the pieces that recall finds. Passages are positions: no text is copied.

Code fences stay whole up to `MAX_CODE_TOKENS`. Prose is cut at blank lines. Short neighbours are joined up to
`AIM_TOKENS`, and long paragraphs are cut where a reader would pause. A passage costs a vector, however short it is. So
in a text with very many fences, short passages of code are joined with their neighbours too.

The core has no tokenizer, so tokens are estimated here, a little too high: the limits must also hold for exact counts.
A change that moves borders must raise VERSION.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

VERSION: Final = 3  # raised when borders move or passages are embedded in another way: the worker rebuilds them
AIM_TOKENS: Final = 120  # usual size of a passage of prose; short neighbours are joined up to here
MAX_PROSE_TOKENS: Final = 160  # cut above this, so a slightly long paragraph leaves no tiny last piece
MAX_CODE_TOKENS: Final = 500  # longer code is cut at 70 % of this: too low an estimate still keeps the limit
SHORT_TEXT_CHARACTERS: Final = 480  # plain ASCII up to here is one passage and is not measured
MAX_CHARACTERS_PER_TOKEN: Final = 8  # no passage is longer, whatever its estimate says
MAX_LANGUAGE_CHARACTERS: Final = 32
FREE_FENCES: Final = 16  # fences that any text may have as passages of their own
CHARACTERS_PER_FENCE: Final = 256  # and one more for each so many. Tutorials have no more than 12 in 2,600 characters


class Passage(NamedTuple):
    """A piece of a message, by the positions of its characters."""

    start: int
    stop: int
    kind: str  # "code" | "prose"
    language: str | None


def split(text: str) -> list[Passage]:
    """Return the passages of a text, in order. They do not overlap, and cover all of it but blank space."""
    if len(text) <= SHORT_TEXT_CHARACTERS and text.isascii() and "```" not in text and "~~~" not in text:
        start, stop = _trim(text, 0, len(text))  # fast path: runs for every stored message
        return [Passage(start, stop, "prose", None)] if start < stop else []
    ruler = _Ruler(text)
    passages: list[Passage] = []
    covered = 0  # the text up to here is in passages
    fences = list(_fences(text))
    for start, stop, language in fences:
        _add_prose(passages, ruler, covered, start)
        covered = stop
        start, stop = _trim(text, start, stop)
        if ruler.is_tiny(start, stop, MAX_CODE_TOKENS):
            passages.append(Passage(start, stop, "code", language))
        else:
            passages += [Passage(*span, "code", language) for span in _cut(ruler, start, stop, _CODE_LIMITS)]
    _add_prose(passages, ruler, covered, len(text))
    has_many_fences = len(fences) > FREE_FENCES + len(text) // CHARACTERS_PER_FENCE
    return _join_short(passages, ruler) if has_many_fences else passages


def _join_short(passages: list[Passage], ruler: _Ruler) -> list[Passage]:
    """Join neighbours, code or prose, as long as they fit into `AIM_TOKENS` together."""
    joined = passages[:1]
    for passage in passages[1:]:
        last = joined[-1]
        if ruler.fits(last.start, passage.stop, AIM_TOKENS):
            joined[-1] = Passage(
                last.start,
                passage.stop,
                last.kind if last.kind == passage.kind else "prose",
                last.language if last.language == passage.language else None,
            )
        else:
            joined.append(passage)
    return joined


def _add_prose(passages: list[Passage], ruler: _Ruler, start: int, stop: int) -> None:
    start, stop = _trim(ruler.text, start, stop)
    if start == stop:
        return
    if ruler.is_tiny(start, stop, MAX_PROSE_TOKENS):  # a text may have very many short stretches
        passages.append(Passage(start, stop, "prose", None))
    else:
        passages += [Passage(*span, "prose", None) for span in _prose(ruler, start, stop)]


def estimate_tokens(text: str) -> int:
    """Return the approximate number of tokens of a text, rather too high than too low."""
    return sum(map(_cost, _PIECE.findall(text)))


# Tokens. Text is split into pieces, roughly those of o200k. Their costs were measured on prose of each script and on
# code. The pattern has no lookahead, so splitting a text between two pieces does not change its pieces.

_MAX_PIECE_CHARACTERS: Final = 65  # only blank space has longer pieces
_CACHE_ENTRIES: Final = 1 << 15
_OPAQUE_CHARACTERS: Final = 32  # longer runs are keys and encoded data, which no vocabulary has
_LOWER: Final = "a-z\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_UPPER: Final = "A-Z\u00c0-\u00d6\u00d8-\u00de"
_SCRIPTS: Final = (  # (last character of the range, tokens, characters that they encode)
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
    ("\U0001efff", 4, 1),  # historic and rare scripts
    ("\U0010ffff", 3, 1),  # emoji
)
_MAX_TOKENS_PER_CHARACTER: Final = max(tokens for _, tokens, _ in _SCRIPTS)
_SCRIPT_ENDS: Final = [last for last, _, _ in _SCRIPTS]
_PIECE: Final = re.compile(
    rf" ?(?:[A-Za-z0-9+]{{{_OPAQUE_CHARACTERS},64}}"
    rf"|[{_UPPER}]?[{_LOWER}]{{1,{_OPAQUE_CHARACTERS}}}|[{_UPPER}]{{1,{_OPAQUE_CHARACTERS}}}|[0-9]{{1,3}}"
    r"|\s+|[!-/:-@\[-`{-~]{1,4}|[\u0400-\u052f\u0620-\u064a\u10a0-\u10ff]{1,16}"
    r"|[\u0250-\u03ff\u0530-\u061f\u064b-\u0eff\u1000-\u109f]{1,16}"
    r"|[\u2000-\uffff]{1,16}|[\U0001f000-\U0010ffff]{1,4}|[\s\S])|\s"
)


def _cost(piece: str) -> int:
    """Return the estimated tokens of a piece."""
    core = piece.removeprefix(" ")
    if not core or core.isspace():
        return 0 if piece == " " else 1 + len(piece) // 32
    size, first = len(core), core[0]
    if not core.isascii():
        _, tokens, characters = _SCRIPTS[bisect_left(_SCRIPT_ENDS, max(core))]
        return -(-size * tokens // characters)
    if size >= _OPAQUE_CHARACTERS:
        return -(-size * 3 // 4)
    if first.isdigit():
        return 1 if core is piece else 2  # a space before digits is a token of its own
    return -(-size // (3 if not first.isalpha() else 4 if core.isupper() else 6))


class _CostCache(dict[str, int]):
    """Costs by piece. Emptied when it is full."""

    def __missing__(self, piece: str) -> int:
        if len(piece) > _MAX_PIECE_CHARACTERS:
            return _cost(piece)
        if len(self) >= _CACHE_ENTRIES:
            self.clear()
        return self.setdefault(piece, _cost(piece))


_costs: Final = _CostCache()


def forget() -> None:
    """Drop the cached pieces of text. Some may come from messages that were erased."""
    _costs.clear()


class _Ruler:
    """Measures stretches of one text in tokens.

    The text is read once, when it is first needed. Short stretches are judged by their length alone.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _sums(self) -> tuple[array[int], array[int]]:
        """Return the end of each piece, and the cost of all pieces before each one."""
        pieces = _PIECE.findall(self.text)
        ends = array("q", accumulate(map(len, pieces)))
        return ends, array("q", accumulate(map(_costs.__getitem__, pieces), initial=0))

    def tokens(self, start: int, stop: int) -> int:
        """Return the cost of the pieces that lie in the stretch, wholly or in part."""
        ends, costs = self._sums
        first = bisect_right(ends, start)
        last = bisect_left(ends, stop, first)
        return costs[min(last + 1, len(ends))] - costs[first]

    def is_tiny(self, start: int, stop: int, limit: int) -> bool:
        """Return whether the stretch fits into `limit` tokens even if each of its characters is the most expensive."""
        return (stop - start) * _MAX_TOKENS_PER_CHARACTER <= limit

    def fits(self, start: int, stop: int, limit: int) -> bool:
        """Return whether the stretch fits into `limit` tokens."""
        return self.is_tiny(start, stop, limit) or stop <= self.max_stop(start, limit)

    def max_stop(self, start: int, limit: int) -> int:
        """Return the furthest position up to which the stretch from `start` fits into `limit` tokens."""
        ends, costs = self._sums
        pieces = bisect_right(costs, costs[bisect_right(ends, start)] + limit) - 1  # of the text up to the limit
        far = ends[pieces - 1] if pieces < len(ends) else len(self.text)
        return max(start + limit // _MAX_TOKENS_PER_CHARACTER, min(far, start + limit * MAX_CHARACTERS_PER_TOKEN))

    def last_piece_end(self, start: int, limit: int) -> int:
        """Return the end of the last whole piece within `limit` tokens from `start`; at least one piece."""
        ends, costs = self._sums
        first = bisect_right(ends, start)
        last = bisect_right(costs, costs[first] + limit, first + 1)
        return min(ends[max(last - 2, first)], start + limit * MAX_CHARACTERS_PER_TOKEN)


# Code fences, by the rules of CommonMark.

_FENCE: Final = re.compile(
    r"^ {0,3}(`{3,}+(?![^\n]*`)|~{3,})([^\n]*)$", re.M
)  # an opening line of backticks has no other backtick
_LANGUAGE: Final = re.compile(r"[\w+#.-]+")


def _fences(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield every fenced block with its fence lines, and its language. An unclosed block runs to the end."""
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
    """Return the first word of the info string: `python title="x"`, `{.python}` and `ts,ignore` name a language."""
    if not info:
        return None
    match = _LANGUAGE.match(info.strip().lstrip("{."))
    return match[0][:MAX_LANGUAGE_CHARACTERS].lower() if match else None


# Cuts of stretches that are too long.

_Span = tuple[int, int]


class _CutLimits(NamedTuple):
    aim: int  # tokens
    limit: int  # tokens
    borders: tuple[re.Pattern[str], ...]  # tried in order; the cut is made after the match


_BLANK_LINE: Final = re.compile(r"\n\s*\n")
_LINE_END: Final = re.compile(r"\n")
# Matches only at the start of a run of signs. So a megabyte of dots is read once.
_SENTENCE_END: Final = re.compile(r"(?<![.!?…؟۔।])[.!?…؟۔।]++[\"'”’»)\]*_`]*+(?=\s)|[。！？｡]++[」』”’）】]*+")
_SPACE: Final = re.compile(r"\s")
_VISIBLE: Final = re.compile(r"\S")
_PROSE_LIMITS: Final = _CutLimits(AIM_TOKENS, MAX_PROSE_TOKENS, (_LINE_END, _SENTENCE_END, _SPACE))
_CODE_LIMITS: Final = _CutLimits(MAX_CODE_TOKENS * 7 // 10, MAX_CODE_TOKENS, (_BLANK_LINE, _LINE_END, _SPACE))


def _cut(ruler: _Ruler, start: int, stop: int, limits: _CutLimits) -> Iterator[_Span]:
    """Yield the stretch if it fits, else its pieces, of about equal size. They are trimmed and never blank."""
    start, stop = _trim(ruler.text, start, stop)
    while start < stop:
        if ruler.fits(start, stop, limits.limit):
            yield start, stop
            return
        end = _border(ruler, start, stop, limits)
        yield _trim(ruler.text, start, end)
        start, _ = _trim(ruler.text, end, stop)


def _trim(text: str, start: int, stop: int) -> _Span:
    """Return the stretch without the blank space around it."""
    if start < stop and not text[start].isspace() and not text[stop - 1].isspace():
        return start, stop
    visible = _VISIBLE.search(text, start, stop)
    if visible is None:
        return stop, stop
    while text[stop - 1].isspace():
        stop -= 1
    return visible.start(), stop


def _border(ruler: _Ruler, start: int, stop: int, limits: _CutLimits) -> int:
    """Return where the next piece should end: at the best border near an even share of the rest."""
    left = ruler.tokens(start, stop)
    share = -(-left // -(-left // limits.aim))  # equal shares, rounded up
    slack = limits.aim // 4
    high = min(ruler.last_piece_end(start, min(share + slack, limits.limit)), stop)
    low = min(ruler.last_piece_end(start, max(share - slack, 1)), (start + high) // 2)
    for border in limits.borders:
        if end := _last_end(border, ruler.text, low, high):
            return end
    return high


def _last_end(border: re.Pattern[str], text: str, low: int, high: int) -> int:
    """Return the end of the last border that ends after `low` and not after `high`; 0 if there is none."""
    if border is _LINE_END:  # the same result, without a match for every short line
        return text.rfind("\n", low, high) + 1
    end = 0
    for match in border.finditer(text, low, high + 1):
        if low < match.end() <= high:
            end = match.end()
    return end


# Prose.

_BLOCK_END: Final = re.compile(r"\n\s*\n|\n(?=#{1,6} )")
_HEADING: Final = re.compile(r"\s*(?:#{1,6} |(\*\*|__)[^\n]*\1\s*\Z)")
_MAX_INTRODUCTIONS: Final = 8  # blocks in a row, such as headings, that move to the passage after them
_MAX_HEADING_CHARACTERS: Final = 200  # only so much of a block's end is read
_ITEM: Final = re.compile(r"\s*(?:[-*+•]|[0-9]{1,9}[.)])\s")


def _prose(ruler: _Ruler, start: int, stop: int) -> Iterator[_Span]:
    """Yield groups of whole blocks, and the pieces of blocks that are too long for a passage."""
    start, stop = _trim(ruler.text, start, stop)
    if ruler.fits(start, stop, MAX_PROSE_TOKENS):
        if start < stop:
            yield start, stop
        return
    blocks = _Blocks(ruler, start, stop)
    first = 0
    while first < blocks.count:
        last = blocks.last_of_passage(first, start)
        pieces = list(_cut(ruler, start, blocks.stops[last], _PROSE_LIMITS))
        first = last + 1
        start = blocks.starts[first]
        if len(pieces) > 1 and first < blocks.count:  # the last piece is joined like any short block
            first = last
            start, _ = pieces.pop()
        yield from pieces


class _Blocks:
    """The paragraphs, list items and headings of a stretch of prose. Decides which of them form a passage.

    The kind of a block is read only where a border may fall: a text may have very many blocks.
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

    def last_of_passage(self, first: int, start: int) -> int:
        """Return the last block of the passage that begins at `start`, in the block `first`."""
        last = max(bisect_right(self.stops, self._ruler.last_piece_end(start, AIM_TOKENS)) - 1, first)
        if last + 1 == self.count:
            return last
        if self._introduces_next(last):
            before, floor = last - 1, max(first, last - _MAX_INTRODUCTIONS)
            while before >= floor and self._introduces_next(before):
                before -= 1
            return before if before >= floor else last + 1
        if self._is_item(last) and self._is_item(last + 1):
            return self._around_list(first, start, last)
        return last

    def _around_list(self, first: int, start: int, last: int) -> int:
        """Return the last block before a cut that does not fall inside the list around `last`: after it, or before it.

        If neither is possible within the limit, return `last`: the cut is made inside the list.
        """
        begin, end = last, last + 1
        while begin > first and self._is_item(begin - 1):
            begin -= 1
        while begin > first and self._introduces_next(begin - 1):
            begin -= 1
        furthest = self._ruler.max_stop(self.starts[begin], MAX_PROSE_TOKENS)
        while end + 1 < self.count and self._is_item(end + 1):
            end += 1
            if self.stops[end] > furthest:
                return last
        if self._ruler.fits(start, self.stops[end], MAX_PROSE_TOKENS):
            return end
        return begin - 1 if begin > first else last

    def _is_item(self, block: int) -> bool:
        return _ITEM.match(self._ruler.text, self.starts[block], self.stops[block]) is not None

    def _introduces_next(self, block: int) -> bool:
        """Return whether a block says little without the next one: a heading, or the words before a list."""
        start, stop = _trim(
            self._ruler.text, max(self.starts[block], self.stops[block] - _MAX_HEADING_CHARACTERS), self.stops[block]
        )
        if start == stop:
            return True
        line = max(self._ruler.text.rfind("\n", start, stop) + 1, start)
        return self._ruler.text[stop - 1] in ":：" or _HEADING.match(self._ruler.text, line, stop) is not None
