"""Damage in the archive is noticed, and affects only the messages of its block."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from recollect import Memory
from recollect.core import archive
from recollect.storage.shipped_dictionary import shipped_dictionary
from support.archives import (
    Open,
    add_texts,
    all_messages,
    block_bodies,
    check_damage,
    drain_fully,
    fill_many_blocks,
    folding_settings,
    messages_in_blocks,
    open_with_dictionary,
    prose,
    replace_block_bodies,
)
from support.tables import ask
from support.talks import skip_on_postgres_unless_full


def flip_bit(body: bytes, dice: random.Random) -> bytes:
    bit = dice.randrange(8 * len(body))
    return body[: bit // 8] + bytes([body[bit // 8] ^ 1 << bit % 8]) + body[bit // 8 + 1 :]


def damage(body: bytes, dice: random.Random) -> bytes:
    ways = (
        lambda: flip_bit(body, dice),
        lambda: flip_bit(flip_bit(body, dice), dice)[:-1],
        lambda: body[: dice.randrange(len(body))],
        lambda: body + dice.randbytes(dice.randrange(1, 9)),
        lambda: body[1:],
        lambda: dice.randbytes(len(body)),
        lambda: bytes(len(body)),
        lambda: b"",
        lambda: body[: len(body) // 2] + body[len(body) // 2 + dice.randrange(1, 5) :],
    )
    while (damaged := dice.choice(ways)()) == body:
        pass
    return damaged


@pytest.mark.slow
def test_each_of_hundreds_of_damaged_blocks_costs_its_own_messages_alone(
    open_memory: Open, location: str, full_count: bool
) -> None:
    skip_on_postgres_unless_full(location, full_count)
    with open_memory(settings=folding_settings()) as memory:
        before, whole = fill_many_blocks(memory), block_bodies(location)
    assert len(whole) == 30
    dice = random.Random(10)
    for _ in range(15):
        hit = dice.sample(sorted(whole), 15)
        replace_block_bodies(location, {key: damage(whole[key], dice) for key in hit})
        with open_memory(settings=folding_settings()) as reader:  # one that has read none of them yet
            check_damage(reader, before, messages_in_blocks(location, hit))
            (finding,) = [one for one in reader.check() if one.name == "archive"]
            assert (finding.state, "15 of 30 blocks" in finding.detail) == ("error", True)
            replace_block_bodies(location, whole)
            check_damage(reader, before, set())
            assert all(one.state == "ok" for one in reader.check())


def test_a_check_finds_damage_in_a_block_that_was_read_before(open_memory: Open, location: str) -> None:
    """A memory may keep unpacked blocks; a check reads what is stored."""
    memory = open_memory(settings=folding_settings())
    before, whole = fill_many_blocks(memory, conversations=3), block_bodies(location)
    assert all_messages(memory) == before
    hit = min(whole)
    middle = len(whole[hit]) // 2
    replace_block_bodies(location, {hit: whole[hit][:middle] + b"damaged" + whole[hit][middle + 7 :]})
    assert [one.name for one in memory.check() if one.state == "error"] == ["archive"]


def use_everything(memory: Memory, folder: Path, conversations: Sequence[str]) -> None:
    """Call everything that reads texts."""
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
    """Return a small block that claims to be large and has the right checksum."""
    head = bytes((archive.VERSION << 4 | archive.CODEC_ZSTD,)) + b"".join(map(archive._varint, (0, 1, size)))
    payload = archive._compile(archive.NO_DICTIONARY).compress(bytes(1 << 24), 3)[1:]
    return head + payload + archive._checksum(head + payload, b"")


BODIES = {
    "a flipped bit": lambda body: flip_bit(body, random.Random(1)),
    "cut": lambda body: body[:-9],
    "empty": lambda body: b"",
    "text": lambda body: b"nothing that was ever packed",
    "a bomb": lambda body: bomb(1 << 40),
    "a bomb that lies little": lambda body: bomb((1 << 24) - 1),
    "a bomb that tells the truth": lambda body: bomb(1 << 24),
}
LOST = {
    "no block": "DELETE FROM blocks WHERE key = {key}",
    "no block noted": "DELETE FROM archived WHERE block_key = {key}",
    "another block noted": "UPDATE archived SET block_key = (SELECT max(key) FROM blocks) WHERE block_key = {key}",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", [*BODIES, *LOST])
def test_everything_works_beside_a_damaged_block(
    open_memory: Open, location: str, tmp_path: Path, damage: str, full_count: bool
) -> None:
    skip_on_postgres_unless_full(location, full_count)
    with open_memory(settings=folding_settings()) as memory:
        before, whole = fill_many_blocks(memory, conversations=4), block_bodies(location)
    hit = sorted(whole)[1]
    lost = messages_in_blocks(location, [hit])
    (name,) = {one for one, _ in lost}
    if damage in BODIES:
        replace_block_bodies(location, {hit: BODIES[damage](whole[hit])})
    else:
        ask(location, LOST[damage].format(key=hit))
    memory = open_memory(settings=folding_settings())
    check_damage(memory, before, lost)
    assert [one.name for one in memory.check() if one.state == "error"] == ["archive"]
    use_everything(memory, tmp_path, list(before))
    add_texts(memory, name, list(islice(prose(), 100, 104)))  # it folds on, beside what is lost
    drain_fully(memory)
    memory.rebuild()
    before[name] += memory.history(name)[len(before[name]) :]
    check_damage(memory, before, lost)
    use_everything(memory, tmp_path, list(before))
    gone = sorted(one for _, one in lost)[2]
    assert memory.erase(message=gone).counts["messages"] == 1
    before[name] = [one for one in before[name] if one.id != gone]
    check_damage(memory, before, lost)
    drain_fully(memory)
    memory.erase(conversation=name)
    del before[name]
    check_damage(memory, before, set())
    assert [one for one in memory.check() if one.state == "error"] == []


def test_a_block_under_the_key_of_another_counts_as_damaged(open_memory: Open, location: str) -> None:
    """Whether it is of another conversation, of another person, or has fewer texts: no text is shown as another's."""
    sara, omar = (
        open_memory(person="sara", settings=folding_settings()),
        open_memory(person="omar", settings=folding_settings()),
    )
    add_texts(sara, "trip", ["hello", "one of sara", "two of sara", "three of sara", "bye"])
    add_texts(omar, "trip", ["hello", "one of omar", "two of omar", "bye"])
    for memory in (sara, omar):
        drain_fully(memory)
    before = all_messages(sara)
    owners = dict(
        ask(location, "SELECT c.person, b.key FROM blocks b JOIN conversations c ON c.key = b.conversation_key")
    )
    whole = block_bodies(location)
    replace_block_bodies(location, {owners["sara"]: whole[owners["omar"]]})
    assert not [one.content for one in sara.history("trip") if "omar" in one.content]
    check_damage(sara, before, messages_in_blocks(location, [owners["sara"]]))
    assert [one.name for one in sara.check() if one.state == "error"] == ["archive"]
    assert sara.erase(message=before["trip"][2].id).counts["messages"] == 1


