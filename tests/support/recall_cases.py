"""Reads labelled conversations and unrelated questions, tells them to a memory, and measures what prompts take of it.

The texts are in tests/data/recall.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from recollect import Memory
from recollect.core.models import Context

DATA: Final = Path(__file__).parents[1] / "data" / "recall"
START: Final = datetime(2026, 1, 1, 9, tzinfo=UTC)
STATEMENTS_PER_CONVERSATION: Final = 20
NOT_MEMORY: Final = ("question", "system_prompt", "tail")  # parts of a prompt


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation, and questions with the numbers of the messages that answer them."""

    id: str
    messages: Sequence[Mapping[str, Any]]  # role (or none), name (or none), content, and perhaps the day
    questions: Sequence[tuple[str, Sequence[int]]]

    def timed(self, start: datetime) -> list[dict[str, Any]]:
        """Return the messages with ids and times: two minutes apart, on their days."""
        return [
            {key: row[key] for key in ("name", "content") if key in row}
            | {
                "id": self.message_id(number),
                "role": row.get("role", "user"),
                "at": start + timedelta(days=row.get("day", 0), minutes=2 * number),
            }
            for number, row in enumerate(self.messages)
        ]

    def message_id(self, number: int) -> str:
        """Return the id of a message."""
        return f"{self.id}-{number}"


def read(name: str) -> Any:
    """Return the contents of a file of cases."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def read_talks(file: str, key: str) -> list[Talk]:
    """Return the talks of a file."""
    rows = read(file)[key]
    return [
        Talk(row["id"], row["messages"], [(one["text"], one["evidence"]) for one in row["questions"]])
        for row in (rows if isinstance(rows, list) else [rows])
    ]


def read_facts(language: str, half: str, count: int) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return facts of a person by id, and pairs of a question in other words and the id of the fact that answers it."""
    file, text, asked = {
        "english": ("english_facts", "text", "text"),
        "arabic": ("arabic_questions", "ar", "ar"),
    }[language]
    rows = read(file)[half]
    chosen = rows["facts"][:: len(rows["facts"]) // count][:count]
    facts = {row["id"]: row[text] for row in chosen}
    return facts, [(row[asked], row["fact"]) for row in rows["questions"] if row["fact"] in facts]


def read_unrelated(language: str) -> list[str]:
    """Return questions that have nothing to do with what anybody told: small talk, general knowledge, noise."""
    return [text for texts in read("everyday_questions")[language].values() for text in texts]


def tell_facts(memory: Memory, facts: Mapping[str, str]) -> None:
    """Add facts to conversations of one day each, and index them."""
    rows = [{"id": fact, "role": "user", "content": text} for fact, text in facts.items()]
    for number, first in enumerate(range(0, len(rows), STATEMENTS_PER_CONVERSATION)):
        at = START + timedelta(days=number)
        own = rows[first : first + STATEMENTS_PER_CONVERSATION]
        memory.add_many(
            f"day-{number}", [row | {"at": at + timedelta(minutes=3 * place)} for place, row in enumerate(own)]
        )
    assert memory.drain().complete


def tell_talks(memory: Memory, talks: Sequence[Talk], tell: Any = list) -> None:
    """Add talks, each to its own conversation and nine days after the one before, and index them.

    `tell` may change the roles and names of messages.
    """
    for number, talk in enumerate(talks):
        memory.add_many(talk.id, tell(talk.timed(START + timedelta(days=9 * number))))
    assert memory.drain().complete


def memory_tokens(context: Context) -> int:
    """Return how many tokens of a prompt come from memory: not the question, the system prompt or the newest turns."""
    return sum(int(part["tokens"]) for part in context.explain["parts"] if part["name"] not in NOT_MEMORY)


def quoted_ids(context: Context) -> Iterator[str]:
    """Yield the ids of the messages that a prompt quotes."""
    for part in context.explain["parts"]:
        if part["name"] == "recall":
            yield from (item["message_id"] for item in part["items"])
