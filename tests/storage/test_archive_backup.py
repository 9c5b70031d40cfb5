"""Topics and archived texts survive backups, and the way from one database to the other."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from faults import inspection
from recollect import Memory
from recollect.core import archive
from recollect.core.models import Principal
from recollect.storage.shipped_dictionary import shipped_dictionary
from recollect.testing import FakeClock, FakeEmbedder
from support.archives import (
    Open,
    add_texts,
    all_messages,
    archived_keys,
    block_bodies,
    check_damage,
    drain_fully,
    fill_many_blocks,
    folding_settings,
    messages_in_blocks,
    on_sqlite,
    open_with_dictionary,
    prose,
    replace_block_bodies,
    take_bytes,
)
from support.tables import wrong_counts
from support.talks import skip_on_postgres_unless_full


def topics_of(memory: Memory, conversation: str) -> list[tuple[Any, ...]]:
    found = memory.topics(conversation)
    return sorted(
        (
            one.id, one.title, one.summary, one.tags, one.pinned, one.importance, one.access_count,
            one.messages, one.created_at, one.last_active_at, tuple(sorted(one.merged)),
            tuple(m.id for m in memory.topic_history(conversation, topic=one.id)),
        )
        for one in found
    )  # fmt: skip


def change_topics(memory: Memory) -> tuple[str, str]:
    """Make topics and change them by hand. Return the ids of two, of which the second is merged into the first."""
    added = add_texts(memory, "trip", list(islice(prose(), 60)))
    drain_fully(memory)
    whole = memory.topics("trip")[0].id
    parts = [memory.split_topic(whole, [one.id for one in added[at : at + 15]]).id for at in (5, 20, 35)]
    memory.merge_topics(parts[0], parts[1])
    memory.tag_topic(parts[0], ["garden", "home"])
    memory.pin_topic(parts[2])
    memory.rename_topic(parts[2], "Named by hand")
    memory.weigh_topic(whole, 0.4)
    memory.feedback(added[40].id, 1)
    drain_fully(memory)
    assert memory.stats()["archived"] > 30
    return parts[0], parts[1]


def states(memory: Memory) -> list[tuple[str, str]]:
    """Return the states of topics. After a restore from another database no text is archived until the next fold."""
    return sorted((one.id, one.state) for one in memory.topics("trip"))


def check_same(one: Memory, other: Memory) -> None:
    assert all_messages(one) == all_messages(other)
    assert topics_of(one, "trip") == topics_of(other, "trip")


def test_topics_and_archived_texts_survive_backup_and_restore(open_memory: Open, location: str, tmp_path: Path) -> None:
    memory = open_memory(settings=folding_settings())
    into, part = change_topics(memory)
    before, topics, topic_states = all_messages(memory), topics_of(memory, "trip"), states(memory)
    memory.backup(tmp_path / "copy.backup")
    check_same(open_memory(location=tmp_path / "copy.backup", settings=folding_settings()), memory)
    memory.unmerge_topic(part)
    memory.tag_topic(into, [])
    memory.add("trip", "user", "later, too")
    add_texts(memory, "trip", ["later"] * 20)
    drain_fully(memory)
    memory.restore(tmp_path / "copy.backup")
    assert all_messages(memory) == before
    assert topics_of(memory, "trip") == topics
    drain_fully(memory)
    assert all_messages(memory) == before
    assert topics_of(memory, "trip") == topics
    assert states(memory) == topic_states
    assert wrong_counts(location) == []
    assert all(one.state == "ok" for one in memory.check())
    assert memory.unmerge_topic(part).id == part


def test_topics_and_archived_texts_move_between_the_databases(tmp_path: Path, pg: str) -> None:
    options: dict[str, Any] = {"worker": False, "settings": folding_settings(), "clock": FakeClock()}
    with (
        Memory(tmp_path / "here.db", embedder=FakeEmbedder(), **options) as here,
        Memory(pg, embedder=FakeEmbedder(), **options) as there,
    ):
        change_topics(here)
        add_texts(here, "long", take_bytes(70_000, prose()))
        drain_fully(here)
        here.backup(tmp_path / "one.backup")
        there.restore(tmp_path / "one.backup")
        check_same(there, here)
        drain_fully(there)
        assert there.stats()["archived"] > 0.9 * here.stats()["archived"]
        assert states(there) == states(here)
        there.backup(tmp_path / "two.backup")
        here.restore(tmp_path / "two.backup")
        check_same(here, there)
        drain_fully(here)
        check_same(here, there)
        assert states(here) == states(there)
        for memory, location in ((here, str(tmp_path / "here.db")), (there, pg)):
            assert wrong_counts(location) == []
            assert all(one.state == "ok" for one in memory.check())


def test_what_is_damaged_stays_marked_in_a_backup(open_memory: Open, location: str, tmp_path: Path) -> None:
    """Otherwise a restore would turn damaged messages into empty ones, and the loss would go unnoticed."""
    with open_memory(settings=folding_settings()) as memory:
        before, whole = fill_many_blocks(memory, conversations=3), block_bodies(location)
    hit = min(whole)
    lost = messages_in_blocks(location, [hit])
    replace_block_bodies(location, {hit: b"damaged"})
    memory = open_memory(settings=folding_settings())
    memory.backup(tmp_path / "copy.backup")
    check_damage(open_memory(location=tmp_path / "copy.backup", settings=folding_settings()), before, lost)


def test_a_rebuild_leaves_the_archive_and_counts_it_right(open_memory: Open, location: str) -> None:
    memory = open_memory(settings=folding_settings())
    change_topics(memory)
    before, keys = all_messages(memory), archived_keys(location)
    memory.rebuild()
    assert all_messages(memory) == before
    assert archived_keys(location) >= keys
    assert wrong_counts(location) == []
    memory.rebuild(everyone=True)
    assert all_messages(memory) == before
    assert wrong_counts(location) == []
    assert all(one.state == "ok" for one in memory.check())


def test_a_restore_that_brings_keys_of_dictionaries_back_loses_nothing(
    open_memory: Open, location: str, tmp_path: Path, full_count: bool
) -> None:
    """On SQLite the next dictionary may then have the key of one that is still in memory."""
    skip_on_postgres_unless_full(location, full_count)
    memory, source = open_memory(settings=folding_settings()), prose()
    add_texts(memory, "a", take_bytes(50_000, source))
    drain_fully(memory)
    memory.backup(tmp_path / "before.db")
    add_texts(memory, "b", take_bytes(30_000, source))
    drain_fully(memory)
    all_messages(memory)  # so that the dictionary is in memory
    memory.restore(tmp_path / "before.db")
    drain_fully(memory)
    add_texts(memory, "c", take_bytes(30_000, source))
    drain_fully(memory)
    said = add_texts(memory, "d", take_bytes(6_000, source))
    drain_fully(memory)
    assert [one.content for one in memory.history("d")] == [one.content for one in said]
    assert not [one for messages in all_messages(memory).values() for one in messages if one.damaged]
    assert [one for one in memory.check() if one.state == "error"] == []


@on_sqlite
def test_a_dictionary_that_another_process_replaced_packs_nothing(open_memory: Open, location: str) -> None:
    memory, source = open_with_dictionary(open_memory, location), prose()
    found = memory._wait(memory._engine._store.archive.best_dictionary(Principal()))
    assert found.id >= archive.FIRST_LEARNED_ID
    body = archive.pack_dictionary(
        archive.train(take_bytes(90_000, islice(source, 200, None)), 9_000), shipped_dictionary()
    )
    with inspection.connected(location) as connection:
        connection.execute("UPDATE dictionaries SET body = ?", (body,))
    add_texts(memory, "late", take_bytes(5_000, source))
    memory.drain()
    assert archived_keys(location)
    again = open_memory(settings=folding_settings())  # without what the first one has in memory
    assert not [one for one in again.history("late") if one.damaged]
