"""With the real, built-in embedder: meaning is found without a shared word, and names by their letters."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory
from recollect.core.language.identifiers import find_identifiers

QUESTIONS = json.loads((Path(__file__).parents[1] / "data" / "code_questions.json").read_text("utf-8"))


TEMPLATES = (
    "We renamed {0} last week; nothing else changed.",
    "{0} showed up in the nightly run again, but only once.",
    "Does anyone still use {0}? I would like to delete it.",
    "The docs of {0} are out of date, I will rewrite them.",
    "I reviewed the change around {0} and left two comments.",
    "What is {0} for, and who owns it?",
)


def look_alikes(names: list[str], count: int) -> list[str]:
    """Names such as a code base has beside those asked for: other digits, plurals, prefixes, swapped parts."""
    chance = random.Random(11)
    found: dict[str, None] = {}
    while len(found) < count:
        name = chance.choice(names)
        parts = re.split(r"([_.-])", name)
        match chance.randrange(4):
            case 0:
                name = re.sub(r"[0-9]", lambda _: str(chance.randrange(10)), name)
            case 1:
                name = name + "s" if not name.endswith("s") else name[:-1]
            case 2:
                name = chance.choice(("old", "new", "get", "tmp", "base")) + chance.choice(("_", "")) + name
            case _:
                name = (
                    "".join(reversed(parts)) if len(parts) > 1 else name + chance.choice(("_id", "_v2", "_all", "Old"))
                )
        if name not in names:
            found[name] = None
    return list(found)


def filler() -> list[dict[str, str]]:
    asked = [q["query"] for c in QUESTIONS["conversations"] for q in c["questions"] if q["kind"] == "identifier"]
    names = sorted({name for query in asked for name in find_identifiers(query)})
    alike = look_alikes(names, 900)
    return [
        {"role": ("user", "assistant")[i % 2], "content": TEMPLATES[i % len(TEMPLATES)].format(name)}
        for i, name in enumerate(alike)
    ]


@pytest.fixture(scope="module")
def code() -> Iterator[Memory]:
    with Memory(":memory:", worker=False) as memory:
        for conversation in QUESTIONS["conversations"]:
            memory.add_many(conversation["id"], conversation["messages"])
        memory.add_many("chatter", filler())
        assert memory.drain().complete
        yield memory


def share_found(memory: Memory, kind: str, k: int = 5) -> float:
    """The share of the evidence that stands among the first k hits, in all conversations."""
    shares = []
    for conversation in QUESTIONS["conversations"]:
        for question in conversation["questions"]:
            if question["kind"] == kind:
                asked: Any = memory.recall(question["query"], limit=k)
                found = {hit.message_id for hit in asked}
                shares.append(len(found & set(question["evidence"])) / len(question["evidence"]))
    return sum(shares) / len(shares)


@pytest.mark.slow
def test_identifiers_are_found_a_fifth_better_than_by_vectors_alone(code: Memory) -> None:
    """The bar for names in code, on our own set of over 90 questions about names in code, among names like them."""
    hybrid = share_found(code, "identifier")
    code.change_settings(rag_hybrid=False)
    dense = share_found(code, "identifier")
    code.change_settings(rag_hybrid=None)
    print(f"identifier recall@5: hybrid {hybrid:.3f}, dense only {dense:.3f}, {hybrid / dense - 1:+.0%}")
    assert hybrid >= 1.2 * dense


def test_questions_by_meaning_do_not_suffer_from_words(code: Memory) -> None:
    """These ask without a name for what an assistant explained; vectors alone are the measure."""
    hybrid = share_found(code, "meaning")
    code.change_settings(rag_hybrid=False)
    dense = share_found(code, "meaning")
    code.change_settings(rag_hybrid=None)
    print(f"by meaning, recall@5: hybrid {hybrid:.3f}, dense only {dense:.3f}")
    assert hybrid >= dense


def test_a_fact_is_recalled_by_meaning_not_by_word() -> None:
    with Memory(":memory:", worker=False) as memory:
        memory.add("trip", "user", "My flight leaves on Friday evening.")
        memory.add("trip", "user", "I'm allergic to peanuts.")
        memory.add("trip", "user", "The hotel is close to the old harbour.")
        memory.drain()
        assert memory.recall("which food could make me ill?")[0].text == "I'm allergic to peanuts."
