"""The figures of recall: what was found among the first ten, and what of the evidence reached the prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

BUDGETS: Final = (500, 1000, 2000)  # tokens
DEPTH: Final = 100  # messages that are looked at for `mrr`
LONG: Final = 60  # words; a longer message need not stand whole in a prompt
STRETCH: Final = 8  # words that are compared in a row then

_COMMON: Final = (
    "a an and are as at be been but by did do does for from had has have he her his i in is it its my no not of on or "
    "she so that the their them they this to was we were what when where which who will with would you your yes"
)
_STOP: Final = frozenset(_COMMON.split())

Figures = dict[str, float]


def plain(text: str) -> str:
    """Words in small letters with one space between, so that layout does not count."""
    return re.sub(r"\W+", " ", text.lower()).strip()


def telling(text: str) -> set[str]:
    """The words of a text that say something."""
    return set(plain(text).split()) - _STOP


def ndcg(ranked: Sequence[str], wanted: Collection[str], k: int) -> float:
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(ranked[:k]) if one in wanted)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(len(wanted), k)))


def of_ranking(ranked: Sequence[str], evidence: Iterable[str], k: int = 10) -> Figures:
    """How well the evidence is ranked."""
    wanted = set(evidence)
    found = len(wanted.intersection(ranked[:k]))
    first = next((place for place, one in enumerate(ranked[:DEPTH]) if one in wanted), None)
    return {
        f"any@{k}": float(found > 0),
        f"all@{k}": float(found == len(wanted)),
        f"ndcg@{k}": ndcg(ranked, wanted, k),
        "mrr": 0.0 if first is None else 1 / (first + 1),
    }


def stands_in(text: str, prompt: str) -> bool:
    """Whether a message stands in a prompt (both plain): word for word, or half of a long one's stretches."""
    if text in prompt:
        return True
    words = text.split()
    if len(words) <= LONG:
        return False
    stretches = {" ".join(words[i : i + STRETCH]) for i in range(len(words) - STRETCH + 1)}
    return sum(stretch in prompt for stretch in stretches) * 2 >= len(stretches)


def of_prompt(prompt: str, evidence: Sequence[str], answer: str, budget: int, tokens: int) -> Figures:
    """How much of the evidence (texts) a prompt holds: any, all, and the share of the answer's words from it."""
    flat = plain(prompt)
    there = [stands_in(plain(text), flat) for text in evidence]
    found = {
        f"ctx_any@{budget}": float(any(there)),
        f"ctx_all@{budget}": float(all(there)),
        f"ctx_over@{budget}": float(tokens > budget),
    }
    needed = telling(answer) & set().union(*map(telling, evidence))
    if needed:
        found[f"ctx_kept@{budget}"] = len(needed & telling(prompt)) / len(needed)
    return found


def mean(rows: Sequence[Mapping[str, float]], name: str) -> float:
    """Over the questions that have this figure; not every answer has words in the evidence."""
    values = [row[name] for row in rows if name in row]
    return sum(values) / len(values) if values else math.nan


def error(rows: Sequence[Mapping[str, float]], name: str) -> float:
    """The standard error of the mean."""
    values = [row[name] for row in rows if name in row]
    if len(values) < 2:
        return math.nan
    middle = sum(values) / len(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values))
