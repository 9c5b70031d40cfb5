"""Topics and archived texts in backups, and on their way between the databases."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from faults import inspection
from recollect import Memory
from recollect.core import archive
from recollect.core.models import Principal
from recollect.testing import FakeClock, FakeEmbedder
from support.archives import (
    Open,
    archived,
    bodies,
    check_damage,
    everything,
    fold,
    folding,
    learned,
    many_blocks,
    members,
    of_bytes,
    on_sqlite,
    prose,
    replace_bodies,
    say,
)
from support.tables import wrong_counts
from support.talks import enough_on_sqlite


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


def handled(memory: Memory) -> tuple[str, str]:
    """Topics with which people did something; two of their ids, of which the second is merged into the first."""
    added = say(memory, "trip", list(islice(prose(), 60)))
    fold(memory)
    whole = memory.topics("trip")[0].id
    parts = [memory.split_topic(whole, [one.id for one in added[at : at + 15]]).id for at in (5, 20, 35)]
    memory.merge_topics(parts[0], parts[1])
    memory.tag_topic(parts[0], ["garden", "home"])
    memory.pin_topic(parts[2])
    memory.rename_topic(parts[2], "Named by hand")
    memory.weigh_topic(whole, 0.4)
    memory.feedback(added[40].id, 1)
    fold(memory)
    assert memory.stats()["archived"] > 30
    return parts[0], parts[1]


def states(memory: Memory) -> list[tuple[str, str]]:
    """After a restore from another database texts are at hand, until they are packed again."""
    return sorted((one.id, one.state) for one in memory.topics("trip"))


def same(one: Memory, other: Memory) -> None:
    assert everything(one) == everything(other)
    assert topics_of(one, "trip") == topics_of(other, "trip")


def test_topics_and_archived_texts_survive_backup_and_restore(open_memory: Open, location: str, tmp_path: Path) -> None:
    memory = open_memory(settings=folding())
    into, part = handled(memory)
    before, topics, standing = everything(memory), topics_of(memory, "trip"), states(memory)
    memory.backup(tmp_path / "copy.backup")
    same(open_memory(location=tmp_path / "copy.backup", settings=folding()), memory)
    memory.unmerge_topic(part)
    memory.tag_topic(into, [])
    memory.erase(message=before["trip"][12].id)
    say(memory, "trip", ["later"] * 20)
    fold(memory)
    memory.restore(tmp_path / "copy.backup")
    assert everything(memory) == before
    assert topics_of(memory, "trip") == topics
    fold(memory)
    assert everything(memory) == before
    assert topics_of(memory, "trip") == topics
    assert states(memory) == standing
    assert wrong_counts(location) == []
    assert all(one.state == "ok" for one in memory.check())
    assert memory.unmerge_topic(part).id == part


def test_topics_and_archived_texts_move_between_the_databases(tmp_path: Path, pg: str) -> None:
    options: dict[str, Any] = {"worker": False, "settings": folding(), "clock": FakeClock()}
    with (
        Memory(tmp_path / "here.db", embedder=FakeEmbedder(), **options) as here,
        Memory(pg, embedder=FakeEmbedder(), **options) as there,
    ):
        handled(here)
        say(here, "long", of_bytes(70_000, prose()))
        fold(here)
        here.backup(tmp_path / "one.backup")
        there.restore(tmp_path / "one.backup")
        same(there, here)
        fold(there)
        assert there.stats()["archived"] > 0.9 * here.stats()["archived"]
        assert states(there) == states(here)
        there.backup(tmp_path / "two.backup")
        here.erase(person="local")
        here.restore(tmp_path / "two.backup")
        same(here, there)
        fold(here)
        same(here, there)
        assert states(here) == states(there)
        for memory, location in ((here, str(tmp_path / "here.db")), (there, pg)):
            assert wrong_counts(location) == []
            assert all(one.state == "ok" for one in memory.check())


def test_what_is_damaged_stays_marked_in_a_backup(open_memory: Open, location: str, tmp_path: Path) -> None:
    """Else a restore would make messages without text of it, which nobody misses."""
    with open_memory(settings=folding()) as memory:
        before, whole = many_blocks(memory, conversations=3), bodies(location)
    hit = min(whole)
    lost = members(location, [hit])
    replace_bodies(location, {hit: b"damaged"})
    memory = open_memory(settings=folding())
    memory.backup(tmp_path / "copy.backup")
    check_damage(open_memory(location=tmp_path / "copy.backup", settings=folding()), before, lost)


def test_a_rebuild_leaves_the_archive_and_counts_it_right(open_memory: Open, location: str) -> None:
    memory = open_memory(settings=folding())
    handled(memory)
    before, keys = everything(memory), archived(location)
    memory.rebuild()
    assert everything(memory) == before
    assert archived(location) >= keys
    assert wrong_counts(location) == []
    memory.rebuild(everyone=True)
    assert everything(memory) == before
    assert wrong_counts(location) == []
    assert all(one.state == "ok" for one in memory.check())


def test_a_restore_that_brings_keys_of_dictionaries_back_loses_nothing(
    open_memory: Open, location: str, tmp_path: Path, full_count: bool
) -> None:
    """On SQLite the next dictionary may then have the key of one that is still in memory."""
    enough_on_sqlite(location, full_count)
    memory, source = open_memory(settings=folding()), prose()
    say(memory, "a", of_bytes(50_000, source))
    fold(memory)
    memory.backup(tmp_path / "before.db")
    say(memory, "b", of_bytes(30_000, source))
    fold(memory)
    everything(memory)  # so that the dictionary is in memory
    memory.restore(tmp_path / "before.db")
    fold(memory)
    say(memory, "c", of_bytes(30_000, source))
    fold(memory)
    said = say(memory, "d", of_bytes(6_000, source))
    fold(memory)
    assert [one.content for one in memory.history("d")] == [one.content for one in said]
    assert not [one for messages in everything(memory).values() for one in messages if one.damaged]
    assert [one for one in memory.check() if one.state == "error"] == []


@on_sqlite
def test_a_dictionary_that_another_process_replaced_packs_nothing(open_memory: Open, location: str) -> None:
    memory, source = learned(open_memory, location), prose()
    found = memory._wait(memory._engine._store.archive.dictionary(Principal()))
    assert found.id >= archive.LEARNED
    body = archive.pack(archive.train(of_bytes(90_000, islice(source, 200, None)), 9_000))
    with inspection.connected(location) as connection:
        connection.execute("UPDATE dictionaries SET body = ?", (body,))
    say(memory, "late", of_bytes(5_000, source))
    memory.drain()
    assert archived(location)
    again = open_memory(settings=folding())  # without what the first one has in memory
    assert not [one for one in again.history("late") if one.damaged]
