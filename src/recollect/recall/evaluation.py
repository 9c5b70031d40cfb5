"""Measures how well recall finds: labelled questions, how right a ranking is, and simpler methods beside ours.

The simpler methods (words alone, vectors alone, both by rank, a fixed formula) look at the same scope with the same
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
from recollect.core.message import Message
from recollect.core.models import Done, JsonObject, Principal, Record
from recollect.core.scope import ConversationScope, PersonScope, Scope
from recollect.core.text import check_identity, replace_unstorable
from recollect.recall import postings, scoring
from recollect.recall.ranked_messages import RankedMessages
from recollect.recall.recaller import Recaller
from recollect.recall.scope_index import ScopeIndex

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Position = tuple[int, int]  # conversation key and seq
Labels = str | os.PathLike[str] | Iterable[Mapping[str, Any]]

MAX_LABEL_FILE_BYTES: Final = 64 * 1024 * 1024
HIT_CUTOFF: Final = 10  # hits that any@10 and all@10 look at
NDCG_CUTOFF: Final = 5  # hits that ndcg@5 looks at
SAMPLE_QUESTIONS: Final = 100  # made from a person's own messages
MIN_MESSAGE_WORDS: Final = 8  # shorter messages are not made into questions
QUESTION_WORDS: Final = 4  # words of a message that make a question
MAX_WORD_CHARACTERS: Final = 24  # longer words are not used: people do not remember them
PAGE_MESSAGES: Final = 2000  # read at once
SEED: Final = 2026
OVERFETCH_FACTOR: Final = 2  # the formula's arms bring twice as many messages as are returned
RRF_CONSTANT: Final = 60  # the usual one of reciprocal rank fusion
RRF_DEPTH: Final = 100  # messages of each arm that are fused


@dataclass(frozen=True, slots=True)
class Labelled(Record):
    """A question, and the ids of the messages that answer it."""

    query: str
    relevant: tuple[str, ...]
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A question with the positions of its answers in the log."""

    query: str
    conversation: str | None
    relevant: frozenset[Position]

    def scope(self, principal: Principal) -> Scope:
        """Return the scope to search: the question's conversation, or all of the person's."""
        return PersonScope(principal.person) if self.conversation is None else ConversationScope(self.conversation)

    def marks(self, scope: ScopeIndex, indices: Indices) -> list[bool]:
        """Return which of these messages are answers."""
        positions = zip(scope.conversation_keys[indices].tolist(), scope.seqs[indices].tolist(), strict=True)
        return [position in self.relevant for position in positions]


