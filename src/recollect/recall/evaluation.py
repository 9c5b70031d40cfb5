"""How well recall finds what it should: labelled questions, how right a ranking is, and plainer ways beside ours.

The plainer ways (words alone, vectors alone, both by rank, document E's formula) look at the same scope with the same
vectors, so that a difference is one of ranking. They serve for comparison and are used nowhere else.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recollect.core import word_index
from recollect.core.errors import InvalidInput, ProviderUnavailable
from recollect.core.language import analyser
from recollect.core.models import Done, JsonObject, Message, Principal, Record
from recollect.core.text import identity, storable
from recollect.recall import postings, scoring
from recollect.recall.recaller import Found, Recaller
from recollect.recall.scope_index import Scope

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Place = tuple[int, int]  # conversation key and seq
Labels = str | os.PathLike[str] | Iterable[Mapping[str, Any]]

LARGEST_FILE: Final = 64 * 1024 * 1024  # bytes of labels
SEEN: Final = 10  # hits that any@10 and all@10 look at,
RANKED: Final = 5  # and those that NDCG@5 weighs
SAMPLE: Final = 100  # questions that are made from a person's own messages
WORDS: Final = 8  # words of a message that a question is made from, at least
ASKED: Final = 4  # words of such a question
LONGEST_WORD: Final = 24  # characters; what is longer is no word that one remembers
PAGE: Final = 2000  # messages that are read at once
SEED: Final = 2026
OVERFETCH: Final = 2  # document E asks each arm for twice the limit
RRF: Final = 60  # the usual constant of reciprocal rank fusion
RRF_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Labelled(Record):
    """A question, and the ids of the messages that answer it."""

    query: str
    relevant: tuple[str, ...]
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A question whose answers are known by their places in the log."""

    query: str
    conversation: str | None
    relevant: frozenset[Place]

    def marks(self, scope: Scope, indices: Indices) -> list[bool]:
        """Which of these messages are answers."""
        places = zip(scope.keys[indices].tolist(), scope.seqs[indices].tolist(), strict=True)
        return [place in self.relevant for place in places]


@dataclass(frozen=True, slots=True)
class Measured(Record):
    """What a bench found. `quality` by method: any@10, all@10, ndcg@5; `ms` by stage: p50, p95.

    `kind` is "labelled", or "known_items" for questions made from the messages themselves. `unknown` counts labels that
    name no stored message; `first_ms` is what the first question took, which reads the scope and loads the model.
    """

    kind: str
    queries: int
    scope: int
    quality: dict[str, dict[str, float]]
    ms: dict[str, dict[str, float]]
    first_ms: float
    unknown: int = 0
    degraded: tuple[str, ...] = ()


# Labels


def read_labels(given: Labels) -> list[Labelled]:
    """Labelled questions from a file (NDJSON, or one JSON list) or from mappings; anything else is refused."""
    items: Iterable[object] = _parsed(Path(given)) if isinstance(given, str | os.PathLike) else given
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        raise InvalidInput("invalid_labels", "Labelled questions come as a list of objects, or as a file of them.")
    found = [_labelled(item, place) for place, item in enumerate(items, 1)]
    if not found:
        raise InvalidInput("no_labels", "There is no labelled question.")
    return found


