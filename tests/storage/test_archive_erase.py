"""An erase reaches into the archive (R19): blocks, dictionaries, titles and summaries."""

from __future__ import annotations

from itertools import islice

import pytest

from recollect import Memory
from recollect.storage.postgres import VACUUMED
from recollect.testing import FakeEmbedder
from support.archives import CANARY, NEEDLE, Open, everything, fold, folding, held, of_bytes, prose, say, told_of_topics
from support.tables import ask, wrong_counts

TABLES = {
    name: name
    for name in (
        "conversations", "messages", "entries", "vectors", "briefs", "brief_entries", "archived", "dictionaries",
        "topics", "topic_messages", "feedback",
    )
} | {"token_counts": "message_tokens"}  # fmt: skip


def counts(location: str) -> dict[str, int]:
    return {name: ask(location, f"SELECT count(*) FROM {table}")[0][0] for name, table in TABLES.items()}  # noqa: S608


def with_canaries(memory: Memory) -> tuple[list[str], str]:
    """A day of seven messages with the canary among others; they are a topic of their own. Their ids, and the topic."""
    source = prose()
    say(memory, "other", of_bytes(40_000, source))
    say(memory, "trip", of_bytes(20_000, source))
    # Not too like each other, else the summary would leave them out.
    said = [f"{CANARY} is the word for locker {n}. {text}" for n, text in enumerate(islice(source, 7))]
    secret = say(memory, "trip", said, at="2026-01-02T12:00:00Z")
    say(memory, "trip", of_bytes(20_000, source), at="2026-01-03T12:00:00Z")
    fold(memory)
    ids = [one.id for one in secret]
    topic = memory.split_topic(memory.topics("trip")[0].id, ids)
    memory.feedback(ids[3], 1)
    fold(memory)
    return ids, topic.id


@pytest.mark.parametrize("scope", ["message", "day", "topic", "conversation", "person"])
def test_no_byte_of_what_was_erased_is_left_in_the_archive(open_memory: Open, location: str, scope: str) -> None:
    memory, omar = (open_memory(person=name, settings=folding()) for name in ("sara", "omar"))
    own = scope == "person"  # whether he has a dictionary of his own
    say(omar, "his", of_bytes(70_000 if own else 5_000, prose()))
    fold(omar)
    ids, topic = with_canaries(memory)
    others = everything(omar)
    for kind in ("block", "dictionary", "topic"):
        assert any(one.startswith(kind) for one in held(location, NEEDLE)), "else the test proves nothing"
    assert told_of_topics(location)[topic].count(CANARY) > 1, "in its title and in its summary"
    scopes: dict[str, list[dict[str, str]]] = {
        "message": [{"message": one} for one in ids],
        "day": [{"day": "2026-01-02"}],
        "topic": [{"topic": topic}],
        "conversation": [{"conversation": "trip"}],
        "person": [{"person": "sara"}],
    }
    left = {
        name: [one for one in messages if one.id not in ids]
        for name, messages in everything(memory).items()
        if scope != "person" and (name, scope) != ("trip", "conversation")
    }
    dictionaries = dict(ask(location, "SELECT key, person FROM dictionaries"))
    assert set(dictionaries.values()) == ({"omar", "sara"} if own else {"sara"})
    strangers = (
        "SELECT count(*) FROM blocks b JOIN conversations c ON c.key = b.conversation_key"
        " JOIN dictionaries d ON d.key = b.dictionary_key WHERE d.person <> c.person"
    )
    assert ask(location, strangers) == [(0,)]
    for one in scopes[scope]:
        before = counts(location)
        receipt = memory.erase(**one)
        after = counts(location)
        assert {name: before[name] - after[name] for name in TABLES} == {name: receipt.counts[name] for name in TABLES}
        assert (receipt.remaining, receipt.pending) == (0, False)
    assert held(location, NEEDLE) == []
    assert everything(memory) == left
    assert everything(omar) == others
    assert [dictionaries[key] for (key,) in ask(location, "SELECT key FROM dictionaries")] == ["omar"] * own
    fold(memory)
    memory.recall(CANARY)
    assert held(location, NEEDLE) == []
    assert everything(memory) == left
    assert all(one.state == "ok" for one in memory.check())
    for name in left:
        assert all(one.summary for one in memory.topics(name) if one.archived_messages)
    if scope == "message":
        with pytest.raises(Exception, match="no topic"):
            memory.topic_history("trip", topic=topic)
    assert wrong_counts(location) == []


