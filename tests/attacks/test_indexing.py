"""The wall of the worker: no message takes more work or storage than its length allows, whatever it is made of."""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Sequence
from typing import Final

import pytest

from recollect import Memory
from recollect.recall import vector_job
from recollect.recall.vector_job import TURN_PASSAGES, KeptBorders, embedded_texts
from recollect.testing import FakeClock, FakeEmbedder
from support.growth import assert_linear

TINY = {
    "fences": "```\n", "fences with a line": "```\nx\n```\n", "fences and words": "```\nx\n```\ny\n",
    "tilde fences": "~~~ a\n~~~\n", "items": "- a\n", "spaced items": "- a\n\n", "tables": "|a|b|\n",
    "sentences": "Go. ", "questions": "Why? ", "addresses": "https://a.b/c ", "paragraphs": "a\n\n",
    "blank lines": "\n", "quotes": "> a\n", "headings": "# a\n", "leads": "a:\n\n", "numbers": "1 ", "signs": ")a",
    "identifiers": "a_b ", "pairs": "a: b\n", "rare letters": "\U00012000", "prose": "word, ",
    "fences as often as they are not joined": "```\n```\n" + ")a" * 124,
}  # fmt: skip
FREE_BYTES: Final = 16_000  # of words and vectors that any message may take: some passages
MAX_STORED_PER_BYTE: Final = 8  # bytes of words and vectors for each byte of a longer text


class ConstantEmbedder(FakeEmbedder):
    """An embedder that takes no time, so that only our own work is measured."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] + [0.0] * (self.dimensions - 1)] * len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", TINY.values(), ids=TINY)
def test_indexing_grows_linearly_with_a_message(db: str, pattern: str, full_count: bool) -> None:
    """Through add and drain, with an embedder that takes no time."""
    numbers = itertools.count()
    with Memory(db, worker=False, embedder=ConstantEmbedder(), clock=FakeClock()) as memory:

        def index(text: str) -> None:
            memory.add(f"talk {next(numbers)}", "user", text)
            memory.drain()

        def make(n: int) -> str:
            return f"{next(numbers)} \n" + pattern * (n // len(pattern))

        assert_linear(index, make, 60_000 if full_count else 8_000, factor=7.0, clock=time.process_time)


@pytest.mark.parametrize("pattern", TINY.values(), ids=TINY)
def test_what_is_stored_is_bounded_by_the_length_of_the_message(db: str, pattern: str) -> None:
    with Memory(db, worker=False, embedder=ConstantEmbedder(), clock=FakeClock()) as memory:
        for person, characters in (("short", 1_000), ("long", 40_000)):
            text = pattern * (characters // len(pattern))
            view = memory.of(person)
            view.add("talk", "user", text)
            memory.drain()
            counts = view.stats()
            stored = counts["vector_bytes"] + counts["entry_bytes"]
            assert stored <= FREE_BYTES + MAX_STORED_PER_BYTE * len(text.encode())


def test_a_long_message_is_split_once_however_many_turns_it_takes(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ")a" * 60 * 5 * TURN_PASSAGES
    split_texts = []

    def split(content: str) -> array[int]:
        split_texts.append(content)
        return split_at_once(content)

    split_at_once = vector_job._split
    monkeypatch.setattr(vector_job, "_split", split)
    with Memory(db, worker=False, embedder=(embedder := FakeEmbedder(8)), clock=FakeClock()) as memory:
        memory.add("talk", "user", text)
        memory.drain()
        kept = memory._engine._embedding._borders
    assert [passage for call in embedder.calls for passage in call] == embedded_texts(text)
    assert len(split_texts[:-1]) == 1 and len(embedder.calls) > 4
    assert not kept._borders and not kept._count  # nothing is kept of a message that is done


def test_borders_are_kept_up_to_a_limit_and_those_used_longest_ago_go_first() -> None:
    kept = KeptBorders(max_passages=4)
    texts = ["```\na\n```\nb", "```\na\n```\nc", "```\na\n```\nd"]  # two passages each
    borders = [kept.take(text) for text in texts]
    kept.keep(texts[0], borders[0])
    kept.keep(texts[1], borders[1])
    assert kept.take(texts[0]) is borders[0]
    kept.keep(texts[0], borders[0])
    kept.keep(texts[2], borders[2])
    assert kept.take(texts[0]) is borders[0] and kept.take(texts[2]) is borders[2]
    assert kept.take(texts[1]) == borders[1] and kept.take(texts[1]) is not borders[1]
    assert kept._count == 0
