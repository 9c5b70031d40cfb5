"""A process for each core needs no threads for what is short: the same answers, and nothing is older than before."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect import AsyncMemory
from recollect.core.errors import StoreUnavailable
from recollect.providers.minilm import MiniLM
from recollect.recall import embedding
from recollect.recall.latest_brief import LatestBriefs
from recollect.recall.message_texts import MessageTexts
from recollect.recall.prompt import builder
from recollect.storage.driver import Transaction
from recollect.storage.sqlite import SqliteDriver
from recollect.storage.store import SHORT_READ_MESSAGES, SqlStore
from recollect.storage.texts import Texts
from recollect.testing import FakeEmbedder

MANY = 1000  # processes, which no machine has cores for


def _memory(location: str, **options: Any) -> AsyncMemory:
    return AsyncMemory(location, embedder=FakeEmbedder(32), worker=False, **options)


def _noted_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], int]]:
    """What the built-in embedder is asked from now on, and on which thread. It fails for what is broken."""
    calls: list[tuple[list[str], int]] = []
    real = MiniLM.encode

    def encode(self: MiniLM, texts: Any, check: Any = None, **options: Any) -> Any:
        calls.append((list(texts), threading.get_ident()))
        if any("broken" in text for text in texts):
            raise RuntimeError("no memory left")
        return real(self, texts, check, **options)

    monkeypatch.setattr(MiniLM, "encode", encode)
    return calls


def test_inline_prompts_are_the_same_and_know_at_once_what_others_stored(location: str) -> None:
    async def run() -> None:
        async with _memory(location) as threaded, _memory(location) as inline:
            await inline.warm_up(processes=MANY)
            for number in range(30):
                await threaded.add("trip", "user", f"The ferry of day {number} has {number * 7} seats.")
                query = f"How many seats has the ferry of day {number}?"
                there, here = await threaded.context("trip", query), await inline.context("trip", query)
                assert here.messages == there.messages
                assert f"day {number} has {number * 7} seats" in here.text
            await threaded.drain()
            assert (await inline.context("trip", "Which ferry?")).text == (
                await threaded.context("trip", "Which ferry?")
            ).text

    asyncio.run(run())


def test_a_consent_that_another_process_takes_back_counts_for_the_next_inline_prompt(location: str) -> None:
    async def run() -> None:
        async with _memory(location) as other, _memory(location) as inline:
            await inline.warm_up(processes=MANY)
            for granted in (True, False, True, False):
                await other.set_consent(granted)
                await other.set_profile({"notes": "I sail to Zanzibara."})
                assert ("Zanzibara" in (await inline.context("trip", "Where do I sail?")).text) is granted

    asyncio.run(run())


def test_an_erased_message_is_gone_from_the_next_inline_prompt(location: str) -> None:
    async def run() -> None:
        async with _memory(location) as other, _memory(location) as inline:
            await inline.warm_up(processes=MANY)
            kept = await other.add("trip", "user", "The hotel is called Bellevue.")
            gone = await other.add("trip", "user", "The code of the safe is zanzibar.")
            assert "zanzibar" in (await inline.context("trip", "What is the code of the safe?")).text
            await other.erase(conversation="trip", message=gone.id)
            after = await inline.context("trip", "What is the code of the safe?")
            assert "zanzibar" not in after.text
            assert kept.content in after.text

    asyncio.run(run())


def test_a_consent_that_is_taken_back_while_a_prompt_is_made_counts(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last thing is read."""

    async def run() -> None:
        async with _memory(location) as other, _memory(location) as asking:
            await asking.warm_up(processes=MANY)
            await other.set_consent(True)
            await other.set_profile({"notes": "I sail to Zanzibara."})
            await other.add("trip", "user", "The hotel is called Bellevue.")
            assert "Zanzibara" in (await asking.context("trip", "Where do I sail?")).text
            real = LatestBriefs.get_summary

            async def revoking(self: LatestBriefs, *given: Any) -> Any:
                await other.revoke_consent()
                return await real(self, *given)

            monkeypatch.setattr(LatestBriefs, "get_summary", revoking)
            assert "Zanzibara" not in (await asking.context("trip", "Where do I sail?")).text

    asyncio.run(run())


def test_the_built_in_embedder_inline_says_the_same_and_fails_as_it_does_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        path = tmp_path / "some.db"
        async with AsyncMemory(path, worker=False) as threaded, AsyncMemory(path, worker=False) as inline:
            await inline.warm_up(processes=MANY)
            await threaded.add("trip", "user", "I am allergic to peanuts.")
            await threaded.drain()
            calls = _noted_calls(monkeypatch)
            for query, own in (("What can I not eat?", True), ("Was kann ich nicht essen? " * 20, False)):
                calls.clear()
                there, here = await threaded.context("trip", query), await inline.context("trip", query)
                assert here.messages == there.messages
                assert [thread == threading.get_ident() for _, thread in calls] == [False, own]
            for memory in (threaded, inline):
                assert (await memory.context("trip", "What is broken?")).degraded == ("embedder",)

    asyncio.run(run())


