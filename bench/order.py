"""Fits the learned order and relevance, and measures both on sets that they were not fitted on.

    python -m bench.order [--data PATH] [--sets locomo lme_pool …] [--write] [--cache FILE]

For each family of sets the weights are found on all other families, and the figures are those of the family that was
left out ("left out"). Beside it stand the plain sum, vectors alone, weights found on half of the family's conversations
and all other sets ("other half"), and weights found on everything ("tuned"). `--write` writes the weights found on
everything into src/recollect/recall/order_weights.py. It needs scipy (`pip install -e '.[bench]'`).

A weight may only have the sign that makes sense for its feature: a nearer message never counts less. Without this
limit the weights fit the sets that they were found on better, and all others worse.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bench import data
from bench.adapter import to_stored
from bench.cache import CachedEmbedder
from recollect.core.language import analyser
from recollect.core.scope import ConversationScope, PersonScope
from recollect.memory import AsyncMemory
from recollect.recall import relevance, scoring
from recollect.recall.features import CandidateFacts
from recollect.recall.order import PARTS, choose_candidates
from recollect.recall.question import parse_question
from recollect.recall.scoring import ArmWeights, QueryFeatures

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

CACHE: Final = Path("build/bench_vectors.npz")
CASES: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "recall"
TARGET: Final = Path(__file__).resolve().parents[1] / "src" / "recollect" / "recall" / "order_weights.py"
PUBLIC: Final = ("locomo", "lme_pool", "beam_100k", "madial")
ASKED_IN_NEW: Final = ("locomo", "lme_pool", "beam_100k")  # sets whose questions are also asked in a new conversation
NEW_QUESTIONS: Final = 200
SCALE: Final = "beam_500k"  # for training only
SCALE_CONVERSATIONS: Final = 4  # of its 35: each takes minutes to embed
KEYWORDS: Final = "keywords"  # one to three rare words of a message, as people type them into a search box
# Written by us, for training. In `small` few statements are known; the others of these are statements in one language
# and questions in the same or the other one.
OWN: Final = (
    "facts_dev", "cues_dev", "meetings", "rooms", "lists", "small_english_dev", "small_arabic_dev",
    "arabic_arabic_dev", "arabic_english_dev", "english_arabic_dev",
)  # fmt: skip
# Written by us, only measured.
UNSEEN: Final = (
    "facts_test", "cues_test", "small_english_test", "small_arabic_test", "arabic_arabic_test", "arabic_english_test",
    "english_arabic_test",
)  # fmt: skip
BILINGUAL: Final = ("small", "arabic", "english")  # only relevance is fitted on these
SMALL_STATEMENTS: Final = 60  # in each conversation of a small set
FAMILY_WEIGHTS: Final = {
    "locomo": 2.0,
    "lme": 2.0,
    "beam": 2.0,
    "meetings": 0.3,
    "rooms": 0.3,
    "keywords": 0.3,
}  # others: a half
NEGATIVE: Final = frozenset(
    ("session_rank", "long", "many_words", "passages", "asks", "asked_asks")
)  # features that may only count against a message
FREE: Final = frozenset(("session_gap",))
REGULARISATION: Final = 0.01
LIMIT: Final = 60  # messages that are asked for
TOP: Final = 10
RELEVANCE_TOP: Final = 30  # best candidates on which relevance is fitted
KEYWORD_CONVERSATIONS: Final = 3
KEYWORD_QUESTIONS: Final = 60  # of each conversation
WRONG_QUESTIONS: Final = 120  # small talk and the like that is asked in each set
FOREIGN_QUESTIONS: Final = 20  # of each other set that are asked in the wrong one


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the features of its candidates, and which of them are evidence."""

    conversation: str
    features: Mapping[str, Floats]
    is_evidence: NDArray[np.bool_]
    evidence: int  # messages in all, also those that are no candidates
    plain: Floats  # scores by the plain sum

    def table(self) -> Floats:
        """Return the features as a matrix, one row for each candidate."""
        return np.stack([np.asarray(self.features[name], np.float32) for name in NAMES], axis=1)


NAMES: Final = [name for names in PARTS.values() for name in names] + ["sum"]


