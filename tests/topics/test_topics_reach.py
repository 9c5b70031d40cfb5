"""Erasing topics and messages of topics; and topics of another person, which cannot be seen."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from recollect import Conflict, Memory, NotFound, ProviderUnavailable
from recollect.storage.topic_summary import unpack_statements
from support.tables import ask
from support.talks import (
    SMALL_TOPICS,
    MarkerEmbedder,
    OpenMemory,
    add_message,
    add_turns,
    add_two_topics,
    check_assignment,
    message_ids_by_topic,
    open_for_topics,
    states_by_marker,
    topic_of_marker,
)


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_for_topics(open_memory)


COUNTED = {"messages": "messages", "entries": "entries", "vectors": "vectors", "token_counts": "message_tokens",
           "archived": "archived", "topics": "topics", "topic_messages": "topic_messages",
           "feedback": "feedback"}  # fmt: skip


def count_rows(location: str) -> dict[str, int]:
    questions = {name: f"SELECT count(*) FROM {table}" for name, table in COUNTED.items()}  # noqa: S608 - as above
    return {name: ask(location, question)[0][0] for name, question in questions.items()}


def test_an_erased_topic_takes_its_messages_and_nothing_else_along(open_memory: OpenMemory, location: str) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    for n in range(1, 5):
        add_turns(memory, 1, 1, first=n)
        add_message(memory, 2, f"secretword{n} is what I say")
        memory.drain()
    add_message(memory, 1, "and this is the last", to="other")
    memory.drain()
    memory.feedback(topic_history_ids(memory, 2)[0], 1)
    kept = [m for m in memory.history("trip") if "secretword" not in m.content]
    before, topic = count_rows(location), topic_of_marker(memory, 2)
    assert topic.archived_messages == 0
    receipt = memory.erase(topic=topic.id)
    after = count_rows(location)
    assert {name: receipt.counts[name] for name in COUNTED} == {name: before[name] - after[name] for name in COUNTED}
    assert (receipt.counts["messages"], receipt.counts["topics"], receipt.counts["feedback"]) == (4, 1, 1)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.history("trip") == kept
    assert states_by_marker(memory) == {"1": "warm"} or states_by_marker(memory) == {"1": "archived"}
    assert not any("secretword" in hit.text for hit in memory.recall("secretword2"))
    with pytest.raises(NotFound):
        memory.erase(topic=topic.id)
    memory.drain()
    check_assignment(memory)
    assert len(memory.history("other")) == 1
    assert all(finding.state == "ok" for finding in memory.check())


def topic_history_ids(memory: Memory, marker: int) -> list[str]:
    return [m.id for m in memory.topic_history("trip", topic=topic_of_marker(memory, marker).id)]


@pytest.mark.parametrize("merged", [False, True])
def test_an_erased_topic_leaves_nothing_in_the_archive(open_memory: OpenMemory, location: str, merged: bool) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_message(memory, 9, "this is how it all began")
    ids = [add_message(memory, 1, f"secretword{n} is what I say") for n in range(8)]
    add_turns(memory, 2, 4)
    memory.drain()
    one, other = topic_of_marker(memory, 1), topic_of_marker(memory, 2)
    assert (one.archived_messages, other.archived_messages) == (6, 6)
    if merged:
        add_message(memory, 3)
        memory.drain()
        whole = memory.merge_topics(topic_of_marker(memory, 3).id, one.id).id
        memory.drain()
        with pytest.raises(Conflict, match=whole):  # a part of something larger
            memory.erase(topic=one.id)
    before = count_rows(location)
    receipt = memory.erase(topic=whole if merged else one.id)
    after = count_rows(location)
    assert {name: receipt.counts[name] for name in COUNTED} == {name: before[name] - after[name] for name in COUNTED}
    memory.drain()
    assert not set(ids) & {m.id for m in memory.history("trip")}
    assert len(memory.topics("trip")) == 2
    told = json.dumps([topic.to_dict() for topic in memory.topics("trip")], default=str)
    assert "secretword" not in told
    check_assignment(memory)
    add_turns(memory, 2, 1)
    memory.drain()
    assert [m.content for m in memory.topic_history("trip")][:8] == [m.content for m in memory.history("trip")][1:9]


def test_the_summary_of_a_merged_topic_has_nothing_of_an_erased_message(memory: Memory, location: str) -> None:
    add_turns(memory, 1, 4)
    for n in range(6):
        add_message(memory, 2, f"My piano teacher is called Ingrid{n} and I pay {n}00 euros.", id=f"b{n}")
    add_turns(memory, 1, 2, first=5)
    memory.drain()
    memory.merge_topics(topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id)
    memory.drain()
    summary = topic_of_marker(memory, 1).summary or ""
    told = [n for n in range(6) if f"Ingrid{n}" in summary]
    assert told
    memory.erase(message=f"b{told[0]}")
    assert f"Ingrid{told[0]}" not in (topic_of_marker(memory, 1).summary or "")
    stored = [bytes(summary) for (summary,) in ask(location, "SELECT summary FROM topics WHERE summary IS NOT NULL")]
    assert not [
        statement for some in stored for statement in unpack_statements(some) if f"Ingrid{told[0]}" in statement.text
    ]
    memory.drain()
    assert f"Ingrid{told[0]}" not in (topic_of_marker(memory, 1).summary or "")


def test_a_topic_whose_opening_message_is_erased_gets_another_title(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    memory.erase(message=message_ids_by_topic(memory)[topic][0])
    memory.drain()
    found = next(each for each in memory.topics("trip") if each.id == topic)
    assert (found.title, found.messages) == ("#1 question number 2 of this matter", 3)
    assert "number 1 of" not in json.dumps([topic.to_dict() for topic in memory.topics("trip")][1:], default=str)


def test_messages_are_assigned_after_the_active_topic_was_erased(memory: Memory) -> None:
    _, active = add_two_topics(memory)
    memory.erase(topic=active)
    assert memory.topic_context("trip") == []
    assert memory.topic_stats("trip") is None
    add_turns(memory, 1, 1)
    add_turns(memory, 2, 1)
    memory.drain()
    assert [topic_of_marker(memory, n).messages for n in (1, 2)] == [6, 2]
    check_assignment(memory)


def test_an_erased_message_is_not_the_title_of_a_topic_that_it_opened_for_a_while(memory: Memory) -> None:
    """The first message goes, so another gives the title; that one is split off, and erased there."""
    first = add_message(memory, 1, "how do I feed my sourdough")
    memory.add("trip", "assistant", "#1 with flour and water every day")
    secret = add_message(memory, 1, "my secretword diagnosis is this")
    memory.add("trip", "assistant", "#1 I am sorry to hear of that")
    memory.drain()
    (topic,) = memory.topics("trip")
    memory.erase(message=first)
    memory.drain()
    assert "secretword" in memory.topic(topic.id).title
    receipt = memory.erase(topic=memory.split_topic(topic.id, [secret]).id)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.topic(topic.id).title == "#1 with flour and water every day"


def test_an_erase_takes_nothing_from_topics_that_await_their_messages(open_memory: OpenMemory) -> None:
    embedder = MarkerEmbedder()
    memory = open_for_topics(open_memory, embedder=embedder)
    topic, _ = add_two_topics(memory)
    opening = message_ids_by_topic(memory)[topic][0]
    memory.rename_topic(topic, "Andalusia")
    memory.tag_topic(topic, ["travel"])
    memory.pin_topic(topic)
    other = add_message(memory, 5)
    memory.drain()
    memory.pin_topic(topic_of_marker(memory, 5).id)
    embedder.failure = ProviderUnavailable("embedder_down", "away")
    memory.rebuild()
    assert memory.erase(message=message_ids(memory)[-2]).counts["topics"] == 0
    assert memory.erase(message=other).counts["topics"] == 1  # nothing is left that it could open
    embedder.failure = None
    memory.drain()
    found = memory.topic(topic)
    assert (found.title, found.tags, found.pinned) == ("Andalusia", ("travel",), True)
    assert message_ids_by_topic(memory)[topic][0] == opening
    assert not [topic for topic in memory.topics("trip") if topic.title.startswith("#5")]
    check_assignment(memory)


def message_ids(memory: Memory) -> list[str]:
    return [message.id for message in memory.history("trip")]


@pytest.mark.parametrize("how", ["split", "erase"])
def test_a_merged_topic_keeps_its_name_when_all_of_its_own_messages_leave(memory: Memory, how: str) -> None:
    topic, part = add_two_topics(memory)
    own, others = message_ids_by_topic(memory)[topic], message_ids_by_topic(memory)[part]
    add_message(memory, 3, to="trip")
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
    assert message_ids_by_topic(memory)[topic] == others
    with pytest.raises(NotFound):
        memory.topic(part)
    check_assignment(memory)


def test_topics_stay_merged_when_a_topic_in_between_is_erased(memory: Memory) -> None:
    for marker in (1, 2, 3):
        add_turns(memory, marker)
    memory.drain()
    first, middle, last = (topic_of_marker(memory, marker).id for marker in (1, 2, 3))
    between = message_ids_by_topic(memory)[middle]
    memory.merge_topics(middle, last)
    memory.merge_topics(first, middle)
    for message in between:
        memory.erase(message=message)
    assert [(topic.id, topic.merged, topic.messages) for topic in memory.topics("trip")] == [(first, (last,), 4)]
    assert memory.unmerge_topic(last).messages == 2
    check_assignment(memory)


# Topics of other people


BY_TOPIC: dict[str, Callable[[Memory, str], object]] = {
    "topic_context": lambda memory, topic: memory.topic_context("trip", topic=topic),
    "topic_history": lambda memory, topic: memory.topic_history("trip", topic=topic),
    "topic_history without the archive": lambda memory, topic: memory.topic_history(
        "trip", topic=topic, include_archived=False
    ),
    "topic_stats": lambda memory, topic: memory.topic_stats("trip", topic=topic),
    "topic_decay": lambda memory, topic: memory.topic_decay(topic),
    "merge_topics into": lambda memory, topic: memory.merge_topics(topic, topic_of_marker(memory, 1).id),
    "merge_topics from": lambda memory, topic: memory.merge_topics(topic_of_marker(memory, 1).id, topic),
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
def test_a_topic_of_another_person_is_not_found(open_memory: OpenMemory, call: Callable[[Memory, str], object]) -> None:
    sara, omar = open_for_topics(open_memory, person="sara"), open_for_topics(open_memory, person="omar")
    for memory in (sara, omar):
        add_message(memory, 1, "something of my own")
    add_message(sara, 2, "the canary sings at dawn", id="theirs")
    sara.add("trip", "assistant", "#2 what a nice canary")
    sara.drain()
    before, foreign = sara.topics("trip"), topic_of_marker(sara, 2).id
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


def test_two_people_with_a_conversation_of_the_same_name_have_topics_of_their_own(open_memory: OpenMemory) -> None:
    sara, omar = open_for_topics(open_memory, person="sara"), open_for_topics(open_memory, person="omar")
    add_turns(sara, 1, 2)
    add_message(sara, 2, "the canary sings at dawn")
    sara.drain()
    assert (omar.topics("trip"), omar.topic_history("trip"), omar.topic_context("trip")) == ([], [], [])
    assert (omar.topic_stats("trip"), omar.related_topics("trip"), omar.search_topics("canary")) == (None, [], [])
    assert omar.search_topics("canary", conversation="trip") == []
    add_message(omar, 1)
    omar.drain()
    assert [topic.messages for topic in omar.topics("trip")] == [1]
    assert topic_of_marker(sara, 1).messages == 4
    assert topic_of_marker(omar, 1).id != topic_of_marker(sara, 1).id
    assert [hit.topic.id for hit in omar.search_topics("canary")] in ([], [topic_of_marker(omar, 1).id])


def test_a_topic_is_not_in_another_conversation(memory: Memory) -> None:
    topic, _ = add_two_topics(memory)
    add_message(memory, 1, to="elsewhere")
    memory.drain()
    for call in (memory.topic_context, memory.topic_history, memory.topic_stats):
        with pytest.raises(NotFound):
            call("elsewhere", topic=topic)


def test_a_conversation_without_topics_gives_empty_results(memory: Memory) -> None:
    assert memory.topics("nowhere") == []
    add_message(memory, 1)
    assert (memory.topics("trip"), memory.topic_history("trip"), memory.topic_context("trip")) == ([], [], [])
    assert memory.topic_stats("trip") is None
