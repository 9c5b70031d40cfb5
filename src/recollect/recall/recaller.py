"""Recall from question to hits: read the scope, ask all arms, fetch what won, and say how it went."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.core import times
from recollect.core.errors import RecollectError
from recollect.core.models import Hit, JsonObject, Message, Neighbour, Principal, Recalled, Similar
from recollect.core.profile import Profile
from recollect.core.protocols import Clock
from recollect.recall import scoring
from recollect.recall.active_topic import ActiveTopics, lean
from recollect.recall.embedding import Embedders
from recollect.recall.latest_brief import LatestBriefs, hits_of
from recollect.recall.prompt import profile
from recollect.recall.prompt.pack import Item, Piece, passage_items
from recollect.recall.question import Read, read
from recollect.recall.scope_cache import Scopes
from recollect.recall.scope_index import USER, Scope
from recollect.recall.scoring import Part, Question, Scores, Weights
from recollect.settings import Settings
from recollect.storage.scope_updates import Beside
from recollect.storage.store import FEW, SqlStore

log = logging.getLogger(__name__)

ENOUGH: Final = 3  # good hits in a conversation, before others are asked too
GOOD: Final = 0.3  # nearness of a good hit
MOST_OF_IT: Final = 0.4  # of what all words of the question would be worth, for a good hit
HERE: Final = 0.2  # what a message is worth more if it stands in the conversation asked about
OLD: Final = timedelta(days=7)  # silence after which "last week" may mean the end of the conversation
TURN: Final = 3  # neighbours of a hit at most
WITHIN: Final = 200  # hits that are looked at to fill a budget
ALIKE: Final = 0.6  # nearness of two questions that are alike
THREAD: Final = 5000  # messages; larger scopes are compared on a thread


@dataclass(slots=True)
class Watch:
    """How long each stage took, in milliseconds."""

    started: float = field(default_factory=time.perf_counter)
    stages: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + (now - self._last) * 1000
        self._last = now

    def total(self) -> float:
        return (time.perf_counter() - self.started) * 1000


@dataclass(frozen=True, slots=True)
class Found:
    """Messages of a scope in the order of their scores, before any text is fetched."""

    question: Read
    scope: Scope
    scores: Scores
    total: NDArray[np.float32]
    ranked: NDArray[np.int64]
    degraded: tuple[str, ...]
    watch: Watch
    own: Scope  # of the conversation asked about, if one was; the other may be wider
    beside: Beside


class Recaller:
    def __init__(
        self, store: SqlStore, clock: Clock, embedders: Embedders, settings: Callable[[Principal], Settings]
    ) -> None:
        self._store, self._clock, self._embedders, self._settings = store, clock, embedders, settings
        self.scopes = Scopes(store)
        self.briefs = LatestBriefs(store)
        self.topics = ActiveTopics()

    def weighed(self, settings: Callable[[], Settings]) -> Recaller:
        """The same with other settings; the scopes that are in memory are shared."""
        other = Recaller(self._store, self._clock, self._embedders, lambda _: settings())
        other.scopes, other.briefs, other.topics = self.scopes, self.briefs, self.topics
        return other

    async def find(
        self,
        principal: Principal,
        text: str,
        *,
        conversation: str | None,
        at: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        most: int = 200,
        leaning: bool = False,
        everywhere: bool = False,
    ) -> Found:
        """Everything in the scope by how much it matters; other conversations too where this one has little, or
        `everywhere`. With `leaning`, messages of the active topic matter a little more."""
        watch = Watch()
        question = read(text)
        own, beside = await self.scopes.look(principal, conversation)
        scope = await self.scopes.get(principal, None) if everywhere else own
        watch.lap("load")
        vectors, degraded = await self._question_vectors(scope, question, {})
        watch.lap("embed")
        scores = await self._fuse(principal, scope, question, vectors, at, conversation)
        few = everywhere or int((good(scores) & _in_time(scope, since, until)).sum()) < ENOUGH
        if conversation is not None and few and not everywhere:
            scope = await self.scopes.get(principal, None)
            watch.lap("load")
            vectors, more = await self._question_vectors(scope, question, vectors)
            degraded = tuple(dict.fromkeys((*degraded, *more)))
            watch.lap("embed")
            scores = await self._fuse(principal, scope, question, vectors, at, conversation)
        if conversation is not None and few:
            here = [key for key, row in scope.conversations.items() if row["name"] == conversation]
            scores = scores.with_part("here", Part(HERE, np.isin(scope.keys, here).astype(np.float32)))
        if leaning and beside.active is not None:
            scores = scores.with_part("topic", lean(scope, beside.active))
        total = scores.total
        keep = np.flatnonzero(scores.related() & _in_time(scope, since, until) & scope.has_words)
        ranked = keep[scoring.largest(total[keep], most if question.text.strip() else 0)]
        watch.lap("score")
        return Found(question, scope, scores, total, ranked, degraded, watch, own, beside)

    async def recall(
        self,
        principal: Principal,
        text: str,
        *,
        conversation: str | None,
        limit: int,
        budget: int | None = None,
        count: Callable[[str], int] | None = None,
        at: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Recalled:
        most = limit if budget is None else min(limit, WITHIN)
        found = await self.find(
            principal, text, conversation=conversation, at=at, since=since, until=until, most=most, leaning=True
        )
        hits = await self._hits(principal, found, most)
        degraded = found.degraded
        if conversation is not None and limit and since is None and until is None:
            brief, missing = await self.briefs.latest(principal, conversation, found.beside.standing)
            hits += hits_of(brief, text)
            degraded = (*degraded, *missing)
        if limit and since is None and until is None:
            hits += profile.hits_of(await self._store.profiles.get(principal), text)
        used = None
        if budget is not None and count is not None:
            hits, used = _within(hits, budget, count)
        found.watch.lap("fetch")
        return Recalled(tuple(hits), self.metrics(principal, found, hits, conversation, used), degraded)

    async def similar(
        self, principal: Principal, conversation: str, text: str, *, limit: int, now: datetime
    ) -> list[Similar]:
        scope = await self.scopes.get(principal, None)
        question = read(text)
        vectors, _ = await self._question_vectors(scope, question, {})
        near = scoring.dense(scope, vectors).messages()
        own = [key for key, row in scope.conversations.items() if row["name"] == conversation]
        asked = (scope.roles == USER) & ~np.isin(scope.keys, own) & (near >= ALIKE)
        chosen = np.flatnonzero(asked)
        chosen = chosen[np.argsort(-near[chosen], kind="stable")][:limit]
        answers = {int(index): int(scope.after[index]) for index in chosen if scope.after[index] >= 0}
        messages = await self.texts(principal, scope, [*map(int, chosen), *answers.values()])
        found = []
        for index in map(int, chosen):
            message, answer = messages.get(index), messages.get(answers.get(index, -1))
            if message is not None:
                found.append(_similar(message, answer, float(near[index]), now))
        return found

    async def _question_vectors(
        self, scope: Scope, question: Read, known: Mapping[int, NDArray[np.float32]]
    ) -> tuple[dict[int, NDArray[np.float32]], tuple[str, ...]]:
        """The question's vector for each embedder whose vectors serve in the scope, and what is missing."""
        found = dict(known)
        degraded: dict[str, None] = {}
        for key in sorted({seen.embedder for seen in scope.seen.values() if seen.embedder is not None} - set(found)):
            embedder = self._embedders.named(*self.scopes.embedders[key])
            if embedder is None:
                degraded["embedder_changed"] = None
                continue
            try:
                found[key] = await self._embedders.embed_question(embedder, question.text)
            except RecollectError as error:
                log.warning("the question cannot be embedded: %s", error.code)
                degraded["embedder"] = None
        if not degraded and _are_few(scope):
            degraded["vectors"] = None
        return found, tuple(degraded)

    async def _fuse(
        self,
        principal: Principal,
        scope: Scope,
        question: Read,
        vectors: Mapping[int, NDArray[np.float32]],
        at: datetime | None,
        conversation: str | None,
    ) -> Scores:
        settings = self._settings(principal)
        lexical = settings.rag_hybrid or not vectors
        zones = {row["zone"] for row in scope.conversations.values() if conversation in (None, row["name"])}
        zone = zones.pop() if len(zones) == 1 else "UTC"
        periods = [one for now in self._moments(scope, at) for one in question.periods(now, zone)]
        asked = Question(
            words=question.words if lexical else (),
            names=question.names if lexical else (),
            periods=periods,
            vectors=vectors,
            lean=question.lean,
        )
        weights = Weights(settings.rag_rerank_alpha, settings.rag_rerank_beta, settings.rag_rerank_gamma)
        if len(scope) <= THREAD:
            return scoring.fuse(scope, asked, weights)
        return await asyncio.to_thread(scoring.fuse, scope, asked, weights)

    def _moments(self, scope: Scope, at: datetime | None) -> list[datetime]:
        """Against which "last week" is read: the moment of asking, and in an old conversation also its own end."""
        if at is not None or not len(scope):
            return [] if at is None else [at]
        now, newest = self._clock.now(), times.from_micros(int(scope.at.max()))
        return [now] if abs(now - newest) < OLD else [now, newest]

    async def _hits(self, principal: Principal, found: Found, limit: int) -> list[Hit]:
        chosen = found.ranked[:limit]
        turns = {int(index): _turn(found.scope, int(index)) for index in chosen}
        wanted = dict.fromkeys([*turns, *(one for turn in turns.values() for one in turn)])
        messages = await self.texts(principal, found.scope, list(wanted))
        own = {index: messages[index] for index in turns if index in messages}  # others were erased since
        best: dict[int, Item] = {}
        for item in items_of(found, own, passages_too=self._settings(principal).rag_chunking):
            if item.index not in best or item.score > best[item.index].score:
                best[item.index] = item
        hits = []
        for index in turns:
            message = own.get(index)
            if message is not None:
                text = best[index].piece.text if index in best else message.content
                beside = tuple(_neighbour(messages[one]) for one in turns[index] if one in messages)
                hits.append(_hit(message, text, found, index, beside))
        return sorted(hits, key=lambda hit: -hit.score)  # exact sums may part what single precision had as equal

    async def texts(self, principal: Principal, scope: Scope, indices: Sequence[int]) -> dict[int, Message]:
        """Messages by their index. What was read before is not read again: a scope is never older than the question."""
        wanted = _Wanted(scope, indices)
        places = _places([wanted])
        return wanted.texts(await self._store.messages_at(principal, places) if places else {})

    async def texts_and_profile(
        self, principal: Principal, *asked: tuple[Scope, Sequence[int]]
    ) -> tuple[list[dict[int, Message]], Profile]:
        """The same of several scopes, and the profile as it may be used now, read at once: a change of threads costs
        more than what is read."""
        wanted = [_Wanted(scope, indices) for scope, indices in asked]
        stored, usable = await self._store.messages_and_profile(principal, _places(wanted))
        return [one.texts(stored) for one in wanted], usable

    def metrics(
        self, principal: Principal, found: Found, hits: Sequence[Hit], conversation: str | None, used: int | None
    ) -> JsonObject:
        settings = self._settings(principal)
        return {
            "sources": _sources(found, hits, conversation),
            "ms": {stage: round(ms, 3) for stage, ms in found.watch.stages.items()}
            | {"total": round(found.watch.total(), 3)},
            "top": [round(hit.score, 4) for hit in hits[:3]],
            "flags": {
                "hybrid": settings.rag_hybrid,
                "chunking": settings.rag_chunking,
                "token_budget": settings.rag_token_budget,
            },
            "scope": len(found.scope),
            "hits": len(hits),
            "tokens": used,
            "degraded": list(found.degraded),
        }


