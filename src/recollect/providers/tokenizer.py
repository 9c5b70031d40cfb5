"""Counts tokens exactly and offline, with the rank tables that lie beside this file.

Owns: which encoding a model uses, loading it once, the price of a message, and the estimate that stands in
when a table cannot be used. Nothing is read before the first count, and nothing is ever downloaded: tiktoken
only merges, it never loads. Text that looks like a special token is counted as the text it is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import threading
from binascii import a2b_base64
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from recollect.core.errors import InvalidInput

if TYPE_CHECKING:
    import tiktoken

    from recollect.core.protocols import Tokenizer

log = logging.getLogger(__name__)

DEFAULT_MODEL: Final = "gpt-4o-mini"
MESSAGE_FRAMING: Final = 4  # tokens that a chat API adds around each message


class TokenCount(int):
    """A number of tokens that knows whether it is exact or an estimate."""

    exact: bool

    def __new__(cls, value: int, *, exact: bool = True) -> TokenCount:
        count = super().__new__(cls, value)
        count.exact = exact
        return count


def count_tokens(text: str, model: str = DEFAULT_MODEL) -> TokenCount:
    """How many tokens `text` is for `model`."""
    tokenizer = tokenizer_for(model)
    return TokenCount(tokenizer.count(text), exact=tokenizer.exact)


def count_tokens_for_messages(messages: Iterable[Mapping[str, Any]], model: str = DEFAULT_MODEL) -> TokenCount:
    """How many tokens OpenAI-style `messages` are for `model`, framing included."""
    tokenizer = tokenizer_for(model)
    return TokenCount(sum(count_message(m, tokenizer) for m in messages), exact=tokenizer.exact)


def count_message(message: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """What one message costs: content, role, framing and, when present, name and tool calls."""
    total = MESSAGE_FRAMING + tokenizer.count(str(message.get("role") or ""))
    total += sum(tokenizer.count(text) for text in _texts(message.get("content")))
    if name := message.get("name"):
        total += tokenizer.count(str(name))
    if calls := message.get("tool_calls"):
        total += tokenizer.count(json.dumps(calls, ensure_ascii=False, separators=(",", ":"), default=str))
    return total


def _texts(content: object) -> list[str]:
    """The texts of a message's content, which is a string, nothing, or a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, list | tuple):
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        return [text for text in texts if isinstance(text, str)]
    raise InvalidInput(
        "invalid_content", f"Message content must be text or a list of parts, not {type(content).__name__}."
    )


# Which encoding a model uses.


@dataclass(frozen=True, slots=True)
class _Table:
    """The facts of one encoding: the file's hash, and the pattern that cuts text into pieces to merge.

    `cuts_at_end` tells whether trailing blanks are cut by the pattern's look-ahead (see `_LONG_BLANKS`).
    """

    name: str
    sha256: str
    pattern: str
    cuts_at_end: bool


_WORD_END: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER: Final = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER: Final = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"

CL100K: Final = _Table(
    name="cl100k_base",
    sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    pattern=(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    cuts_at_end=False,
)
O200K: Final = _Table(
    name="o200k_base",
    sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    pattern=(
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_WORD_END}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_WORD_END}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    cuts_at_end=True,
)

_O200K_MODELS: Final = re.compile(r"(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|chatgpt-4o|o[134](?=-|$)|o200k_base$)", re.ASCII)
_CL100K_MODELS: Final = re.compile(r"(gpt-4(?=-|$)|gpt-3\.?5|text-embedding-|cl100k_base$)", re.ASCII)


def _table_for(model: str) -> tuple[_Table, bool]:
    """The encoding of a model, and whether it is known. Reads `ft:NAME:…`, `vendor/NAME` and `NAME:tag` too."""
    name = model.strip().casefold().rpartition("/")[2].removeprefix("ft:").partition(":")[0]
    if _O200K_MODELS.match(name):
        return O200K, True
    if _CL100K_MODELS.match(name):
        return CL100K, True
    return O200K, False


# Loading, once per process.

_loaded: dict[tuple[str, bool], Tokenizer] = {}
_loading = threading.Lock()


def tokenizer_for(model: str) -> Tokenizer:
    """The tokenizer of a model, loaded at its first use.

    Models that are not known are counted with o200k_base and marked as not exact.
    """
    table, known = _table_for(model)
    found = _loaded.get((table.name, known))
    if found is not None:
        return found
    with _loading:
        if (table.name, True) not in _loaded:
            _loaded[table.name, True] = _load(table)
        exact = _loaded[table.name, True]
        _loaded[table.name, False] = exact.as_estimate() if isinstance(exact, BpeTokenizer) else exact
        return _loaded[table.name, known]


