"""The archive in a store: any text comes back, dictionaries are learned, the file becomes smaller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faults import inspection
from recollect import Memory
from recollect.core import archive
from recollect.storage.shipped_dictionary import shipped_dictionary
from recollect.testing import FakeClock, FakeEmbedder
from support.archives import (
    CANARY,
    NEEDLE,
    Open,
    add_texts,
    all_messages,
    archived_keys,
    block_bodies,
    drain_fully,
    find_remains,
    folding_settings,
    on_sqlite,
    prose,
    take_bytes,
)
from support.tables import ask, wrong_counts
from support.talks import skip_on_postgres_unless_full

# Any text.

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)  # lone surrogates and NUL too
NASTY = [
    "", " ", "\n", "\n" * 5000, "\r\n\x85\u2028\u2029", "\x00", "a\x00b\x00", "\ud800", "x\udfff\ud83d",
    "\ufeff\ufffe\uffff",
    "👩‍👩‍👧‍👦🏳️‍🌈" * 40, "السلام عليكم ورحمة الله", "إنَّ ٱلْحَمْدَ \u202elمرحبا\u202c", "東京タワーで会いましょう。" * 30,
    "한국어 ไทย हिन्दी",
    "e\u0301\u0300" * 100, "ﬁ№Ⅷ\U0010ffff", "ÿ\xff\x7f", "\\x00 '\"%_{}$1:x", "0" * 70_000,
]  # fmt: skip


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, str]]:
    """Yield a memory on either database for many examples, and its location."""
    where = str(tmp_path_factory.mktemp("any") / "memory.db")
    if request.param == "postgres":
        where = request.getfixturevalue("shared_pg")
    options: dict[str, Any] = {"settings": folding_settings(), "clock": FakeClock(), "embedder": FakeEmbedder(8)}
    with Memory(where, worker=False, **options) as memory:
        yield memory, where


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 4)
@given(texts=st.lists(ANYTHING, min_size=3, max_size=20))
@example(texts=NASTY)
@example(texts=[""] * 20)
def test_any_text_comes_back_from_the_archive_as_it_was_stored(shared: tuple[Memory, str], texts: list[str]) -> None:
    memory, where = shared
    name = f"talk {len(memory.conversations())}"
    added = [memory.add(name, "user", text) for text in texts]
    drain_fully(memory)
    found = memory.history(name)
    assert found == added
    assert [one.content.encode() for one in found] == [one.content.encode() for one in added]
    assert memory.topic_history(name) == added
    assert memory.topics(name)[0].archived_messages == len(texts) - 2
    archived_keys(where)


@pytest.mark.slow
def test_the_largest_messages_come_back_from_the_archive_as_they_were(
    open_memory: Open, location: str, full_count: bool
) -> None:
    skip_on_postgres_unless_full(location, full_count)
    memory = open_memory(settings=folding_settings())
    dice, long = random.Random(1), (" ".join(prose()) * 4).encode()[: 1 << 20].decode(errors="ignore")
    noise = "".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(30_000))
    texts = ("hello", long, noise, "\n" * (1 << 20), "bye")
    added = [memory.add("trip", "user", text) for text in texts]
    drain_fully(memory)
    assert len(archived_keys(location)) == 3
    assert memory.history("trip") == added


# Learned dictionaries.


def sizes(location: str) -> tuple[int, int]:
    """Return the bytes of all blocks as stored, and as packed with the shipped dictionary alone."""
    dictionaries = {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM dictionaries")}
    found = block_bodies(location).values()
    plain = [
        archive.encode(list(inspection.unpacked(body, dictionaries).values()), shipped_dictionary()) for body in found
    ]
    return sum(map(len, found)), sum(map(len, plain))


@pytest.mark.slow
def test_dictionaries_are_learned_from_an_archive_that_grows(
    open_memory: Open, location: str, full_count: bool
) -> None:
    """One is learned at 64 KiB and another at four times that. Each makes blocks smaller; older ones stay readable."""
    skip_on_postgres_unless_full(location, full_count)
    memory, source = open_memory(settings=folding_settings()), prose()
    added = {"a": add_texts(memory, "a", take_bytes(60_000, source))}
    drain_fully(memory)
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(0,)]
    before = memory.stats()["archive_bytes"]
    added["b"] = add_texts(memory, "b", take_bytes(8_000, source))
    drain_fully(memory)
    ((first, text_bytes),) = ask(location, "SELECT key, text_bytes FROM dictionaries")
    assert 1 << 16 <= text_bytes < 80_000
    packed, plain = sizes(location)
    assert packed == memory.stats()["archive_bytes"]
    assert packed < 0.8 * plain
    assert packed < before, "although there is more in it"
    added["c"] = add_texts(memory, "c", take_bytes(150_000, source))
    drain_fully(memory)
    assert ask(location, "SELECT key FROM dictionaries") == [(first,)]
    added["d"] = add_texts(memory, "d", take_bytes(80_000, source))
    drain_fully(memory)
    keys = {key for (key,) in ask(location, "SELECT key FROM dictionaries")}
    used = {key for (key,) in ask(location, "SELECT DISTINCT dictionary_key FROM blocks")}
    assert max(keys) > first
    assert keys - {max(keys)} <= used, "one that nothing is packed with goes"
    packed, plain = sizes(location)
    assert packed < 0.8 * plain
    for name, messages in added.items():
        assert memory.history(name) == messages
    with open_memory() as another:
        assert all_messages(another) == all_messages(memory)
    assert all(one.state == "ok" for one in memory.check())


# Changes while a topic folds.


def meanwhile(monkeypatch: pytest.MonkeyPatch, place: str, act: Callable[[], object]) -> list[str]:
    """Let `act` run once, when the named function returns. The returned list is filled then."""
    module, name = place.rsplit(".", 1)
    owner = resolve_name(module)
    real, done = getattr(owner, name), list[str]()

    def hooked(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        if not done:
            done.append(place)
            act()
        return found

    monkeypatch.setattr(owner, name, hooked)
    return done


PACKING = "recollect.topics.fold.pack"
SUMMARISING = "recollect.topics.fold.FoldTopics._summarise_built_in"
TRAINING = "recollect.core.archive.train"
REPACKING = "recollect.storage.archive.pack"


@pytest.mark.parametrize("place", [PACKING, SUMMARISING])
@pytest.mark.parametrize(
    "what", ["split", "merge", "unmerge", "tag", "rename", "add", "erase", "erase topic", "rebuild"]
)
def test_what_happens_while_a_topic_folds_leaves_texts_and_counts_right(
    open_memory: Open, location: str, monkeypatch: pytest.MonkeyPatch, what: str, place: str, full_count: bool
) -> None:
    skip_on_postgres_unless_full(location, full_count or place == PACKING)
    memory, other = (
        open_memory(settings=folding_settings(max_messages_per_topic=5, worker_lease_seconds=0.5)) for _ in range(2)
    )
    said = [f"{CANARY} opens the {thing} of the harbour." for thing in ("gate", "locker", "cellar", "safe")]
    added = [
        memory.add("trip", "user", text) for text in ("hello", *islice(prose(), 5), *said, *islice(prose(), 9, 14))
    ]
    memory.drain(briefs=False)
    whole = memory.topics("trip")[0].id
    secret, rest = [one.id for one in added[6:10]], [one.id for one in added[1:4]]
    part = memory.split_topic(whole, rest).id
    if what == "unmerge":
        memory.merge_topics(whole, part)
    assert memory.stats()["archived"] == 0
    acts: dict[str, Callable[[], object]] = {
        "split": lambda: other.split_topic(whole, secret),
        "merge": lambda: other.merge_topics(whole, part),
        "unmerge": lambda: other.unmerge_topic(part),
        "tag": lambda: other.tag_topic(whole, ["tagged"]),
        "rename": lambda: other.rename_topic(whole, "named"),
        "add": lambda: other.add("trip", "user", "added meanwhile"),
        "erase": lambda: [other.erase(message=one) for one in secret],
        "erase topic": lambda: other.erase(topic=whole),
        "rebuild": lambda: other.rebuild(),
    }
    happened = meanwhile(monkeypatch, place, acts[what])
    memory.drain(timeout=30)
    assert happened, "else the test proves nothing"
    drain_fully(memory)
    left = [one for one in added if not (what.startswith("erase") and one.id in secret)]
    found = memory.history("trip")
    if what == "erase topic":
        left = [one for one in left if one.id in rest]
    assert found[: len(left)] == left
    assert len(found) == len(left) + (what == "add")
    if what.startswith("erase"):
        assert find_remains(location, NEEDLE) == []
    archived_keys(location)
    assert wrong_counts(location) == []
    assert all(one.state == "ok" for one in memory.check())
    if what == "tag":
        assert [one.tags for one in memory.topics("trip") if one.id == whole] == [("tagged",)]


@pytest.mark.slow
@pytest.mark.parametrize("place", [TRAINING, REPACKING])
@pytest.mark.parametrize("scope", ["message", "person"])
def test_what_is_erased_while_a_dictionary_is_learned_is_not_in_it(
    open_memory: Open, location: str, monkeypatch: pytest.MonkeyPatch, place: str, scope: str, full_count: bool
) -> None:
    skip_on_postgres_unless_full(location, full_count)
    memory, other = (open_memory(settings=folding_settings()) for _ in range(2))
    texts = take_bytes(60_000, prose())
    add_texts(memory, "trip", [*texts[:50], *(f"{CANARY} {text}" for text in texts[50:90]), *texts[90:]])
    drain_fully(memory)
    secret = [one.id for one in memory.history("trip") if CANARY in one.content]
    added = add_texts(memory, "more", take_bytes(9_000, islice(prose(), len(texts), None)))
    scopes: list[dict[str, str]] = [{"message": one} for one in secret] if scope == "message" else [{"person": "local"}]
    happened = meanwhile(monkeypatch, place, lambda: [other.erase(**one) for one in scopes])
    memory.drain(timeout=30)
    assert happened, "else the test proves nothing"
    drain_fully(memory)
    assert find_remains(location, NEEDLE) == []
    assert memory.history("more") == (added if scope == "message" else [])
    assert [one.content for one in memory.history("trip")] == ([*texts[:50], *texts[90:]] if scope == "message" else [])
    assert all(one.state == "ok" for one in memory.check())


# Size.


def bytes_of(location: str, *tables: str) -> int:
    with inspection.connected(location) as file:
        found = dict(inspection.rows(file, "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    return sum(found[name] for name in tables)


ARCHIVE = ("blocks", "blocks_conversation", "archived", "dictionaries", "dictionaries_person")


@pytest.mark.slow
@on_sqlite
def test_a_file_becomes_smaller_by_what_was_archived(open_memory: Open, location: str, clock: FakeClock) -> None:
    """Text shrinks by at least 55 %, the whole file by at least a quarter, as free pages are released."""
    resting = folding_settings(max_messages_per_topic=1_000_000)
    with open_memory(settings=resting) as memory:
        for place, text in enumerate(prose()):
            memory.add(f"talk {place % 5}", ("user", "assistant")[place % 2], text)
        drain_fully(memory)
        before = all_messages(memory)
    texts, whole = bytes_of(location, "texts"), Path(location).stat().st_size
    with open_memory(settings=folding_settings()) as memory:
        for name in before:
            memory.add(name, "user", "And so on and so forth.")
        drain_fully(memory)
        assert {name: messages[:-1] for name, messages in all_messages(memory).items()} == before
        packed, after = bytes_of(location, "texts", "blocks"), bytes_of(location, "texts", *ARCHIVE)
        print(
            f"texts {texts:,} bytes, then {packed:,}, with all of the archive {after:,}: {1 - after / texts:.0%} less"
        )
        assert packed <= 0.45 * texts
        assert after <= 0.75 * texts
        for _ in range(5):
            clock.advance(timedelta(minutes=1))
            memory.drain()
    print(f"file {whole:,}, then {Path(location).stat().st_size:,} bytes")
    assert Path(location).stat().st_size <= whole - 0.5 * (texts - after)


def test_more_messages_kept_than_there_are_keep_all(open_memory: Open, location: str) -> None:
    memory = open_memory(settings=folding_settings(recent_message_keep=20))
    add_texts(memory, "trip", list(islice(prose(), 13)))
    drain_fully(memory)
    assert archived_keys(location) == set()


def test_a_rebuild_leaves_the_topics_of_others_alone(open_memory: Open, location: str) -> None:
    memory, omar = open_memory(settings=folding_settings()), open_memory(person="omar", settings=folding_settings())
    for one in (memory, omar):
        add_texts(one, "trip", list(islice(prose(), 13)))
        drain_fully(one)
    (theirs,) = omar.topics("trip")
    omar.tag_topic(theirs.id, ["mine"])  # so that the worker would look at it again
    assert theirs.summary
    memory.rebuild(conversation="trip")
    assert omar.topics("trip")[0].summary == theirs.summary
    assert ask(location, "SELECT count(*) FROM topics WHERE sums IS NULL") == [(0,)]
