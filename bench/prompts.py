"""Measures what a prompt costs and keeps at each budget, and what the brief alone keeps, on the public sets.

    python -m bench.prompts [--data PATH] [--sets locomo lme_pool beam_100k] [--conversations N] [--plot FILE.svg]

Prompts: tokens of the context against the whole history, and the evidence kept at 500, 1,000, 2,000 and 3,000 tokens.
Survival: the share of questions whose evidence or answer still stands in the brief and the tail, without any recall;
beside it, summaries of the same length by lead, TextRank, LexRank and LSA in place of the brief. Evidence stands there
if some line (a message, a statement, an entry) has three quarters of its telling words.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import data, summaries
from bench.adapter import Adapter
from bench.cache import CachedEmbedder
from bench.chart import line_chart
from bench.figures import Figures, content_words, mean, normalise, score_prompt
from bench.recall import CACHE, shown
from recollect import Brief, Memory
from recollect.core.compression import ledger
from recollect.core.compression.narrative import Length
from recollect.core.message import Message
from recollect.core.turns import split_into_turns
from recollect.providers.token_counts import count_tokens
from recollect.recall.prompt import ledger as important

BUDGETS: Final = (500, 1000, 2000, 3000)
TURNS: Final = 3  # of the tail
TOLD: Final = 0.75  # of the telling words of a message, to say that it is told
LINE: Final = 1000  # characters of a message that other summarisers get: they compare every line with every other
NAMES: Final = {"locomo": "LoCoMo", "lme_pool": "LongMemEval", "beam_100k": "BEAM"}


@dataclass(slots=True)
class Outcome:
    """Figures of every question of a set, and tokens of its conversations."""

    prompts: list[Figures] = field(default_factory=list)
    history: list[int] = field(default_factory=list)
    survival: dict[str, list[Figures]] = field(default_factory=dict)
    brief_tokens: list[int] = field(default_factory=list)


def evaluate(
    conversations: Sequence[data.Conversation], embedder: CachedEmbedder, *, prompts: bool, survival: bool
) -> Outcome:
    outcome, adapter = Outcome(), Adapter(embedder)
    for conversation in conversations:
        adapter.add(conversation.id, conversation.messages)
        texts = {message["id"]: message["content"] for message in conversation.messages}
        whole = sum(int(count_tokens(text)) for text in texts.values())
        outcome.history.append(whole)
        questions = [one for one in conversation.questions if one.category not in data.EXCLUDED_CATEGORIES]
        for question in questions if prompts else ():
            outcome.prompts.append(prompt_figures(adapter.memory, conversation.id, question, texts, whole))
        if survival:
            note_survival(outcome, adapter.memory, conversation.id, questions, texts)
    adapter.close()
    return outcome


def prompt_figures(
    memory: Memory, conversation: str, question: data.Question, texts: Mapping[str, str], whole: int
) -> Figures:
    found: Figures = {}
    evidence = [texts[one] for one in question.evidence]
    for budget in BUDGETS:
        made = memory.context(conversation, question.text, budget=budget)
        found |= score_prompt(made.text, evidence, question.answer, budget, made.tokens)
        found[f"tokens@{budget}"] = made.tokens
        found[f"saved@{budget}"] = 1 - made.tokens / whole if whole else 0.0
        for part in made.explain["parts"]:
            found[f"{part['name']}@{budget}"] = part["tokens"]
    return found


# What the brief keeps by itself.


def note_survival(
    outcome: Outcome,
    memory: Memory,
    conversation: str,
    questions: Sequence[data.Question],
    texts: Mapping[str, str],
) -> None:
    brief = memory.brief(conversation)
    if brief is None:
        return
    messages = memory.history(conversation)
    tail = "\n".join(message.content for turn in split_into_turns(messages)[-TURNS:] for message in turn)
    text = whole_brief(brief)
    length = int(count_tokens(text))
    outcome.brief_tokens.append(length)
    older = [message for message in messages if message.seq <= brief.through_seq]
    others = {"brief": text} | baselines(older, length)
    for name, text in others.items():
        rows = outcome.survival.setdefault(name, [])
        rows += [survives(f"{text}\n{tail}", question, texts) for question in questions]


def whole_brief(brief: Brief) -> str:
    """Narrative and ledger, all of it as a prompt tells it; a line for each message it rests on, as the others have."""
    lines: dict[str, list[str]] = {}
    for statement in brief.statements:
        lines.setdefault(statement.sources[0], []).append(statement.text)
    for entry in brief.entries:
        if entry.holds and entry.kind != ledger.ENTITY:
            lines.setdefault(entry.sources[0], []).append(important.render_for_prompt(entry, "", "UTC"))
    return "\n".join(" ".join(dict.fromkeys(texts)) for texts in lines.values())


def baselines(messages: Sequence[Message], tokens: int) -> dict[str, str]:
    """Return the history shortened to so many tokens by other methods, by their names."""
    told = [f"{message.name or message.role}: {' '.join(message.content.split())}" for message in messages]
    found = {"lead": within(told, tokens), "newest": within(told[::-1], tokens)}
    case = summaries.Case([replace(one, name=one.name or one.role, content=one.content[:LINE]) for one in messages])
    length = Length(0, tokens, lambda text: int(count_tokens(text)))
    for name in ("TextRank", "LexRank", "LSA"):
        found[name] = summaries.load_sumy(name, "\n")(case, length)
    return found


def within(texts: Sequence[str], tokens: int) -> str:
    """The first of these texts, as many as fit."""
    left, kept = tokens, []
    for text in texts:
        cost = int(count_tokens(text)) + 1
        if cost > left:
            break
        left -= cost
        kept.append(text)
    return "\n".join(kept)


def survives(text: str, question: data.Question, texts: Mapping[str, str]) -> Figures:
    """Whether a question can still be answered: all its evidence stands there, or its answer; and what of its words."""
    lines = [content_words(line) for line in text.split("\n")]
    evidence = [texts[one] for one in question.evidence]
    needed = content_words(question.answer) & set().union(*map(content_words, evidence)) if evidence else set()
    answer = normalise(question.answer)
    found = {
        "evidence": float(bool(evidence) and all(is_told(content_words(one), lines) for one in evidence)),
        "answer": float(bool(answer) and f" {answer} " in f" {normalise(text)} "),
    }
    found["survives"] = max(found.values())
    if needed:
        found["words"] = len(needed & set().union(*lines)) / len(needed)
    return found


def is_told(words: set[str], lines: Sequence[set[str]]) -> bool:
    return any(len(words & line) >= TOLD * len(words) for line in lines) if words else False


# Showing it.


def prompts_table(outcomes: Mapping[str, Outcome]) -> Table:
    table = Table(title="prompts: tokens, and evidence kept", title_justify="left")
    for column in ("set", "history", "budget", "tokens", "saved", "kept", "all evidence", "where the tokens go"):
        table.add_column(column, justify="left" if column in ("set", "where the tokens go") else "right")
    for name, outcome in outcomes.items():
        history = sum(outcome.history) / len(outcome.history)
        for place, budget in enumerate(BUDGETS):
            rows = outcome.prompts
            parts = ", ".join(
                f"{part} {sum(row.get(f'{part}@{budget}', 0.0) for row in rows) / len(rows):.0f}"
                for part in ("important_data", "summary", "recall", "tail", "question")
            )
            head = (NAMES.get(name, name), f"{history:,.0f}") if not place else ("", "")
            table.add_row(
                *head, f"{budget:,}", f"{mean(rows, f'tokens@{budget}'):,.0f}", f"{mean(rows, f'saved@{budget}'):.0%}",
                shown(mean(rows, f"ctx_kept@{budget}")), shown(mean(rows, f"ctx_all@{budget}")), parts,
            )  # fmt: skip
        table.add_section()
    return table


def survival_table(outcomes: Mapping[str, Outcome]) -> Table:
    table = Table(title="survival: questions answerable from brief and tail alone", title_justify="left")
    for column in ("set", "instead of the brief", "tokens", "evidence", "answer", "either", "answer's words"):
        table.add_column(column, justify="left" if column in ("set", "instead of the brief") else "right")
    for name, outcome in outcomes.items():
        if not outcome.survival:
            continue
        length = sum(outcome.brief_tokens) / len(outcome.brief_tokens)
        for place, (method, rows) in enumerate(outcome.survival.items()):
            head = NAMES.get(name, name) if not place else ""
            figures = (shown(mean(rows, name)) for name in ("evidence", "answer", "survives", "words"))
            table.add_row(head, method, f"{length:,.0f}", *figures)
        table.add_section()
    return table


def plot(outcomes: Mapping[str, Outcome]) -> str:
    series = {
        NAMES.get(name, name): [(budget, mean(outcome.prompts, f"ctx_kept@{budget}")) for budget in BUDGETS]
        for name, outcome in outcomes.items()
    }
    return line_chart("Evidence kept in the prompt", series, x_label="budget, tokens", lowest=0.7)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER)
    reader.add_argument("--sets", nargs="+", default=list(data.SETS), metavar="SET")
    reader.add_argument("--conversations", type=int, help="only so many of each set, for a quick look")
    reader.add_argument("--plot", type=Path, help="draw the evidence kept by budget (SVG)")
    reader.add_argument("--no-prompts", action="store_true", help="leave out what prompts cost and keep")
    reader.add_argument("--no-survival", action="store_true", help="leave out the brief alone and its peers")
    reader.add_argument("--cache", type=Path, default=CACHE)
    given = reader.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    embedder, outcomes = CachedEmbedder(given.cache), {}
    for name in given.sets:
        start = time.perf_counter()
        conversations = data.load(given.data, name, max_conversations=given.conversations)
        survival = not given.no_survival and name != "beam_100k"
        outcomes[name] = evaluate(conversations, embedder, prompts=not given.no_prompts, survival=survival)
        embedder.save()
        console.print(f"[dim]{name}: {time.perf_counter() - start:.0f} s[/]")
    if not given.no_prompts:
        console.print(prompts_table(outcomes))
    if not given.no_survival:
        console.print(survival_table(outcomes))
    if given.plot:
        given.plot.write_text(plot(outcomes), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
