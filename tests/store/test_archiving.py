"""The archive in a store: any text comes back, damage costs what it hits alone, and an erase reaches into it."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from pydoc_data.topics import topics as chapters
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from faults import inspection
from recollect import Memory
from recollect.core import archive
from recollect.core.models import Message, Principal
from recollect.core.topics import from_stored
from recollect.settings import Settings
from recollect.sql.postgres import VACUUMED
from recollect.testing import FakeClock, FakeEmbedder
from tables import ask, wrong_counts
from talks import enough_on_sqlite

Open = Callable[..., Memory]
on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def folding(**more: Any) -> Settings:
    """One topic for a conversation, of which all but the first message and the last rest in the archive."""
    given = {"similarity_threshold": -1.0, "max_messages_per_topic": 2, "recent_message_keep": 1}
    return Settings(**given | {"memory_chunk_summarize_threshold": 0} | more)


def prose() -> Iterator[str]:
    """Real paragraphs, each once: what Python says of itself."""
    seen: set[str] = set()
    for chapter in chapters.values():
        for paragraph in chapter.split("\n\n"):
            text = paragraph.strip()
            if len(text) > 40 and text not in seen:
                seen.add(text)
                yield text


def of_bytes(count: int, source: Iterator[str]) -> list[str]:
    """The next paragraphs, together just above so many bytes."""
    found: list[str] = []
    while sum(len(one.encode()) for one in found) <= count:
        found.append(next(source))
    return found


def say(memory: Memory, conversation: str, texts: Sequence[str], **more: Any) -> list[Message]:
    roles = ("user", "assistant")
    return memory.add_many(
        conversation, [{"role": roles[n % 2], "content": text} | more for n, text in enumerate(texts)]
    )


def fold(memory: Memory) -> None:
    done = memory.drain()
    assert (done.complete, done.failed) == (True, {})


def archived(location: str) -> set[int]:
    """Keys of messages whose text rests in the archive; their text is nowhere else."""
    keys = {key for (key,) in ask(location, "SELECT message_key FROM archived")}
    assert not keys & {key for (key,) in ask(location, "SELECT message_key FROM texts")}
    return keys


def everything(memory: Memory) -> dict[str, list[Message]]:
    return {one.name: memory.history(one.name) for one in memory.conversations()}


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
    """A memory on either database for many examples."""
    where = str(tmp_path_factory.mktemp("any") / "memory.db")
    if request.param == "postgres":
        where = request.getfixturevalue("shared_pg")
    options: dict[str, Any] = {"settings": folding(), "clock": FakeClock(), "embedder": FakeEmbedder(8)}
    with Memory(where, worker=False, **options) as memory:
        yield memory, where


@settings(max_examples=settings.default.max_examples // 4)
@given(texts=st.lists(ANYTHING, min_size=3, max_size=20))
@example(texts=NASTY)
@example(texts=[""] * 20)
def test_any_text_comes_back_from_the_archive_as_it_was_stored(shared: tuple[Memory, str], texts: list[str]) -> None:
    memory, where = shared
    name = f"talk {len(memory.conversations())}"
    added = [memory.add(name, "user", text) for text in texts]
    fold(memory)
    found = memory.history(name)
    assert found == added
    assert [one.content.encode() for one in found] == [one.content.encode() for one in added]
    assert memory.topic_history(name) == added
    assert memory.topics(name)[0].archived_messages == len(texts) - 2
    archived(where)


def test_the_largest_messages_come_back_from_the_archive_as_they_were(
    open_memory: Open, location: str, full_count: bool
) -> None:
    enough_on_sqlite(location, full_count)
    memory = open_memory(settings=folding())
    dice, long = random.Random(1), (" ".join(prose()) * 4).encode()[: 1 << 20].decode(errors="ignore")
    noise = "".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(30_000))
    texts = ("hello", long, noise, "\n" * (1 << 20), "bye")
    added = [memory.add("trip", "user", text) for text in texts]
    fold(memory)
    assert len(archived(location)) == 3
    assert memory.history("trip") == added


# Damage (R10).


def bodies(location: str) -> dict[int, bytes]:
    return {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM blocks")}


def replace_bodies(location: str, found: Mapping[int, bytes], table: str = "blocks") -> None:
    rows = [(body, key) for key, body in found.items()]
    if location.startswith("postgresql:"):
        with psycopg.connect(location) as server, server.cursor() as cursor:
            cursor.executemany(sql.SQL("UPDATE {} SET body = %s WHERE key = %s").format(sql.Identifier(table)), rows)
        return
    with inspection.connected(location) as file:
        file.executemany(f"UPDATE {table} SET body = ? WHERE key = ?", rows)  # noqa: S608 - ours


def members(location: str, blocks: Sequence[int] | set[int]) -> set[tuple[str, str]]:
    """Conversation and id of the messages of blocks."""
    rows = ask(
        location,
        "SELECT c.name, m.id, a.block_key FROM archived a JOIN messages m ON m.key = a.message_key"
        " JOIN conversations c ON c.key = m.conversation_key",
    )
    return {(name, one) for name, one, block in rows if block in blocks}


def many_blocks(memory: Memory, conversations: int = 30, messages: int = 8) -> dict[str, list[Message]]:
    """A block in each conversation."""
    source = prose()
    for number in range(conversations):
        say(memory, f"talk {number}", list(islice(source, messages)))
    fold(memory)
    return everything(memory)


def check_damage(memory: Memory, before: Mapping[str, list[Message]], lost: set[tuple[str, str]]) -> None:
    """What is lost comes back without its text and marked; everything else is as it was."""
    for name, messages in before.items():
        for old, new in zip(messages, memory.history(name), strict=True):
            if (name, old.id) in lost:
                assert (new.content, new.damaged, new.id, new.seq, new.at) == ("", True, old.id, old.seq, old.at)
            else:
                assert new == old


def flipped(body: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(8 * len(body))
    return body[: place // 8] + bytes([body[place // 8] ^ 1 << place % 8]) + body[place // 8 + 1 :]


def damaged_in_some_way(body: bytes, dice: random.Random) -> bytes:
    ways = (
        lambda: flipped(body, dice),
        lambda: flipped(flipped(body, dice), dice)[:-1],
        lambda: body[: dice.randrange(len(body))],
        lambda: body + dice.randbytes(dice.randrange(1, 9)),
        lambda: body[1:],
        lambda: dice.randbytes(len(body)),
        lambda: bytes(len(body)),
        lambda: b"",
        lambda: body[: len(body) // 2] + body[len(body) // 2 + dice.randrange(1, 5) :],
    )
    while (found := dice.choice(ways)()) == body:
        pass
    return found


def test_each_of_hundreds_of_damaged_blocks_costs_its_own_messages_alone(
    open_memory: Open, location: str, full_count: bool
) -> None:
    enough_on_sqlite(location, full_count)
    with open_memory(settings=folding()) as memory:
        before, whole = many_blocks(memory), bodies(location)
    assert len(whole) == 30
    dice = random.Random(10)
    for _ in range(15):
        hit = dice.sample(sorted(whole), 15)
        replace_bodies(location, {key: damaged_in_some_way(whole[key], dice) for key in hit})
        with open_memory(settings=folding()) as reader:  # one that has read none of them yet
            check_damage(reader, before, members(location, hit))
            (told,) = [one for one in reader.check() if one.name == "archive"]
            assert (told.state, "15 of 30 blocks" in told.detail) == ("error", True)
            replace_bodies(location, whole)
            check_damage(reader, before, set())
            assert all(one.state == "ok" for one in reader.check())


def test_damage_is_named_by_who_has_read_the_block_before(open_memory: Open, location: str) -> None:
    """What was read may be remembered; a check looks at what is stored."""
    memory = open_memory(settings=folding())
    before, whole = many_blocks(memory, conversations=3), bodies(location)
    assert everything(memory) == before
    hit = min(whole)
    middle = len(whole[hit]) // 2
    replace_bodies(location, {hit: whole[hit][:middle] + b"damaged" + whole[hit][middle + 7 :]})
    assert [one.name for one in memory.check() if one.state == "error"] == ["archive"]


def use_everything(memory: Memory, folder: Path, conversations: Sequence[str]) -> None:
    """All that reads texts, in one way or another."""
    memory.recall("object value class method")
    memory.search_topics("object value class method")
    memory.export(folder / f"{random.SystemRandom().random()}.ndjson")
    for name in conversations:
        memory.recall("object value class method", conversation=name)
        assert memory.context(name, "What is a class?").messages
        for topic in memory.topics(name):
            memory.topic_history(name, topic=topic.id)
            memory.topic_context(name, topic=topic.id)
            memory.topic_stats(name, topic=topic.id)
        memory.similar(name, "What is a class?")
        memory.related_topics(name)
        memory.compress(name, force=True)
        memory.brief(name)


def bomb(size: int) -> bytes:
    """A block that is small, says it is large, and has the right checksum."""
    head = bytes((archive.VERSION << 4 | archive.ZSTD,)) + b"".join(map(archive._varint, (0, 1, size)))
    payload = archive._compile(archive.NONE).compress(bytes(1 << 24), 3)[1:]
    return head + payload + archive._checksum(head + payload, b"")


BODIES = {
    "a flipped bit": lambda body: flipped(body, random.Random(1)),
    "cut": lambda body: body[:-9],
    "empty": lambda body: b"",
    "text": lambda body: b"nothing that was ever packed",
    "a bomb": lambda body: bomb(1 << 40),
    "a bomb that lies little": lambda body: bomb((1 << 24) - 1),
    "a bomb that tells the truth": lambda body: bomb(1 << 24),
}
LOST = {
    "no block": "DELETE FROM blocks WHERE key = {key}",
    "no place": "DELETE FROM archived WHERE block_key = {key}",
    "a place in another block": "UPDATE archived SET block_key = (SELECT max(key) FROM blocks) WHERE block_key = {key}",
}


@pytest.mark.parametrize("damage", [*BODIES, *LOST])
def test_everything_works_beside_a_damaged_block(
    open_memory: Open, location: str, tmp_path: Path, damage: str, full_count: bool
) -> None:
    enough_on_sqlite(location, full_count)
    with open_memory(settings=folding()) as memory:
        before, whole = many_blocks(memory, conversations=4), bodies(location)
    hit = sorted(whole)[1]
    lost = members(location, [hit])
    (name,) = {one for one, _ in lost}
    if damage in BODIES:
        replace_bodies(location, {hit: BODIES[damage](whole[hit])})
    else:
        ask(location, LOST[damage].format(key=hit))
    memory = open_memory(settings=folding())
    check_damage(memory, before, lost)
    assert [one.name for one in memory.check() if one.state == "error"] == ["archive"]
    use_everything(memory, tmp_path, list(before))
    say(memory, name, list(islice(prose(), 100, 104)))  # it folds on, beside what is lost
    fold(memory)
    memory.rebuild()
    before[name] += memory.history(name)[len(before[name]) :]
    check_damage(memory, before, lost)
    use_everything(memory, tmp_path, list(before))
    gone = sorted(one for _, one in lost)[2]
    assert memory.erase(message=gone).counts["messages"] == 1
    before[name] = [one for one in before[name] if one.id != gone]
    check_damage(memory, before, lost)
    fold(memory)
    memory.erase(conversation=name)
    del before[name]
    check_damage(memory, before, set())
    assert [one for one in memory.check() if one.state == "error"] == []


def test_a_block_in_the_place_of_another_never_passes_for_it(open_memory: Open, location: str) -> None:
    """Of another conversation, of another person, or with fewer texts: nobody reads what others said as their own."""
    sara, omar = open_memory(person="sara", settings=folding()), open_memory(person="omar", settings=folding())
    say(sara, "trip", ["hello", "one of sara", "two of sara", "three of sara", "bye"])
    say(omar, "trip", ["hello", "one of omar", "two of omar", "bye"])
    for memory in (sara, omar):
        fold(memory)
    before = everything(sara)
    owners = dict(
        ask(location, "SELECT c.person, b.key FROM blocks b JOIN conversations c ON c.key = b.conversation_key")
    )
    whole = bodies(location)
    replace_bodies(location, {owners["sara"]: whole[owners["omar"]]})
    assert not [one.content for one in sara.history("trip") if "omar" in one.content]
    check_damage(sara, before, members(location, [owners["sara"]]))
    assert [one.name for one in sara.check() if one.state == "error"] == ["archive"]
    assert sara.erase(message=before["trip"][2].id).counts["messages"] == 1


def learned(open_memory: Open, location: str) -> Memory:
    """With a dictionary of the person's own, which packs their blocks."""
    memory = open_memory(settings=folding())
    say(memory, "trip", of_bytes(70_000, prose()))
    fold(memory)
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(1,)]
    assert ask(location, "SELECT count(*) FROM blocks WHERE dictionary_key < 1000") == [(0,)]
    return memory


