"""Vectors: made by the worker, of one embedder at a time, and never in the way of anything else."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from recollect import Memory, ProviderUnavailable
from recollect.core import word_index
from recollect.core.language import passages
from recollect.core.models import Principal
from recollect.core.scope import ConversationScope, PersonScope
from recollect.recall.vectors import unpack
from recollect.storage.jobs import Cursor
from recollect.storage.vectors import CURSOR
from recollect.testing import FakeEmbedder
from support.tables import ask, stored_entries, stored_vectors

Open = Callable[..., Memory]

LONG = "\n\n".join(f"Paragraph {n} speaks of {word}. " + f"{word} again. " * 60 for n, word in enumerate("abcdefgh"))
AWAY = ProviderUnavailable("provider_unreachable", "nobody answers")


def rewind(memory: Memory) -> None:
    """Make everything due again, as a rebuild does, without doing it."""
    engine = memory._engine
    memory._wait(engine._store.jobs.rewind(Principal("local"), PersonScope("local"), engine._work.rewinds))


def fill(memory: Memory, count: int = 6, name: str = "trip") -> None:
    memory.add_many(name, [{"role": "user", "content": f"message {n} of {name}"} for n in range(count)])


def makers(location: str) -> set[str]:
    return {embedder for made in stored_vectors(location).values() for embedder, _ in made}


def serving(location: str) -> dict[str, str | None]:
    """By conversation: the embedder whose vectors recall reads."""
    question = "SELECT c.name, e.name FROM conversations c LEFT JOIN embedders e ON e.key = c.embedder_key"
    return dict(ask(location, question))


def by_meaning(memory: Memory, query: str, **options: Any) -> set[str]:
    """What recall finds with a part of its score from vectors."""
    return {str(hit.message_id) for hit in memory.recall(query, limit=100, **options) if hit.why.get("dense")}


class Watched(FakeEmbedder):
    """Calls a function before it embeds, once."""

    def __init__(self, dimensions: int, before: Callable[[], object]) -> None:
        super().__init__(dimensions)
        self.before: Callable[[], object] | None = before

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        before, self.before = self.before, None
        if before is not None:
            thread = threading.Thread(target=before)  # it waits for a memory, which waits for this loop's thread
            thread.start()
            thread.join()
        return await super().embed(texts)


def test_drain_gives_every_message_one_vector_for_each_passage(location: str, open_memory: Open) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    texts = ["I am allergic to peanuts.", LONG, "", "  \n ", "```python\nprint(1)\n```\nand a word", "مرحبا بالعالم"]
    messages = [memory.add("trip", "user", text, name="Sara" if n % 2 else None) for n, text in enumerate(texts)]
    assert stored_vectors(location) == {}
    done = memory.drain()
    assert (done.counts["vectors"], done.complete) == (len(texts), True)
    stored = stored_vectors(location)
    assert stored.keys() == {("trip", message.seq) for message in messages}
    assert max(len(passages.split(text)) for text in texts) >= 3
    for message in messages:
        ((name, blob),) = stored["trip", message.seq]
        spans = passages.split(message.content)
        scales, rows = unpack(blob, embedder.dimensions)
        assert (name, len(scales)) == (embedder.name, len(spans))
        for span, scale, row in zip(spans, scales, rows, strict=True):
            said = message.content[span.start : span.stop]
            expected = np.array(embedder._vector(said))
            assert np.abs(row * scale - expected).max() <= scale
    assert sum(map(len, embedder.calls)) == sum(len(passages.split(text)) for text in texts)
    assert not any(memory.drain().counts.values())
    assert memory.recall("allergic to peanuts")[0].why["dense"] > 0


def test_vectors_join_the_words_of_an_open_memory_and_of_another_one(open_memory: Open) -> None:
    memory, other = open_memory(), open_memory()
    first = memory.add("trip", "user", "peanuts are bad for me")
    assert by_meaning(memory, "peanuts") == by_meaning(other, "peanuts") == {first.id}
    memory.drain()
    assert by_meaning(memory, "peanuts") == by_meaning(other, "peanuts") == {first.id}
    second = other.add("trip", "user", "peanuts again")
    assert by_meaning(memory, "peanuts") == by_meaning(other, "peanuts") == {first.id, second.id}
    other.drain()
    assert by_meaning(memory, "peanuts") == by_meaning(other, "peanuts") == {first.id, second.id}


def test_without_its_embedder_messages_are_stored_and_found_by_their_words_and_get_vectors_later(
    location: str, open_memory: Open
) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    fill(memory, 100)
    memory.drain()
    embedder.failure = AWAY
    kept = memory.add("trip", "user", "a word that nobody said: zebra")
    memory.add("other", "user", "elsewhere")
    done = memory.drain()
    assert (done.failed, done.complete) == ({"vectors": "provider_unreachable"}, False)
    assert done.counts["tokens"] == 2
    found = memory.recall("zebra")
    assert (found[0].message_id, "bm25" in found[0].why) == (kept.id, True)
    assert found.degraded == ("embedder",)
    assert len(stored_vectors(location)) == 100
    embedder.failure = None
    done = memory.drain()
    assert (done.failed, done.complete, done.counts["vectors"]) == ({}, True, 2)
    assert len(stored_vectors(location)) == 102
    found = memory.recall("zebra")
    assert (found[0].message_id, "dense" in found[0].why, found.degraded) == (kept.id, True, ())


@pytest.mark.parametrize(
    "answer",
    [[], [[0.5] * 16], [[0.5] * 15, [0.5] * 16], [[float("nan")] * 16] * 2, [[float("inf")] * 16] * 2],
    ids=["none", "too-few", "ragged", "nan", "infinite"],
)
def test_an_answer_that_is_not_what_was_asked_for_is_a_failure_and_not_a_vector(
    location: str, open_memory: Open, answer: list[list[float]]
) -> None:
    class Wrong(FakeEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return answer

    memory = open_memory(embedder=Wrong(16))
    fill(memory, 2)
    assert memory.drain().failed["vectors"] in ("embedder_invalid", "embedder_failed")
    assert stored_vectors(location) == {}
    assert len(memory.recall("message")) == 2


def test_another_embedder_replaces_all_vectors_and_the_old_ones_serve_until_then(
    location: str, open_memory: Open
) -> None:
    first = open_memory(embedder=FakeEmbedder(384))
    fill(first, 200)  # more than is embedded at a time
    fill(first, 3, "other")
    first.drain()
    everything = {f"{name}-{seq}" for name, count in (("trip", 200), ("other", 3)) for seq in range(1, count + 1)}
    assert {f"{name}-{seq}" for name, seq in stored_vectors(location)} == everything
    seen: list[tuple[dict[str, str | None], set[str]]] = []

    def look() -> None:
        seen.append(
            (
                serving(location),
                {hit.conversation for hit in first.recall("message 7", limit=300) if "dense" in hit.why},
            )
        )

    second = open_memory(embedder=Watched(32, look))
    done = second.drain(timeout=60)
    assert (done.counts["vectors"], done.complete) == (203, True)
    assert seen == [({"trip": "fake-embedder-384", "other": "fake-embedder-384"}, {"trip", "other"})]
    assert serving(location) == {"trip": "fake-embedder-32", "other": "fake-embedder-32"}
    assert makers(location) == {"fake-embedder-32"}
    assert {f"{name}-{seq}" for name, seq in stored_vectors(location)} == everything
    assert "dense" in second.recall("message 7")[0].why
    # The first has no way to ask for the new vectors; it goes by words, and says so.
    found = first.recall("message 7")
    assert (found.degraded, "dense" in found[0].why, "bm25" in found[0].why) == (("embedder_changed",), False, True)


def test_a_conversation_is_served_by_one_embedder_while_half_of_its_vectors_are_anew(
    location: str, open_memory: Open
) -> None:
    first = open_memory(embedder=FakeEmbedder(384))
    fill(first, 200)
    first.drain()
    embedder = FakeEmbedder(32)
    second = open_memory(embedder=embedder)
    engine = second._engine
    second._wait(engine._work.indexing.sweep())  # one slice of the conversation
    assert makers(location) == {"fake-embedder-384", "fake-embedder-32"}
    assert serving(location) == {"trip": "fake-embedder-384"}
    scope = second._wait(engine._recaller.scopes.get(Principal("local"), ConversationScope("trip")))
    assert len(scope.vectors) == 1
    ((key, parts),) = scope.vectors.items()
    assert (engine._recaller.scopes.embedders[key], sum(map(len, parts))) == (("fake-embedder-384", 384), 200)
    found = second.recall("message 7")
    assert (found.degraded, "bm25" in found[0].why) == (("embedder_changed",), True)
    embedder.failure = AWAY
    assert second.drain().failed == {"vectors": "provider_unreachable"}
    assert serving(location) == {"trip": "fake-embedder-384"}
    assert "dense" in first.recall("message 7")[0].why
    embedder.failure = None
    assert second.drain().complete
    assert (makers(location), serving(location)) == ({"fake-embedder-32"}, {"trip": "fake-embedder-32"})
    assert "dense" in second.recall("message 7")[0].why


def test_messages_that_come_while_vectors_are_replaced_get_theirs_too(location: str, open_memory: Open) -> None:
    first = open_memory(embedder=FakeEmbedder(384))
    fill(first, 100)
    first.drain()
    second = open_memory(embedder=Watched(32, lambda: fill(first, 30)))
    assert second.drain().complete
    assert (makers(location), len(stored_vectors(location))) == ({"fake-embedder-32"}, 130)
    assert len(by_meaning(second, "message of trip")) == 100  # of 130: the limit


def test_what_the_embedder_refuses_does_not_keep_others_from_their_vectors(location: str, open_memory: Open) -> None:
    class Picky(FakeEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if any("bad" in text for text in texts):
                raise ProviderUnavailable("provider_rejected", "not this one", retryable=False)
            return await super().embed(texts)

    memory = open_memory(embedder=Picky(16))
    memory.add("mixed", "user", "good")
    memory.add("mixed", "user", "bad")
    for n in range(8):  # more than are embedded side by side
        memory.add(f"bad {n}", "user", "bad")
    memory.add("good", "user", "good")
    done = memory.drain()
    assert (done.failed, done.complete) == ({"vectors": "provider_rejected"}, False)
    assert stored_vectors(location).keys() == {("mixed", 1), ("mixed", 2), ("good", 1)}
    assert {hit.conversation for hit in memory.recall("good") if hit.why.get("dense")} == {"mixed", "good"}


def test_drain_goes_on_where_vectors_were_saved_and_the_cursor_was_not(location: str, open_memory: Open) -> None:
    """As a kill leaves it: the first messages have their vectors, and nothing says so."""
    memory = open_memory()
    fill(memory, 200)
    fill(memory, 3, "other")
    memory._wait(memory._engine._work.indexing.sweep())
    assert 0 < len(stored_vectors(location)) < 203
    other = open_memory()
    ask(location, "UPDATE conversations SET embedded_seq = 0")
    assert other.drain().complete
    assert len(stored_vectors(location)) == 203


def test_two_embedders_on_one_database_do_not_take_turns(location: str, open_memory: Open) -> None:
    first, second = open_memory(embedder=FakeEmbedder(384)), open_memory(embedder=FakeEmbedder(32))
    fill(first)
    assert first.drain().complete
    assert second.drain().complete
    for _ in range(3):
        fill(first, 2, "more")
        done = first.drain()
        assert (done.failed, done.complete) == ({"vectors": "embedder_replaced"}, False)
        assert done.counts.get("vectors", 0) == 0
        assert second.drain().complete
        assert makers(location) == {"fake-embedder-32"}
    assert ask(location, "SELECT name FROM embedders ORDER BY key") == [("fake-embedder-384",), ("fake-embedder-32",)]
    assert len(stored_vectors(location)) == 12


def test_many_that_begin_at_once_with_one_embedder_agree_on_it(location: str, open_memory: Open) -> None:
    memories = [open_memory(embedder=FakeEmbedder(16)) for _ in range(4)]
    for n in range(20):
        fill(memories[0], 2, f"c{n}")
    results: list[Any] = []
    threads = [threading.Thread(target=lambda m=m: results.append(m.drain())) for m in memories]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done.failed for done in results] == [{}] * 4
    assert ask(location, "SELECT name FROM embedders") == [("fake-embedder-16",)]
    assert len(stored_vectors(location)) == 40


def test_without_backfill_only_new_messages_get_vectors(location: str, open_memory: Open) -> None:
    memory = open_memory(embedder=FakeEmbedder(16))
    memory.change_settings(backfill_chunks=False)
    fill(memory, 5)
    fill(memory, 5, "old")
    assert memory.drain().complete
    assert stored_vectors(location) == {}
    new = memory.add("trip", "user", "a new one")
    assert memory.drain().complete
    assert stored_vectors(location).keys() == {("trip", 6)}
    assert by_meaning(memory, "a new one") == {new.id}
    assert len(memory.recall("message")) == 10
    assert all(finding.state == "ok" for finding in memory.check())


def test_an_erase_takes_entries_and_vectors_with_it(location: str, open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    for memory in (sara, omar):
        fill(memory, 3, f"of {memory._engine._principal.person}")
        memory.drain()
    gone = sara.history("of sara")[1]
    receipt = sara.erase(message=gone.id)
    assert (receipt.counts["entries"], receipt.counts["vectors"]) == (1, 1)
    left = {("of sara", 1), ("of sara", 3), *(("of omar", seq) for seq in (1, 2, 3))}
    assert stored_entries(location).keys() == stored_vectors(location).keys() == left
    assert gone.id not in {hit.message_id for hit in sara.recall(gone.content)}
    receipt = sara.erase(person="sara")
    assert (receipt.counts["entries"], receipt.counts["vectors"]) == (2, 2)
    left = {("of omar", seq) for seq in (1, 2, 3)}
    assert stored_entries(location).keys() == stored_vectors(location).keys() == left
    assert len(sara.recall("message")) == 0
    assert len(omar.recall("message")) == 3


def test_a_message_erased_while_it_is_embedded_leaves_no_vector(location: str, open_memory: Open) -> None:
    other = open_memory()
    memory = open_memory(embedder=Watched(16, lambda: other.erase(message="gone")))
    memory.add("trip", "user", "stays", id="kept")
    memory.add("trip", "user", "goes", id="gone")
    assert memory.drain().complete
    assert stored_vectors(location).keys() == stored_entries(location).keys() == {("trip", 1)}
    assert all(finding.state == "ok" for finding in memory.check())


def test_a_conversation_erased_while_it_is_embedded_leaves_no_vector(location: str, open_memory: Open) -> None:
    other = open_memory()
    memory = open_memory(embedder=Watched(16, lambda: other.erase(conversation="trip")))
    fill(memory)
    memory.drain()
    assert (stored_vectors(location), stored_entries(location)) == ({}, {})


def test_a_damaged_vector_is_near_nothing_and_harms_no_other(location: str, open_memory: Open) -> None:
    memory = open_memory()
    fill(memory, 8)
    memory.drain()
    whole = {hit.message_id: hit.score for hit in memory.recall("message 3 of trip", limit=20)}
    damaging = "UPDATE vectors SET vectors = CAST(x'{}' || substr(vectors, 5) AS BLOB) WHERE seq = 4"
    if location.startswith("postgresql:"):
        damaging = "UPDATE vectors SET vectors = decode('{}', 'hex') || substr(vectors, 5) WHERE seq = 4"
    for damage in (np.float32("nan"), np.float32("inf")):
        scale = damage.astype("<f4").tobytes().hex()
        ask(location, damaging.format(scale))
        found = open_memory().recall("message 3 of trip", limit=20)
        assert found[0].message_id in whole
        assert len(found) == len(whole)
        assert all(math.isfinite(hit.score) for hit in found)
        assert [hit.why.get("dense") for hit in found if hit.seq == 4] == [None]
        assert len(open_memory().recall("message 3 of trip", limit=1)) == 1


def test_rebuild_makes_entries_and_vectors_anew(location: str, open_memory: Open) -> None:
    memory = open_memory()
    fill(memory, 4)
    fill(memory, 3, "other")
    memory.drain()
    before = (stored_entries(location), stored_vectors(location))
    for everyone in (False, True):
        ask(location, "UPDATE entries SET words = (SELECT words FROM entries WHERE seq = 2 LIMIT 1) WHERE seq = 1")
        ask(location, "DELETE FROM vectors WHERE seq = 2")
        assert (stored_entries(location), stored_vectors(location)) != before
        done = memory.rebuild(everyone=everyone)
        assert (done.counts["words"], done.counts["vectors"], done.complete) == (7, 7, True)
        assert (stored_entries(location), stored_vectors(location)) == before
    assert memory.rebuild(conversation="other").counts["vectors"] == 3
    assert (stored_entries(location), stored_vectors(location)) == before
    assert before[0]["trip", 1] == word_index.encode_row("message 0 of trip", None)
    assert len(by_meaning(memory, "message 1 of trip")) == 7


def test_a_rebuild_while_vectors_are_made_is_not_lost(location: str, open_memory: Open) -> None:
    other = open_memory()
    embedder = Watched(16, lambda: rewind(other))
    memory = open_memory(embedder=embedder)
    fill(memory)
    assert memory.drain().complete
    assert len(stored_vectors(location)) == 6
    assert serving(location) == {"trip": "fake-embedder-16"}


def test_an_embedder_that_comes_into_force_between_saving_and_the_cursor_still_does_its_work(
    location: str, open_memory: Open
) -> None:
    """The first one has saved its vectors, and before it moves the cursor the second one makes them outdated."""
    first, second = open_memory(embedder=FakeEmbedder(384)), open_memory(embedder=FakeEmbedder(32))
    fill(first)
    store = first._engine._store
    finish = store.jobs.finish

    async def late(cursor: Cursor, *args: Any, **options: Any) -> bool:
        if cursor is CURSOR and len(ask(location, "SELECT key FROM embedders")) == 1:
            now = first._engine._clock.now()
            await store.vectors.use_embedder("fake-embedder-32", 32, passages=passages.VERSION, now=now)
        return await finish(cursor, *args, **options)

    store.jobs.finish = late  # type: ignore[method-assign]
    first.drain()
    assert second.drain().complete
    assert makers(location) == {"fake-embedder-32"}
    assert len(stored_vectors(location)) == 6


def test_recall_is_not_confused_by_a_restore_after_which_other_messages_took_the_same_places(
    open_memory: Open, tmp_path: Any
) -> None:
    memory = open_memory()
    memory.add("trip", "user", "first")
    memory.backup(tmp_path / "copy.backup")
    memory.add("trip", "user", "apples")
    assert "bm25" in memory.recall("apples")[0].why
    memory.restore(tmp_path / "copy.backup")
    memory.add("trip", "user", "pears")
    (best, *_) = memory.recall("pears")
    assert (best.text, "bm25" in best.why) == ("pears", True)
    assert not any("bm25" in hit.why for hit in memory.recall("apples"))


def test_a_scope_mostly_without_vectors_says_so(open_memory: Open) -> None:
    memory = open_memory()
    assert memory.recall("message").degraded == ()  # nothing is missing where there is nothing
    fill(memory, 40)  # more than a question embeds itself
    assert memory.recall("message").degraded == memory.context("trip", "message", budget=500).degraded == ("vectors",)
    memory.drain()
    fill(memory, 36, "other")
    assert memory.recall("message").degraded == ()
    assert memory.recall("message", conversation="other").degraded == ("vectors",)
    assert memory.recall("nothing of it", conversation="other").degraded == ("vectors",)  # others were asked too
