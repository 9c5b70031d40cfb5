"""Topics: what a conversation speaks of, how they age, and what people do with them by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from recollect.core import arguments, times, topics
from recollect.core.drafts import to_json
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import JsonObject, Message
from recollect.core.text import identity
from recollect.core.topics import Group, Related, Topic, TopicHit, TopicStats
from recollect.memory.lifecycle import Opened
from recollect.storage.topics import Standing
from recollect.topics.fold import aging

SEARCHED: Final = 60  # messages whose topics a search looks at
AS_WELL: Final = 0.1  # what a further message of a topic adds to its score, of its own


class Topical(Opened):
    async def topics(self, conversation: str) -> list[Topic]:
        """What a conversation speaks of, in all states: the active one first, then by priority."""
        identity(conversation, "conversation")
        await self._ready()
        found = await self._store.topics.all(self._principal, conversation)
        if found is None:
            return []
        standing, groups = found
        shown = [self._shown(standing, group) for group in groups]
        return sorted(shown, key=lambda one: (one.state != "active", -one.priority, one.created_at, one.id))

    async def topic(self, topic: str) -> Topic:
        """One topic by its id; by that of a topic which was merged, the one it belongs to."""
        return self._shown(*await self._found(topic))

    async def topic_context(self, conversation: str, *, topic: str | None = None) -> list[JsonObject]:
        """Messages for a model: what is told of the active topic (or another) as data, then its messages at hand.

        A topic that came back has its whole history at hand for as long as it is the active one.
        """
        found = await self._topic(conversation, topic)
        if found is None:
            return []
        from recollect.recall.prompt import fence
        from recollect.recall.prompt.tail import as_message

        standing, group = found
        shown = self._shown(standing, group)
        whole = shown.archived_messages == 0
        messages = await self._store.topics.members(self._principal, standing, group, hot=not whole)
        talk = [as_message(message) for message in messages]
        if shown.summary is None or whole:
            return talk
        return [{"role": "user", "content": fence.fenced(fence.background(shown.summary))}, *talk]

    async def topic_history(
        self, conversation: str, *, topic: str | None = None, include_archived: bool = True
    ) -> list[Message]:
        """Every message of the active topic, or of another, in the order of the log."""
        if not isinstance(include_archived, bool):
            raise InvalidInput("invalid_include_archived", "`include_archived` is true or false.")
        found = await self._topic(conversation, topic)
        if found is None:
            return []
        hot = not include_archived and self._shown(*found).archived_messages > 0
        return await self._store.topics.members(self._principal, *found, hot=hot)

    async def topic_stats(self, conversation: str, *, topic: str | None = None) -> TopicStats | None:
        """Document C's figures of the active topic, or of another."""
        found = await self._topic(conversation, topic)
        return None if found is None else topics.stats_of(self._shown(*found), self._clock.now())

    async def topic_decay(
        self, topic: str, *, days: float | None = None, points: int = 60
    ) -> list[tuple[datetime, float]]:
        """How its priority falls from when it was last spoken of, if nobody speaks of it again: moments and values."""
        arguments.number(points, "points", least=2, needed=True)
        if days is not None and (
            isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= 100_000
        ):
            raise InvalidInput("invalid_days", "`days` is a number above 0.")
        return topics.decay_curve(self._shown(*await self._found(topic)), days=days, points=min(points, 10_000))

    async def search_topics(self, query: str, *, conversation: str | None = None, limit: int = 5) -> list[TopicHit]:
        """Topics that speak of something, best first, in one conversation or in all of the person's."""
        asked = arguments.query(query)
        if conversation is not None:
            identity(conversation, "conversation")
        arguments.number(limit, "limit", least=0, needed=True)
        await self._ready()
        found = await self._recaller.find(self._principal, asked, conversation=conversation, most=SEARCHED)
        from recollect.recall.recaller import good

        scope, speaks = found.scope, good(found.scores)
        chosen = [one for one in found.ranked if speaks[one]]
        places = {(int(scope.keys[one]), int(scope.seqs[one])): float(found.total[one]) for one in chosen}
        names = {key: row["name"] for key, row in scope.conversations.items()}
        if conversation is not None:
            places = {place: score for place, score in places.items() if names[place[0]] == conversation}
        owners = await self._store.topics.at(self._principal, list(places))
        shown_by: dict[int, Topic] = {}  # by the keys of topics, also of merged ones
        for key in {key for key, _ in owners}:
            standing, groups = await self._store.topics.all(self._principal, names[key]) or (None, [])
            for group in groups if standing is not None else ():
                if standing is not None and not set(group.keys).isdisjoint(owners.values()):
                    shown_by |= dict.fromkeys(group.keys, self._shown(standing, group))
        by_topic: dict[str, tuple[Topic, float, list[tuple[int, int]]]] = {}
        for place, owner in owners.items():
            shown = shown_by.get(owner)
            if shown is not None:
                before = by_topic.get(shown.id, (shown, 0.0, []))
                score = before[1] + places[place] * (AS_WELL if before[2] else 1.0)
                by_topic[shown.id] = (shown, score, [*before[2], place])
        best = sorted(by_topic.values(), key=lambda one: (-one[1], one[0].id))[:limit]
        texts = await self._store.messages_at(self._principal, [place for one in best for place in one[2]])
        return [
            TopicHit(topic, round(score, 4), tuple(texts[one].id for one in said if one in texts))
            for topic, score, said in best
        ]

    async def related_topics(self, conversation: str) -> list[Related]:
        """Pairs of topics that may be one, the nearest first: proposals for `merge_topics`."""
        identity(conversation, "conversation")
        await self._ready()
        pairs = await self._background.placing.related(self._principal, conversation)
        return [Related(self._shown(*one), self._shown(*other), near) for one, other, near in pairs]

    # By hand

    async def merge_topics(self, into: str, topic: str) -> Topic:
        """The second topic becomes part of the first. `unmerge_topic` takes it back."""
        identity(into, "topic")
        identity(topic, "topic")
        await self._ready()
        merged = await self._store.topic_edits.merge(self._principal, into, topic, now=self._clock.now())
        self._background.notify()
        return self._shown(*merged)

    async def unmerge_topic(self, topic: str) -> Topic:
        """A topic that was merged into another stands by itself again, with the messages it had."""
        identity(topic, "topic")
        await self._ready()
        parted = await self._store.topic_edits.unmerge(self._principal, topic)
        self._background.notify()
        return self._shown(*parted)

    async def split_topic(self, topic: str, messages: Sequence[str], *, title: str | None = None) -> Topic:
        """Messages of a topic, by their ids, become a topic of their own."""
        identity(topic, "topic")
        if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
            raise InvalidInput("invalid_messages", "`messages` takes a list of the ids of messages.")
        chosen = [identity(one, "id") for one in messages]
        named = None if title is None else arguments.title(title)
        await self._ready()
        made = await self._store.topic_edits.split(self._principal, topic, chosen, named, now=self._clock.now())
        self._background.notify()
        return self._shown(*made)

    async def tag_topic(self, topic: str, tags: Sequence[str]) -> Topic:
        """Replace the tags of a topic by these."""
        return await self._changed(topic, _tags(tags))

    async def pin_topic(self, topic: str, *, pinned: bool = True) -> Topic:
        """Pin a topic, or unpin it. A pinned topic never leaves, however long nothing is said about it."""
        return await self._changed(topic, _pinned(pinned))

    async def rename_topic(self, topic: str, title: str) -> Topic:
        """Give a topic a title."""
        return await self._changed(topic, _title(title))

    async def weigh_topic(self, topic: str, importance: float) -> Topic:
        """Set how important a topic is, from 0 to 1. A less important topic fades sooner."""
        return await self._changed(topic, _importance(importance))

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
            raise InvalidInput(
                "invalid_state", "`state` is `warm` (bring the topic back) or `cold` (archive it)."
            )
        changes: dict[str, JsonObject] = {}
        if title is not None:
            changes |= _title(title)
        if tags is not None:
            changes |= _tags(tags)
        if pinned is not None:
            changes |= _pinned(pinned)
        if importance is not None:
            changes |= _importance(importance)
        if state is not None:
            changes |= _ARCHIVE if state == "cold" else self._restore()
        return await self._changed(topic, changes)

    async def archive_topic(self, topic: str) -> Topic:
        """Let a topic rest now, whatever its priority: it leaves into the archive until it is spoken of again."""
        return await self._changed(topic, _ARCHIVE)

    async def restore_topic(self, topic: str) -> Topic:
        """Bring a topic back, with all its messages at hand, as if it had been spoken of now."""
        return await self._changed(topic, self._restore())

    def _restore(self) -> dict[str, JsonObject]:
        return {"restore": {"now": times.to_micros(self._clock.now())}}

    async def feedback(
        self, message: str, value: float, *, kind: str = "thumb", conversation: str | None = None
    ) -> None:
        """What became of a message: +1 or -1 (0 takes it back), by a thumb, or because it was used in an answer,
        edited or deleted. Its topic's importance follows; what is praised also lasts longer."""
        identity(message, "id")
        if conversation is not None:
            identity(conversation, "conversation")
        if not isinstance(kind, str) or kind not in topics.FEEDBACK:
            raise InvalidInput("invalid_feedback", f"`kind` is one of {', '.join(topics.FEEDBACK)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
            raise InvalidInput("invalid_feedback", "`value` is a number from -1 to 1.")
        await self._ready()
        await self._store.topic_edits.feedback(
            self._principal, message, conversation, kind, float(value), now=self._clock.now()
        )

    async def _changed(self, topic: str, changes: Mapping[str, JsonObject]) -> Topic:
        identity(topic, "topic")
        await self._ready()
        changed = await self._store.topic_edits.change(self._principal, topic, changes)
        self._background.notify()
        return self._shown(*changed)

    async def _found(self, topic: str) -> tuple[Standing, Group]:
        identity(topic, "topic")
        await self._ready()
        return await self._store.topics.find(self._principal, topic)

    async def _topic(self, conversation: str, topic: str | None) -> tuple[Standing, Group] | None:
        """The topic of this id in the conversation, or the active one."""
        identity(conversation, "conversation")
        if topic is not None:
            found = await self._found(topic)
            if found[0].conversation != conversation:
                raise NotFound("topic_not_found", f"This conversation has no topic {topic[:80]!r}.")
            return found
        await self._ready()
        known = await self._store.topics.all(self._principal, conversation)
        if known is None:
            return None
        standing, groups = known
        active = next((one for one in groups if standing.is_active(one)), None)
        return None if active is None else (standing, active)

    def _shown(self, standing: Standing, group: Group) -> Topic:
        how = aging(self._current.now)
        return topics.to_topic(group, standing.conversation, active=standing.active, now=self._clock.now(), aging=how)


# Changes of a topic, checked before anything is written. Each names what is changed and the values to store.

_ARCHIVE: Final[Mapping[str, JsonObject]] = {"archive": {}}


def _title(title: str) -> dict[str, JsonObject]:
    checked = arguments.title(title)
    if not checked.strip():
        raise InvalidInput("invalid_title", "The title of a topic must not be blank.")
    return {"title": {"title": checked, "named": 1}}


def _tags(tags: Sequence[str]) -> dict[str, JsonObject]:
    return {"tags": {"tags": to_json(arguments.tags(tags))}}


def _pinned(pinned: bool) -> dict[str, JsonObject]:
    if not isinstance(pinned, bool):
        raise InvalidInput("invalid_pinned", "`pinned` is true or false.")
    return {"pinned": {"pinned": int(pinned)}}


def _importance(importance: float) -> dict[str, JsonObject]:
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance <= 1:
        raise InvalidInput("invalid_importance", "Importance is a number from 0 to 1.")
    return {"importance": {"importance": float(importance)}}
