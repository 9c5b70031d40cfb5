"""Reads the Arabic and English sentence pairs that the Arabic table is trained on.

Owns cleaning, what is left out, the order, and the vectors that MiniLM gives the English sides. The test sentences
of `laser_tatoeba.json` are removed from both sides, whatever file they come from.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from recollect.providers.minilm import MiniLM
from recollect.providers.minilm.arabic_words import normalise, split_words, stem

EVERYDAY: Final = (
    "tatoeba",
    "tico19",
    "cldr",
    "android_aosp",
    "mozilla",
    "libreoffice",
    "react_docs",
    "tldr",
    "zulip",
    "wikipedia_app",
    "osm_tagging",
)
MANUALS: Final = ("msdocs_projops", "msdocs_d365ops", "msdocs_m365")  # large: sentences are chosen from them
TEST_FILE: Final = "laser_tatoeba.json"
SEED: Final = 17
DEV_PAIRS: Final = 1000  # of Tatoeba, to choose by
MAX_CHARACTERS: Final = 300  # of either side
STEM_USES: Final = 40  # a sentence of a manual is taken while one of its stems was met fewer times than this
MAX_MANUAL_PAIRS: Final = 90_000
MAX_FOREIGN_SHARE: Final = 0.34  # of the words of the Arabic side: Latin words are not the table's

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_PLACEHOLDER = re.compile(r"%[0-9]*\$?[.0-9]*[a-zA-Z]\b|\{[^{}]*\}|<[^<>]*>|\\[nt'\"@]")
_BLANKS = re.compile(r"\s+")
_LATIN = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_NOT_LETTERS = re.compile(r"[\W_]+")


class Pair(NamedTuple):
    """An Arabic sentence and its English translation."""

    arabic: str
    english: str
    source: str


class Pairs(NamedTuple):
    """The pairs to train on, and those of Tatoeba that are kept aside to choose by."""

    train: list[Pair]
    dev: list[Pair]


def read_pairs(folder: Path) -> Pairs:
    """Return the cleaned pairs, in a fixed random order, without those that contain a test sentence."""
    tested = _test_keys(folder)
    shuffle = random.Random(SEED)  # noqa: S311 - a fixed order, not a secret
    everyday = [pair for source in EVERYDAY for pair in _read(folder, source, tested)]
    dev = _choose_dev(everyday, shuffle)
    held = {key(side) for pair in dev for side in (pair.arabic, pair.english)}
    train = [pair for pair in everyday if not held & {key(pair.arabic), key(pair.english)}]
    manuals = [pair for source in MANUALS for pair in _read(folder, source, tested | held)]
    shuffle.shuffle(manuals)
    train += _choose_varied(manuals, train)
    shuffle.shuffle(train)
    return Pairs(train, dev)


def key(text: str) -> str:
    """Return what counts as the same sentence: letters and digits, normalised, without case and punctuation."""
    return _NOT_LETTERS.sub(" ", normalise(text).lower()).strip()


def _test_keys(folder: Path) -> set[str]:
    sentences = json.loads((folder / TEST_FILE).read_text("utf-8"))
    return {key(text) for side in ("ar", "en") for text in sentences[side]}


def _read(folder: Path, source: str, excluded: set[str]) -> Iterator[Pair]:
    seen: set[tuple[str, str]] = set()
    with gzip.open(folder / "pairs" / f"{source}.tsv.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            arabic, _, english = line.rstrip("\n").partition("\t")
            pair = Pair(_clean(arabic, source), _clean(english, source), source)
            keys = (key(pair.arabic), key(pair.english))
            if keys in seen or excluded & set(keys) or not _is_useful(pair):
                continue
            seen.add(keys)
            yield pair


def _clean(text: str, source: str) -> str:
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    if source == "libreoffice":
        text = text.replace("_", "").replace("~", "")  # they mark the letter of a shortcut
    return _BLANKS.sub(" ", _PLACEHOLDER.sub(" ", text)).strip()


def _is_useful(pair: Pair) -> bool:
    words, latin = split_words(normalise(pair.arabic)), _LATIN.findall(pair.arabic)
    if not words or not _LATIN.search(pair.english) or max(len(pair.arabic), len(pair.english)) > MAX_CHARACTERS:
        return False
    is_english = not any("\u0600" <= character <= "\u06ff" for character in pair.english)
    return is_english and len(latin) <= MAX_FOREIGN_SHARE * (len(latin) + len(words))


def _choose_dev(pairs: Sequence[Pair], shuffle: random.Random) -> list[Pair]:
    """Return pairs of Tatoeba, no sentence of either side twice."""
    candidates = [pair for pair in pairs if pair.source == "tatoeba"]
    shuffle.shuffle(candidates)
    chosen: list[Pair] = []
    seen: set[str] = set()
    for pair in candidates:
        keys = {key(pair.arabic), key(pair.english)}
        if len(chosen) < DEV_PAIRS and not keys & seen:
            chosen.append(pair)
            seen |= keys
    return chosen


def _choose_varied(manuals: Iterable[Pair], known: Iterable[Pair]) -> list[Pair]:
    """Return the sentences of manuals that bring words which are still rare."""
    uses: Counter[str] = Counter()
    for pair in known:
        uses.update(_stems(pair))
    chosen = []
    for pair in manuals:
        stems = _stems(pair)
        if len(chosen) < MAX_MANUAL_PAIRS and any(uses[item] < STEM_USES for item in stems):
            uses.update(stems)
            chosen.append(pair)
    return chosen


def _stems(pair: Pair) -> set[str]:
    return {stem(word) for word in split_words(normalise(pair.arabic))}


class Teacher:
    """MiniLM's vectors of English sentences, kept in a file: they take most of the time of a build."""

    CHUNK: Final = 4096

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._embedder = MiniLM(threads=1)
        self._vectors: dict[bytes, np.ndarray] = {}
        for file in sorted(cache.glob("*.npz")):
            with np.load(file) as stored:
                self._vectors.update(zip((bytes(row) for row in stored["keys"]), stored["vectors"], strict=True))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row for each text, as 32-bit floats."""
        missing = sorted({text for text in texts if _digest(text) not in self._vectors}, key=len)
        self._cache.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(missing), self.CHUNK):
            part = missing[start : start + self.CHUNK]
            vectors = self._embedder.encode(part, single_thread=True).astype(np.float16)
            keys = [_digest(text) for text in part]
            name = hashlib.sha256(b"".join(keys)).hexdigest()[:16]
            np.savez(self._cache / name, keys=np.array([list(item) for item in keys], np.uint8), vectors=vectors)
            self._vectors.update(zip(keys, vectors, strict=True))
        return np.array([self._vectors[_digest(text)] for text in texts], np.float32)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]
