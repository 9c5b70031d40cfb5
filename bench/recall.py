"""Measures how well recall finds, and how much of the evidence reaches the prompt, beside simpler methods.

    python -m bench.recall [--data PATH] [--sets locomo lme_pool beam_100k] [--methods ours fts5 dense rrf formula]
                           [--json FILE] [--plot FILE.svg] [--evidence FILE.json] [--baseline FILE.json] [--cache FILE]

The data lie outside this repository. `--evidence` writes what the prompts kept, `--baseline` compares with such a file
and fails if more than half a point was lost. A second run is quick: vectors are kept in the cache.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench import data
from bench.adapter import Adapter
from bench.baselines import Baselines
from bench.cache import CachedEmbedder
from bench.chart import grouped_bars
from bench.figures import BUDGETS, RANKING_DEPTH, Figures, mean, score_prompt, score_ranking, standard_error
from recollect.providers.token_counts import count_tokens

CACHE: Final = Path("build/bench_vectors.npz")
METHODS: Final = {
    "ours": "Recollect",
    "fts5": "FTS5",
    "dense": "MiniLM",
    "rrf": "RRF k=60",
    "formula": "0.6/0.3/0.1",
}
BARS: Final = {
    "locomo": {"any@10": 0.80, "all@10": 0.66, "ctx_all@1000": 0.78},
    "lme_pool": {"any@10": 0.95, "all@10": 0.82, "ctx_kept@1000": 0.95},
    "beam_100k": {"any@10": 0.82, "all@10": 0.58, "ctx_kept@2000": 0.90},
}
RANKING: Final = ("any@10", "all@10", "ndcg@10", "mrr")
PROMPT: Final = tuple(f"{name}@{budget}" for name in ("ctx_any", "ctx_all", "ctx_kept") for budget in BUDGETS)
BARE: Final = tuple(f"kept_bare@{budget}" for budget in BUDGETS)  # without the words of the question itself
OVER: Final = tuple(f"ctx_over@{budget}" for budget in BUDGETS)
KEPT: Final = tuple(f"ctx_kept@{budget}" for budget in BUDGETS)
BY_CATEGORY: Final = ("any@10", "all@10", "ndcg@10", "ctx_all@1000", "ctx_kept@500", "ctx_kept@1000", "ctx_kept@2000")
LOST: Final = 0.005  # of what was kept, from one landing to the next

Rows = list[Figures]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of every question of a set, by method and category."""

    conversations: int
    messages: int
    rows: dict[str, dict[str, Rows]] = field(default_factory=dict)

    def overall(self, method: str) -> Rows:
        """Return the figures of the questions that count."""
        return [
            row
            for category, rows in self.rows[method].items()
            if category not in data.EXCLUDED_CATEGORIES
            for row in rows
        ]

    @property
    def questions(self) -> int:
        return len(self.overall(next(iter(self.rows))))


@lru_cache(maxsize=1 << 16)
def tokens(text: str) -> int:
    return int(count_tokens(text))


def packed(ranked: Sequence[str], texts: Mapping[str, str], query: str, budget: int) -> str:
    """The prompt a simple method makes: whole messages as they are ranked, what does not fit is passed over."""
    left = budget - tokens(query) - 1
    chosen = []
    for one in ranked:
        cost = tokens(texts[one]) + 1
        if cost <= left:
            left -= cost
            chosen.append(texts[one])
    return "\n".join(chosen)


def prompt_figures(
    bare: str, prompt: str, used: int, budget: int, question: data.Question, texts: Mapping[str, str]
) -> Figures:
    """Return the figures of the whole prompt, and of what it keeps without the question's own words."""
    evidence = [texts[one] for one in question.evidence]
    found = score_prompt(prompt, evidence, question.answer, budget, max(used, tokens(prompt)))
    name = f"ctx_kept@{budget}"
    if name in found:
        found[f"kept_bare@{budget}"] = score_prompt(bare, evidence, question.answer, budget, 0)[name]
    return found