def test_questions_asked_at_once_are_embedded_together_and_none_costs_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        path = tmp_path / "some.db"
        async with AsyncMemory(path, worker=False) as alone, AsyncMemory(path, worker=False) as inline:
            await inline.warm_up(processes=MANY)
            for number in range(12):
                await alone.add("trip", "user", f"The ferry of day {number} has {number * 7} seats.")
            await alone.drain()
            await inline.context("trip", "Which ferries are there?")  # the scope is read
            calls = _noted_calls(monkeypatch)
            asked = [f"How many seats has the ferry of day {number}?" for number in range(11)]
            together = await asyncio.gather(*(inline.context("trip", query) for query in asked))
            assert [len(texts) for texts, _ in calls] == [8, 3]
            assert [one.text for one in together] == [(await alone.context("trip", query)).text for query in asked]
            calls.clear()
            asked = ["Which ferry is large?", "What is broken?", "Which ferry is small?"]
            found = await asyncio.gather(*(inline.context("trip", query) for query in asked))
            assert [one.degraded for one in found] == [(), ("embedder",), ()]
            assert [texts for texts, _ in calls][:4] == [asked, *([query] for query in asked)]

    asyncio.run(run())


def test_who_does_not_wait_any_more_is_not_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with AsyncMemory(tmp_path / "some.db", worker=False) as memory:
            await memory.warm_up(processes=MANY)
            await memory.add("trip", "user", "I am allergic to peanuts.")
            await memory.drain()
            await memory.context("trip", "What is said?")
            calls = _noted_calls(monkeypatch)
            gone = asyncio.create_task(memory.context("trip", "Who left?"))
            stays = asyncio.create_task(memory.context("trip", "Who stays?"))
            await asyncio.sleep(0)  # both ask
            gone.cancel()
            assert "peanuts" in (await stays).text
            with pytest.raises(asyncio.CancelledError):
                await gone
            assert [texts for texts, _ in calls] == [["Who stays?"]]

    asyncio.run(run())


