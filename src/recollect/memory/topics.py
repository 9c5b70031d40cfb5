"""Topics of a memory: read them, search them, and change them by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from recollect.core import arguments, times, topics
from recollect.core.compression.narrative import render_narrative
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.json_text import to_json
from recollect.core.message import Message
from recollect.core.models import JsonObject
from recollect.core.scope import ConversationScope, PersonScope
from recollect.core.text import check_identity
from recollect.core.topics import RelatedTopics, Topic, TopicGroup, TopicHit, TopicStats
from recollect.memory.lifecycle import Lifecycle
from recollect.storage.store import Position
from recollect.storage.topic_summary import unpack_group_statements
from recollect.storage.topics import TopicsState
from recollect.topics.fold import aging_from

MAX_SEARCHED_MESSAGES: Final = 60  # best hits whose topics a search considers
FURTHER_MESSAGE_SHARE: Final = 0.1  # each further message adds this share of its score to its topic's score
MAX_DECAY_POINTS: Final = 10_000
MAX_DECAY_DAYS: Final = 100_000


class TopicsMixin(Lifecycle):
    """Topics: list, read, search, merge, split, change, and give feedback."""

    # Reading

    async def topics(self, conversation: str) -> list[Topic]:
        """Return the topics of a conversation in all states: the active one first, then by falling priority.

        An unknown conversation has none. Messages get their topics in derived work: see `drain`.
        """
        check_identity(conversation, "conversation")
        await self._ready()
        state_and_groups = await self._store.topics.load(self._principal, conversation)
        if state_and_groups is None:
            return []
        state, groups = state_and_groups
        found = [self._to_topic(state, group) for group in groups]
        return sorted(found, key=lambda topic: (topic.state != "active", -topic.priority, topic.created_at, topic.id))

    async def topic(self, topic: str) -> Topic:
        """Return a topic by its id. The id of a merged topic gives the topic that it was merged into."""
        return self._to_topic(*await self._find_topic(topic))

    async def topic_context(self, conversation: str, *, topic: str | None = None) -> list[JsonObject]:
        """Return the active topic, or the one with this id, as messages for a model.

        Its summary comes first, fenced as data, then its messages that are not archived. A topic that came back gives
        all its messages and no summary, for as long as it is the active one.
        """
        state_and_group = await self._find_in_conversation(conversation, topic)
        if state_and_group is None:
            return []
        from recollect.recall.prompt import fence
        from recollect.recall.prompt.tail import to_prompt_message

        shown = self._to_topic(*state_and_group)
        is_whole = shown.archived_messages == 0
        messages = await self._store.topics.members(self._principal, *state_and_group, unarchived_only=not is_whole)
        prompt = [to_prompt_message(message, named_roles=()) for message in messages if message.role != "system"]
        if shown.summary is None or is_whole:
            return prompt
        return [{"role": "user", "content": fence.render_fence(fence.render_summary(shown.summary))}, *prompt]

    async def topic_history(
        self, conversation: str, *, topic: str | None = None, include_archived: bool = True
    ) -> list[Message]:
        """Return the messages of the active topic, or of the one with this id, in the order of the log."""
        if not isinstance(include_archived, bool):
            raise InvalidInput("invalid_include_archived", "`include_archived` is true or false.")
        state_and_group = await self._find_in_conversation(conversation, topic)
        if state_and_group is None:
            return []
        unarchived_only = not include_archived and self._to_topic(*state_and_group).archived_messages > 0
        return await self._store.topics.members(self._principal, *state_and_group, unarchived_only=unarchived_only)

    async def topic_stats(self, conversation: str, *, topic: str | None = None) -> TopicStats | None:
        """Return counts, importance, half-life and age of the active topic, or of the one with this id.

        Return None if the conversation has no active topic.
        """
        state_and_group = await self._find_in_conversation(conversation, topic)
        return None if state_and_group is None else topics.to_stats(self._to_topic(*state_and_group), self._clock.now())

    async def topic_decay(
        self, topic: str, *, days: float | None = None, points: int = 60
    ) -> list[tuple[datetime, float]]:
        """Return how the priority of a topic falls if it is not spoken of again: `points` moments and the values then.

        The curve begins when the topic was last spoken of. It covers `days` days; without them it ends a little after
        the topic has faded.
        """
        arguments.check_number(points, "points", minimum=2, required=True)
        if days is not None and (
            isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= MAX_DECAY_DAYS
        ):
            raise InvalidInput("invalid_days", "`days` is a number above 0.")
        return topics.decay_curve(await self.topic(topic), days=days, points=min(points, MAX_DECAY_POINTS))

    # Searching

    async def search_topics(self, query: str, *, conversation: str | None = None, limit: int = 5) -> list[TopicHit]:
        """Return up to `limit` topics with messages that bear on the query, best first, and the ids of those messages.

        Without `conversation`, all of the person's are searched.
        """
        asked = arguments.check_query(query)
        if conversation is not None:
            check_identity(conversation, "conversation")
        arguments.check_number(limit, "limit", minimum=0, required=True)
        await self._ready()
        messages = await self._search_messages(asked, conversation)
        keys = await self._store.topics.topics_at(self._principal, list(messages.scores))
        names = {messages.conversations[conversation_key] for conversation_key, _ in keys}
        topics_by_key = await self._load_topics(names, set(keys.values()))
        matches: dict[str, _TopicMatch] = {}
        for position, topic_key in keys.items():
            topic = topics_by_key.get(topic_key)
            if topic is not None:
                matches.setdefault(topic.id, _TopicMatch(topic)).add(position, messages.scores[position])
        best = sorted(matches.values(), key=lambda match: (-match.score, match.topic.id))[:limit]
        return await self._to_hits(best)

    async def _search_messages(self, query: str, conversation: str | None) -> _MatchingMessages:
        """Return the good hits of recall for a query. A search in one conversation may have gone beyond it."""
        scope = PersonScope(self._principal.person) if conversation is None else ConversationScope(conversation)
        result = await self._recaller.find(self._principal, scope, query, limit=MAX_SEARCHED_MESSAGES)
        from recollect.recall.ranked_messages import find_good

        index, is_good = result.scope, find_good(result.scores)
        names = {key: row["name"] for key, row in index.conversations.items()}
        scores: dict[Position, float] = {}
        for n, score in zip(result.ranked, result.ordered.scores_of(result.ranked), strict=True):
            position = int(index.conversation_keys[n]), int(index.seqs[n])
            if is_good[n] and (conversation is None or names[position[0]] == conversation):
                scores[position] = float(score)
        return _MatchingMessages(scores, names)

    async def _load_topics(self, conversations: Iterable[str], keys: set[int]) -> dict[int, Topic]:
        """Return the topics of these conversations that have one of the keys, by key, also by those of merged ones."""
        topics_by_key: dict[int, Topic] = {}
        for conversation in conversations:
            state_and_groups = await self._store.topics.load(self._principal, conversation)
            if state_and_groups is None:
                continue  # erased meanwhile
            state, groups = state_and_groups
            for group in groups:
                if not keys.isdisjoint(group.keys):
                    topics_by_key |= dict.fromkeys(group.keys, self._to_topic(state, group))
        return topics_by_key

    async def _to_hits(self, matches: Sequence[_TopicMatch]) -> list[TopicHit]:
        """Return the matches with the ids of their messages. Messages that were erased meanwhile are left out."""
        positions = [position for match in matches for position in match.positions]
        messages = await self._store.messages_at(self._principal, positions)
        return [
            TopicHit(
                match.topic,
                round(match.score, 4),
                tuple(messages[position].id for position in match.positions if position in messages),
            )
            for match in matches
        ]

    async def related_topics(self, conversation: str) -> list[RelatedTopics]:
        """Return pairs of topics that could be merged, the most similar first: proposals for `merge_topics`."""
        check_identity(conversation, "conversation")
        await self._ready()
        pairs = await self._work.assignment.find_related(self._principal, conversation)
        return [
            RelatedTopics(
                self._to_topic(pair.state, pair.earlier), self._to_topic(pair.state, pair.later), pair.similarity
            )
            for pair in pairs
        ]

    # By hand

    async def merge_topics(self, into: str, topic: str) -> Topic:
        """Make the topic `topic` a part of the topic `into`, and return that. `unmerge_topic` takes it back."""
        check_identity(into, "topic")
        check_identity(topic, "topic")
        await self._ready()
        merged = await self._store.topic_edits.merge(self._principal, into, topic, now=self._clock.now())
        self._work.notify()
        return self._to_topic(*merged)

    async def unmerge_topic(self, topic: str) -> Topic:
        """Take a merge back: the topic that was merged is a topic of its own again, with the messages it had."""
        check_identity(topic, "topic")
        await self._ready()
        unmerged = await self._store.topic_edits.unmerge(self._principal, topic, now=self._clock.now())
        self._work.notify()
        return self._to_topic(*unmerged)

    async def split_topic(self, topic: str, messages: Sequence[str], *, title: str | None = None) -> Topic:
        """Move messages of a topic, given by their ids, into a new topic, and return it. At least one must stay.

        Without `title`, the first characters of its first user message are its title.
        """
        check_identity(topic, "topic")
        if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
            raise InvalidInput("invalid_messages", "`messages` takes a list of the ids of messages.")
        ids = [check_identity(message, "id") for message in messages]
        new_title = None if title is None else arguments.check_title(title)
        await self._ready()
        new_topic = await self._store.topic_edits.split(self._principal, topic, ids, new_title, now=self._clock.now())
        self._work.notify()
        return self._to_topic(*new_topic)

    async def tag_topic(self, topic: str, tags: Sequence[str]) -> Topic:
        """Replace the tags of a topic by these."""
        return await self._change(topic, _tags_change(tags))

    async def pin_topic(self, topic: str, *, pinned: bool = True) -> Topic:
        """Pin a topic, or unpin it. A pinned topic never goes cold by itself."""
        return await self._change(topic, _pinned_change(pinned))

    async def rename_topic(self, topic: str, title: str) -> Topic:
        """Give a topic a title."""
        return await self._change(topic, _title_change(title))

    async def weigh_topic(self, topic: str, importance: float) -> Topic:
        """Set how important a topic is, from 0 to 1. A less important topic fades sooner."""
        return await self._change(topic, _importance_change(importance))

    async def change_topic(
        self,
        topic: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        importance: float | None = None,
        state: str | None = None,
    ) -> Topic:
        """Change several things of a topic at once: all of them, or none if one is refused.

        `state` is `cold` to archive the topic now, or `warm` to bring it back.
        """
        if state not in (None, "warm", "cold"):
            raise InvalidInput("invalid_state", "`state` is `warm` (bring the topic back) or `cold` (archive it).")
        changes: dict[str, JsonObject] = {}
        if title is not None:
            changes |= _title_change(title)
        if tags is not None:
            changes |= _tags_change(tags)
        if pinned is not None:
            changes |= _pinned_change(pinned)
        if importance is not None:
            changes |= _importance_change(importance)
        if state is not None:
            changes |= _ARCHIVE_CHANGE if state == "cold" else self._restore_change()
        return await self._change(topic, changes)

    async def archive_topic(self, topic: str) -> Topic:
        """Make a topic cold now, whatever its priority. Its messages are archived until it is spoken of again."""
        return await self._change(topic, _ARCHIVE_CHANGE)

    async def restore_topic(self, topic: str) -> Topic:
        """Bring a topic back with all its messages, as if it had been spoken of now."""
        return await self._change(topic, self._restore_change())

    async def feedback(
        self, message: str, value: float, *, kind: str = "thumb", conversation: str | None = None
    ) -> None:
        """Rate a message from -1 to 1. The importance of its topic follows; praise also makes the topic last longer.

        `kind` is `thumb`, `used` (in an answer), `edited` or `deleted`. The newest value of each kind counts; 0 takes
        it back. `conversation` is needed only if several conversations have a message with this id.
        """
        check_identity(message, "id")
        if conversation is not None:
            check_identity(conversation, "conversation")
        if not isinstance(kind, str) or kind not in topics.FEEDBACK_WEIGHTS:
            raise InvalidInput("invalid_feedback", f"`kind` is one of {', '.join(topics.FEEDBACK_WEIGHTS)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
            raise InvalidInput("invalid_feedback", "`value` is a number from -1 to 1.")
        await self._ready()
        await self._store.topic_edits.feedback(
            self._principal, message, conversation, kind, float(value), now=self._clock.now()
        )

    async def _change(self, topic: str, changes: Mapping[str, JsonObject]) -> Topic:
        """Make all of these changes of a topic in one transaction."""
        if not changes:
            return await self.topic(topic)
        check_identity(topic, "topic")
        await self._ready()
        changed = await self._store.topic_edits.change(self._principal, topic, changes)
        self._work.notify()
        return self._to_topic(*changed)

    def _restore_change(self) -> dict[str, JsonObject]:
        return {"restore": {"now": times.to_micros(self._clock.now())}}

    async def _find_topic(self, topic: str) -> tuple[TopicsState, TopicGroup]:
        check_identity(topic, "topic")
        await self._ready()
        return await self._store.topics.find(self._principal, topic)

    async def _find_in_conversation(
        self, conversation: str, topic: str | None
    ) -> tuple[TopicsState, TopicGroup] | None:
        """Return the topic with this id, which must be one of the conversation; without an id, the active one."""
        check_identity(conversation, "conversation")
        if topic is not None:
            state, group = await self._find_topic(topic)
            if state.conversation != conversation:
                raise NotFound("topic_not_found", f"This conversation has no topic {topic[:80]!r}.")
            return state, group
        await self._ready()
        state_and_groups = await self._store.topics.load(self._principal, conversation)
        if state_and_groups is None:
            return None
        state, groups = state_and_groups
        active = next((group for group in groups if state.is_active(group)), None)
        return None if active is None else (state, active)

    def _to_topic(self, state: TopicsState, group: TopicGroup) -> Topic:
        """Return a stored topic as callers see it now, with its summary as text."""
        return topics.to_topic(
            group,
            state.conversation,
            summary=render_narrative(unpack_group_statements(group)),
            active=state.active,
            now=self._clock.now(),
            aging=aging_from(self._current.now),
        )


class _MatchingMessages(NamedTuple):
    """Messages that match a search: their scores by position, best first, and conversation names by key."""

    scores: dict[Position, float]
    conversations: dict[int, str]


@dataclass(slots=True)
class _TopicMatch:
    """A topic with the positions of its messages that match a search."""

    topic: Topic
    score: float = 0.0
    positions: list[Position] = field(default_factory=list)

    def add(self, position: Position, score: float) -> None:
        """Add a message. The first one counts in full, each further one adds only a share of its score."""
        self.score += score * (FURTHER_MESSAGE_SHARE if self.positions else 1.0)
        self.positions.append(position)


# Changes of a topic, checked before anything is written. Each names what is changed and the values to store.

_ARCHIVE_CHANGE: Final[Mapping[str, JsonObject]] = {"archive": {}}


def _title_change(title: str) -> dict[str, JsonObject]:
    checked = arguments.check_title(title)
    if not checked.strip():
        raise InvalidInput("invalid_title", "The title of a topic must not be blank.")
    return {"title": {"title": checked, "named": 1}}


def _tags_change(tags: Sequence[str]) -> dict[str, JsonObject]:
    return {"tags": {"tags": to_json(arguments.check_tags(tags))}}


def _pinned_change(pinned: bool) -> dict[str, JsonObject]:
    if not isinstance(pinned, bool):
        raise InvalidInput("invalid_pinned", "`pinned` is true or false.")
    return {"pinned": {"pinned": int(pinned)}}


def _importance_change(importance: float) -> dict[str, JsonObject]:
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance <= 1:
        raise InvalidInput("invalid_importance", "Importance is a number from 0 to 1.")
    return {"importance": {"importance": float(importance)}}