DICTIONARIES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda body: None,
    "garbage": lambda body: b"nothing that was ever learned",
    "a flipped bit": lambda body: flipped(body, random.Random(3)),
    "cut": lambda body: body[: len(body) // 2],
    "another one": lambda body: archive.pack(archive.train(list(islice(prose(), 900, 1200)), 8000)),
}


@pytest.mark.parametrize("damage", DICTIONARIES)
def test_everything_works_beside_a_damaged_dictionary(
    open_memory: Open, location: str, tmp_path: Path, damage: str, full_count: bool
) -> None:
    enough_on_sqlite(location, full_count)
    with learned(open_memory, location) as memory:
        before = everything(memory)
    with open_memory(person="omar", settings=folding()) as omar:
        say(omar, "his", list(islice(prose(), 9)))
        fold(omar)
    lost = members(location, set(bodies(location)))
    ((key, body),) = ask(location, "SELECT key, body FROM dictionaries")
    changed = DICTIONARIES[damage](bytes(body))
    if changed is None:
        ask(location, f"DELETE FROM dictionaries WHERE key = {key}")  # noqa: S608 - a number
    else:
        replace_bodies(location, {key: changed}, "dictionaries")
    lost = {one for one in lost if one[0] == "trip"}
    memory = open_memory(settings=folding())  # one that does not know the dictionary yet
    check_damage(memory, before, lost)
    assert [one.name for one in memory.check() if one.state == "error"] == ["archive"]
    use_everything(memory, tmp_path, ["trip"])
    added = say(memory, "later", list(islice(prose(), 20)))
    fold(memory)
    assert memory.topics("later")[0].archived_messages == 18
    assert memory.history("later") == added
    check_damage(memory, before, lost)
    memory.erase(message=min(one for _, one in lost))
    memory.erase(conversation="trip")
    assert memory.history("later") == added
    assert [one for one in memory.check() if one.state == "error"] == []


