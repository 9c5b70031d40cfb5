"""After consent is revoked no byte of the profile is left in the files, whatever was stored around it.

As with erased messages, what a plain delete leaves depends on the sizes of the rows, hence many shapes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from recollect import AsyncMemory, Principal, Receipt
from recollect.storage.sqlite_file import read_blocks
from recollect.testing import FakeClock, FakeEmbedder

pytestmark = pytest.mark.kill

QUESTION = "Which languages do I know?"
PEOPLE = 24


def canary(number: int) -> str:
    return f"zqcanary{number:03}x"


def copies(path: Path, number: int) -> int:
    """Return how often a text is in the database and its write-ahead log."""
    return b"".join((*read_blocks(str(path)), *read_blocks(f"{path}-wal"))).count(canary(number).encode())


async def use_profile(memory: AsyncMemory, number: int, shape: int) -> None:
    """Write a profile twice and use it. Sizes differ, so that rows move between pages."""
    await memory.set_consent(True)
    for change in (1, 2):
        words = 1 + (7 * number + 13 * shape * change) % 60
        notes = f"My languages are {canary(number)}. " + f"{canary(number)} again. " * words
        await memory.set_profile({"notes": notes, "context": {"goals": f"{canary(number)} {change}"}})
    await memory.add("trip", "user", f"message {number}")
    assert canary(number) in (await memory.context("trip", QUESTION)).text
    assert canary(number) in repr(await memory.recall(QUESTION))


async def left_after_revoking(path: Path, shape: int) -> list[tuple[int, int]]:
    """Return the people who revoked and whose profile is still in the files, with the number of copies."""
    left = []
    async with AsyncMemory(path, worker=False, clock=FakeClock(), embedder=FakeEmbedder()) as memory:
        people = [memory.of(Principal(f"person {number}")) for number in range(PEOPLE)]
        for number, person in enumerate(people):
            await use_profile(person, number, shape)
        await memory.drain()
        for number, person in enumerate(people):
            if number % 3:
                assert copies(path, number) > 0
                receipt: Receipt = await person.revoke_consent()
                assert receipt.counts["profiles"] == 1
                found = copies(path, number)
                if receipt.pending or receipt.remaining or found:
                    left.append((number, found))
        for number in range(0, PEOPLE, 3):
            assert canary(number) in (await people[number].profile()).notes
    return left


def test_no_word_of_a_revoked_profile_is_left_in_the_files(tmp_path: Path, full_count: bool) -> None:
    for shape in range(100 if full_count else 8):
        left = asyncio.run(left_after_revoking(tmp_path / f"{shape}.db", shape))
        assert left == [], "revoked, and still to be read: (person, copies)"


def test_the_scan_finds_what_a_plain_delete_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This proves that the test above can fail: unless the file is rewritten, some words stay."""
    monkeypatch.setattr("recollect.storage.sqlite.rewrite", lambda connection: None)
    assert any(asyncio.run(left_after_revoking(tmp_path / f"{shape}.db", shape)) for shape in range(8))