class Passages(NamedTuple):
    """How the passages of some messages compare with the question: those of each, between two borders."""

    borders: list[int]
    near: list[float]
    lexical: list[float]

    @classmethod
    def of(cls, found: Found, messages: NDArray[np.int64]) -> Passages:
        scores, firsts = found.scores, found.scope.firsts
        begins = firsts[messages]
        ends = np.append(firsts, len(scores.lexical_by_passage))[messages + 1]
        borders = np.concatenate(([0], np.cumsum(ends - begins)))
        own = np.repeat(begins - borders[:-1], ends - begins) + np.arange(borders[-1])
        best = max(float(scores.lexical_by_passage.max(initial=0.0)), 1e-6)
        near = scores.nearness.passages(messages, borders)
        return cls(borders.tolist(), near.tolist(), (scores.lexical_by_passage[own] / best).tolist())


def items_of(found: Found, messages: Mapping[int, Message], *, passages_too: bool) -> list[Item]:
    """What may enter a prompt of the messages that were found."""
    chosen = np.fromiter(messages, np.int64, len(messages))
    totals = found.total[chosen].tolist()
    if not passages_too:
        stripped = [message.content.strip() for message in messages.values()]
        return [
            Item(index, 0, message, Piece.of(message, text, "message"), score)
            for (index, message), text, score in zip(messages.items(), stripped, totals, strict=True)
            if text
        ]
    said, code = found.scope.said, found.question.about_code
    pieces = {index: said.pieces(index, message) for index, message in messages.items()}
    long = [index for index, some in pieces.items() if len(some) != 1]  # few
    borders, near, lexical = Passages.of(found, np.array(long, np.int64)) if long else Passages([], [], [])
    spans = dict(zip(long, pairwise(borders), strict=True))
    items: list[Item] = []
    for (index, message), score in zip(messages.items(), totals, strict=True):
        some = pieces[index]
        if len(some) == 1:
            items.append(Item(index, 0, message, some[0], score))
        else:
            own = slice(*spans[index])
            items += passage_items(index, message, some, score, near[own], lexical[own], code=code)
    return items


