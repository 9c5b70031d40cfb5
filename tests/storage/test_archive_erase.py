"""An erase reaches into the archive: blocks, dictionaries, titles and summaries."""

from __future__ import annotations

from itertools import islice

import pytest

from recollect import Memory
from recollect.storage.tables import VACUUMED
from recollect.testing import FakeEmbedder
from support.archives import (
    CANARY,
    NEEDLE,
    Open,
    add_texts,
    all_messages,
    drain_fully,
    find_remains,
    folding_settings,
    prose,
    take_bytes,
    topic_texts,
)
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


def add_canaries(memory: Memory) -> tuple[list[str], str]:
    """Add messages, seven of one day with the canary, in a topic of their own. Return their ids and the topic."""
    source = prose()
    add_texts(memory, "other", take_bytes(40_000, source))
    add_texts(memory, "trip", take_bytes(20_000, source))
    # Not too like each other, else the summary would leave them out.
    said = [f"{CANARY} is the word for locker {n}. {text}" for n, text in enumerate(islice(source, 7))]
    secret = add_texts(memory, "trip", said, at="2026-01-02T12:00:00Z")
    add_texts(memory, "trip", take_bytes(20_000, source), at="2026-01-03T12:00:00Z")
    drain_fully(memory)
    ids = [one.id for one in secret]
    topic = memory.split_topic(memory.topics("trip")[0].id, ids)
    memory.feedback(ids[3], 1)
    drain_fully(memory)
    return ids, topic.id


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["message", "day", "topic", "conversation", "person"])
def test_no_byte_of_what_was_erased_is_left_in_the_archive(open_memory: Open, location: str, scope: str) -> None:
    memory, omar = (open_memory(person=name, settings=folding_settings()) for name in ("sara", "omar"))
    own = scope == "person"  # whether he has a dictionary of his own
    add_texts(omar, "his", take_bytes(70_000 if own else 5_000, prose()))
    drain_fully(omar)
    ids, topic = add_canaries(memory)
    others = all_messages(omar)
    for kind in ("block", "dictionary", "topic"):
        assert any(one.startswith(kind) for one in find_remains(location, NEEDLE)), "else the test proves nothing"
    assert topic_texts(location)[topic].count(CANARY) > 1, "in its title and in its summary"
    scopes: dict[str, list[dict[str, str]]] = {
        "message": [{"message": one} for one in ids],
        "day": [{"day": "2026-01-02"}],
        "topic": [{"topic": topic}],
        "conversation": [{"conversation": "trip"}],
        "person": [{"person": "sara"}],
    }
    left = {
        name: [one for one in messages if one.id not in ids]
        for name, messages in all_messages(memory).items()
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
    assert find_remains(location, NEEDLE) == []
    assert all_messages(memory) == left
    assert all_messages(omar) == others
    assert [dictionaries[key] for (key,) in ask(location, "SELECT key FROM dictionaries")] == ["omar"] * own
    drain_fully(memory)
    memory.recall(CANARY)
    assert find_remains(location, NEEDLE) == []
    assert all_messages(memory) == left
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
    memory = open_memory(settings=folding_settings())
    said = [f"{CANARY} opens the {thing} of the harbour." for thing in ("gate", "locker", "cellar")]
    kept = ["The roses need water in summer.", "The tulips want shade.", "The lawn is dry.", "Lilies like the sun."]
    added = [memory.add("trip", "user", text) for text in ("hello", *said, *kept, "bye")]
    drain_fully(memory)
    topic = memory.split_topic(memory.topics("trip")[0].id, [one.id for one in added[1:-1]])
    drain_fully(memory)
    assert NEEDLE in memory.topics("trip")[0].title + memory.topics("trip")[1].title
    for one in added[1:4]:
        memory.erase(message=one.id)
    assert find_remains(location, NEEDLE) == []
    drain_fully(memory)
    (found,) = [one for one in memory.topics("trip") if one.id == topic.id]
    assert found.title == kept[0]
    assert found.summary is not None
    assert "tulips" in found.summary
    assert find_remains(location, NEEDLE) == []


@pytest.mark.parametrize("parted", [False, True], ids=["merged", "merged and parted again"])
def test_a_message_of_a_merged_topic_is_erased_from_the_summary_of_the_whole(
    open_memory: Open, location: str, parted: bool
) -> None:
    """The summary of a merged topic covers both parts."""
    memory = open_memory(settings=folding_settings())
    said = [f"{CANARY} opens the {thing} of the harbour." for thing in ("gate", "locker", "cellar")]
    kept = ["The roses need water in summer.", "The tulips want shade.", "The lawn is dry.", "Lilies like the sun."]
    added = [memory.add("trip", "user", text) for text in ("hello", *kept, *said, "bye")]
    drain_fully(memory)
    whole = memory.topics("trip")[0].id
    other = memory.split_topic(whole, [one.id for one in added[5:8]]).id
    memory.merge_topics(whole, other)
    add_texts(memory, "trip", list(islice(prose(), 3)))
    drain_fully(memory)
    assert NEEDLE in topic_texts(location)[whole], "else the test proves nothing"
    if parted:
        memory.unmerge_topic(other)
        drain_fully(memory)
    for one in added[5:8]:
        memory.erase(message=one.id)
        assert not [name for name, told in topic_texts(location).items() if one.content in told]
    assert find_remains(location, NEEDLE) == []
    drain_fully(memory)
    assert find_remains(location, NEEDLE) == []


def test_an_erased_message_is_not_the_title_of_the_topic_that_it_was_split_from(
    open_memory: Open, location: str
) -> None:
    memory = open_memory(settings=folding_settings(max_messages_per_topic=50))
    said = add_texts(
        memory, "trip", [f"{CANARY} opens the talk", "An answer to that.", "A harmless question.", "Another one."]
    )
    drain_fully(memory)
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
        "schema_migrations", "embedders", "leases", "erasures", "tombstones",
    }  # fmt: skip