@dataclass(slots=True)
class Collected:
    """The questions of all sets, and questions that were asked in the wrong one."""

    asked: dict[str, list[Asked]] = field(default_factory=dict)
    wrong: dict[str, list[Asked]] = field(default_factory=dict)
    in_new: dict[str, tuple[list[Asked], list[Asked]]] = field(default_factory=dict)  # right and wrong ones


def family(name: str) -> str:
    """Return the family of a set: what is alike is left out together."""
    first = name.split("_")[0]
    return "bilingual" if first in BILINGUAL else first


# The sets that we wrote, in the form of the published ones


def _conversation(name: str, messages: list[data.Message], questions: Iterable[tuple[str, list[str]]]) -> list[Any]:
    asked = [data.Question(f"{name}/{n}", text, name, "", tuple(ids)) for n, (text, ids) in enumerate(questions)]
    return [data.Conversation(name, messages, asked)]


def _message(id: str, text: str, at: datetime, role: str = "user", speaker: str | None = None) -> data.Message:
    return {"id": id, "role": role, "speaker": speaker or role, "content": text, "timestamp": at.isoformat()}


def _scattered(items: list[tuple[str, str]], seed: int) -> list[data.Message]:
    """Return statements in random order, minutes to a day apart."""
    chance, at = random.Random(seed), datetime(2026, 3, 1, 9)
    chance.shuffle(items)
    messages = []
    for name, text in items:
        at += timedelta(minutes=chance.choice((1, 2, 5, 30, 200, 900, 1500)))
        messages.append(_message(name, text, at))
    return messages


def load_own(name: str) -> list[data.Conversation]:
    """Return one of the sets that we wrote."""
    kind, _, half = name.partition("_")
    if kind in BILINGUAL:
        return load_bilingual(*name.split("_"))
    if kind in ("facts", "cues"):
        facts = json.loads((CASES / "english_facts.json").read_text("utf-8"))[half]
        others = [(f"other-{n}", text) for n, text in enumerate(facts["distractors"])]
        if kind == "facts":
            items = [(row["id"], row["text"]) for row in facts["facts"]]
            return _conversation(
                name, _scattered(items + others, 5), ((row["text"], [row["fact"]]) for row in facts["questions"])
            )
        cues = json.loads((CASES / "cues.json").read_text("utf-8"))[half]
        items = [(row["id"], row["text"]) for row in cues["past"]]
        return _conversation(name, _scattered(items + others, 6), ((row["text"], row["past"]) for row in cues["now"]))
    path, key = ("lists.json", "stories") if name == "lists" else ("shapes.json", name)
    messages, questions, start = [], [], datetime(2026, 2, 1, 9)
    for number, talk in enumerate(json.loads((CASES / path).read_text("utf-8"))[key]):
        for n, row in enumerate(talk["messages"]):
            at = start + timedelta(days=9 * number + row.get("day", 0), minutes=2 * n)
            messages.append(_message(f"{talk['id']}-{n}", row["content"], at, row.get("role", "user"), row.get("name")))
        questions += [(row["text"], [f"{talk['id']}-{n}" for n in row["evidence"]]) for row in talk["questions"]]
    return _conversation(name, messages, questions)


def load_bilingual(told: str, asked: str, half: str) -> list[data.Conversation]:
    """Return statements in one language with questions in one; or small conversations in one language."""
    rows = json.loads((CASES / "arabic_questions.json").read_text("utf-8"))[half]
    language = asked if told == "small" else told
    text = {"arabic": "ar", "english": "en"}
    others = [(f"other-{n}", row[text[language]]) for n, row in enumerate(rows["distractors"])]
    facts = [(row["id"], row[text[language]]) for row in rows["facts"]]
    random.Random(8).shuffle(facts)
    size = SMALL_STATEMENTS if told == "small" else len(facts)
    conversations = []
    for n, start in enumerate(range(0, len(facts), size)):
        own = facts[start : start + size]
        ids = {key for key, _ in own}
        questions = ((row[text[asked]], [row["fact"]]) for row in rows["questions"] if row["fact"] in ids)
        told_here = own if told == "small" else own + others
        conversations += _conversation(f"{told}-{asked}-{n}", _scattered(told_here, n), questions)
    return conversations


