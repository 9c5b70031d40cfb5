"""Measures what hostile inputs of about a megabyte cost, beside a bare pass over the same text.

    python -m bench.limits [--size 1000000] [--rounds 3]

Tests check that the cost of these inputs grows linearly, which is true on any machine. How much it is stands here.
Each time is the best of some rounds, in milliseconds of processor time. The bare pass is `re.findall(r"\\w+", text)`
for texts and `json.loads` for files, so that ratios of different machines can be compared.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Final, TypeVar

from recollect import Memory
from recollect.core.compression.ledger import URL, Entry, merge
from recollect.core.compression.model_reply import InvalidReply, parse_reply
from recollect.core.compression.narrative import length_for_version
from recollect.core.compression.summariser import summarise
from recollect.core.dates.periods import find_periods
from recollect.core.extract import extract
from recollect.core.language.identifiers import find_identifiers, is_code_question
from recollect.core.language.passages import split
from recollect.core.message import Message
from recollect.formats import read_file
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.prompt.excerpts import QueryTerms, make_excerpt
from recollect.testing import FakeEmbedder

T = TypeVar("T")

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
QUESTION: Final = "Which code opens the garden gate, and what does the parrot know?"
FILLER: Final = "The weather was mild and the people walked along the river as on every other day. "
PATTERNS: Final = {
    "prose": FILLER, "one word": "a", "blanks": " ", "newlines": "\n", "words": "a b ", "sentences": "a. ",
    "dots": "a.", "signs": ".)", "commas": ",", "digits": "1 ", "ticks": "`", "fences": "```\nx\n```\n",
    "open fences": "```a\n", "headings": "# a\n", "items": "- a\n\n", "open links": "[x](", "quotes": '"a ',
    "apostrophes": "I'm ", "statements": "I live in Bonn and I work at Acme. ",
    "Arabic": "أنا أسكن في بلدة وأعمل في شركة. ", "conditions": "when you ",
    "dates": "in May ", "Chinese": "字。", "emoji": "🤷", "accents": "\u0301",
    "URLs": "http://", "paths": "a/", "names": "a::", "calls": "a.b(", "options": "--a", "hashes": "a1b2c3d4 ",
}  # fmt: skip


def milliseconds(run: Callable[[T], object], make: Callable[[], T], rounds: int) -> float:
    """Return the best processor time of some runs, all threads together. Inputs are made outside the measurement."""
    best = float("inf")
    for _ in range(rounds):
        argument = make()
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            run(argument)
            best = min(best, time.process_time() - start)
        finally:
            gc.enable()
    return best * 1000


def message_of(text: str) -> Message:
    """Return the text as a message of a user."""
    return Message("m", "talk", 1, "user", text, NOW, "typed")


def text_readers() -> Mapping[str, Callable[[str], object]]:
    """Return all functions that read texts of any length and shape."""
    counter, numbers = tokenizer_for("gpt-4o-mini"), count()
    return {
        "entries": lambda text: extract([message_of(text)]),
        "identifiers": find_identifiers,
        "is code": is_code_question,
        "passages": split,
        "periods": lambda text: find_periods(f"{next(numbers)} {text}", now=NOW),  # it keeps what it has read
        "summary": lambda text: summarise([[message_of(text)]], length=length_for_version(5)),
        "excerpt": lambda text: make_excerpt(text, 400, counter, QueryTerms(QUESTION)),
    }


def find_words(text: str) -> object:
    """Pass over a text as barely as a reader can."""
    return re.findall(r"\w+", text)


def measure_texts(size: int, rounds: int) -> None:
    """Print what all readers need for all patterns, and for signs in disorder."""
    readers = text_readers()
    texts = {name: pattern * (size // len(pattern)) for name, pattern in PATTERNS.items()}
    texts["disorder"] = "".join(random.Random(5).choices("ab AI1_./:`(-$@# \n,", k=size))
    for read in readers.values():
        read(FILLER)  # what is loaded once is not part of the cost
    print(f"{f'{size:,} characters':<20}{'bare ms':>8}" + "".join(f"{name:>16}" for name in readers))
    for name, text in texts.items():
        bare = milliseconds(find_words, partial(str, text), rounds)
        times = [milliseconds(read, partial(str, text), rounds) for read in readers.values()]
        print(f"{name:<20}{bare:8.1f}" + "".join(f"{ms:8.1f}{f'({ms / bare:.1f}×)':>8}" for ms in times))
    print()


def files(size: int) -> Iterable[tuple[str, bytes, bytes]]:
    """Yield names of files, their bytes, and the bytes of valid JSON to compare with (they may be the same)."""
    plain = json.dumps(FILLER * (size // len(FILLER))).encode()
    yield "[[[[…", b"[" * size, plain
    yield "[{},{},…", b"[" + b"{}," * (size // 3), plain
    yield "escaped quotes", b'["' + b'\\"' * (size // 2), plain
    yield "backslashes", b'["' + b"\\" * (size + 1), plain
    yield "nested mappings", b'[{"mapping":' + b'{"":' * (size // 4), plain
    nodes = {
        str(at): {
            "parent": str(at - at % 2 - 1) if at > 1 else None,
            "message": {"id": f"m{at}", "author": {"role": "user"}, "content": {"parts": [f"number {at}"]}},
        }
        for at in range(size // 120)
    }
    chain = json.dumps([{"id": "long", "mapping": nodes}]).encode()
    yield "a chain of nodes", chain, chain
    turns = [{"from": "human" if at % 2 else "gpt", "value": FILLER * 5} for at in range(40)]
    talks = json.dumps([{"id": f"chat-{at}", "conversations": turns} for at in range(size // 18_000)]).encode()
    yield "conversations", talks, talks


def measure_files(size: int, rounds: int) -> None:
    """Print what the incremental reader needs for hostile and for good files."""
    print(f"{f'{size:,} bytes':<44}{'json.loads':>12}{'read_file':>12}{'ratio':>9}")
    for name, data, valid in files(size):
        bare = milliseconds(json.loads, partial(bytes, valid), rounds)
        kind = None if data is valid else "chatgpt"
        ms = milliseconds(lambda file: list(read_file(file, format=kind)), partial(io.BytesIO, data), rounds)  # noqa: B023
        print(f"{name:<44}{bare:12.1f}{ms:12.1f}{ms / bare:8.1f}×")
    print()


def links(start: int, stop: int) -> list[Entry]:
    """Return entries of the ledger that share a slot."""
    values = [f"https://example.com/{at}" for at in range(start, stop)]
    return [Entry(URL, "user", "url", value, value, ("m",), 1, NOW) for value in values]


def refuse(reply: str) -> None:
    """Parse a reply of a model that is not one."""
    with suppress(InvalidReply):
        parse_reply(reply)
        raise AssertionError("the reply was read")


def measure_calls(size: int, rounds: int) -> None:
    """Print what longer ways need, beside a bare pass over a text of this size."""
    text = FILLER * (size // len(FILLER))
    bare = milliseconds(find_words, lambda: text, rounds)
    print(f"{'calls':<44}{'bare ms':>12}{'ms':>12}{'ratio':>9}")

    def show(name: str, run: Callable[[T], object], make: Callable[[], T]) -> None:
        ms = milliseconds(run, make, rounds)
        print(f"{name:<44}{bare:12.1f}{ms:12.1f}{ms / bare:8.1f}×")

    with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
        memory.context("warm", "up?")
        names = (f"talk {number}" for number in count())

        def add_text() -> str:
            return memory.add(next(names), "user", text).conversation

        show(f"add() of {size:,} characters", lambda text: memory.add("long", "user", text), lambda: text)
        show("the first context() after it", lambda name: memory.context(name, QUESTION, budget=1000), add_text)
    with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
        memory.add_many("a", [{"id": f"m{at}", "role": "user", "content": f"{FILLER}{at}"} for at in range(600)])
        memory.drain()
        labels = [{"query": f"river {at}", "relevant": [f"m{at}"]} for at in range(30)]
        show("tune() by 30 questions on 600 messages", memory.tune, lambda: labels)
    old, new = links(0, 1500), links(1400, 1600)
    show("merge() of 1,500 and 200 entries of a slot", lambda old: merge(old, new), lambda: old)
    show(f"{size:,} newlines as a reply, refused", refuse, lambda: "```json\n" + "\n" * size)


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000, help="characters or bytes of an input")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for measure in (measure_texts, measure_files, measure_calls):
        measure(options.size, options.rounds)


if __name__ == "__main__":
    main()