def test_a_topic_whose_opening_was_erased_has_a_title_and_a_summary_of_what_is_left(
    open_memory: Open, location: str
) -> None:
    memory = open_memory(settings=folding())
    said = [f"{CANARY} opens the {thing} of the harbour." for thing in ("gate", "locker", "cellar")]
    kept = ["The roses need water in summer.", "The tulips want shade.", "The lawn is dry.", "Lilies like the sun."]
    added = [memory.add("trip", "user", text) for text in ("hello", *said, *kept, "bye")]
    fold(memory)
    topic = memory.split_topic(memory.topics("trip")[0].id, [one.id for one in added[1:-1]])
    fold(memory)
    assert NEEDLE in memory.topics("trip")[0].title + memory.topics("trip")[1].title
    for one in added[1:4]:
        memory.erase(message=one.id)
    assert held(location, NEEDLE) == []
    fold(memory)
    (found,) = [one for one in memory.topics("trip") if one.id == topic.id]
    assert found.title == kept[0]
    assert found.summary is not None
    assert "tulips" in found.summary
    assert held(location, NEEDLE) == []


@pytest.mark.parametrize("parted", [False, True], ids=["merged", "merged and parted again"])
def test_a_message_of_a_merged_topic_is_erased_from_the_summary_of_the_whole(
    open_memory: Open, location: str, parted: bool
) -> None:
    """What was told of the one topic was told of both."""
    memory = open_memory(settings=folding())
    said = [f"{CANARY} opens the {thing} of the harbour." for thing in ("gate", "locker", "cellar")]
    kept = ["The roses need water in summer.", "The tulips want shade.", "The lawn is dry.", "Lilies like the sun."]
    added = [memory.add("trip", "user", text) for text in ("hello", *kept, *said, "bye")]
    fold(memory)
    whole = memory.topics("trip")[0].id
    other = memory.split_topic(whole, [one.id for one in added[5:8]]).id
    memory.merge_topics(whole, other)
    say(memory, "trip", list(islice(prose(), 3)))
    fold(memory)
    assert NEEDLE in told_of_topics(location)[whole], "else the test proves nothing"
    if parted:
        memory.unmerge_topic(other)
        fold(memory)
    for one in added[5:8]:
        memory.erase(message=one.id)
        assert not [name for name, told in told_of_topics(location).items() if one.content in told]
    assert held(location, NEEDLE) == []
    fold(memory)
    assert held(location, NEEDLE) == []


def test_an_erased_message_is_not_the_title_of_the_topic_that_it_was_split_from(
    open_memory: Open, location: str
) -> None:
    memory = open_memory(settings=folding(max_messages_per_topic=50))
    said = say(
        memory, "trip", [f"{CANARY} opens the talk", "An answer to that.", "A harmless question.", "Another one."]
    )
    fold(memory)
    (whole,) = memory.topics("trip")
    part = memory.split_topic(whole.id, [one.id for one in said[:2]])
    assert CANARY in part.title
    receipt = memory.erase(message=said[0].id)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert not [one for one in memory.topics("trip") if CANARY in one.title]
    assert memory.topic(whole.id).title == "A harmless question."


def test_postgres_vacuums_every_table_that_may_hold_what_was_said(pg: str) -> None:
    Memory(pg, worker=False, embedder=FakeEmbedder()).close()
    tables = {name for (name,) in ask(pg, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}
    assert tables - set(VACUUMED) == {
        "schema_migrations", "embedders", "leases", "erasures", "api_keys", "sessions",
    }  # fmt: skip