def load(folder: Path, name: str) -> list[data.Conversation]:
    """Return a set of any kind."""
    if name == SCALE:
        return data.load(folder, name, max_conversations=SCALE_CONVERSATIONS)
    if name == KEYWORDS:
        return load_keywords(folder)
    return load_own(name) if name in (*OWN, *UNSEEN) else data.load(folder, name)


def load_keywords(folder: Path) -> list[data.Conversation]:
    """Return conversations of LongMemEval with questions that are a few rare words of one message."""
    chance, conversations = random.Random(11), []
    for one in data.load(folder, "lme_pool", max_conversations=KEYWORD_CONVERSATIONS):
        words_of = {message["id"]: set(analyser.words(message["content"])) for message in one.messages}
        holders = Counter(word for words in words_of.values() for word in words)
        questions = []
        for message in chance.sample(one.messages, KEYWORD_QUESTIONS):
            raw = re.findall(r"[A-Za-z]{4,}", message["content"])
            rare = [word for word in raw if holders[next(iter(analyser.words(word)), "")] in (1, 2)]
            if rare:
                text = " ".join(dict.fromkeys(chance.sample(rare, min(len(rare), chance.choice((1, 1, 2, 3))))))
                wanted = set(analyser.words(text))
                found = [key for key, words in words_of.items() if wanted <= words]
                questions.append(data.Question(f"{one.id}/{text}", text, KEYWORDS, "", tuple(found)))
        conversations.append(data.Conversation(one.id, one.messages, questions))
    return conversations


# Collecting