def ours(
    adapter: Adapter, conversation: data.Conversation, question: data.Question, texts: Mapping[str, str]
) -> Figures:
    ranked = [one for one in adapter.search(conversation.id, question.text, RANKING_DEPTH) if one in texts]
    found = score_ranking(ranked, question.evidence)
    for budget in BUDGETS:
        made = adapter.memory.context(conversation.id, question.text, budget=budget)
        bare = "\n".join((made.memory, *(str(message["content"]) for message in made.tail)))
        found |= prompt_figures(bare, made.text, made.tokens, budget, question, texts)
    return found


def theirs(ranked: Sequence[str], question: data.Question, texts: Mapping[str, str]) -> Figures:
    found = score_ranking(ranked, question.evidence)
    for budget in BUDGETS:
        bare = packed(ranked, texts, question.text, budget)
        found |= prompt_figures(bare, f"{bare}\n{question.text}", 0, budget, question, texts)
    return found


def evaluate(conversations: Sequence[data.Conversation], methods: Sequence[str], embedder: CachedEmbedder) -> Outcome:
    """Conversations come one after another into one memory, as they would in life."""
    outcome = Outcome(len(conversations), sum(len(one.messages) for one in conversations))
    outcome.rows.update({name: defaultdict(list) for name in methods})
    simple = [name for name in methods if name != "ours"]
    adapter = Adapter(embedder) if "ours" in methods else None
    for conversation in conversations:
        texts = {message["id"]: message["content"] for message in conversation.messages}
        baselines = Baselines(conversation.messages, embedder.encode) if simple else None
        if adapter is not None:
            adapter.add(conversation.id, conversation.messages)
        for question in conversation.questions:
            if adapter is not None:
                row = ours(adapter, conversation, question, texts)
                outcome.rows["ours"][question.category].append(row)
            if baselines is not None:
                for name, ranked in baselines.rankings(question.text, simple, RANKING_DEPTH).items():
                    outcome.rows[name][question.category].append(theirs(ranked, question, texts))
        tokens.cache_clear()
    if adapter is not None:
        adapter.close()
    return outcome


# Showing it.


def shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def verdict(value: float, bar: float | None) -> str:
    if bar is None:
        return ""
    return f"{shown(bar)} [green]✓[/]" if round(value, 3) >= bar else f"{shown(bar)} [red]✗ {value - bar:+.3f}[/]"


def headline(name: str, outcome: Outcome) -> Table:
    """Figures by method; ours with its standard error and the bar."""
    title = f"{name}: {outcome.conversations} conversations, {outcome.messages} messages, {outcome.questions} questions"
    table = Table(title=title, title_justify="left")
    for column in ("", *(METHODS[method] for method in outcome.rows), "± of the first", "bar"):
        table.add_column(column, justify="left" if column in ("", "bar") else "right")
    first = next(iter(outcome.rows))
    bars = BARS.get(name, {}) if first == "ours" else {}
    for group in (RANKING, PROMPT, BARE, OVER):
        for metric in group:
            values = [mean(outcome.overall(method), metric) for method in outcome.rows]
            note = verdict(values[0], bars.get(metric))
            if metric in OVER:
                note = "0 [green]✓[/]" if values[0] == 0 else "0 [red]✗[/]"
            table.add_row(metric, *map(shown, values), shown(standard_error(outcome.overall(first), metric)), note)
        table.add_section()
    return table


def by_category(outcome: Outcome) -> Table:
    """One line for each category and method; what never counts stands in brackets."""
    table = Table(title="by category", title_justify="left")
    for column in ("category", "n", "method", *BY_CATEGORY):
        table.add_column(column, justify="left" if column in ("category", "method") else "right")
    first = next(iter(outcome.rows))
    for category in sorted(outcome.rows[first], key=lambda one: (one in data.EXCLUDED_CATEGORIES, one)):
        for method in outcome.rows:
            rows = outcome.rows[method][category]
            named = f"({category})" if category in data.EXCLUDED_CATEGORIES else category
            head = (named, str(len(rows))) if method == first else ("", "")
            table.add_row(*head, METHODS[method], *(shown(mean(rows, metric)) for metric in BY_CATEGORY))
        table.add_section()
    return table


# Keeping it.


