"""Tokenizers that count exactly and offline: one for each encoding, loaded at its first use.

Owns loading, the cache of counts, and the repair of texts that tiktoken cannot read. If an encoding cannot be loaded,
estimates stand in and say so (`exact` is False). Nothing is read before the first count.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from recollect.providers.encodings import EncodingTable, build_encoding, table_for_model
from recollect.providers.estimate import EstimateTokenizer
from recollect.runtime.forks import call_in_children

if TYPE_CHECKING:
    import tiktoken

    from recollect.core.protocols import Tokenizer

log = logging.getLogger(__name__)

CACHED_COUNTS: Final = 1 << 16

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

# tiktoken's regex engine keeps one stack entry per character of `\s+(?!\S)` and panics near a million. So longer runs
# of blanks are cut here, where the pattern would cut them. Newlines are safe: they match earlier.
_BLANKS: Final = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LONG_BLANKS_CHARACTERS: Final = 200_000
_LONG_BLANKS: Final = re.compile(f"(?<![{_BLANKS}])[{_BLANKS}]{{{_LONG_BLANKS_CHARACTERS},}}(?![{_BLANKS}\r\n])")

_loaded: dict[tuple[str, bool], Tokenizer] = {}  # by the encoding's name and whether the model is known
_loading = threading.Lock()


def _begin_in_child() -> None:
    """Make a new lock in a forked child: another thread of the parent may have held the old one."""
    global _loading
    _loading = threading.Lock()


call_in_children(_begin_in_child)


def tokenizer_for(model: str) -> Tokenizer:
    """Return the tokenizer of a model; load it at its first use, once per process.

    A model that is not known is counted with o200k_base, and `exact` is False.
    """
    table, is_known = table_for_model(model)
    tokenizer = _loaded.get((table.name, is_known))
    if tokenizer is not None:
        return tokenizer
    with _loading:
        if (table.name, True) not in _loaded:
            _loaded[table.name, True] = _load(table)
        exact = _loaded[table.name, True]
        _loaded[table.name, False] = exact.as_estimate() if isinstance(exact, BpeTokenizer) else exact
        return _loaded[table.name, is_known]


def _load(table: EncodingTable) -> Tokenizer:
    try:
        return BpeTokenizer(table, build_encoding(table, table.pattern))
    except (ImportError, OSError, ValueError) as error:
        log.warning(
            "Token counts are estimates: %s cannot be used (%s: %s). Reinstall recollect and tiktoken.",
            table.name,
            type(error).__name__,
            error,
        )
        return EstimateTokenizer()


CountKey = tuple[int, int, str]  # length and hash of a text, and the ending that follows it


class CountCache:
    """A bounded cache of token counts that keeps no text. When it is full, the half not used lately is dropped."""

    def __init__(self, max_entries: int = CACHED_COUNTS) -> None:
        self._max_entries = max_entries
        self._recent: dict[CountKey, int] = {}
        self._older: dict[CountKey, int] = {}

    def get(self, key: CountKey) -> int | None:
        """Return the count, or None if it is not cached."""
        count = self._recent.get(key)
        if count is None and (count := self._older.get(key)) is not None:
            self.put(key, count)
        return count

    def put(self, key: CountKey, count: int) -> int:
        """Keep the count and return it."""
        if 2 * len(self._recent) >= self._max_entries:
            self._recent, self._older = {}, self._recent
        self._recent[key] = count
        return count


class BpeTokenizer:
    """A tokenizer with a real rank table. `exact` is False when the model's own encoding is not known."""

    def __init__(
        self,
        table: EncodingTable,
        encoding: tiktoken.Encoding,
        *,
        exact: bool = True,
        cache: CountCache | None = None,
    ) -> None:
        self.name = table.name
        self.exact = exact
        self._table = table
        self._encoding = encoding
        self._unsplit_encoding: tiktoken.Encoding | None = None
        self._cache = CountCache() if cache is None else cache

    def as_estimate(self) -> BpeTokenizer:
        """Return a tokenizer with the same counts, marked as not exact: for a model of unknown encoding."""
        return BpeTokenizer(self._table, self._encoding, exact=False, cache=self._cache)

    def count(self, text: str) -> int:
        """Return the tokens of `text`."""
        return len(self.encode(text))

    def count_cached(self, text: str, end: str = "") -> int:
        """Return the tokens of `text + end`, from the cache if it was counted before.

        For stored texts, which are counted for one prompt after another.
        """
        key = (len(text), hash(text), end)  # a hash of 64 bits: a collision is not to be expected
        count = self._cache.get(key)
        return self._cache.put(key, self.count(text + end)) if count is None else count

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`. A lone surrogate is read as U+FFFD."""
        text = _replace_surrogates(text)
        ids: list[int] = []
        encoded_to = 0
        for start, end in self._find_long_blanks(text):
            ids += self._encoding.encode_ordinary(text[encoded_to:start])
            ids += self._open_unsplit_encoding().encode_ordinary(text[start:end])
            encoded_to = end
        ids += self._encoding.encode_ordinary(text[encoded_to:])
        return ids

    def _find_long_blanks(self, text: str) -> Iterable[tuple[int, int]]:
        """Yield start and end of runs that are one piece each. The last blank before a word belongs to the word."""
        if len(text) < _LONG_BLANKS_CHARACTERS:
            return
        for run in _LONG_BLANKS.finditer(text):
            if run.end() < len(text):
                yield run.start(), run.end() - 1
            elif self._table.cuts_trailing_blanks:
                yield run.span()

    def _open_unsplit_encoding(self) -> tiktoken.Encoding:
        """Return the encoding with a pattern that never cuts: all the text is one piece."""
        if self._unsplit_encoding is None:  # two threads may both build it, which is harmless
            self._unsplit_encoding = build_encoding(self._table, r"[\s\S]+")
        return self._unsplit_encoding


def _replace_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text