Place = tuple[int, int]  # the key of a conversation, and a seq


class _Wanted:
    """Messages of a scope by their index: those in memory, and where the others lie."""

    def __init__(self, scope: Scope, indices: Iterable[int]) -> None:
        self._scope = scope
        self._known = {index: scope.said.get(index) for index in indices}
        self.missing = [index for index, message in self._known.items() if message is None]
        self.ahead: list[int] = []  # some that the next questions will ask for

    def read_ahead(self, most: int) -> None:
        if self.missing:
            some = self._scope.said.ahead(self._scope.words_in, most)
            self.ahead = [index for index in some if index not in self._known]

    def places(self) -> list[Place]:
        return self._at(self.missing) + self._at(self.ahead)

    def texts(self, stored: Mapping[Place, Message]) -> dict[int, Message]:
        """With those just read, which are kept in memory; what is in neither was erased."""
        said = self._scope.said
        for index, place in zip(self.ahead, self._at(self.ahead), strict=True):
            if (message := stored.get(place)) is not None:
                said.keep_ahead(index, message)
        for index, place in zip(self.missing, self._at(self.missing), strict=True):
            message = self._known[index] = stored.get(place)
            if message is not None:
                said.keep(index, message)
        return {index: message for index, message in self._known.items() if message is not None}

    def _at(self, indices: list[int]) -> list[Place]:
        return list(zip(self._scope.keys[indices].tolist(), self._scope.seqs[indices].tolist(), strict=True))


