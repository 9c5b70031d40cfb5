"""The conversations that benches read: published sets that lie outside this repository, or generated text."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DEFAULT: Final = Path(__file__).resolve().parents[2] / "shared" / "bench"
SETS: Final = ("locomo", "lme_pool", "beam_100k")
APART: Final = frozenset(("5-adversarial", "abstention", "summarization"))  # never in a headline figure

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    category: str
    answer: str
    evidence: tuple[str, ...]

    @property
    def apart(self) -> bool:
        return self.category in APART


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    messages: list[Message]
    questions: list[Question]


def load(folder: Path, name: str, *, audited: bool = False, most: int | None = None) -> list[Conversation]:
    """The conversations of a set with the questions that can be scored."""
    path = folder / "normalized" / f"{name}.json.gz"
    if not path.exists():
        raise SystemExit(f"There is no {path}; name the folder of the data by --data.")
    with gzip.open(path) as stream:
        found = json.load(stream)["conversations"]
    return [
        Conversation(one["id"], one["messages"], list(_questions(one["questions"], audited))) for one in found[:most]
    ]


def _questions(rows: list[dict[str, Any]], audited: bool) -> Iterator[Question]:
    for row in rows:
        evidence = row.get("evidence_audit", row["evidence"]) if audited else row["evidence"]
        if evidence and (row["scored"] or row["category"] in APART):
            yield Question(row["id"], row["query"], row["category"], str(row["answer"]), tuple(evidence))


def spoken(message: Message) -> str:
    """A message with its speaker in front, where that is more than the role."""
    content: str = message["content"]
    return content if message["speaker"] == message["role"] else f"{message['speaker']}: {content}"


class Texts:
    """Any number of chat-like texts: real messages with their words mixed, or words by Zipf's law without data.

    Mixed texts have the words of two real messages in turn, so that no two are alike and words stay as common and as
    rare as they are. Nothing of them is kept.
    """

    def __init__(self, folder: Path | None, seed: int = 7) -> None:
        self._chance = random.Random(seed)
        path = None if folder is None else folder / "normalized" / "locomo.json.gz"
        self.real: list[str] = []
        self.asked: list[str] = []
        if folder is not None and path is not None and path.exists():
            conversations = load(folder, "locomo")
            self.real = [message["content"] for one in conversations for message in one.messages]
            self.asked = [question.text for one in conversations for question in one.questions]
        self._words = [self._word() for _ in range(30_000)]
        self._weights = [1 / (rank + 2) for rank in range(len(self._words))]

    @property
    def are_real(self) -> bool:
        return bool(self.real)

    def _word(self) -> str:
        return "".join(self._chance.choices("etaoinshrdlucmfwypvbgkjqxz", k=self._chance.randint(2, 9)))

    def text(self, characters: int) -> str:
        """One of about so many characters."""
        words: list[str] = []
        size = 0
        goal = max(12, self._chance.gauss(characters, characters / 4))
        while size < goal:
            some = self._some()
            words += some
            size += sum(map(len, some)) + len(some)
        return " ".join(words)[: int(goal) + 6]

    def _some(self) -> list[str]:
        if not self.real:
            return self._chance.choices(self._words, self._weights, k=12)
        one, other = (self._chance.choice(self.real).split() for _ in range(2))
        return [word for pair in zip(one, other, strict=False) for word in pair]

    def questions(self, count: int) -> list[str]:
        """Different ones, so that no cache knows them."""
        if self.asked:
            chosen = list(dict.fromkeys(self.asked))
            self._chance.shuffle(chosen)
            return chosen[:count]
        return [self.text(50) + "?" for _ in range(count)]