def _parsed(path: Path) -> list[object]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidInput("labels_too_large", f"{path} is larger than {LARGEST_FILE:,} bytes.")
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise InvalidInput("file_not_found", f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise InvalidInput("invalid_labels", f"{path} is not UTF-8 text.") from None
    if text.lstrip().startswith("["):
        return list(_json(text, "The file"))
    lines = enumerate(text.split("\n"), 1)
    return [_json(line, f"Line {number}") for number, line in lines if line.strip()]


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("invalid_labels", f"{what} is not JSON: {error}.") from None


def _labelled(item: object, place: int) -> Labelled:
    where = f"Labelled question {place}"
    if not isinstance(item, Mapping):
        raise InvalidInput("invalid_labels", f'{where} is no object like {{"query": "…", "relevant": ["id", …]}}.')
    query, relevant, conversation = item.get("query"), item.get("relevant"), item.get("conversation")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("invalid_labels", f"{where} needs a text `query`.")
    if isinstance(relevant, str) or not isinstance(relevant, Sequence) or not relevant:
        raise InvalidInput("invalid_labels", f"{where} needs `relevant`, a list of message ids.")
    if not all(isinstance(one, str) and one for one in relevant):
        raise InvalidInput("invalid_labels", f"{where}: the ids in `relevant` are texts.")
    if conversation is not None:
        conversation = identity(conversation, "conversation")
    return Labelled(storable(query)[0], tuple(dict.fromkeys(relevant)), conversation)


async def judge(recaller: Recaller, principal: Principal, questions: Sequence[Labelled]) -> tuple[list[Judged], int]:
    """The questions with the places of their answers, and how many labels name no stored message.

    An id is unique within a conversation: where a question names one, the id is looked for there, else everywhere.
    """
    wanted = {one for question in questions for one in question.relevant}
    stored: dict[str, list[tuple[str, Place]]] = {}
    scope = await recaller.scopes.get(principal, None)
    for start in range(0, len(scope), PAGE):
        page = list(range(start, min(start + PAGE, len(scope))))
        for index, message in (await recaller.texts(principal, scope, page)).items():
            if message.id in wanted:
                place = (int(scope.keys[index]), int(scope.seqs[index]))
                stored.setdefault(message.id, []).append((message.conversation, place))
    judged, unknown = [], 0
    for question in questions:
        found = {one: _places(stored.get(one, ()), question.conversation) for one in question.relevant}
        unknown += sum(not places for places in found.values())
        relevant = frozenset(place for places in found.values() for place in places)
        if relevant:
            judged.append(Judged(question.query, question.conversation, relevant))
    if not judged:
        raise InvalidInput("labels_unknown", "None of the labelled messages is stored for this person.")
    return judged, unknown


def _places(stored: Sequence[tuple[str, Place]], conversation: str | None) -> list[Place]:
    own = [place for name, place in stored if name == conversation]
    return own if conversation is not None else [place for _, place in stored]


# How right a ranking is


def any_at(marks: Sequence[bool], count: int = SEEN) -> float:
    """1 if an answer is among the first."""
    return float(any(marks[:count]))


def all_at(marks: Sequence[bool], answers: int, count: int = SEEN) -> float:
    """1 if all answers are among the first, or as many of them as have room there."""
    return float(sum(marks[:count]) >= min(answers, count))


def ndcg(marks: Sequence[bool], answers: int, count: int = RANKED) -> float:
    """Answers count less the further down they stand; 1 if none could stand higher."""
    gained = sum(1 / math.log2(rank + 2) for rank, mark in enumerate(marks[:count]) if mark)
    possible = sum(1 / math.log2(rank + 2) for rank in range(min(answers, count)))
    return gained / possible if possible else 0.0


# Plainer ways of ranking, from what was found


def words_alone(found: Found) -> Indices:
    lexical = _worded(found)
    return _above(lexical, SEEN)


def vectors_alone(found: Found) -> Indices:
    return _above(_nearest(found), SEEN)


def by_rank(found: Found) -> Indices:
    """Reciprocal rank fusion of the two."""
    fused = np.zeros(len(found.scope), np.float32)
    for scores in (_worded(found), _nearest(found)):
        ranked = _above(scores, RRF_DEPTH)
        fused[ranked] += 1 / (RRF + 1 + np.arange(len(ranked), dtype=np.float32))
    return _above(fused, SEEN)


def document_formula(found: Found) -> Indices:
    """0.6 dense + 0.3 bm25 + 0.1 code over what either arm brings, as document E has it."""
    lexical, near = _worded(found), _nearest(found)
    brought = np.union1d(_above(near, SEEN * OVERFETCH), _above(lexical, SEEN * OVERFETCH))
    code = scoring.names(found.scope, found.question.names) > 0
    most = max(float(lexical.max(initial=0.0)), 1e-9)
    scores = 0.6 * np.clip(near, 0, 1) + 0.3 * lexical / most + 0.1 * code
    return brought[scoring.largest(scores[brought].astype(np.float32), SEEN)]


def _above(scores: Floats, count: int) -> Indices:
    """The best of those that the arm found at all."""
    ranked = scoring.largest(scores, count)
    return ranked[scores[ranked] > 0]


def _worded(found: Found) -> NDArray[np.float32]:
    """Each message by the words of its best passage, whatever the settings say."""
    by_passage, _ = scoring.bm25(found.scope, found.question.words)
    return scoring.best_of(found.scope, by_passage)


def _nearest(found: Found) -> Floats:
    """Each message by its nearest passage alone."""
    near = np.zeros(len(found.scope), np.float32)
    for part, scores in found.scores.nearness.parts:
        np.maximum.at(near, part.owners, scores)
    return near


def ours(found: Found) -> Indices:
    return found.ranked[:SEEN]


METHODS: Final = {
    "recollect": ours,
    "words alone": words_alone,
    "vectors alone": vectors_alone,
    "both by rank (RRF)": by_rank,
    "document E's formula": document_formula,
}


# The bench


@dataclass(slots=True)
class _Notes:
    """What is written down for each question."""

    quality: dict[str, list[tuple[float, float, float]]] = field(default_factory=lambda: {name: [] for name in METHODS})
    ms: dict[str, list[float]] = field(default_factory=dict)
    degraded: dict[str, None] = field(default_factory=dict)
    scope: int = 0

    def note_times(self, metrics: JsonObject) -> None:
        for stage, ms in metrics["ms"].items():
            self.ms.setdefault(stage, []).append(ms)

    def note_quality(self, question: Judged, found: Found) -> None:
        answers = len(question.relevant)
        for name, rank in METHODS.items():
            marks = question.marks(found.scope, rank(found))
            self.quality[name].append((any_at(marks), all_at(marks, answers), ndcg(marks, answers)))


async def measure(recaller: Recaller, principal: Principal, questions: Sequence[Labelled]) -> Measured:
    """Quality of all methods on labelled questions, and how long ours takes."""
    judged, unknown = await judge(recaller, principal, questions)
    return await _measured(recaller, principal, judged, kind="labelled", unknown=unknown)


async def measure_known_items(recaller: Recaller, principal: Principal, sample: int = SAMPLE) -> Measured:
    """The same on questions that are made of rare words of the person's own messages.

    It shows whether a message is found again by some of its words. It says nothing about questions in other words than
    those that were said, nor about answers that stand in several messages.
    """
    judged = await known_items(recaller, principal, sample)
    if not judged:
        raise InvalidInput("too_little_said", f"A bench needs messages of {WORDS} words or more; there are none.")
    return await _measured(recaller, principal, judged, kind="known_items")


async def _measured(
    recaller: Recaller, principal: Principal, judged: Sequence[Judged], *, kind: str, unknown: int = 0
) -> Measured:
    first = await recaller.recall(principal, "the first question", conversation=None, limit=SEEN)
    notes = _Notes()
    for question in judged:
        asked, where = question.query, question.conversation
        recalled = await recaller.recall(principal, asked, conversation=where, limit=SEEN)  # as a caller would
        notes.note_times(recalled.metrics)
        found = await recaller.find(principal, asked, conversation=where)
        notes.note_quality(question, found)
        notes.degraded |= dict.fromkeys(found.degraded)
        notes.scope = max(notes.scope, len(found.scope))
    names = (f"any@{SEEN}", f"all@{SEEN}", f"ndcg@{RANKED}")
    return Measured(
        kind,
        queries=len(judged),
        scope=notes.scope,
        quality={
            method: {name: _mean(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
            for method, rows in notes.quality.items()
        },
        ms={stage: {"p50": _share(values, 50), "p95": _share(values, 95)} for stage, values in notes.ms.items()},
        first_ms=first.metrics["ms"]["total"],
        unknown=unknown,
        degraded=tuple(notes.degraded),
    )


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def _share(values: Sequence[float], percent: int) -> float:
    return round(sorted(values)[min(len(values) - 1, len(values) * percent // 100)], 3)


async def known_items(recaller: Recaller, principal: Principal, sample: int) -> list[Judged]:
    """For some messages a question of a few of their rarer words; the same for the same log."""
    scope = await recaller.scopes.get(principal, None)
    chance = np.random.default_rng(SEED)
    long = np.flatnonzero(scope.words_in >= WORDS)
    order = np.lexsort((scope.seqs[long], scope.at[long]))  # not by keys, which differ from database to database
    chosen = chance.permutation(long[order])[: 2 * sample].tolist()  # some have too few words after all
    messages = await recaller.texts(principal, scope, chosen)
    found: list[Judged] = []
    for index in chosen:
        query = question_of(messages[index], scope, chance) if index in messages else ""
        if query and len(found) < sample:
            found.append(Judged(query, None, frozenset({(int(scope.keys[index]), int(scope.seqs[index]))})))
    return found


def question_of(message: Message, scope: Scope, chance: np.random.Generator) -> str:
    """A few of the rarer half of a message's words, in their order; nothing for one that has too few."""
    said = list(dict.fromkeys(word for word in re.findall(r"\w+", message.content) if len(word) <= LONGEST_WORD))
    rarities = {word: _messages_with(word, scope) for word in said}
    telling = sorted((word for word in said if rarities[word]), key=lambda word: rarities[word])
    if len(telling) < WORDS:
        return ""
    rarer = telling[: max(ASKED, len(telling) // 2)]
    asked = {rarer[place] for place in chance.permutation(len(rarer))[:ASKED]}
    return " ".join(word for word in said if word in asked)


def _messages_with(word: str, scope: Scope) -> int:
    """How many messages hold a word; 0 for one that is not looked for."""
    numbers = word_index.query_numbers(one for one in analyser.query_words(word) if one not in analyser.STOP_WORDS)
    return min((len(postings.find(scope.words, number)[0]) for number in numbers), default=0)


def require_vectors(done: Done) -> None:
    """Refuse to go on where vectors are missing: weights found without them would be wrong."""
    if "vectors" in done.failed:
        code = done.failed["vectors"]
        raise ProviderUnavailable(code, "Vectors are missing, since the embedder does not answer; try again later.")