def _places(wanted: Sequence[_Wanted]) -> list[Place]:
    """What must be read, each once, and as much more as makes no difference."""
    room = FEW - sum(len(one.missing) for one in wanted)
    for one in wanted:
        one.read_ahead(room)
        room -= len(one.ahead)
    return list(dict.fromkeys(place for one in wanted for place in one.places()))


def _similar(message: Message, answer: Message | None, near: float, now: datetime) -> Similar:
    return Similar(
        message.id,
        message.conversation,
        message.seq,
        message.content,
        message.at,
        age=times.age(message.at, now),
        similarity=round(near, 4),
        answer=answer.content if answer is not None and answer.role == "assistant" else None,
    )


def _in_time(scope: Scope, since: datetime | None, until: datetime | None) -> NDArray[np.bool_]:
    keep = np.ones(len(scope), np.bool_)
    if since is not None:
        keep &= scope.at >= times.to_micros(since)
    if until is not None:
        keep &= scope.at < times.to_micros(until)
    return keep


def _are_few(scope: Scope) -> bool:
    """Whether most messages have no vectors yet and can be found by their words only.

    The newest does not count: in a chat it is the question itself, stored a moment ago.
    """
    made = sum(len(part.messages) for parts in scope.vectors.values() for part in parts)
    return 2 * made < scope.worded - 1