class Collector:
    """Asks questions as recall does, and keeps the features of the candidates."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self._embedder = embedder

    async def collect(
        self, conversations: Sequence[data.Conversation], wrong: Sequence[str]
    ) -> tuple[list[Asked], list[Asked]]:
        """Return the questions of a set, and those that were asked in the wrong one."""
        asked, asked_wrongly = [], []
        memory = AsyncMemory(":memory:", worker=False, embedder=self._embedder)
        for number, conversation in enumerate(conversations):
            await memory.add_many(conversation.id, to_stored(conversation.messages))
            await memory.drain(briefs=False)
            for question in conversation.questions:
                if not question.is_excluded:
                    row = await self._ask(memory, [conversation], conversation.id, question.text, question.evidence)
                    asked += [row] if row is not None else []
            for text in wrong if number < 2 else ():
                row = await self._ask(memory, [conversation], conversation.id, text, ())
                asked_wrongly += [row] if row is not None else []
        await memory.close()
        return asked, asked_wrongly

    async def collect_in_new(
        self, conversations: Sequence[data.Conversation], wrong: Sequence[str]
    ) -> tuple[list[Asked], list[Asked]]:
        """Return the same, asked in a new conversation: all others are searched. Only some right ones are asked."""
        memory = AsyncMemory(":memory:", worker=False, embedder=self._embedder)
        for conversation in conversations:
            await memory.add_many(conversation.id, to_stored(conversation.messages))
        await memory.drain(briefs=False)
        right = [question for one in conversations for question in one.questions if not question.is_excluded]
        right = random.Random(7).sample(right, min(NEW_QUESTIONS, len(right)))
        asked = [await self._ask(memory, conversations, None, one.text, one.evidence) for one in right]
        asked_wrongly = [await self._ask(memory, conversations, None, text, ()) for text in wrong]
        await memory.close()
        return [row for row in asked if row is not None], [row for row in asked_wrongly if row is not None]

    async def _ask(
        self,
        memory: AsyncMemory,
        conversations: Sequence[data.Conversation],
        name: str | None,
        text: str,
        evidence: Collection[str],
    ) -> Asked | None:
        """Ask in the conversation of this name, or in all."""
        recaller, principal = memory._recaller, memory.principal  # the bench measures the parts, not the whole
        asked_scope = PersonScope(principal.person) if name is None else ConversationScope(name)
        scope = await recaller.scopes.get(principal, asked_scope)
        parsed = parse_question(text)
        vectors, _ = await recaller._embed_question(scope, parsed, {})
        features = QueryFeatures(
            words=parsed.words,
            names=parsed.names,
            periods=[period for now in recaller._moments(scope, None) for period in parsed.periods(now, "UTC")],
            vectors=vectors,
            lean=parsed.lean,
            kinds=parsed.kinds,
        )
        scores = scoring.fuse(scope, features, ArmWeights())
        candidates = choose_candidates(scores, np.flatnonzero(scores.related() & scope.has_words), LIMIT)
        if not len(candidates):
            return None
        messages = {one.id: one.messages for one in conversations}
        names = {key: row["name"] for key, row in scope.conversations.items()}
        found = [messages[names[int(scope.conversation_keys[i])]][int(scope.seqs[i]) - 1]["id"] for i in candidates]
        return Asked(
            name or "",
            CandidateFacts(scope, features, scores, candidates).compute(),
            np.array([one in evidence for one in found]),
            len(evidence),
            scores.total[candidates],
        )


def _read_unrelated(name: str) -> list[str]:
    kinds = json.loads((CASES / f"{name}.json").read_text("utf-8"))
    return [text for texts in kinds.values() for text in texts]


def collect_all(folder: Path, names: Sequence[str], embedder: CachedEmbedder, console: Console) -> Collected:
    """Collect the questions of all sets."""
    sets = {name: load(folder, name) for name in names}
    general = _read_unrelated("unrelated") + 2 * _read_unrelated("unrelated_arabic")
    collected, chance = Collected(), random.Random(3)
    for name, conversations in sets.items():
        wrong = chance.sample(general, WRONG_QUESTIONS)
        for other, others in sets.items():
            if family(other) != family(name):
                texts = [question.text for one in others for question in one.questions if not question.is_excluded]
                wrong += chance.sample(texts, min(FOREIGN_QUESTIONS, len(texts)))
        asked, asked_wrongly = asyncio.run(Collector(embedder).collect(conversations, wrong))
        collected.asked[name], collected.wrong[name] = asked, asked_wrongly
        if name in ASKED_IN_NEW:
            collected.in_new[name] = asyncio.run(Collector(embedder).collect_in_new(conversations, wrong))
        embedder.save()
        console.print(f"[dim]{name}: {len(asked)} questions, {len(asked_wrongly)} in the wrong place[/]")
    return collected


# Fitting


def fit(asked: Mapping[str, Sequence[Asked]]) -> dict[str, float]:
    """Return the weights that make evidence likeliest among the candidates of its question, by name.

    The loss is that of choosing a message with probabilities that grow with the scores, where a question's other pieces
    of evidence do not compete. A family counts by its weight, however many questions it has.
    """
    from scipy.optimize import minimize

    rows = [(one, FAMILY_WEIGHTS.get(family(name), 0.5) / len(own)) for name, own in asked.items() for one in own]
    rows = [(one, weight) for one, weight in rows if one.is_evidence.any()]
    table = np.concatenate([one.table() for one, _ in rows])
    spread = table.std(axis=0) + 1e-4
    table = (table / spread).astype(np.float32)
    sizes = np.array([len(one.is_evidence) for one, _ in rows])
    starts, owner = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(rows)), sizes)
    positive = np.flatnonzero(np.concatenate([one.is_evidence for one, _ in rows]))
    weights = np.array([weight for _, weight in rows]) / sum(weight for _, weight in rows)
    own = owner[positive]
    shares = weights[own] / np.bincount(own, minlength=len(rows))[own]
    is_other = np.ones(len(owner), np.float32)
    is_other[positive] = 0

    def loss(values: Doubles) -> tuple[float, Doubles]:
        scores = table @ values.astype(np.float32)
        best = np.maximum.reduceat(scores, starts)
        powers = np.exp(scores - best[owner]) * is_other
        sums = np.add.reduceat(powers, starts)
        own_powers = np.exp(scores[positive] - best[own])
        total = shares * (np.log(sums[own] + own_powers) - (scores[positive] - best[own]))
        inverse = shares / (sums[own] + own_powers)
        slopes = powers * np.bincount(own, inverse, len(rows))[owner]
        slopes[positive] += inverse * own_powers - shares
        penalty = REGULARISATION * (values**2).sum()
        return float(total.sum() + penalty), table.T @ slopes.astype(np.float32) + 2 * REGULARISATION * values

    limits = [(None, 0.0) if n in NEGATIVE else (None, None) if n in FREE else (0.0, None) for n in NAMES]
    found = minimize(loss, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 150}).x
    raw = dict(zip(NAMES, (found / spread).tolist(), strict=True))
    scale = float(np.median([_spread(one.plain) / max(_spread(rank(one, raw)), 1e-6) for one, _ in rows]))
    matters = dict(zip(NAMES, (np.abs(found) > 1e-3).tolist(), strict=True))
    return {name: round(value * scale, 5) for name, value in raw.items() if matters[name]}


def _spread(scores: Floats) -> float:
    """Return how far the best twenty scores are apart: learned scores shall be as far apart as plain ones."""
    return float(np.sort(scores)[-20:].std())


def rank(one: Asked, weights: Mapping[str, float]) -> Floats:
    """Return the scores of a question's candidates."""
    scores: Floats = one.table() @ np.array([weights.get(name, 0.0) for name in NAMES], np.float32)
    return scores


