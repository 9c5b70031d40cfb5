"""What a client sends again is known as erased, by whichever salt its tombstone was made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recollect import Memory
from recollect.storage.tombstones import MAX_SALTS
from recollect.testing import FakeEmbedder
from support.tables import ask

Open = Callable[..., Memory]


def _erase_sent(memory: Memory, text: str) -> str:
    """Store a message as a client sends it, and erase it. Return its id."""
    (message,) = memory.merge(None, [{"role": "user", "content": text}])
    memory.erase(conversation=message.conversation)
    return message.id


def _sent_again(memory: Memory, *ids: str) -> set[str]:
    return memory._wait(memory._engine.store.find_sent_again(memory._engine.principal, ids))


def test_what_was_erased_in_either_of_two_databases_is_known_after_a_restore(
    open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory, ids = open_memory(), list[str]()
    for number in range(4):  # salts are random: the first one of the table may be that of any database
        with Memory(tmp_path / f"{number}.db", worker=False, embedder=FakeEmbedder()) as other:
            ids.append(_erase_sent(other, f"erased in the database {number}"))
            other.backup(tmp_path / f"{number}.backup")
        ids.append(_erase_sent(memory, f"erased here before restore {number}"))
        memory.restore(tmp_path / f"{number}.backup")
    ids.append(_erase_sent(memory, "erased here after all of them"))
    assert _sent_again(memory, *ids, "oa-unknown") == set(ids)
    assert ask(location, "SELECT count(DISTINCT salt) FROM tombstones") == [(5,)]


def test_the_salts_of_many_tombstones_are_found(open_memory: Open, location: str, tmp_path: Path) -> None:
    with Memory(tmp_path / "other.db", worker=False, embedder=FakeEmbedder()) as other:
        single = _erase_sent(other, "erased in the other database")
        other.backup(tmp_path / "other.backup")
    memory = open_memory()
    messages = [{"role": "user", "content": f"number {number}"} for number in range(2 * MAX_SALTS)]
    many = [message.id for message in memory.merge(None, messages)]
    for conversation in memory.conversations():
        memory.erase(conversation=conversation.name)
    memory.restore(tmp_path / "other.backup")
    assert _sent_again(memory, single, *many) == {single, *many}


def test_a_database_of_a_version_that_noted_no_salts_finds_its_own(open_memory: Open, location: str) -> None:
    memory = open_memory()
    first = _erase_sent(memory, "erased before")
    ask(location, "DELETE FROM tombstones WHERE length(hash) = 0")
    second = _erase_sent(memory, "erased after")
    assert _sent_again(memory, first, second) == {first, second}
    assert ask(location, "SELECT count(*) FROM tombstones WHERE length(hash) = 0") == [(1,)]