DICTIONARIES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda body: None,
    "garbage": lambda body: b"nothing that was ever learned",
    "a flipped bit": lambda body: flip_bit(body, random.Random(3)),
    "cut": lambda body: body[: len(body) // 2],
    "another one": lambda body: archive.pack_dictionary(
        archive.train(list(islice(prose(), 900, 1200)), 8000), shipped_dictionary()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DICTIONARIES)
def test_everything_works_beside_a_damaged_dictionary(
    open_memory: Open, location: str, tmp_path: Path, damage: str, full_count: bool
) -> None:
    skip_on_postgres_unless_full(location, full_count)
    with open_with_dictionary(open_memory, location) as memory:
        before = all_messages(memory)
    with open_memory(person="omar", settings=folding_settings()) as omar:
        add_texts(omar, "his", list(islice(prose(), 9)))
        drain_fully(omar)
    lost = messages_in_blocks(location, set(block_bodies(location)))
    ((key, body),) = ask(location, "SELECT key, body FROM dictionaries")
    changed = DICTIONARIES[damage](bytes(body))
    if changed is None:
        ask(location, f"DELETE FROM dictionaries WHERE key = {key}")  # noqa: S608 - a number
    else:
        replace_block_bodies(location, {key: changed}, "dictionaries")
    lost = {one for one in lost if one[0] == "trip"}
    memory = open_memory(settings=folding_settings())  # one that does not know the dictionary yet
    check_damage(memory, before, lost)
    assert [one.name for one in memory.check() if one.state == "error"] == ["archive"]
    use_everything(memory, tmp_path, ["trip"])
    added = add_texts(memory, "later", list(islice(prose(), 20)))
    drain_fully(memory)
    assert memory.topics("later")[0].archived_messages == 18
    assert memory.history("later") == added
    check_damage(memory, before, lost)
    memory.erase(message=min(one for _, one in lost))
    memory.erase(conversation="trip")
    assert memory.history("later") == added
    assert [one for one in memory.check() if one.state == "error"] == []


def test_an_erase_works_although_the_sources_of_a_dictionary_cannot_be_read(open_memory: Open, location: str) -> None:
    memory = open_with_dictionary(open_memory, location)
    before = memory.history("trip")
    for nonsense in ("nonsense", "", "1 2 3"):
        ask(location, f"UPDATE dictionaries SET learned_from = '{nonsense}'")  # noqa: S608 - ours
        assert memory.erase(message=before.pop(20).id).counts["messages"] == 1
        assert memory.history("trip") == before
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(0,)]
    assert all(one.state == "ok" for one in memory.check())
