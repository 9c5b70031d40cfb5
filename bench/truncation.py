"""Measures what a prompt loses for lack of room, with passages and with whole messages.

    python -m bench.truncation [--data PATH] [--sets beam_100k lme_pool] [--conversations N]

A message that does not fit is left out. If messages are quoted by passages, a long one need not fit as a whole. Lost is
the share of the answer's words that stand in the evidence and not in the prompt. Only questions count whose evidence is
among the ten best messages: what is not found is not lost for lack of room.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import data
from bench.adapter import Adapter
from bench.cache import CachedEmbedder
from bench.figures import Figures, mean, score_prompt
from bench.recall import CACHE

BUDGETS: Final = (500, 1000, 2000)
FOUND_RANK: Final = 10
SETS: Final = ("beam_100k", "lme_pool")  # the sets with long messages


def measure(conversations: Sequence[data.Conversation], embedder: CachedEmbedder) -> dict[bool, list[Figures]]:
    """Return the figures of all questions, with passages (True) and with whole messages (False)."""
    rows: dict[bool, list[Figures]] = {True: [], False: []}
    adapter = Adapter(embedder)
    for conversation in conversations:
        adapter.add(conversation.id, conversation.messages)
        texts = {message["id"]: message["content"] for message in conversation.messages}
        found_questions = [
            question
            for question in conversation.questions
            if question.category not in data.EXCLUDED_CATEGORIES
            and set(question.evidence) <= set(adapter.search(conversation.id, question.text, FOUND_RANK))
        ]
        for with_passages, figures in rows.items():
            adapter.memory.change_settings(rag_chunking=with_passages)
            for question in found_questions:
                evidence, found = [texts[one] for one in question.evidence], Figures()
                for budget in BUDGETS:
                    made = adapter.memory.context(conversation.id, question.text, budget=budget)
                    found |= score_prompt(made.text, evidence, question.answer, budget, made.tokens)
                figures.append(found)
    adapter.close()
    return rows


def to_table(name: str, rows: dict[bool, list[Figures]]) -> Table:
    """Return what is lost at each budget, and by which share passages lower it."""
    table = Table(title=f"{name}: answer words lost ({len(rows[True])} questions)", title_justify="left")
    for column in ("budget", "whole messages", "passages", "less by"):
        table.add_column(column, justify="right")
    for budget in BUDGETS:
        whole, passages = (1 - mean(rows[kind], f"ctx_kept@{budget}") for kind in (False, True))
        table.add_row(f"{budget:,}", f"{whole:.3f}", f"{passages:.3f}", f"{1 - passages / whole:.0%}" if whole else "–")
    return table


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER)
    reader.add_argument("--sets", nargs="+", default=list(SETS), metavar="SET")
    reader.add_argument("--conversations", type=int, help="only so many of each set, for a quick look")
    reader.add_argument("--cache", type=Path, default=CACHE)
    given = reader.parse_args()
    console, embedder = Console(width=None if sys.stdout.isatty() else 120), CachedEmbedder(given.cache)
    for name in given.sets:
        conversations = data.load(given.data, name, max_conversations=given.conversations)
        console.print(to_table(name, measure(conversations, embedder)))
        embedder.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