def test_an_erase_works_although_nobody_knows_what_a_dictionary_was_learned_from(
    open_memory: Open, location: str
) -> None:
    memory = learned(open_memory, location)
    before = memory.history("trip")
    for nonsense in ("nonsense", "", "1 2 3"):
        ask(location, f"UPDATE dictionaries SET learned_from = '{nonsense}'")  # noqa: S608 - ours
        assert memory.erase(message=before.pop(20).id).counts["messages"] == 1
        assert memory.history("trip") == before
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(0,)]
    assert all(one.state == "ok" for one in memory.check())


# Erasing (R19).

CANARY = "7c1f0b6e9d2a48538e6f"  # by a word that looks random: an index keeps only the ends of words that begin alike
NEEDLE = CANARY[8:]
TABLES = {
    name: name
    for name in (
        "conversations", "messages", "entries", "vectors", "briefs", "brief_entries", "archived", "dictionaries",
        "topics", "topic_messages", "feedback",
    )
} | {"token_counts": "message_tokens"}  # fmt: skip


def counts(location: str) -> dict[str, int]:
    return {name: ask(location, f"SELECT count(*) FROM {table}")[0][0] for name, table in TABLES.items()}  # noqa: S608


def held(location: str, needle: str) -> list[str]:
    """Where the needle can still be read: files or tables, blocks and dictionaries."""
    if location.startswith("postgresql:"):
        found = _tables_with(location, needle)
    else:  # by another process: one that opens and closes the files drops SQLite's locks on them
        folder = Path(location).parent
        grep = subprocess.run(
            ["grep", "-rlaiF", "-e", needle, str(folder)], capture_output=True, text=True, check=False
        )
        found = grep.stdout.split()
    dictionaries = {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM dictionaries")}
    found += [f"dictionary {key}" for key, body in dictionaries.items() if needle.encode() in archive.unpack(body)]
    for key, body in bodies(location).items():
        found += [f"block {key}" for text in inspection.unpacked(body, dictionaries).values() if needle in text]
    return found + [f"topic {one}" for one, told in told_of_topics(location).items() if needle in told]


def told_of_topics(location: str) -> dict[str, str]:
    """Titles and summaries, merged topics included."""
    rows = ask(location, "SELECT id, title, summary FROM topics")
    return {one: f"{title} {from_stored(summary and bytes(summary))}" for one, title, summary in rows}


def _tables_with(location: str, needle: str) -> list[str]:
    with psycopg.connect(location) as server:
        names = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        question = "SELECT count(*) FROM {0} WHERE {0}::text ILIKE %s OR {0}::text LIKE %s"
        patterns = (f"%{needle}%", f"%{needle.encode().hex()}%")  # blobs are shown in hexadecimal
        found = []
        for (name,) in names:
            row = server.execute(sql.SQL(question).format(sql.Identifier(name)), patterns).fetchone()
            found += [name] if row and row[0] else []
        return found


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


# Learned dictionaries.


def sizes(location: str) -> tuple[int, int]:
    """Bytes of all blocks as they are, and packed with the shipped dictionary alone."""
    dictionaries = {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM dictionaries")}
    found = bodies(location).values()
    plain = [
        archive.encode(list(inspection.unpacked(body, dictionaries).values()), archive.shipped()) for body in found
    ]
    return sum(map(len, found)), sum(map(len, plain))


def test_dictionaries_are_learned_from_an_archive_that_grows(
    open_memory: Open, location: str, full_count: bool
) -> None:
    """At 64 KiB and again at four times that; each makes blocks smaller, and those before it stay readable."""
    enough_on_sqlite(location, full_count)
    memory, source = open_memory(settings=folding()), prose()
    added = {"a": say(memory, "a", of_bytes(60_000, source))}
    fold(memory)
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(0,)]
    before = memory.stats()["archive_bytes"]
    added["b"] = say(memory, "b", of_bytes(8_000, source))
    fold(memory)
    ((first, text_bytes),) = ask(location, "SELECT key, text_bytes FROM dictionaries")
    assert 1 << 16 <= text_bytes < 80_000
    packed, plain = sizes(location)
    assert packed == memory.stats()["archive_bytes"]
    assert packed < 0.8 * plain
    assert packed < before, "although there is more in it"
    added["c"] = say(memory, "c", of_bytes(150_000, source))
    fold(memory)
    assert ask(location, "SELECT key FROM dictionaries") == [(first,)]
    added["d"] = say(memory, "d", of_bytes(80_000, source))
    fold(memory)
    keys = {key for (key,) in ask(location, "SELECT key FROM dictionaries")}
    used = {key for (key,) in ask(location, "SELECT DISTINCT dictionary_key FROM blocks")}
    assert max(keys) > first
    assert keys - {max(keys)} <= used, "one that nothing is packed with goes"
    packed, plain = sizes(location)
    assert packed < 0.8 * plain
    for name, messages in added.items():
        assert memory.history(name) == messages
    with open_memory() as another:
        assert everything(another) == everything(memory)
    assert all(one.state == "ok" for one in memory.check())


# Meanwhile.


def meanwhile(monkeypatch: pytest.MonkeyPatch, place: str, act: Callable[[], object]) -> list[str]:
    """Once, when the place is reached and before it does its work, something else happens. Whether it did."""
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


PACKING = "recollect.topics.folding.pack"
TELLING = "recollect.topics.folding.FoldTopics._built_in"
TRAINING = "recollect.core.archive.train"
REPACKING = "recollect.sql.topics.pack"


@pytest.mark.parametrize("place", [PACKING, TELLING])
@pytest.mark.parametrize(
    "what", ["split", "merge", "unmerge", "tag", "rename", "add", "erase", "erase topic", "rebuild"]
)
def test_what_happens_while_a_topic_folds_leaves_texts_and_counts_right(
    open_memory: Open, location: str, monkeypatch: pytest.MonkeyPatch, what: str, place: str, full_count: bool
) -> None:
    enough_on_sqlite(location, full_count or place == PACKING)
    memory, other = (
        open_memory(settings=folding(max_messages_per_topic=5, worker_lease_seconds=0.5)) for _ in range(2)
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
    fold(memory)
    left = [one for one in added if not (what.startswith("erase") and one.id in secret)]
    found = memory.history("trip")
    if what == "erase topic":
        left = [one for one in left if one.id in rest]
    assert found[: len(left)] == left
    assert len(found) == len(left) + (what == "add")
    if what.startswith("erase"):
        assert held(location, NEEDLE) == []
    archived(location)
    assert wrong_counts(location) == []
    assert all(one.state == "ok" for one in memory.check())
    if what == "tag":
        assert [one.tags for one in memory.topics("trip") if one.id == whole] == [("tagged",)]


@pytest.mark.parametrize("place", [TRAINING, REPACKING])
@pytest.mark.parametrize("scope", ["message", "person"])
def test_what_is_erased_while_a_dictionary_is_learned_is_not_in_it(
    open_memory: Open, location: str, monkeypatch: pytest.MonkeyPatch, place: str, scope: str, full_count: bool
) -> None:
    enough_on_sqlite(location, full_count)
    memory, other = (open_memory(settings=folding()) for _ in range(2))
    texts = of_bytes(60_000, prose())
    say(memory, "trip", [*texts[:50], *(f"{CANARY} {text}" for text in texts[50:90]), *texts[90:]])
    fold(memory)
    secret = [one.id for one in memory.history("trip") if CANARY in one.content]
    added = say(memory, "more", of_bytes(9_000, islice(prose(), len(texts), None)))
    scopes: list[dict[str, str]] = [{"message": one} for one in secret] if scope == "message" else [{"person": "local"}]
    happened = meanwhile(monkeypatch, place, lambda: [other.erase(**one) for one in scopes])
    memory.drain(timeout=30)
    assert happened, "else the test proves nothing"
    fold(memory)
    assert held(location, NEEDLE) == []
    assert memory.history("more") == (added if scope == "message" else [])
    assert [one.content for one in memory.history("trip")] == ([*texts[:50], *texts[90:]] if scope == "message" else [])
    assert all(one.state == "ok" for one in memory.check())


# Size.


def bytes_of(location: str, *tables: str) -> int:
    with inspection.connected(location) as file:
        found = dict(inspection.rows(file, "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    return sum(found[name] for name in tables)


ARCHIVE = ("blocks", "blocks_conversation", "archived", "dictionaries", "dictionaries_person")


@on_sqlite
def test_a_file_becomes_smaller_by_what_was_archived(open_memory: Open, location: str, clock: FakeClock) -> None:
    """Text by 55 % at least; with all that the archive needs beside it still by a quarter. The file gives it back."""
    resting = folding(max_messages_per_topic=1_000_000)
    with open_memory(settings=resting) as memory:
        for place, text in enumerate(prose()):
            memory.add(f"talk {place % 5}", ("user", "assistant")[place % 2], text)
        fold(memory)
        before = everything(memory)
    texts, whole = bytes_of(location, "texts"), Path(location).stat().st_size
    with open_memory(settings=folding()) as memory:
        for name in before:
            memory.add(name, "user", "And so on and so forth.")
        fold(memory)
        assert {name: messages[:-1] for name, messages in everything(memory).items()} == before
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


# Backup and restore.


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


# Rebuild.


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
    found = memory._wait(memory._engine._store.topics.dictionary(Principal()))
    assert found.id >= archive.LEARNED
    body = archive.pack(archive.train(of_bytes(90_000, islice(source, 200, None)), 9_000))
    with inspection.connected(location) as connection:
        connection.execute("UPDATE dictionaries SET body = ?", (body,))
    say(memory, "late", of_bytes(5_000, source))
    memory.drain()
    assert archived(location)
    again = open_memory(settings=folding())  # without what the first one has in memory
    assert not [one for one in again.history("late") if one.damaged]


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


def test_more_messages_kept_than_there_are_keep_all(open_memory: Open, location: str) -> None:
    memory = open_memory(settings=folding(recent_message_keep=20))
    say(memory, "trip", list(islice(prose(), 13)))
    fold(memory)
    assert archived(location) == set()


def test_a_rebuild_leaves_the_topics_of_others_alone(open_memory: Open, location: str) -> None:
    memory, omar = open_memory(settings=folding()), open_memory(person="omar", settings=folding())
    for one in (memory, omar):
        say(one, "trip", list(islice(prose(), 13)))
        fold(one)
    (theirs,) = omar.topics("trip")
    omar.tag_topic(theirs.id, ["mine"])  # so that the worker would look at it again
    assert theirs.summary
    memory.rebuild(conversation="trip")
    assert omar.topics("trip")[0].summary == theirs.summary
    assert ask(location, "SELECT count(*) FROM topics WHERE sums IS NULL") == [(0,)]


def test_postgres_vacuums_every_table_that_may_hold_what_was_said(pg: str) -> None:
    Memory(pg, worker=False, embedder=FakeEmbedder()).close()
    tables = {name for (name,) in ask(pg, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}
    assert tables - set(VACUUMED) == {"schema_migrations", "embedders", "leases", "erasures"}