@dataclass(frozen=True, slots=True)
class Measured(Record):
    """The result of a bench. `quality` by method: any@10, all@10, ndcg@5; `ms` by stage: p50, p95.

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


def read_labels(labels: Labels) -> list[Labelled]:
    """Read labelled questions from a file (NDJSON, or one JSON list) or from mappings. Raise InvalidInput else."""
    items: Iterable[object] = _read_file(Path(labels)) if isinstance(labels, str | os.PathLike) else labels
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        raise InvalidInput("invalid_labels", "Labelled questions come as a list of objects, or as a file of them.")
    questions = [_to_labelled(item, number) for number, item in enumerate(items, 1)]
    if not questions:
        raise InvalidInput("no_labels", "There is no labelled question.")
    return questions


def _read_file(path: Path) -> list[object]:
    try:
        if path.stat().st_size > MAX_LABEL_FILE_BYTES:
            raise InvalidInput("labels_too_large", f"{path} is larger than {MAX_LABEL_FILE_BYTES:,} bytes.")
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise InvalidInput("file_not_found", f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise InvalidInput("invalid_labels", f"{path} is not UTF-8 text.") from None
    if text.lstrip().startswith("["):
        return list(_parse_json(text, "The file"))
    lines = enumerate(text.split("\n"), 1)
    return [_parse_json(line, f"Line {number}") for number, line in lines if line.strip()]


def _parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("invalid_labels", f"{source} is not JSON: {error}.") from None


def _to_labelled(item: object, number: int) -> Labelled:
    where = f"Labelled question {number}"
    if not isinstance(item, Mapping):
        raise InvalidInput("invalid_labels", f'{where} is no object like {{"query": "…", "relevant": ["id", …]}}.')
    query, relevant, conversation = item.get("query"), item.get("relevant"), item.get("conversation")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("invalid_labels", f"{where} needs a text `query`.")
    if isinstance(relevant, str) or not isinstance(relevant, Sequence) or not relevant:
        raise InvalidInput("invalid_labels", f"{where} needs `relevant`, a list of message ids.")
    if not all(isinstance(message_id, str) and message_id for message_id in relevant):
        raise InvalidInput("invalid_labels", f"{where}: the ids in `relevant` are texts.")
    if conversation is not None:
        conversation = check_identity(conversation, "conversation")
    return Labelled(replace_unstorable(query)[0], tuple(dict.fromkeys(relevant)), conversation)


async def resolve_labels(
    recaller: Recaller, principal: Principal, questions: Sequence[Labelled]
) -> tuple[list[Judged], int]:
    """Return the questions with the positions of their answers, and the number of labels that name no stored message.

    An id is unique within a conversation: where a question names one, the id is searched there, else everywhere.
    """
    wanted = {message_id for question in questions for message_id in question.relevant}
    stored: dict[str, list[tuple[str, Position]]] = {}  # conversations and positions by message id
    scope = await recaller.scopes.get(principal, PersonScope(principal.person))
    for start in range(0, len(scope), PAGE_MESSAGES):
        page = list(range(start, min(start + PAGE_MESSAGES, len(scope))))
        for index, message in (await recaller.reader.read(principal, scope, page)).items():
            if message.id in wanted:
                position = (int(scope.conversation_keys[index]), int(scope.seqs[index]))
                stored.setdefault(message.id, []).append((message.conversation, position))
    judged, unknown = [], 0
    for question in questions:
        positions_by_id = {
            message_id: _positions_in(stored.get(message_id, ()), question.conversation)
            for message_id in question.relevant
        }
        unknown += sum(not positions for positions in positions_by_id.values())
        relevant = frozenset(position for positions in positions_by_id.values() for position in positions)
        if relevant:
            judged.append(Judged(question.query, question.conversation, relevant))
    if not judged:
        raise InvalidInput("labels_unknown", "None of the labelled messages is stored for this person.")
    return judged, unknown


def _positions_in(stored: Sequence[tuple[str, Position]], conversation: str | None) -> list[Position]:
    return [position for name, position in stored if conversation in (None, name)]


# How right a ranking is


def any_at(marks: Sequence[bool], count: int = HIT_CUTOFF) -> float:
    """Return 1 if an answer is among the first `count`."""
    return float(any(marks[:count]))


def all_at(marks: Sequence[bool], answers: int, count: int = HIT_CUTOFF) -> float:
    """Return 1 if all answers are among the first `count`, or as many of them as there is room for."""
    return float(sum(marks[:count]) >= min(answers, count))


def ndcg(marks: Sequence[bool], answers: int, count: int = NDCG_CUTOFF) -> float:
    """Return the normalised gain: answers count less the lower they rank; 1 if none could rank higher."""
    gain = sum(1 / math.log2(rank + 2) for rank, mark in enumerate(marks[:count]) if mark)
    possible = sum(1 / math.log2(rank + 2) for rank in range(min(answers, count)))
    return gain / possible if possible else 0.0


# Simpler methods of ranking, on the same scores


def rank_by_words(ranked: RankedMessages) -> Indices:
    """Return the best messages by the words of their best passage."""
    return _best_positive(_score_words(ranked), HIT_CUTOFF)


def rank_by_vectors(ranked: RankedMessages) -> Indices:
    """Return the best messages by the similarity of their nearest passage."""
    return _best_positive(_score_nearest(ranked), HIT_CUTOFF)


def rank_by_fusion(ranked: RankedMessages) -> Indices:
    """Return the best messages by reciprocal rank fusion of words and vectors."""
    fused = np.zeros(len(ranked.scope), np.float32)
    for scores in (_score_words(ranked), _score_nearest(ranked)):
        best = _best_positive(scores, RRF_DEPTH)
        fused[best] += 1 / (RRF_CONSTANT + 1 + np.arange(len(best), dtype=np.float32))
    return _best_positive(fused, HIT_CUTOFF)


def rank_by_formula(ranked: RankedMessages) -> Indices:
    """Return the best messages by 0.6 dense + 0.3 bm25 + 0.1 code, among those that either arm brings."""
    lexical, dense = _score_words(ranked), _score_nearest(ranked)
    depth = HIT_CUTOFF * OVERFETCH_FACTOR
    candidates = np.union1d(_best_positive(dense, depth), _best_positive(lexical, depth))
    code = scoring.score_identifiers(ranked.scope, ranked.question.names) > 0
    largest = max(float(lexical.max(initial=0.0)), 1e-9)
    scores = 0.6 * np.clip(dense, 0, 1) + 0.3 * lexical / largest + 0.1 * code
    return candidates[scoring.largest_indices(scores[candidates].astype(np.float32), HIT_CUTOFF)]


def _best_positive(scores: Floats, count: int) -> Indices:
    """Return the indices of the best scores above 0."""
    best = scoring.largest_indices(scores, count)
    return best[scores[best] > 0]


def _score_words(ranked: RankedMessages) -> NDArray[np.float32]:
    """Return the score of each message by the words of its best passage, whatever the settings say."""
    by_passage, _ = scoring.score_words(ranked.scope, ranked.question.words)
    return scoring.best_passages(ranked.scope, by_passage)


def _score_nearest(ranked: RankedMessages) -> Floats:
    """Return the similarity of each message's nearest passage."""
    nearest = np.zeros(len(ranked.scope), np.float32)
    for part, scores in ranked.scores.similarities.parts:
        np.maximum.at(nearest, part.owners, scores)
    return nearest


