"""Reads the conversations that benches use: published sets that lie outside this repository, or generated text."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DEFAULT_FOLDER: Final = Path(__file__).resolve().parents[2] / "shared" / "bench"
SETS: Final = ("locomo", "lme_pool", "beam_100k")
# Categories of questions that no headline figure counts.
EXCLUDED_CATEGORIES: Final = frozenset(("5-adversarial", "abstention", "summarization"))

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a conversation, its answer, and the ids of the messages that hold the evidence."""

    id: str
    text: str
    category: str
    answer: str
    evidence: tuple[str, ...]

    @property
    def is_excluded(self) -> bool:
        """Return True if no headline figure counts the question."""
        return self.category in EXCLUDED_CATEGORIES


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of a set, with the questions about it."""

    id: str
    messages: list[Message]
    questions: list[Question]


def load(folder: Path, name: str, *, audited: bool = False, max_conversations: int | None = None) -> list[Conversation]:
    """Return the conversations of a set with the questions that can be scored.

    `audited` takes the evidence as it was corrected by hand, where it was.
    """
    path = folder / "normalized" / f"{name}.json.gz"
    if not path.exists():
        raise SystemExit(f"There is no {path}; name the folder of the data by --data.")
    with gzip.open(path) as stream:
        rows = json.load(stream)["conversations"]
    return [
        Conversation(row["id"], row["messages"], list(_read_questions(row["questions"], audited)))
        for row in rows[:max_conversations]
    ]


def _read_questions(rows: list[dict[str, Any]], audited: bool) -> Iterator[Question]:
    for row in rows:
        evidence = row.get("evidence_audit", row["evidence"]) if audited else row["evidence"]
        if evidence and (row["scored"] or row["category"] in EXCLUDED_CATEGORIES):
            yield Question(row["id"], row["query"], row["category"], str(row["answer"]), tuple(evidence))


def text_with_speaker(message: Message) -> str:
    """Return the text of a message, with the speaker in front if that is more than the role."""
    content: str = message["content"]
    return content if message["speaker"] == message["role"] else f"{message['speaker']}: {content}"


class Texts:
    """A source of any number of chat-like texts: real messages with their words mixed, or generated words.

    A mixed text takes words from two real messages in turn. So no two texts are alike, and words stay as common and as
    rare as they are. Without the data, words are drawn by Zipf's law. Texts are not kept.
    """

    def __init__(self, folder: Path | None, seed: int = 7) -> None:
        self._random = random.Random(seed)
        path = None if folder is None else folder / "normalized" / "locomo.json.gz"
        self.real_messages: list[str] = []
        self.real_questions: list[str] = []
        if folder is not None and path is not None and path.exists():
            conversations = load(folder, "locomo")
            self.real_messages = [
                message["content"] for conversation in conversations for message in conversation.messages
            ]
            self.real_questions = [
                question.text for conversation in conversations for question in conversation.questions
            ]
        self._words = [self._make_word() for _ in range(30_000)]
        self._weights = [1 / (rank + 2) for rank in range(len(self._words))]

    @property
    def are_real(self) -> bool:
        """Return True if texts are mixed from real messages."""
        return bool(self.real_messages)

    def _make_word(self) -> str:
        return "".join(self._random.choices("etaoinshrdlucmfwypvbgkjqxz", k=self._random.randint(2, 9)))

    def text(self, characters: int) -> str:
        """Return a text of about so many characters."""
        words: list[str] = []
        size = 0
        goal = max(12, self._random.gauss(characters, characters / 4))
        while size < goal:
            more = self._next_words()
            words += more
            size += sum(map(len, more)) + len(more)
        return " ".join(words)[: int(goal) + 6]

    def _next_words(self) -> list[str]:
        if not self.real_messages:
            return self._random.choices(self._words, self._weights, k=12)
        first, second = (self._random.choice(self.real_messages).split() for _ in range(2))
        return [word for pair in zip(first, second, strict=False) for word in pair]

    def questions(self, count: int) -> list[str]:
        """Return so many different questions, so that no cache holds them."""
        if self.real_questions:
            chosen = list(dict.fromkeys(self.real_questions))
            self._random.shuffle(chosen)
            return chosen[:count]
        return [self.text(50) + "?" for _ in range(count)]