def _load(table: _Table) -> Tokenizer:
    try:
        return BpeTokenizer(table, _encoding(table, table.pattern))
    except (ImportError, OSError, ValueError) as error:
        log.warning(
            "Token counts are estimates: %s cannot be used (%s: %s). Reinstall recollect and tiktoken.",
            table.name,
            type(error).__name__,
            error,
        )
        return EstimateTokenizer()


def _encoding(table: _Table, pattern: str) -> tiktoken.Encoding:
    import tiktoken  # late: importing recollect must stay fast

    return tiktoken.Encoding(table.name, pat_str=pattern, mergeable_ranks=_read_ranks(table), special_tokens={})


def _read_ranks(table: _Table) -> dict[bytes, int]:
    """The table as tiktoken wants it. Each line is a token in base64 and its rank."""
    data = files("recollect.providers").joinpath("ranks", f"{table.name}.tiktoken").read_bytes()
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise ValueError("its SHA-256 is not the published one")
    pairs = (line.split() for line in data.splitlines())
    return {a2b_base64(token): int(rank) for token, rank in pairs}


# Counting.

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

# tiktoken's regex engine keeps one stack entry per character of `\s+(?!\S)` and panics near a million, so
# longer runs of blanks are cut here, where the pattern would cut them. Newlines are safe: they match earlier.
_BLANKS: Final = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_TOO_LONG: Final = 200_000
_LONG_BLANKS: Final = re.compile(f"(?<![{_BLANKS}])[{_BLANKS}]{{{_TOO_LONG},}}(?![{_BLANKS}\r\n])")


Mark = tuple[int, int, str]


class _Counted:
    """Counts by the length and hash of what was counted, and what stood behind it, so that no text is kept. Those asked
    for longest ago go, half of them at a time."""

    def __init__(self, most: int = 1 << 16) -> None:
        self._most = most
        self._new: dict[Mark, int] = {}
        self._old: dict[Mark, int] = {}

    def get(self, mark: Mark) -> int | None:
        found = self._new.get(mark)
        if found is None and (found := self._old.get(mark)) is not None:
            self.keep(mark, found)
        return found

    def keep(self, mark: Mark, count: int) -> int:
        if 2 * len(self._new) >= self._most:
            self._new, self._old = {}, self._new
        self._new[mark] = count
        return count


class BpeTokenizer:
    """Counts with a real table. `exact` is False when the model's own encoding is not known."""

    def __init__(
        self,
        table: _Table,
        encoding: tiktoken.Encoding,
        *,
        exact: bool = True,
        counted: _Counted | None = None,
    ) -> None:
        self.name = table.name
        self.exact = exact
        self._table = table
        self._encoding = encoding
        self._whole_encoding: tiktoken.Encoding | None = None
        self._counted = _Counted() if counted is None else counted

    def as_estimate(self) -> BpeTokenizer:
        """The same counts, for a model that may use another encoding."""
        return BpeTokenizer(self._table, self._encoding, exact=False, counted=self._counted)

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def count_again(self, text: str, end: str = "") -> int:
        """The same, with `end` behind it, for a text that was counted before or will be: stored ones are, for one
        prompt after another."""
        mark = (len(text), hash(text), end)  # 64 bits: two texts that meet are not to be met
        found = self._counted.get(mark)
        return self._counted.keep(mark, self.count(text + end)) if found is None else found

    def encode(self, text: str) -> list[int]:
        """The token ids of `text`; lone surrogates are read as U+FFFD."""
        text = _without_surrogates(text)
        ids: list[int] = []
        done = 0
        for start, end in self._long_blanks(text):
            ids += self._encoding.encode_ordinary(text[done:start])
            ids += self._whole().encode_ordinary(text[start:end])
            done = end
        ids += self._encoding.encode_ordinary(text[done:])
        return ids

    def _long_blanks(self, text: str) -> Iterable[tuple[int, int]]:
        """Runs that are one piece each. The last blank before a word belongs to the word."""
        if len(text) < _TOO_LONG:
            return
        for run in _LONG_BLANKS.finditer(text):
            if run.end() < len(text):
                yield run.start(), run.end() - 1
            elif self._table.cuts_at_end:
                yield run.span()

    def _whole(self) -> tiktoken.Encoding:
        """The same table without a pattern: all the text is one piece."""
        if self._whole_encoding is None:  # built twice in a race, which is harmless
            self._whole_encoding = _encoding(self._table, r"[\s\S]+")
        return self._whole_encoding