def rank_by_recall(ranked: RankedMessages) -> Indices:
    """Return the best messages as recall ranks them."""
    return ranked.ranked[:HIT_CUTOFF]


# The names are keys of `Measured.quality`, which callers read.
METHODS: Final = {
    "recollect": rank_by_recall,
    "words alone": rank_by_words,
    "vectors alone": rank_by_vectors,
    "both by rank (RRF)": rank_by_fusion,
    "fixed formula .6/.3/.1": rank_by_formula,
}


# The bench


@dataclass(slots=True)
class _Record:
    """The measurements of all questions: quality by method, milliseconds by stage, and parts that failed."""

    quality: dict[str, list[tuple[float, float, float]]] = field(default_factory=lambda: {name: [] for name in METHODS})
    ms: dict[str, list[float]] = field(default_factory=dict)
    degraded: dict[str, None] = field(default_factory=dict)
    scope: int = 0  # messages in the largest scope

    def add_times(self, metrics: JsonObject) -> None:
        for stage, ms in metrics["ms"].items():
            self.ms.setdefault(stage, []).append(ms)

    def add_quality(self, question: Judged, ranked: RankedMessages) -> None:
        answers = len(question.relevant)
        for name, rank in METHODS.items():
            marks = question.marks(ranked.scope, rank(ranked))
            self.quality[name].append((any_at(marks), all_at(marks, answers), ndcg(marks, answers)))


async def measure(recaller: Recaller, principal: Principal, questions: Sequence[Labelled]) -> Measured:
    """Measure the quality of all methods on labelled questions, and how long ours takes."""
    judged, unknown = await resolve_labels(recaller, principal, questions)
    return await _measure_judged(recaller, principal, judged, kind="labelled", unknown=unknown)


async def measure_known_items(recaller: Recaller, principal: Principal, sample: int = SAMPLE_QUESTIONS) -> Measured:
    """Measure all methods on questions that are made of rare words of the person's own messages.

    It shows whether a message is found again by some of its words. It says nothing about questions in other words than
    those of the message, nor about answers that are spread over several messages.
    """
    judged = await make_known_items(recaller, principal, sample)
    if not judged:
        reason = f"A bench needs messages of {MIN_MESSAGE_WORDS} words or more; there are none."
        raise InvalidInput("too_little_said", reason)
    return await _measure_judged(recaller, principal, judged, kind="known_items")


