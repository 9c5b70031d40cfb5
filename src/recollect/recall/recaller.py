"""Recall from question to hits: finds the scope, asks all arms, ranks, reads the texts of the best, and measures.

The steps live in modules of their own: `scoring` (the arms), `message_reader` (texts), `hits`, `similar_questions` and
`metrics`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recollect.core import times
from recollect.core.errors import RecollectError
from recollect.core.language.utterances import detect_language
from recollect.core.models import Hit, JsonObject, Principal, Recalled, Similar
from recollect.core.protocols import Clock, Embedder
from recollect.core.scope import PersonScope, Scope
from recollect.recall import scoring
from recollect.recall.active_topic import ActiveTopics, score_topic
from recollect.recall.embedding import BUILT_IN_EMBEDDER, Embedders
from recollect.recall.fresh_vectors import UNSTORED_EMBEDDER_KEY, FreshVectors
from recollect.recall.hits import find_neighbours, fit_hits, to_hits
from recollect.recall.latest_brief import LatestBriefs, find_brief_hits
from recollect.recall.message_reader import MessageReader
from recollect.recall.metrics import Used, describe_recall, hits_to_used
from recollect.recall.order import order_scope
from recollect.recall.profile_vectors import ProfileVectors
from recollect.recall.prompt.profile import find_profile_hits
from recollect.recall.question import ParsedQuestion, parse_question
from recollect.recall.ranked_messages import RankedMessages, StageTimer, find_good, find_in_period
from recollect.recall.relevance import Floor
from recollect.recall.scope_cache import ScopeCache, conversation_of
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.scoring import ArmWeights, QueryFeatures, ScorePart, Scores
from recollect.recall.similar_questions import find_similar_questions, to_similar
from recollect.settings import Settings
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

MIN_GOOD_HITS: Final = 3  # with fewer in a conversation, the person's others are searched too
SAME_CONVERSATION_WEIGHT: Final = 0.2  # for messages of the conversation asked about, where others are searched too
OLD_AFTER: Final = timedelta(days=7)  # silence after which "last week" may mean the end of the conversation
MAX_RANKED: Final = 200
MAX_HITS_FOR_BUDGET: Final = 200  # hits that are considered for a token budget
THREADED_SCOPE_MESSAGES: Final = 5000  # larger scopes are scored on a thread

MIN_CALIBRATED_MESSAGES: Final = 20  # in a smaller scope, all that is found is returned
MIN_CALIBRATED_ARABIC: Final = 30  # of a question in Arabic, where relevance separates less well

Vectors = dict[int, NDArray[np.float32]]  # of a question, by embedder key


class Recaller:
    """Answers questions from the scopes of a store. Owns what is kept in memory of scopes, briefs and topics."""

    def __init__(
        self, store: SqlStore, clock: Clock, embedders: Embedders, settings: Callable[[Principal], Settings]
    ) -> None:
        self._store, self._clock, self._embedders, self._settings = store, clock, embedders, settings
        self.scopes = ScopeCache(store)
        self.briefs = LatestBriefs(store)
        self.topics = ActiveTopics()
        self.profiles = ProfileVectors(embedders)
        self.reader = MessageReader(store)
        self.fresh = FreshVectors(embedders, self.reader)

    def with_settings(self, settings: Callable[[], Settings]) -> Recaller:
        """Return a recaller with other settings that shares everything kept in memory."""
        other = Recaller(self._store, self._clock, self._embedders, lambda _: settings())
        other.scopes, other.briefs, other.topics = self.scopes, self.briefs, self.topics
        other.profiles, other.fresh = self.profiles, self.fresh
        return other

    def forget(self, person: str | None = None) -> None:
        """Forget what is kept in memory of all people, or of one: scopes with texts, briefs, topics and profiles."""
        self.profiles.forget(person)
        self.scopes.forget(person)
        self.briefs.forget(person)
        self.topics.forget(person)
        self.fresh.forget()

    async def find(
        self,
        principal: Principal,
        scope: Scope,
        text: str,
        *,
        at: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = MAX_RANKED,
        lean_to_topic: bool = False,
        everywhere: bool = False,
        floor: Floor | None = None,
    ) -> RankedMessages:
        """Rank the messages of a scope for a question. Return at most `limit`, best first; without those below `floor`.

        For a conversation, the person's others are searched too if it has few good hits, or with `everywhere`. With
        `lean_to_topic`, messages of the active topic score a little higher. `at` is the moment of asking.
        """
        timer = StageTimer()
        question = parse_question(text)
        conversation, all_scope = conversation_of(scope), PersonScope(principal.person)
        own_index, state = await self.scopes.get_with_state(principal, scope)
        index = await self.scopes.get(principal, all_scope) if everywhere else own_index
        timer.lap("load")
        index, degraded = await self.fresh.complete(principal, index, self.scopes.embedders)
        vectors, more = await self._embed_question(index, question, {})
        degraded = tuple(dict.fromkeys((*degraded, *more)))
        timer.lap("embed")
        features, scores = await self._score(principal, index, question, vectors, at, conversation)
        timer.add(scores.ms)
        wide = everywhere or int((find_good(scores) & find_in_period(index, since, until)).sum()) < MIN_GOOD_HITS
        if conversation is not None and wide and not everywhere:
            timer.lap("score")
            index = await self.scopes.get(principal, all_scope)
            timer.lap("load")
            failed: tuple[str, ...] = ()
            if "embedder" not in degraded:  # else nobody waits for it once more
                index, failed = await self.fresh.complete(principal, index, self.scopes.embedders)
            vectors, more = await self._embed_question(index, question, vectors)
            degraded = tuple(dict.fromkeys((*degraded, *failed, *more)))
            timer.lap("embed")
            features, scores = await self._score(principal, index, question, vectors, at, conversation)
            timer.add(scores.ms)
        extra: dict[str, ScorePart] = {}
        if conversation is not None and wide:
            extra["here"] = _score_conversation(index, conversation)
        if lean_to_topic and state.active_topic is not None:
            extra["topic"] = score_topic(index, state.active_topic)
        is_learned = self._weights(principal) == ArmWeights()
        in_period = find_in_period(index, since, until)
        ordered = order_scope(index, features, scores, extra, in_period, limit=limit, is_learned=is_learned)
        for name, part in extra.items():
            scores = scores.with_part(name, part)
        is_calibrated = self._is_calibrated(question, index, vectors, degraded)
        ranked = ordered.select(floor, limit if question.text.strip() else 0, is_calibrated=is_calibrated)
        timer.lap("score")
        return RankedMessages(
            question, index, scores, ordered, ranked, degraded, timer, own_index, state, is_calibrated
        )

    def _is_calibrated(
        self, question: ParsedQuestion, index: ScopeIndex, vectors: Vectors, degraded: Sequence[str]
    ) -> bool:
        """Return whether relevance means what it says.

        All vectors must be there, made by the built-in embedder, and there must be enough messages to compare.
        """
        in_arabic = detect_language(question.text) == "ar"
        if index.worded_count < (MIN_CALIBRATED_ARABIC if in_arabic else MIN_CALIBRATED_MESSAGES):
            return False
        embedders = [self._embedder(key) for key in vectors]
        names = [(embedder.name, embedder.dimensions) for embedder in embedders if embedder is not None]
        return not degraded and set(names) == {BUILT_IN_EMBEDDER}  # two rows of it while vectors are made again

    def _embedder(self, key: int) -> Embedder | None:
        """Return the embedder with this key; None if it is not at hand."""
        if key == UNSTORED_EMBEDDER_KEY:
            return self._embedders.current
        return self._embedders.named(*self.scopes.embedders[key])

    async def recall(
        self,
        principal: Principal,
        scope: Scope,
        text: str,
        *,
        limit: int,
        budget: int | None = None,
        count: Callable[[str], int] | None = None,
        at: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        min_relevance: float | None = None,
    ) -> Recalled:
        """Return the best hits for a question: messages, and without a period or floor also the brief and the profile.

        With `budget`, return only hits that fit into as many tokens, counted by `count`.
        """
        conversation = conversation_of(scope)
        message_limit = limit if budget is None else min(limit, MAX_HITS_FOR_BUDGET)
        ranked = await self.find(
            principal,
            scope,
            text,
            at=at,
            since=since,
            until=until,
            limit=message_limit,
            lean_to_topic=True,
            floor=Floor(min_relevance),
        )
        hits = await self._read_hits(principal, ranked, message_limit)
        degraded = ranked.degraded
        if limit and since is None and until is None and not min_relevance:  # they have no relevance
            if conversation is not None:
                state = ranked.conversation_state.brief_state
                brief, problems = await self.briefs.get_brief(principal, conversation, state)
                hits += find_brief_hits(brief, text)
                degraded = (*degraded, *problems)
            profile = await self._store.profiles.get(principal)
            hits += find_profile_hits(profile, text, await self.profiles.compare(principal.person, profile, text))
        tokens = None
        if budget is not None and count is not None:
            hits, tokens = fit_hits(hits, budget, count)
        ranked.timer.lap("fetch")
        metrics = self.describe(principal, ranked, hits_to_used(hits), conversation, tokens)
        return Recalled(tuple(hits), metrics, degraded)

    async def similar(
        self, principal: Principal, conversation: str, text: str, *, limit: int, now: datetime
    ) -> list[Similar]:
        """Return earlier questions of the person like this one, in conversations other than this, with answers."""
        index = await self.scopes.get(principal, PersonScope(principal.person))
        vectors, _ = await self._embed_question(index, parse_question(text), {})
        questions = find_similar_questions(index, vectors, outside=conversation, limit=limit)
        answers = {number: int(index.following[number]) for number, _ in questions if index.following[number] >= 0}
        wanted = [*(number for number, _ in questions), *answers.values()]
        messages = await self.reader.read(principal, index, wanted)
        return [
            to_similar(messages[number], messages.get(answers.get(number, -1)), similarity, now)
            for number, similarity in questions
            if number in messages
        ]

    def describe(
        self,
        principal: Principal,
        ranked: RankedMessages,
        used: Sequence[Used],
        conversation: str | None,
        tokens: int | None,
    ) -> JsonObject:
        """Return the metrics of one question, with the settings of the person who asked."""
        return describe_recall(ranked, used, self._settings(principal), conversation=conversation, tokens=tokens)

    async def _embed_question(
        self, index: ScopeIndex, question: ParsedQuestion, known: Mapping[int, NDArray[np.float32]]
    ) -> tuple[Vectors, tuple[str, ...]]:
        """Return the question's vector for each embedder that the scope has vectors of, and names of what is missing.

        Vectors in `known` are not computed again.
        """
        vectors = dict(known)
        degraded: dict[str, None] = {}
        embedder_keys = {mark.embedder for mark in index.marks.values() if mark.embedder is not None}
        for key in sorted((embedder_keys | index.vectors.keys()) - set(vectors)):
            embedder = self._embedder(key)
            if embedder is None:
                degraded["embedder_changed"] = None
                continue
            if not self._embedders.reads(embedder, question.text):
                degraded["language"] = None
                continue
            try:
                vectors[key] = await self._embedders.embed_question(embedder, question.text)
            except RecollectError as error:
                log.warning("the question cannot be embedded: %s", error.code)
                degraded["embedder"] = None
        if not degraded and index.lacks_vectors():
            degraded["vectors"] = None
        if not degraded and _is_unreadable(index):
            degraded["language"] = None
        return vectors, tuple(degraded)

    async def _score(
        self,
        principal: Principal,
        index: ScopeIndex,
        question: ParsedQuestion,
        vectors: Mapping[int, NDArray[np.float32]],
        at: datetime | None,
        conversation: str | None,
    ) -> tuple[QueryFeatures, Scores]:
        """Score all messages of a scope. Words count with hybrid search on, or while messages have no vectors yet."""
        settings = self._settings(principal)
        with_words = settings.rag_hybrid or not vectors or bool(len(index.newest_without_vectors(1)))
        zones = {row["zone"] for row in index.conversations.values() if conversation in (None, row["name"])}
        zone = zones.pop() if len(zones) == 1 else "UTC"
        features = QueryFeatures(
            words=question.words if with_words else (),
            names=question.names if with_words else (),
            periods=[period for now in self._moments(index, at) for period in question.periods(now, zone)],
            vectors=vectors,
            lean=question.lean,
            kinds=question.kinds,
        )
        weights = self._weights(principal)
        if len(index) <= THREADED_SCOPE_MESSAGES:
            return features, scoring.fuse(index, features, weights)
        return features, await asyncio.to_thread(scoring.fuse, index, features, weights)

    def _weights(self, principal: Principal) -> ArmWeights:
        """Return the weights of the plain sum. The learned order is for those of the default settings."""
        settings = self._settings(principal)
        return ArmWeights(settings.rag_rerank_alpha, settings.rag_rerank_beta, settings.rag_rerank_gamma)

    def _moments(self, index: ScopeIndex, at: datetime | None) -> list[datetime]:
        """Return the moments from which "last week" is read: that of asking, and the end of an old conversation."""
        if at is not None or not len(index):
            return [] if at is None else [at]
        now, newest = self._clock.now(), times.from_micros(int(index.at.max()))
        return [now] if abs(now - newest) < OLD_AFTER else [now, newest]

    async def _read_hits(self, principal: Principal, ranked: RankedMessages, limit: int) -> list[Hit]:
        neighbours = {int(index): find_neighbours(ranked.scope, int(index)) for index in ranked.ranked[:limit]}
        wanted = dict.fromkeys([*neighbours, *(index for others in neighbours.values() for index in others)])
        messages = await self.reader.read(principal, ranked.scope, list(wanted))
        return to_hits(ranked, neighbours, messages, with_passages=self._settings(principal).rag_chunking)


def _score_conversation(index: ScopeIndex, conversation: str) -> ScorePart:
    """Return the part of messages of the conversation that was asked about."""
    here = [key for key, row in index.conversations.items() if row["name"] == conversation]
    return ScorePart(SAME_CONVERSATION_WEIGHT, np.isin(index.conversation_keys, here).astype(np.float32))


def _is_unreadable(index: ScopeIndex) -> bool:
    """Return whether most passages are in a language that the embedder could not read."""
    parts = [part for parts in index.vectors.values() for part in parts]
    return 2 * sum(part.blank_count for part in parts) > sum(map(len, parts))
