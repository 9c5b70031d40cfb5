"""One forget for everything kept in memory: erase, revoke, restore and a change of zone reach every cache."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect import InvalidInput, Memory, NotFound, Principal
from recollect.core.scope import ConversationScope, PersonScope, StoreScope
from recollect.memory.caches import MODULE_CACHES, Caches
from recollect.settings import Settings
from recollect.testing import FakeEmbedder

Open = Callable[..., Memory]
CANARY = "zqcached4713"  # no other test file has it: all of them are in the memory of the process


def fill(memory: Memory) -> None:
    """Use everything that keeps something: words, passages, vectors, briefs, topics, dates, prompts."""
    for number in range(6):
        text = f"I live in {CANARY} since last Tuesday, and I prefer dark mode. Note {number}. Note {number}."
        memory.add("trip", "user", text)
        memory.add("trip", "assistant", f"Noted that {CANARY} is your home, as you said yesterday.")
    memory.set_profile({"notes": f"I am called {CANARY}."})
    memory.set_consent(True)
    memory.drain()
    memory.compress("trip", force=True)
    memory.context("trip", f"Where is {CANARY}, and what did I say last Tuesday?", budget=800)
    memory.recall(f"{CANARY} in May")
    memory.similar("other", f"Where is {CANARY}?")


def is_canary_kept() -> bool:
    """Say whether a string with the canary is reachable from any module or object of ours."""
    gc.collect()
    for container in gc.get_objects():
        if isinstance(container, dict | list | tuple | set) and not _is_of_the_test(container):
            items: Any = [*container.keys(), *container.values()] if isinstance(container, dict) else container
            try:
                if any(isinstance(item, str) and CANARY in item for item in items):
                    return True
            except RuntimeError:  # changed by another thread meanwhile
                continue
    return False


def _is_of_the_test(container: object) -> bool:
    """Say whether a container is a namespace of this test, or holds its constants."""
    return (
        container is globals()
        or (isinstance(container, dict) and "__name__" in container)
        or (isinstance(container, tuple) and any(item is CANARY for item in container))
    )


def erase_conversation(memory: Memory, folder: Path) -> None:
    memory.erase(conversation="trip")
    memory.revoke_consent()


def erase_person(memory: Memory, folder: Path) -> None:
    memory.erase(person="local")


@pytest.mark.slow
@pytest.mark.parametrize("end", [erase_conversation, erase_person], ids=lambda end: end.__name__)
def test_nothing_of_what_was_erased_is_left_in_memory(open_memory: Open, end: Any, tmp_path: Path) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    fill(memory)
    end(memory, tmp_path)
    assert not is_canary_kept()


def watched(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows by the scope of every forget."""
    scopes: list[object] = []
    caches = memory._engine._shared.caches
    original = caches.forget

    def forget(principal: Any, scope: Any) -> None:
        scopes.append(scope)
        original(principal, scope)

    monkeypatch.setattr(caches, "forget", forget)
    return scopes


def test_a_restore_a_change_of_zone_and_an_erase_all_forget(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    fill(memory)
    scopes = watched(memory, monkeypatch)
    memory.update_conversation("trip", title="Andalusia")
    assert scopes == []
    memory.update_conversation("trip", zone="Asia/Riyadh")
    memory.backup(tmp_path / "backup.db")
    memory.restore(tmp_path / "backup.db")
    memory.erase(person="local")
    erased = PersonScope("local")  # once when the rows are deleted, once more when the bytes are gone
    assert scopes == [ConversationScope("trip"), StoreScope(), erased, erased]


def test_an_erase_that_fails_halfway_forgets_all_the_same(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    fill(memory)
    scopes = watched(memory, monkeypatch)

    async def broken() -> Any:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(memory._engine._store, "purge", broken)
    with pytest.raises(RuntimeError):
        memory.erase(conversation="trip")
    assert scopes == [ConversationScope("trip")] * 2


def test_what_was_erased_is_forgotten_before_the_files_are_rewritten(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    fill(memory)
    scopes, seen = watched(memory, monkeypatch), list[object]()
    purge = memory._engine._store.purge

    async def look_and_purge() -> Any:
        seen.extend(scopes)
        return await purge()

    monkeypatch.setattr(memory._engine._store, "purge", look_and_purge)
    memory.erase(conversation="trip")
    assert seen == [ConversationScope("trip")]


def test_an_erase_whose_rows_could_not_be_deleted_forgets_all_the_same(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    fill(memory)
    scopes = watched(memory, monkeypatch)

    async def broken(*arguments: Any, **more: Any) -> Any:
        raise RuntimeError("the connection ended before the commit was confirmed")

    monkeypatch.setattr(memory._engine._store, "erase", broken)
    with pytest.raises(RuntimeError):
        memory.erase(conversation="trip")
    assert scopes == [ConversationScope("trip")]


def test_every_cache_is_registered_by_name(open_memory: Open) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    memory.recall("anything")
    names = ["store", "question vectors", "brief job", "prompt sizes", "settings", "recall"]
    assert memory._engine._shared.caches.names == names


@pytest.mark.parametrize("name", MODULE_CACHES)
def test_every_module_that_keeps_words_is_told_to_forget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    calls: list[str] = []
    monkeypatch.setattr(module, "forget", lambda: calls.append(name))
    Caches().forget(Principal("sara"), ConversationScope("trip"))
    assert calls == [name]


def test_an_erase_of_what_is_not_there_leaves_the_caches_alone(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    fill(memory)
    scopes = watched(memory, monkeypatch)
    for wrong in ({"message": "nowhere"}, {"conversation": "nowhere"}, {"person": "somebody else"}):
        with pytest.raises((NotFound, InvalidInput)):
            memory.erase(**wrong)
    assert scopes == []


def test_the_size_of_a_system_prompt_outlives_an_erase_and_a_change_of_zone(open_memory: Open) -> None:
    memory = open_memory(settings=Settings(compress_tokens_above=300, compress_must_pay=False))
    for number in range(9):
        memory.add("trip", "user", f"I would like to see the old town of Seville on day {number}.")
        memory.add("trip", "assistant", "Noted.")
    memory.add("other", "user", "hello", id="m")
    memory.context("trip", "And now?", system_prompt="Be brief. " * 200, budget=2000)
    memory.update_conversation("other", zone="Asia/Riyadh")
    memory.erase(message="m")
    memory.drain()
    assert memory.brief("trip") is not None


def test_settings_of_an_erased_person_are_not_kept(open_memory: Open) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    memory.change_settings(chat_system_prompt=f"Call me {CANARY}.")
    memory.erase(person="local")
    assert CANARY not in (memory._engine._book.of(Principal("local")).now.chat_system_prompt or "")