def fit_relevance(collected: Collected, names: Iterable[str], weights: Mapping[str, float]) -> tuple[Any, Any]:
    """Return the logistic models of relevance: of a question as a whole, and of a message."""
    questions, labels, counts = [], [], []
    rows, evidence, shares = [], [], []
    for name in names:
        in_new, wrong_in_new = collected.in_new.get(name, ((), ()))
        for is_right, own in (
            (True, collected.asked[name]), (False, collected.wrong[name]), (True, in_new), (False, wrong_in_new)
        ):  # fmt: skip
            for one in own:
                scores = rank(one, weights)
                questions.append(relevance.describe_question(one.features, scores))
                labels.append(is_right)
                counts.append(1 / len(own))
                if is_right:
                    best = np.argsort(-scores)[:RELEVANCE_TOP]
                    described = relevance.describe_messages(one.features, scores)
                    rows += [{key: float(values[i]) for key, values in described.items()} for i in best]
                    evidence += one.is_evidence[best].tolist()
                    shares += [1 / len(own)] * len(best)
    return _logistic(questions, labels, counts), _logistic(rows, evidence, shares)


def _logistic(rows: Sequence[Mapping[str, float]], labels: Sequence[bool], counts: Sequence[float]) -> dict[str, float]:
    """Return a logistic model by name, with its constant."""
    from scipy.optimize import minimize

    names = list(rows[0])
    table = np.array([[row[name] for name in names] for row in rows])
    mean, spread = table.mean(axis=0), table.std(axis=0) + 1e-6
    table = np.hstack(((table - mean) / spread, np.ones((len(table), 1))))
    signs, weights = np.where(labels, 1.0, -1.0), np.array(counts) / np.sum(counts)

    def loss(values: Doubles) -> tuple[float, Doubles]:
        margins = signs * (table @ values)
        penalty = values.copy()
        penalty[-1] = 0
        slope = -(weights * signs / (1 + np.exp(margins))) @ table
        return float((weights * np.logaddexp(0, -margins)).sum() + 1e-5 * penalty @ penalty), slope + 2e-5 * penalty

    found = minimize(loss, np.zeros(table.shape[1]), jac=True, method="L-BFGS-B").x
    values = found[:-1] / spread
    model = {"constant": float(found[-1] - (values * mean).sum())} | dict(zip(names, values.tolist(), strict=True))
    return {name: round(value, 4) for name, value in model.items()}


# Showing it


def rates(asked: Sequence[Asked], scores: Iterable[Floats]) -> str:
    """Return any@10 and all@10."""
    pairs = []
    for one, own in zip(asked, scores, strict=True):
        hits = int(one.is_evidence[np.argsort(-own, kind="stable")[:TOP]].sum())
        pairs.append((hits > 0, hits >= one.evidence))
    some, every = np.mean(pairs, axis=0)
    return f"{some:.3f} / {every:.3f}".replace("0.", ".")