def test_a_large_question_is_counted_on_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    real = builder.build

    def build(*given: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return real(*given, **named)

    async def run() -> None:
        async with _memory(str(tmp_path / "some.db")) as memory:
            await memory.warm_up(processes=MANY)
            await memory.add("trip", "user", "I am allergic to peanuts.")
            monkeypatch.setattr(builder, "build", build)
            for query, system in (("What?", None), ("dots ... " * 4000, None), ("What?", "Be brief. " * 4000)):
                await memory.context("trip", query, system_prompt=system, budget=50_000)
            assert [one == threading.get_ident() for one in threads] == [True, False, False]

    asyncio.run(run())


def test_a_loop_that_ended_while_somebody_asked_keeps_nobody_waiting() -> None:
    batch, encode = embedding._QuestionBatch(), lambda texts: np.ones((len(texts), 2), np.float32)

    async def ask(wait: bool) -> None:
        future = batch.embed(encode, "Who is there?")
        if wait:
            await asyncio.wait_for(future, 10)

    left = asyncio.new_event_loop()
    left.run_until_complete(ask(wait=False))
    left.close()
    asyncio.run(ask(wait=True))


def test_after_an_erase_or_a_revoke_nothing_of_it_is_kept_inline(tmp_path: Path) -> None:
    def held(word: str) -> int:
        gc.collect()
        strings = (one for object_ in gc.get_objects() for one in gc.get_referents(object_) if type(one) is str)
        return sum(word in one and one != word for one in strings)

    async def run() -> None:
        async with _memory(str(tmp_path / "some.db")) as memory:
            await memory.warm_up(processes=MANY)
            words = ["".join(("zq", kind, "4713")) for kind in ("told", "said")]  # neither is whole in this file
            await memory.set_consent(True)
            await memory.set_profile({"notes": f"I keep a {words[0]} at home."})
            await memory.add_many("trip", [{"role": "user", "content": f"My {words[1]} flew to Rome."}] * 3)
            await memory.drain()
            for _ in range(2):
                text = (await memory.context("trip", "What do I keep, and what flew?")).text
                assert all(word in text for word in words)
                del text
            profile = await memory.profile()
            profile.preferences["goals"] = "to be changed by somebody"  # which must not be kept for others
            assert "changed by" not in (await memory.context("trip", "What is to be changed?")).text
            del profile
            await memory.revoke_consent()
            await memory.erase(conversation="trip")
            assert [held(word) for word in words] == [0, 0]

    asyncio.run(run())


def test_a_short_conversation_is_soon_in_memory_and_not_read_again(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    real = SqlStore._messages_at

    def messages_at(self: SqlStore, tx: Any, principal: Any, places: Any) -> Any:
        read.append(len(places))
        return real(self, tx, principal, places)

    async def run() -> None:
        async with _memory(location) as memory:
            said = [{"role": "user", "content": f"The ferry of day {n} has {n * 7} seats."} for n in range(500)]
            await memory.add_many("trip", said)
            await memory.drain()
            monkeypatch.setattr(SqlStore, "_messages_at", messages_at)
            texts = [(await memory.context("trip", f"Seats of the ferry of day {n}?")).text for n in range(0, 500, 25)]
            assert all(f"day {n} has" in text for n, text in zip(range(0, 500, 25), texts, strict=True))
            assert sum(read) == 500 and max(read) <= SHORT_READ_MESSAGES
            await memory.add("trip", "user", "The last ferry has no seats at all.")
            assert "no seats at all" in (await memory.context("trip", "Which ferry has no seats?")).text
            assert sum(read) == 501

    asyncio.run(run())


def test_messages_that_leave_the_cache_while_others_come_are_found_nevertheless(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessageTexts.__init__, "__defaults__", (20_000,))

    async def run() -> None:
        async with _memory(location) as memory:
            for number in range(60):
                await memory.add("trip", "user", f"The ferry of day {number} has {number * 7} seats.")
            await memory.drain()
            for number in range(0, 60, 7):
                found = await memory.recall(f"the ferry of day {number} and its seats", conversation="trip", limit=40)
                assert len([hit for hit in found.hits if hit.message_id]) == 40

    asyncio.run(run())


def _driver(path: Path) -> SqliteDriver:
    driver = SqliteDriver(str(path / "some.db"))
    driver.open(0)
    return driver


def test_only_short_reads_run_where_they_are_asked_for_and_only_then(tmp_path: Path) -> None:
    driver = _driver(tmp_path)

    def where(short: bool) -> int:
        return driver.read(lambda _: threading.get_ident(), short=short).result(120)

    own = threading.get_ident()
    assert own not in (where(True), where(False))
    driver.enable_inline_reads()
    assert where(True) == own
    assert where(False) != own
    driver.close()
    with pytest.raises(StoreUnavailable):
        driver.read(lambda _: 1, short=True)


def test_a_read_that_would_have_to_wait_for_a_lock_waits_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, real = _driver(tmp_path), SqliteDriver._read
    driver.enable_inline_reads()

    def busy(self: SqliteDriver, job: Any, *, may_wait: bool = True, name: Any = None) -> Any:
        if not may_wait:
            raise StoreUnavailable("store_busy", "The database is locked.")
        return real(self, job)

    assert driver.read(lambda tx: tx.one("get_key", id="x"), short=True).result() is None
    assert driver._local.connection.pragma("busy_timeout") == 0
    monkeypatch.setattr(SqliteDriver, "_read", busy)
    found: Future[int] = driver.read(lambda _: threading.get_ident(), short=True)
    assert found.result(120) != threading.get_ident()
    driver.close()


def test_an_answer_under_a_name_holds_until_anybody_writes(tmp_path: Path) -> None:
    driver, other = _driver(tmp_path), _driver(tmp_path)
    count = 0

    def job(tx: Transaction) -> int:
        nonlocal count
        count += 1
        return len(tx.all("every_key"))

    def ask(name: str | None = "keys") -> tuple[int, int]:
        return driver.read(job, short=True, name=name).result(120), count

    assert (ask(), ask()) == ((0, 1), (0, 2))  # on a thread nothing is kept
    driver.enable_inline_reads()
    assert (ask(), ask(), ask()) == ((0, 3), (0, 3), (0, 3))
    assert (ask("other"), ask("other")) == ((0, 4), (0, 4))
    assert ask(None) == (0, 5)
    for number, writer in enumerate((other, driver, other), start=1):
        key = {"id": f"k{number}", "hash": b"", "label": "", "person": "sara", "department": None, "ministry": None}
        times = {"created_at": 1, "expires_at": None, "revoked_at": None}
        writer.write(lambda tx, row=key | times: tx.run("insert_key", **row, clearances="[]", scopes="[]")).result(120)
        assert (ask(), ask()) == ((number, 5 + number), (number, 5 + number))
    for one in (driver, other):
        one.close()


def test_no_more_answers_are_kept_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.storage.sqlite.CACHED_ANSWERS", 3)
    driver = _driver(tmp_path)
    driver.enable_inline_reads()
    for number in range(10):
        assert driver.read(lambda _, number=number: number, short=True, name=number).result(120) == number
        assert driver._answers is not None and len(driver._answers[2]) <= 3
    driver.forget()
    assert driver._answers is None
    driver.close()


def test_what_a_read_raises_is_raised_inline_too(tmp_path: Path) -> None:
    driver = _driver(tmp_path)
    driver.enable_inline_reads()
    with pytest.raises(ZeroDivisionError):
        driver.read(lambda _: 1 // 0, short=True)
    assert driver.read(lambda tx: tx.one("get_key", id="x"), short=True).result() is None
    driver.close()


def test_unpacked_blocks_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.storage.texts.CACHE_BYTES", 10_000)
    texts = Texts()
    for number in range(100):
        texts._keep(f"block {number}".encode(), {number: "x" * 900})
        texts._keep(f"block {number}".encode(), {number: "x" * 900})  # two threads read the same one
    sizes = [size for _, size in texts._unpacked.values()]
    assert 8 <= len(sizes) <= 10
    assert sum(sizes) == texts._size <= 10_000
    assert b"block 99" in texts._unpacked
    texts.forget()
    assert (texts._size, len(texts._unpacked)) == (0, 0)
