"""Scores recall: how high the evidence is ranked, and how much of it reaches the prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

BUDGETS: Final = (500, 1000, 2000)  # tokens
RANKING_DEPTH: Final = 100  # messages that count for `mrr`
LONG_TEXT_WORDS: Final = 60  # a message with more words need not be in a prompt as a whole
STRETCH_WORDS: Final = 8  # consecutive words that are compared instead

_COMMON: Final = (
    "a an and are as at be been but by did do does for from had has have he her his i in is it its my no not of on or "
    "she so that the their them they this to was we were what when where which who will with would you your yes"
)
_STOP: Final = frozenset(_COMMON.split())

Figures = dict[str, float]


def normalise(text: str) -> str:
    """Return the words in lower case with one space between, so that layout does not count."""
    return re.sub(r"\W+", " ", text.lower()).strip()


def content_words(text: str) -> set[str]:
    """Return the words of a text without stop words."""
    return set(normalise(text).split()) - _STOP


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first `k` ids."""
    gain = sum(1 / math.log2(index + 2) for index, message_id in enumerate(ranked[:k]) if message_id in relevant)
    return gain / sum(1 / math.log2(index + 2) for index in range(min(len(relevant), k)))


def score_ranking(ranked: Sequence[str], evidence: Iterable[str], k: int = 10) -> Figures:
    """Return figures of a ranking: any, all and NDCG among the first `k`, and the reciprocal rank."""
    relevant = set(evidence)
    found = len(relevant.intersection(ranked[:k]))
    first = next((index for index, message_id in enumerate(ranked[:RANKING_DEPTH]) if message_id in relevant), None)
    return {
        f"any@{k}": float(found > 0),
        f"all@{k}": float(found == len(relevant)),
        f"ndcg@{k}": ndcg(ranked, relevant, k),
        "mrr": 0.0 if first is None else 1 / (first + 1),
    }


def is_quoted(text: str, prompt: str) -> bool:
    """Return True if a prompt holds a text word for word, or half of the stretches of a long text.

    Both are normalised.
    """
    if text in prompt:
        return True
    words = text.split()
    if len(words) <= LONG_TEXT_WORDS:
        return False
    stretches = {" ".join(words[i : i + STRETCH_WORDS]) for i in range(len(words) - STRETCH_WORDS + 1)}
    return sum(stretch in prompt for stretch in stretches) * 2 >= len(stretches)


def score_prompt(prompt: str, evidence: Sequence[str], answer: str, budget: int, tokens: int) -> Figures:
    """Return figures of a prompt: whether it holds any and all of the evidence, and is over its budget.

    `ctx_kept` is the share of the answer's words from the evidence that the prompt holds; it is left out if there are
    none.
    """
    flat = normalise(prompt)
    quoted = [is_quoted(normalise(text), flat) for text in evidence]
    figures = {
        f"ctx_any@{budget}": float(any(quoted)),
        f"ctx_all@{budget}": float(all(quoted)),
        f"ctx_over@{budget}": float(tokens > budget),
    }
    needed = content_words(answer) & set().union(*map(content_words, evidence))
    if needed:
        figures[f"ctx_kept@{budget}"] = len(needed & content_words(prompt)) / len(needed)
    return figures


def mean(rows: Sequence[Mapping[str, float]], name: str) -> float:
    """Return the mean over the questions that have this figure. Not every answer has words in the evidence."""
    values = [row[name] for row in rows if name in row]
    return sum(values) / len(values) if values else math.nan


def standard_error(rows: Sequence[Mapping[str, float]], name: str) -> float:
    """Return the standard error of the mean."""
    values = [row[name] for row in rows if name in row]
    if len(values) < 2:
        return math.nan
    average = sum(values) / len(values)
    return math.sqrt(sum((value - average) ** 2 for value in values) / (len(values) - 1) / len(values))
