"""System messages are for their own conversation: stored and exported, but never indexed, recalled or quoted."""

from __future__ import annotations

import json
from pathlib import Path

from recollect import Memory
from recollect.settings import preset
from support.prompts import Open, long_talk, tell
from support.tables import ask

SECRET = "The zanzibar password of the staff door is 4711, and we decided to prefer zanzibar tea."
QUESTION = "What is the zanzibar password of the staff door, and which tea do we prefer?"
WORDS = "SELECT length(e.words) FROM entries e JOIN messages m USING (conversation_key, seq) WHERE m.role = 'system'"
VECTORS = (
    "SELECT length(v.vectors) FROM vectors v JOIN messages m USING (conversation_key, seq) WHERE m.role = 'system'"
)
TOPICS = "SELECT count(*) FROM topic_messages t JOIN messages m USING (conversation_key, seq) WHERE m.role = 'system'"


def assert_nothing_is_told(memory: Memory) -> None:
    for conversation in (None, "shop", "other"):
        for hit in memory.recall(QUESTION, conversation=conversation):
            assert "zanzibar" not in hit.text and not any("zanzibar" in one.text for one in hit.neighbours)
    for conversation in ("shop", "other"):
        context = memory.context(conversation, "Which staff door?", budget=3000)
        assert "zanzibar" not in context.text
        assert "zanzibar" not in json.dumps([context.messages, context.explain])
        assert not memory.similar(conversation, SECRET)
        brief = memory.brief(conversation)
        assert brief is None or "zanzibar" not in json.dumps(brief.to_dict())
    for topic in memory.topics("shop"):
        assert "zanzibar" not in f"{topic.title} {topic.summary}"
        assert "zanzibar" not in json.dumps(memory.topic_context("shop", topic=topic.id))


def test_a_system_message_is_in_the_log_and_nowhere_else(open_memory: Open, location: str, tmp_path: Path) -> None:
    for letter in ("A", "C"):
        memory = open_memory(settings=preset(letter), person=letter)
        memory.add("shop", "system", SECRET, name="Zanzibar staff")
        tell(memory, "shop", long_talk(8))
        memory.add("shop", "system", SECRET)
        memory.add("shop", "assistant", "Of course.")
        tell(memory, "other", [{"role": "user", "content": "Hello, which staff door is it?"}], first=100)
        assert_nothing_is_told(memory)
        assert memory.drain().complete
        assert_nothing_is_told(memory)
        memory.rebuild()
        assert memory.drain().complete
        assert_nothing_is_told(memory)
        assert [one.content for one in memory.history("shop") if one.role == "system"] == [SECRET, SECRET]
        memory.export(str(tmp_path / f"{letter}.ndjson"))
        assert (tmp_path / f"{letter}.ndjson").read_text().count("zanzibar password") == 2
    assert set(ask(location, WORDS)) == set(ask(location, VECTORS)) == {(0,)}
    assert ask(location, TOPICS) == [(0,)]


def test_what_an_earlier_version_indexed_of_system_messages_is_not_told_and_then_gone(
    open_memory: Open, location: str
) -> None:
    """Earlier versions gave system messages words, vectors, and a topic with their text as its title."""
    memory = open_memory(settings=preset("C"))
    memory.add("shop", "user", SECRET, id="old")
    tell(memory, "shop", long_talk(3))
    tell(memory, "other", [{"role": "user", "content": "Hello, which staff door is it?"}], first=100)
    assert memory.drain().complete
    memory.close()
    ask(location, "UPDATE messages SET role = 'system' WHERE id = 'old'")
    ask(location, "UPDATE conversations SET words_version = words_version - 1")
    assert (0,) not in ask(location, WORDS) + ask(location, VECTORS) + ask(location, TOPICS)
    other = open_memory(settings=preset("C"))
    for hit in other.recall(QUESTION):
        assert "zanzibar" not in hit.text and not any("zanzibar" in one.text for one in hit.neighbours)
    assert "zanzibar" not in other.context("other", "Which staff door?").text
    assert other.drain().complete
    assert_nothing_is_told(other)
    assert ask(location, WORDS) == ask(location, VECTORS) == ask(location, TOPICS) == [(0,)]
