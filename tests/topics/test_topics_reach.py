"""What an erased topic takes along, and who may see a topic at all."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from recollect import Conflict, Memory, NotFound, ProviderUnavailable
from recollect.core.topics import from_stored
from support.tables import ask
from support.talks import SMALL, Directions, Open, adds_up, chat, members, opened, say, states, topic_of, two


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return opened(open_memory)


COUNTED = {"messages": "messages", "entries": "entries", "vectors": "vectors", "token_counts": "message_tokens",
           "archived": "archived", "topics": "topics", "topic_messages": "topic_messages",
           "feedback": "feedback"}  # fmt: skip


def rows(location: str) -> dict[str, int]:
    questions = {name: f"SELECT count(*) FROM {table}" for name, table in COUNTED.items()}  # noqa: S608 - as above
    return {name: ask(location, question)[0][0] for name, question in questions.items()}


def test_an_erased_topic_takes_its_messages_and_nothing_else(open_memory: Open, location: str) -> None:
    memory = opened(open_memory, **SMALL)
    for n in range(1, 5):
        chat(memory, 1, 1, first=n)
        say(memory, 2, f"secretword{n} is what I say")
        memory.drain()
    say(memory, 1, "and this is the last", to="other")
    memory.drain()
    memory.feedback(topic_history_ids(memory, 2)[0], 1)
    kept = [m for m in memory.history("trip") if "secretword" not in m.content]
    before, topic = rows(location), topic_of(memory, 2)
    assert topic.archived_messages == 0
    receipt = memory.erase(topic=topic.id)
    after = rows(location)
    assert {name: receipt.counts[name] for name in COUNTED} == {name: before[name] - after[name] for name in COUNTED}
    assert (receipt.counts["messages"], receipt.counts["topics"], receipt.counts["feedback"]) == (4, 1, 1)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.history("trip") == kept
    assert states(memory) == {"1": "warm"} or states(memory) == {"1": "archived"}
    assert not any("secretword" in one.text for one in memory.recall("secretword2"))
    with pytest.raises(NotFound):
        memory.erase(topic=topic.id)
    memory.drain()
    adds_up(memory)
    assert len(memory.history("other")) == 1
    assert all(finding.state == "ok" for finding in memory.check())


def topic_history_ids(memory: Memory, marker: int) -> list[str]:
    return [m.id for m in memory.topic_history("trip", topic=topic_of(memory, marker).id)]


@pytest.mark.parametrize("merged", [False, True])
def test_an_erased_topic_leaves_nothing_in_the_archive(open_memory: Open, location: str, merged: bool) -> None:
    memory = opened(open_memory, **SMALL)
    say(memory, 9, "this is how it all began")
    ids = [say(memory, 1, f"secretword{n} is what I say") for n in range(8)]
    chat(memory, 2, 4)
    memory.drain()
    one, other = topic_of(memory, 1), topic_of(memory, 2)
    assert (one.archived_messages, other.archived_messages) == (6, 6)
    if merged:
        say(memory, 3)
        memory.drain()
        whole = memory.merge_topics(topic_of(memory, 3).id, one.id).id
        memory.drain()
        with pytest.raises(Conflict, match=whole):  # a part of something larger
            memory.erase(topic=one.id)
    before = rows(location)
    receipt = memory.erase(topic=whole if merged else one.id)
    after = rows(location)
    assert {name: receipt.counts[name] for name in COUNTED} == {name: before[name] - after[name] for name in COUNTED}
    memory.drain()
    assert not set(ids) & {m.id for m in memory.history("trip")}
    assert len(memory.topics("trip")) == 2
    told = json.dumps([topic.to_dict() for topic in memory.topics("trip")], default=str)
    assert "secretword" not in told
    adds_up(memory)
    chat(memory, 2, 1)
    memory.drain()
    assert [m.content for m in memory.topic_history("trip")][:8] == [m.content for m in memory.history("trip")][1:9]


def test_an_erased_message_is_not_told_by_the_topic_it_was_merged_into(memory: Memory, location: str) -> None:
    chat(memory, 1, 4)
    for n in range(6):
        say(memory, 2, f"My piano teacher is called Ingrid{n} and I pay {n}00 euros.", id=f"b{n}")
    chat(memory, 1, 2, first=5)
    memory.drain()
    memory.merge_topics(topic_of(memory, 1).id, topic_of(memory, 2).id)
    memory.drain()
    summary = topic_of(memory, 1).summary or ""
    told = [n for n in range(6) if f"Ingrid{n}" in summary]
    assert told
    memory.erase(message=f"b{told[0]}")
    assert f"Ingrid{told[0]}" not in (topic_of(memory, 1).summary or "")
    stored = [bytes(one) for (one,) in ask(location, "SELECT summary FROM topics WHERE summary IS NOT NULL")]
    assert not [one for some in stored for one in from_stored(some) if f"Ingrid{told[0]}" in one.text]
    memory.drain()
    assert f"Ingrid{told[0]}" not in (topic_of(memory, 1).summary or "")


def test_an_erased_opening_gives_its_topic_another_title(memory: Memory) -> None:
    topic, _ = two(memory)
    memory.erase(message=members(memory)[topic][0])
    memory.drain()
    found = next(one for one in memory.topics("trip") if one.id == topic)
    assert (found.title, found.messages) == ("#1 question number 2 of this matter", 3)
    assert "number 1 of" not in json.dumps([one.to_dict() for one in memory.topics("trip")][1:], default=str)


def test_the_talk_goes_on_after_its_topic_was_erased(memory: Memory) -> None:
    _, active = two(memory)
    memory.erase(topic=active)
    assert memory.topic_context("trip") == []
    assert memory.topic_stats("trip") is None
    chat(memory, 1, 1)
    chat(memory, 2, 1)
    memory.drain()
    assert [topic_of(memory, n).messages for n in (1, 2)] == [6, 2]
    adds_up(memory)


def test_an_erased_message_is_not_the_title_of_a_topic_that_it_opened_for_a_while(memory: Memory) -> None:
    """The first message goes, so another gives the title; that one is split off, and erased there."""
    first = say(memory, 1, "how do I feed my sourdough")
    memory.add("trip", "assistant", "#1 with flour and water every day")
    secret = say(memory, 1, "my secretword diagnosis is this")
    memory.add("trip", "assistant", "#1 I am sorry to hear of that")
    memory.drain()
    (topic,) = memory.topics("trip")
    memory.erase(message=first)
    memory.drain()
    assert "secretword" in memory.topic(topic.id).title
    receipt = memory.erase(topic=memory.split_topic(topic.id, [secret]).id)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.topic(topic.id).title == "#1 with flour and water every day"


def test_an_erase_takes_nothing_from_topics_that_wait_for_their_messages(open_memory: Open) -> None:
    embedder = Directions()
    memory = opened(open_memory, embedder=embedder)
    topic, _ = two(memory)
    opening = members(memory)[topic][0]
    memory.rename_topic(topic, "Andalusia")
    memory.tag_topic(topic, ["travel"])
    memory.pin_topic(topic)
    other = say(memory, 5)
    memory.drain()
    memory.pin_topic(topic_of(memory, 5).id)
    embedder.failure = ProviderUnavailable("embedder_down", "away")
    memory.rebuild()
    assert memory.erase(message=members_of_log(memory)[-2]).counts["topics"] == 0
    assert memory.erase(message=other).counts["topics"] == 1  # nothing is left that it could open
    embedder.failure = None
    memory.drain()
    found = memory.topic(topic)
    assert (found.title, found.tags, found.pinned) == ("Andalusia", ("travel",), True)
    assert members(memory)[topic][0] == opening
    assert not [one for one in memory.topics("trip") if one.title.startswith("#5")]
    adds_up(memory)


def members_of_log(memory: Memory) -> list[str]:
    return [one.id for one in memory.history("trip")]


@pytest.mark.parametrize("how", ["split", "erase"])
def test_a_merged_topic_keeps_its_name_when_all_of_its_own_messages_leave(memory: Memory, how: str) -> None:
    topic, part = two(memory)
    own, others = members(memory)[topic], members(memory)[part]
    say(memory, 3, to="trip")
    memory.drain()
    memory.merge_topics(topic, part)
    memory.rename_topic(topic, "Granada")
    memory.pin_topic(topic)
    memory.tag_topic(topic, ["travel"])
    if how == "split":
        memory.split_topic(topic, own)
    for message in own:
        memory.erase(message=message)
    memory.drain()
    found = memory.topic(topic)
    assert (found.title, found.pinned, found.tags, found.messages) == ("Granada", True, ("travel",), len(others))
    assert members(memory)[topic] == others
    with pytest.raises(NotFound):
        memory.topic(part)
    adds_up(memory)


def test_what_was_merged_stays_so_when_a_topic_in_between_is_erased(memory: Memory) -> None:
    for marker in (1, 2, 3):
        chat(memory, marker)
    memory.drain()
    first, middle, last = (topic_of(memory, marker).id for marker in (1, 2, 3))
    between = members(memory)[middle]
    memory.merge_topics(middle, last)
    memory.merge_topics(first, middle)
    for message in between:
        memory.erase(message=message)
    assert [(one.id, one.merged, one.messages) for one in memory.topics("trip")] == [(first, (last,), 4)]
    assert memory.unmerge_topic(last).messages == 2
    adds_up(memory)


# What others may see


BY_TOPIC: dict[str, Callable[[Memory, str], object]] = {
    "topic_context": lambda memory, topic: memory.topic_context("trip", topic=topic),
    "topic_history": lambda memory, topic: memory.topic_history("trip", topic=topic),
    "topic_history at hand": lambda memory, topic: memory.topic_history("trip", topic=topic, include_archived=False),
    "topic_stats": lambda memory, topic: memory.topic_stats("trip", topic=topic),
    "topic_decay": lambda memory, topic: memory.topic_decay(topic),
    "merge_topics into": lambda memory, topic: memory.merge_topics(topic, topic_of(memory, 1).id),
    "merge_topics from": lambda memory, topic: memory.merge_topics(topic_of(memory, 1).id, topic),
    "unmerge_topic": lambda memory, topic: memory.unmerge_topic(topic),
    "split_topic": lambda memory, topic: memory.split_topic(topic, ["theirs"]),
    "tag_topic": lambda memory, topic: memory.tag_topic(topic, ["x"]),
    "pin_topic": lambda memory, topic: memory.pin_topic(topic),
    "rename_topic": lambda memory, topic: memory.rename_topic(topic, "x"),
    "weigh_topic": lambda memory, topic: memory.weigh_topic(topic, 0.1),
    "archive_topic": lambda memory, topic: memory.archive_topic(topic),
    "restore_topic": lambda memory, topic: memory.restore_topic(topic),
    "erase": lambda memory, topic: memory.erase(topic=topic),
}


@pytest.mark.parametrize("call", BY_TOPIC.values(), ids=BY_TOPIC)
def test_a_topic_of_somebody_else_is_not_there(open_memory: Open, call: Callable[[Memory, str], object]) -> None:
    sara, omar = opened(open_memory, person="sara"), opened(open_memory, person="omar")
    for memory in (sara, omar):
        say(memory, 1, "something of my own")
    say(sara, 2, "the canary sings at dawn", id="theirs")
    sara.add("trip", "assistant", "#2 what a nice canary")
    sara.drain()
    before, foreign = sara.topics("trip"), topic_of(sara, 2).id
    told = []
    for name in (foreign, "t-000000000000000000000000", "nowhere"):
        with pytest.raises(NotFound) as caught:
            call(omar, name)
        assert "canary" not in str(caught.value)
        told.append((caught.value.code, str(caught.value).replace(name, "")))
    assert len(set(told)) == 1  # not even that it exists
    assert sara.topics("trip") == before
    with pytest.raises(NotFound):
        omar.feedback("theirs", 1)


def test_two_people_with_a_conversation_of_the_same_name_have_topics_of_their_own(open_memory: Open) -> None:
    sara, omar = opened(open_memory, person="sara"), opened(open_memory, person="omar")
    chat(sara, 1, 2)
    say(sara, 2, "the canary sings at dawn")
    sara.drain()
    assert (omar.topics("trip"), omar.topic_history("trip"), omar.topic_context("trip")) == ([], [], [])
    assert (omar.topic_stats("trip"), omar.related_topics("trip"), omar.search_topics("canary")) == (None, [], [])
    assert omar.search_topics("canary", conversation="trip") == []
    say(omar, 1)
    omar.drain()
    assert [one.messages for one in omar.topics("trip")] == [1]
    assert topic_of(sara, 1).messages == 4
    assert topic_of(omar, 1).id != topic_of(sara, 1).id
    assert [one.topic.id for one in omar.search_topics("canary")] in ([], [topic_of(omar, 1).id])


def test_a_topic_is_not_in_another_conversation(memory: Memory) -> None:
    topic, _ = two(memory)
    say(memory, 1, to="elsewhere")
    memory.drain()
    for call in (memory.topic_context, memory.topic_history, memory.topic_stats):
        with pytest.raises(NotFound):
            call("elsewhere", topic=topic)


def test_a_conversation_without_topics_yet_has_none(memory: Memory) -> None:
    assert memory.topics("nowhere") == []
    say(memory, 1)
    assert (memory.topics("trip"), memory.topic_history("trip"), memory.topic_context("trip")) == ([], [], [])
    assert memory.topic_stats("trip") is None
