"""Damage in the archive (R10) is noticed, and costs the messages of its block alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from recollect import Memory
from recollect.core import archive
from support.archives import (
    Open,
    bodies,
    check_damage,
    everything,
    fold,
    folding,
    learned,
    many_blocks,
    members,
    prose,
    replace_bodies,
    say,
)
from support.tables import ask
from support.talks import enough_on_sqlite


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
