"""Wrong arguments of all calls about topics are refused with a typed error and change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from recollect import InvalidInput, Memory
from recollect.core.message import Message
from recollect.storage.topic_edits import TopicEdits
from support.talks import OpenMemory, add_message, open_for_topics


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_for_topics(open_memory)


Call = Callable[[Memory, str, Any], object]
NAMES: dict[str, Call] = {
    "topics": lambda memory, topic, wrong: memory.topics(wrong),
    "topic_context": lambda memory, topic, wrong: memory.topic_context(wrong),
    "topic_history": lambda memory, topic, wrong: memory.topic_history(wrong),
    "topic_stats": lambda memory, topic, wrong: memory.topic_stats(wrong),
    "related_topics": lambda memory, topic, wrong: memory.related_topics(wrong),
    "topic_decay": lambda memory, topic, wrong: memory.topic_decay(wrong),
    "merge_topics into": lambda memory, topic, wrong: memory.merge_topics(wrong, topic),
    "merge_topics": lambda memory, topic, wrong: memory.merge_topics(topic, wrong),
    "unmerge_topic": lambda memory, topic, wrong: memory.unmerge_topic(wrong),
    "split_topic": lambda memory, topic, wrong: memory.split_topic(wrong, ["m"]),
    "split_topic, one message": lambda memory, topic, wrong: memory.split_topic(topic, [wrong]),
    "tag_topic": lambda memory, topic, wrong: memory.tag_topic(wrong, []),
    "tag_topic, one tag": lambda memory, topic, wrong: memory.tag_topic(topic, [wrong]),
    "pin_topic": lambda memory, topic, wrong: memory.pin_topic(wrong),
    "rename_topic": lambda memory, topic, wrong: memory.rename_topic(wrong, "x"),
    "weigh_topic": lambda memory, topic, wrong: memory.weigh_topic(wrong, 1),
    "archive_topic": lambda memory, topic, wrong: memory.archive_topic(wrong),
    "restore_topic": lambda memory, topic, wrong: memory.restore_topic(wrong),
    "feedback": lambda memory, topic, wrong: memory.feedback(wrong, 1),
}
OPTIONAL_NAMES: dict[str, Call] = {
    "topic_context, topic": lambda memory, topic, wrong: memory.topic_context("trip", topic=wrong),
    "topic_history, topic": lambda memory, topic, wrong: memory.topic_history("trip", topic=wrong),
    "topic_stats, topic": lambda memory, topic, wrong: memory.topic_stats("trip", topic=wrong),
    "search_topics, conversation": lambda memory, topic, wrong: memory.search_topics("x", conversation=wrong),
    "feedback, conversation": lambda memory, topic, wrong: memory.feedback("m", 1, conversation=wrong),
    "erase, topic": lambda memory, topic, wrong: memory.erase(topic=wrong),
}
VALUES: dict[str, tuple[Call, list[Any]]] = {
    "search_topics": (lambda memory, topic, wrong: memory.search_topics(wrong), [None, 5, b"x", ["x"], {}]),
    "search_topics, limit": (
        lambda memory, topic, wrong: memory.search_topics("x", limit=wrong), [None, "5", 1.5, -1, True, [1], math.nan]
    ),
    "topic_decay, days": (
        lambda memory, topic, wrong: memory.topic_decay(topic, days=wrong),
        ["1", 0, -1, math.nan, math.inf, [1], True, 10**400],
    ),
    "topic_decay, points": (
        lambda memory, topic, wrong: memory.topic_decay(topic, points=wrong), [None, "5", 1, 2.5, True, [5]]
    ),
    "split_topic, messages": (
        lambda memory, topic, wrong: memory.split_topic(topic, wrong), ["m", None, 5, True, [], [5], [["m"]], b"m"]
    ),
    "split_topic, title": (
        lambda memory, topic, wrong: memory.split_topic(topic, ["m"], title=wrong), [5, b"x", ["x"], "x" * 501]
    ),
    "tag_topic, tags": (
        lambda memory, topic, wrong: memory.tag_topic(topic, wrong), ["x", None, 5, True, [None], [["x"]], b"x", ["\0"]]
    ),
    "pin_topic, pinned": (lambda memory, topic, wrong: memory.pin_topic(topic, pinned=wrong), ["no", None, 2, [False]]),
    "rename_topic, title": (
        lambda memory, topic, wrong: memory.rename_topic(topic, wrong), [None, 5, b"x", ["x"], "x" * 501]
    ),
    "weigh_topic, importance": (
        lambda memory, topic, wrong: memory.weigh_topic(topic, wrong),
        [None, "1", True, -0.1, 1.1, math.nan, math.inf, [1], 1j],
    ),
    "feedback, value": (
        lambda memory, topic, wrong: memory.feedback("m", wrong), [None, "1", True, 1.1, math.nan, [1], 1j]
    ),
    "feedback, kind": (
        lambda memory, topic, wrong: memory.feedback("m", 1, kind=wrong), [None, "liked", 5, True, [], {}, ["thumb"]]
    ),
    "topic_history, include_archived": (
        lambda memory, topic, wrong: memory.topic_history("trip", include_archived=wrong), ["no", None, 2, [False]]
    ),
}  # fmt: skip
WRONG_NAMES = [5, 1.5, True, b"trip", ["trip"], {"a": 1}, "", "  ", "x\0y", "x" * 201, "\ud800"]


def assert_refused(memory: Memory, call: Call, wrong: list[Any]) -> None:
    """Assert that each value is refused with InvalidInput, and that nothing is changed."""
    add_message(memory, 1, "this is the only message", id="m")
    memory.drain()
    before, said = memory.topics("trip"), memory.history("trip")
    outcomes = {}
    for value in wrong:
        try:
            outcomes[repr(value)[:40]] = f"accepted: {call(memory, before[0].id, value)!r}"[:80]
        except InvalidInput:
            pass
        except Exception as error:  # noqa: BLE001 - reported below
            outcomes[repr(value)[:40]] = repr(error)
    assert outcomes == {}
    assert memory.topics("trip") == before
    assert memory.history("trip") == said


@pytest.mark.parametrize("call", [*NAMES.values(), *OPTIONAL_NAMES.values()], ids=[*NAMES, *OPTIONAL_NAMES])
def test_an_invalid_name_or_id_is_refused(memory: Memory, call: Call) -> None:
    assert_refused(memory, call, [*WRONG_NAMES, *([None] if call in NAMES.values() else [])])


@pytest.mark.parametrize(("call", "wrong"), VALUES.values(), ids=VALUES)
def test_a_value_of_a_wrong_kind_is_refused(memory: Memory, call: Call, wrong: list[Any]) -> None:
    assert_refused(memory, call, wrong)


def test_a_message_with_an_invalid_importance_is_refused(memory: Memory) -> None:
    for wrong in ("1", True, -0.1, 1.1, math.nan, [1]):
        with pytest.raises(InvalidInput):
            add_message(memory, 1, importance=wrong)
    assert memory.history("trip") == list[Message]()


@pytest.mark.parametrize(
    "wrong",
    [{"title": " "}, {"tags": "no list"}, {"pinned": 1}, {"importance": 2}, {"state": "frozen"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_change_of_several_things_is_refused_as_a_whole(memory: Memory, wrong: dict[str, Any]) -> None:
    add_message(memory, 1)
    memory.drain()
    before = memory.topics("trip")[0]
    right = {"title": "Andalusia", "tags": ["travel"], "pinned": True, "importance": 0.5, "state": "cold"}
    with pytest.raises(InvalidInput):
        memory.change_topic(before.id, **right | wrong)  # type: ignore[arg-type]
    assert memory.topics("trip")[0] == before


def test_a_change_of_several_things_is_one_transaction(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    add_message(memory, 1)
    memory.drain()
    topic = memory.topics("trip")[0].id
    changes: list[Any] = []
    original = TopicEdits.change

    async def counted(self: TopicEdits, *args: Any) -> Any:
        changes.append(args[-1])
        return await original(self, *args)

    monkeypatch.setattr(TopicEdits, "change", counted)
    changed = memory.change_topic(topic, title="Andalusia", tags=["travel"], pinned=True, importance=0.5, state="cold")
    assert (changed.title, changed.tags, changed.pinned, changed.state) == ("Andalusia", ("travel",), True, "cold")
    assert [list(names) for names in changes] == [["title", "tags", "pinned", "importance", "archive"]]