def show(collected: Collected, trained: Sequence[str]) -> Table:
    """Return the table of all sets: left out, on the other half, and tuned."""
    table = Table(title="any@10 / all@10", title_justify="left")
    for column in ("set", "questions", "plain sum", "vectors alone", "left out", "other half", "tuned"):
        table.add_column(column, justify="left" if column == "set" else "right")
    ordered = [name for name in trained if family(name) != "bilingual"]
    tuned = fit({name: collected.asked[name] for name in ordered})
    for name, asked in collected.asked.items():
        others = {other: collected.asked[other] for other in ordered if family(other) != family(name)}
        left_out = fit(others)
        table.add_row(
            name,
            str(len(asked)),
            rates(asked, (one.plain for one in asked)),
            rates(asked, (one.features["nearest"] for one in asked)),
            rates(asked, (rank(one, left_out) for one in asked)),
            _other_half(collected, ordered, name) if name in ordered else "–",
            rates(asked, (rank(one, tuned) for one in asked)),
        )
    return table


def _other_half(collected: Collected, trained: Sequence[str], name: str) -> str:
    """Return the figures with weights found on all sets but one half of this one, for each half."""
    asked = collected.asked[name]
    order = sorted({one.conversation for one in asked})
    if len(order) < 2:
        return "–"
    scores: list[Floats] = [np.empty(0, np.float32)] * len(asked)
    for half in (0, 1):
        held = [order.index(one.conversation) % 2 == half for one in asked]
        own = {other: collected.asked[other] for other in trained}
        own[name] = [one for one, is_held in zip(asked, held, strict=True) if not is_held]
        weights = fit(own)
        for number, is_held in enumerate(held):
            if is_held:
                scores[number] = rank(asked[number], weights)
    return rates(asked, scores)


def show_relevance(collected: Collected, trained: Sequence[str]) -> Table:
    """Return how many hits of each estimated relevance were evidence, each set by models fitted without it."""
    estimates, labels = [], []
    for name in trained:
        others = [other for other in trained if family(other) != family(name)]
        weights = fit({other: collected.asked[other] for other in others if family(other) != "bilingual"})
        question, message = fit_relevance(collected, others, weights)
        for one in (*collected.asked[name], *collected.wrong[name]):
            scores = rank(one, weights)
            estimates.append(relevance.estimate(one.features, scores, question, message).of_hits())
            labels.append(one.is_evidence)
    estimated, is_evidence = np.concatenate(estimates), np.concatenate(labels)
    table = Table(title="relevance, each set by models fitted without it", title_justify="left")
    for column in ("estimated", "messages", "mean estimate", "share that was evidence"):
        table.add_column(column, justify="right")
    borders = (0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 1.01)
    for low, high in pairwise(borders):
        mask = (estimated >= low) & (estimated < high)
        if mask.any():
            table.add_row(
                f"{low:.2f} to {min(high, 1):.2f}",
                str(int(mask.sum())),
                f"{estimated[mask].mean():.3f}",
                f"{is_evidence[mask].mean():.3f}",
            )
    return table


def write(path: Path, blocks: Sequence[tuple[str, str, Mapping[str, float]]]) -> None:
    """Write the module with the numbers."""
    head = (
        '"""The numbers of the learned order and of relevance. Written by `python -m bench.order --write`."""\n\n'
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\nfrom typing import Final\n\n"
    )
    body = ""
    for name, comment, values in blocks:
        lines = "".join(f'    "{key}": {value},\n' for key, value in values.items())
        body += f"# {comment}\n{name}: Final[Mapping[str, float]] = {{\n{lines}}}\n"
    path.write_text(head + body, "utf-8")


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    reader.add_argument("--sets", nargs="+", default=[*PUBLIC, SCALE, *OWN, KEYWORDS, *UNSEEN], metavar="SET")
    reader.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    reader.add_argument("--write", action="store_true", help="write the weights found on everything into the package")
    given = reader.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    collected = collect_all(given.data, given.sets, CachedEmbedder(given.cache), console)
    trained = [name for name in given.sets if name not in UNSEEN]
    console.print(show(collected, trained))
    console.print(show_relevance(collected, trained))
    if given.write:
        weights = fit({name: collected.asked[name] for name in trained if family(name) != "bilingual"})
        question, message = fit_relevance(collected, trained, weights)
        write(
            TARGET,
            (
                ("WEIGHTS", "Weights of the features of a candidate (see features.py).", weights),
                ("QUESTION", "Does anything bear on the question? A logistic model (see relevance.py).", question),
                ("MESSAGE", "Does this message, if any does? A logistic model (see relevance.py).", message),
            ),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