# A line end before anything but blanks, another line end or a slash is the end of a piece in both patterns, and no
# pattern looks back: there, tokens of the parts add up to those of the whole.
_LINE_END: Final = re.compile(r"\n(?=[^\s/])")
_BEGINS_LINE: Final = re.compile(r"[^\s/]").match


class Remembering:
    """The same counts, nothing counted twice: for as long as one prompt is made, since it holds what it has read."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.name, self.exact = tokenizer.name, tokenizer.exact
        self._by_lines = isinstance(tokenizer, BpeTokenizer)  # an estimate is rounded for each text
        self._again = tokenizer.count_again if isinstance(tokenizer, BpeTokenizer) else _with_end(tokenizer)
        self._texts: dict[str, int] = {}
        self._lines: dict[str, int] = {}  # with their ends

    def count(self, text: str) -> int:
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = self._counted(text)
        return found

    def count_message(self, message: Mapping[str, Any]) -> int:
        return count_message(message, self)

    def count_lines(self, lines: Sequence[str]) -> int:
        """The same of "\\n".join(lines), which need not be made for it."""
        if not self._by_lines or not lines or not all(map(_BEGINS_LINE, lines[1:])):
            return self.count("\n".join(lines))
        *ended, last = lines
        return sum(map(self.count_line, ended)) + self.count(last)

    def count_line(self, line: str) -> int:
        """With its end."""
        found = self._lines.get(line)
        if found is None:
            parts = _LINE_END.split(line) if self._by_lines and "\n" in line else ()
            counted = sum(map(self.count_line, parts)) if len(parts) > 1 else self._again(line, "\n")
            found = self._lines[line] = counted
        return found

    def _counted(self, text: str) -> int:
        if not self._by_lines or "\n" not in text:
            return self._again(text)
        *lines, last = _LINE_END.split(text)
        found = sum(map(self.count_line, lines))
        return found + (self.count_line(last[:-1]) if last.endswith("\n") else self._again(last))


def _with_end(tokenizer: Tokenizer) -> Callable[..., int]:
    return lambda text, end="": tokenizer.count(text + end)


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


# Estimating.

# Tokens per character from each code point on, measured as the dearer of the two encodings on prose of the
# script (cl100k_base, nearly always) and rounded up.
_PRICES: Final = (
    (0x0080, 1.0),  # Latin with accents
    (0x0370, 1.2),  # Greek
    (0x0400, 1.0),  # Cyrillic
    (0x0530, 1.5),  # Armenian, Hebrew
    (0x0600, 1.0),  # Arabic
    (0x0700, 2.0),  # Syriac, Indic, Thai, Georgian and the other alphabets and syllabaries
    (0x2000, 1.5),  # punctuation and signs
    (0x2100, 2.0),  # arrows, box drawing, dingbats
    (0x3000, 1.5),  # kana, Han
    (0xA000, 3.0),
    (0xAC00, 2.0),  # Hangul
    (0xD7B0, 3.0),  # presentation forms, private use
    (0x1F000, 3.0),  # emoji
    (0x1FB00, 4.0),  # rare Han and whatever comes after
)
_PRICE_STARTS: Final = tuple(start for start, _ in _PRICES)

_ASCII_PIECES: Final = re.compile(
    r"(?P<word>[A-Z]?[a-z]+|[A-Z]+)|(?P<digits>[0-9]+)|(?P<space> (?=\S))|(?P<blank>(\s)(?:\5)*)|[\x00-\x7f]"
)


class EstimateTokenizer:
    """Estimates by script, on the high side: budgets computed with it hold, at the price of some room."""

    name = "estimate"
    exact = False

    def count(self, text: str) -> int:
        ascii_tokens = sum(_ascii_price(piece) for piece in _ASCII_PIECES.finditer(text))
        others = sum(
            times * _PRICES[bisect_right(_PRICE_STARTS, ord(char)) - 1][1]
            for char, times in Counter(text).items()
            if char >= "\x80"
        )
        return ascii_tokens + math.ceil(others)


def _ascii_price(piece: re.Match[str]) -> int:
    length = piece.end() - piece.start()
    match piece.lastgroup:
        case "word":  # long words are rarely words: hashes, base64
            return -(-length // 4) if length <= 12 else -(-length // 2)
        case "digits":
            return -(-length // 3)
        case "space":
            return 0
        case "blank":
            return 1 + length // 16
        case _:
            return 1