def good(scores: Scores) -> NDArray[np.bool_]:
    """Which messages speak of what was asked for: near in meaning, or with most of its words."""
    worded = (scores.lexical >= MOST_OF_IT * scores.possible) & (scores.possible > 0)
    found: NDArray[np.bool_] = (scores.near >= GOOD) | worded
    return found


def _turn(scope: Scope, index: int) -> list[int]:
    """The other messages of a message's turn: back to what the user said, and on to before the next user message."""
    found: list[int] = []
    one = index
    while scope.roles[one] != USER and scope.before[one] >= 0 and len(found) < TURN:
        one = int(scope.before[one])
        found.insert(0, one)
    one = int(scope.after[index])
    while one >= 0 and scope.roles[one] != USER and len(found) < TURN:
        found.append(one)
        one = int(scope.after[one])
    return found


def _neighbour(message: Message) -> Neighbour:
    return Neighbour(message.id, message.seq, message.role, message.content, message.at, message.name)


def _hit(message: Message, text: str, found: Found, index: int, beside: tuple[Neighbour, ...]) -> Hit:
    kind = "message" if text == message.content.strip() or text == message.content else "passage"
    why = found.scores.why(index)
    return Hit(
        message.id, message.conversation, message.seq, message.role, text, message.at,
        score=sum(why.values()), kind=kind, why=why, name=message.name, neighbours=beside,
    )  # fmt: skip


def _within(hits: Sequence[Hit], budget: int, count: Callable[[str], int]) -> tuple[list[Hit], int]:
    """The hits that fit, best first; one that does not is passed over. Then their neighbours, as far as they fit."""
    kept, left = [], budget
    for hit in hits:
        tokens = count(hit.text)
        if tokens <= left:
            kept.append(hit)
            left -= tokens
    for place, hit in enumerate(kept):
        beside = []
        for neighbour in hit.neighbours:
            tokens = count(neighbour.text)
            if tokens <= left:
                beside.append(neighbour)
                left -= tokens
        kept[place] = replace(hit, neighbours=tuple(beside))
    return kept, budget - left


def _sources(found: Found, hits: Sequence[Hit], conversation: str | None) -> JsonObject:
    """How many hits each arm had a part in, and where they stand."""
    here = sum(hit.conversation == conversation for hit in hits) if conversation is not None else 0
    told = sum(hit.kind == "profile" for hit in hits)  # it belongs to no conversation
    return {
        "conversation": here,
        "other_conversations": len(hits) - here - told,
        "dense": sum("dense" in hit.why for hit in hits),
        "lexical": sum("bm25" in hit.why for hit in hits),
        "code": sum("code" in hit.why for hit in hits),
        "dates": sum("date" in hit.why for hit in hits),
        "summaries": sum(hit.kind == "brief" for hit in hits),
        "profile": told,
    }