def as_json(outcome: Outcome) -> dict[str, Any]:
    metrics = (*RANKING, *PROMPT, *BARE, *OVER)
    return {
        "conversations": outcome.conversations,
        "messages": outcome.messages,
        "questions": outcome.questions,
        "methods": {
            method: {
                "overall": _rounded(outcome.overall(method), metrics),
                "errors": {metric: _kept(standard_error(outcome.overall(method), metric)) for metric in metrics},
                "categories": {
                    name: _rounded(rows, metrics) | {"n": len(rows)} for name, rows in sorted(categories.items())
                },
            }
            for method, categories in outcome.rows.items()
        },
    }


def _rounded(rows: Rows, metrics: Sequence[str]) -> dict[str, float | None]:
    return {metric: _kept(mean(rows, metric)) for metric in metrics}


def _kept(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def evidence(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
    """Return our own figures, for the next run to compare with. They hold nothing of the data."""
    found = {}
    for name, outcome in outcomes.items():
        rows = outcome.overall("ours")
        found[name] = {"questions": len(rows)} | {metric: round(mean(rows, metric), 4) for metric in KEPT}
    return found


def losses(
    now: Mapping[str, Mapping[str, float]], before: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[str, str, float]]:
    """Set, figure and difference, for all that both have. Figures of other questions are not compared."""
    for name in now.keys() & before.keys():
        if before[name].get("questions", now[name]["questions"]) != now[name]["questions"]:
            raise SystemExit(f"{name}: these are not the questions of the baseline; run it over all conversations.")
    for name in now:
        for metric in KEPT:
            if metric in before.get(name, {}):
                yield name, metric, now[name][metric] - before[name][metric]


def compare(console: Console, now: Mapping[str, Mapping[str, float]], path: Path) -> bool:
    """Prints the differences to the previous landing; False if too much was lost."""
    table = Table(title="evidence kept, against the previous landing", title_justify="left")
    for column in ("set", "figure", "now", "difference in points"):
        table.add_column(column, justify="left" if column in ("set", "figure") else "right")
    good = True
    for name, metric, difference in losses(now, json.loads(path.read_text("utf-8"))):
        lost = round(difference, 4) < -LOST
        good = good and not lost
        points = f"{difference * 100:+.2f}"
        table.add_row(name, metric, shown(now[name][metric]), f"[red]{points} ✗[/]" if lost else points)
    console.print(table)
    return good


def plot(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """One group of columns for each bar, with the bar across."""
    groups = []
    for name, outcome in outcomes.items():
        for metric, bar in BARS.get(name, {}).items():
            values = {METHODS[method]: mean(outcome.overall(method), metric) for method in outcome.rows}
            groups.append((f"{name} {metric}", values, bar))
    path.write_text(grouped_bars("Recall, public halves", groups), "utf-8")


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")


def options() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    reader.add_argument("--sets", nargs="+", default=list(data.SETS), metavar="SET")
    reader.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    reader.add_argument("--conversations", type=int, help="only so many of each set, for a quick look")
    reader.add_argument("--audited", action="store_true", help="LoCoMo's labels as the public audit corrected them")
    reader.add_argument("--json", type=Path, help="write all figures here")
    reader.add_argument("--plot", type=Path, help="draw the figures that have a bar (SVG)")
    reader.add_argument("--evidence", type=Path, help="write what the prompts kept, for later comparison")
    reader.add_argument("--baseline", type=Path, help="compare with what the prompts kept before")
    reader.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    return reader.parse_args()


def main() -> int:
    given = options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    embedder = CachedEmbedder(given.cache)
    methods = [name for name in METHODS if name in given.methods]
    outcomes = {}
    for name in given.sets:
        start = time.perf_counter()
        conversations = data.load(given.data, name, audited=given.audited, max_conversations=given.conversations)
        outcomes[name] = evaluate(conversations, methods, embedder)
        embedder.save()
        console.print(headline(name, outcomes[name]), by_category(outcomes[name]))
        console.print(f"[dim]{time.perf_counter() - start:.0f} s[/]\n")
    if given.json:
        write_json(given.json, {name: as_json(outcome) for name, outcome in outcomes.items()})
    if given.plot:
        plot(outcomes, given.plot)
    if "ours" not in methods:
        return 0
    now = evidence(outcomes)
    if given.evidence:
        write_json(given.evidence, now)
    return 0 if given.baseline is None or compare(console, now, given.baseline) else 1


if __name__ == "__main__":
    sys.exit(main())