async def _measure_judged(
    recaller: Recaller, principal: Principal, judged: Sequence[Judged], *, kind: str, unknown: int = 0
) -> Measured:
    everything = PersonScope(principal.person)
    first = await recaller.recall(principal, everything, "the first question", limit=HIT_CUTOFF)
    record = _Record()
    for question in judged:
        scope, text = question.scope(principal), question.query
        recalled = await recaller.recall(principal, scope, text, limit=HIT_CUTOFF)  # timed as callers ask
        record.add_times(recalled.metrics)
        ranked = await recaller.find(principal, scope, text)
        record.add_quality(question, ranked)
        record.degraded |= dict.fromkeys(ranked.degraded)
        record.scope = max(record.scope, len(ranked.scope))
    names = (f"any@{HIT_CUTOFF}", f"all@{HIT_CUTOFF}", f"ndcg@{NDCG_CUTOFF}")
    return Measured(
        kind,
        queries=len(judged),
        scope=record.scope,
        quality={
            method: {name: _mean(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
            for method, rows in record.quality.items()
        },
        ms={
            stage: {"p50": _percentile(values, 50), "p95": _percentile(values, 95)}
            for stage, values in record.ms.items()
        },
        first_ms=first.metrics["ms"]["total"],
        unknown=unknown,
        degraded=tuple(record.degraded),
    )


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def _percentile(values: Sequence[float], percent: int) -> float:
    return round(sorted(values)[min(len(values) - 1, len(values) * percent // 100)], 3)


async def make_known_items(recaller: Recaller, principal: Principal, sample: int) -> list[Judged]:
    """Make questions from a few rarer words of some messages. The same log gives the same questions."""
    scope = await recaller.scopes.get(principal, PersonScope(principal.person))
    random = np.random.default_rng(SEED)
    long = np.flatnonzero(scope.word_counts >= MIN_MESSAGE_WORDS)
    order = np.lexsort((scope.seqs[long], scope.at[long]))  # not by keys, which differ from database to database
    chosen = random.permutation(long[order])[: 2 * sample].tolist()  # some have too few words after all
    messages = await recaller.reader.read(principal, scope, chosen)
    questions: list[Judged] = []
    for index in chosen:
        query = make_question(messages[index], scope, random) if index in messages else ""
        if query and len(questions) < sample:
            position = (int(scope.conversation_keys[index]), int(scope.seqs[index]))
            questions.append(Judged(query, None, frozenset({position})))
    return questions


def make_question(message: Message, scope: ScopeIndex, random: np.random.Generator) -> str:
    """Return a few of the rarer half of a message's words, in their order; nothing if it has too few words."""
    words = [word for word in re.findall(r"\w+", message.content) if len(word) <= MAX_WORD_CHARACTERS]
    words = list(dict.fromkeys(words))
    counts = {word: _count_passages_with(word, scope) for word in words}
    by_rarity = sorted((word for word in words if counts[word]), key=lambda word: counts[word])
    if len(by_rarity) < MIN_MESSAGE_WORDS:
        return ""
    rarer = by_rarity[: max(QUESTION_WORDS, len(by_rarity) // 2)]
    chosen = {rarer[number] for number in random.permutation(len(rarer))[:QUESTION_WORDS]}
    return " ".join(word for word in words if word in chosen)


def _count_passages_with(word: str, scope: ScopeIndex) -> int:
    """Return the number of passages that hold a word; 0 for a word that recall does not search."""
    words = (part for part in analyser.query_words(word) if part not in analyser.STOP_WORDS)
    return min((len(postings.find_word(scope.words, number)[0]) for number in word_index.hash_words(words)), default=0)


def require_vectors(done: Done) -> None:
    """Raise ProviderUnavailable if vectors are missing: weights found without them would be wrong."""
    if "vectors" in done.failed:
        code = done.failed["vectors"]
        raise ProviderUnavailable(code, "Vectors are missing, since the embedder does not answer; try again later.")
