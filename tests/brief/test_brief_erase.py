"""What an erase takes of briefs, what it leaves, and how they are made anew, copied and kept apart."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory
from recollect.core.compression.brief import Brief
from recollect.settings import Settings
from recollect.storage.sqlite_file import read_blocks
from recollect.testing import FakeClock, FakeModel
from support.summaries import Open, brief_of, long_turns, user_turns, wait_until
from support.tables import ask

SETTINGS = Settings(
    memory_k_raw_turns=1,
    compress_messages_at=4,
    compress_messages_keep=1,
    memory_chunk_summarize_threshold=0,
    compress_must_pay=False,
)
EVERY_TABLE = "SELECT body FROM briefs UNION ALL SELECT entry FROM brief_entries UNION ALL SELECT content FROM texts"


def versions(memory: Memory, conversation: str = "trip") -> list[int]:
    return [one["version"] for one in memory.brief_versions(conversation)]


def everything(location: str) -> str:
    return "\n".join(row[0] for row in ask(location, EVERY_TABLE)).lower()


def on_disk(location: str, needle: str) -> bool:
    """Whether the text stands in any file beside the database; other databases are asked through their tables."""
    if location.startswith("postgresql:"):
        return False
    files = [one for one in Path(location).parent.iterdir() if not one.name.endswith("-shm")]
    return any(needle.encode() in b"".join(read_blocks(str(one))) for one in files)


def folded(memory: Memory, *facts: str, conversation: str = "trip", prefix: str = "") -> list[Brief]:
    """One version for each fact, which is said in a turn of its own: s0, s10, s20, …"""
    made = []
    for n, fact in enumerate(facts):
        turns = [one | {"id": f"{prefix}{one['id']}"} for one in user_turns(fact, f"Lamp {n} is lit.", first=10 * n)]
        memory.add_many(conversation, turns)
        memory.compress(conversation, force=True)
        made.append(brief_of(memory, conversation))
    return made


FACTS = ("I live in Berlin.", "My dog is called Quixote.", "I am allergic to walnuts.", "I work as a nurse.")


def test_every_version_that_covers_an_erased_message_goes(
    open_memory: Open, location: str, model: FakeModel | None, clock: FakeClock
) -> None:
    memory = open_memory(settings=SETTINGS, model=model)
    made = folded(memory, *FACTS)
    assert versions(memory) == [1, 2, 3, 4]
    assert "quixote" in everything(location)
    gone = sum(len(one.entries) for one in made[-1:]) - len(made[0].entries)
    receipt = memory.erase(message="s10")
    assert (receipt.counts["briefs"], receipt.counts["brief_entries"]) == (3, gone)
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.brief("trip", version=1) == made[0]
    assert versions(memory) == [1]
    assert "quixote" not in everything(location)
    assert not on_disk(location, "Quixote")
    clock.advance(timedelta(seconds=1))
    assert memory.drain().complete
    again = brief_of(memory)
    assert again.version >= 2
    assert again.through_seq >= made[-1].through_seq - 2
    for kept in ("Berlin", "walnuts"):
        assert kept in json.dumps(again.to_dict(), default=str)
    assert "quixote" not in everything(location)
    assert not on_disk(location, "Quixote")
    assert "Quixote" not in memory.context("trip", "What is my dog called?").text


def test_a_message_above_the_cursor_takes_no_brief(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings=SETTINGS, model=model)
    made = folded(memory, *FACTS[:2])
    memory.add("trip", "user", "My locker is 5512.", id="new")
    receipt = memory.erase(message="new")
    assert (receipt.counts["briefs"], receipt.counts["brief_entries"]) == (0, 0)
    assert brief_of(memory) == made[-1]


def test_a_value_holds_again_when_what_took_its_place_is_erased(open_memory: Open, model: FakeModel | None) -> None:
    """And the other way round: what is left of the log decides."""
    memory = open_memory(settings=SETTINGS, model=model)
    folded(memory, "I live in Berlin.", "I moved to Lisbon. I live in Lisbon now.", "I like tea.")

    def homes(brief: Brief) -> dict[str, bool]:
        return {one.value: one.holds for one in brief.entries if one.slot == "home"}

    assert homes(brief_of(memory)) == {"Berlin": False, "Lisbon": True}
    memory.erase(message="s10")
    assert homes(brief_of(memory)) == {"Berlin": True}
    memory.drain()
    assert homes(brief_of(memory)) == {"Berlin": True}
    assert "tea" in json.dumps(brief_of(memory).to_dict(), default=str)


def test_an_erased_day_takes_the_briefs_from_its_first_message_on(
    open_memory: Open, location: str, clock: FakeClock, model: FakeModel | None
) -> None:
    memory = open_memory(settings=SETTINGS, model=model)
    made = []
    for n, fact in enumerate(FACTS):
        memory.add_many("trip", user_turns(fact, f"Lamp {n} is lit.", first=10 * n))
        memory.compress("trip", force=True)
        made.append(brief_of(memory))
        clock.advance(timedelta(days=1))
    receipt = memory.erase(day="2026-01-02", conversation="trip")
    assert receipt.counts["messages"] == 4
    assert receipt.counts["briefs"] == 3
    assert versions(memory) == [1]
    assert brief_of(memory) == made[0]
    assert "quixote" not in everything(location)
    assert not on_disk(location, "Quixote")
    memory.drain()
    assert "walnuts" in json.dumps(brief_of(memory).ledger)


def test_an_erased_conversation_takes_its_briefs_and_no_others(
    open_memory: Open, location: str, model: FakeModel | None
) -> None:
    memory = open_memory(settings=SETTINGS, model=model)
    made = folded(memory, *FACTS)
    other = folded(memory, "My cat is called Dulcinea.", conversation="other", prefix="o")
    receipt = memory.erase(conversation="trip")
    assert receipt.counts["briefs"] == 4
    assert receipt.counts["brief_entries"] == len(made[-1].entries)
    assert (memory.brief("trip"), versions(memory)) == (None, [])
    assert brief_of(memory, "other") == other[-1]
    assert "quixote" not in everything(location)
    assert "dulcinea" in everything(location)
    assert not on_disk(location, "Quixote")
    assert memory.drain().complete


def test_an_erased_person_takes_their_briefs_and_nobody_elses(
    open_memory: Open, location: str, model: FakeModel | None
) -> None:
    sara, omar = (open_memory(person=name, settings=SETTINGS, model=model) for name in ("sara", "omar"))
    made = folded(sara, *FACTS)
    own = folded(omar, "My cat is called Dulcinea.", "I live in Muscat.")
    receipt = sara.erase(person="sara")
    assert receipt.counts["briefs"] == 4
    assert receipt.counts["brief_entries"] == len(made[-1].entries)
    assert sara.brief("trip") is None
    assert brief_of(omar) == own[-1]
    assert versions(omar) == [1, 2]
    assert "quixote" not in everything(location)
    assert not on_disk(location, "Quixote")


def test_no_context_shows_what_was_erased_though_the_brief_was_read_before(open_memory: Open) -> None:
    """The brief that is made anew has the same version, place and (by a clock that stands) time as the erased one."""
    memory = open_memory(settings=SETTINGS)
    other = open_memory(settings=SETTINGS)
    memory.add_many("trip", user_turns(*FACTS))
    memory.drain()
    for one in (memory, other):
        assert "Quixote" in one.context("trip", "What is my dog called?").text
    memory.erase(message="s2")
    memory.drain()
    for one in (memory, other):
        assert "Quixote" not in one.context("trip", "What is my dog called?").text
        assert "Quixote" not in one.context("trip", "Tell me about my dog.").text


def test_the_worker_makes_a_new_brief_of_what_is_left_by_itself(open_memory: Open, location: str) -> None:
    memory = open_memory(settings=SETTINGS, worker=True)
    memory.add_many("trip", user_turns(*FACTS, "Good night."))
    assert wait_until(lambda: memory.brief("trip") is not None)
    memory.drain(timeout=30)
    memory.erase(message="s2")
    memory.add("trip", "user", "Are you there?")  # wakes it
    assert wait_until(lambda: memory.brief("trip") is not None)
    assert "Berlin" in json.dumps(brief_of(memory).ledger)
    assert "quixote" not in everything(location)


def test_erasing_everything_that_was_said_leaves_no_brief(open_memory: Open, location: str) -> None:
    memory = open_memory(settings=SETTINGS)
    folded(memory, *FACTS)
    for message in memory.history("trip"):
        memory.erase(message=message.id)
    assert memory.drain().complete
    assert memory.brief("trip") is None
    assert ask(location, "SELECT count(*) FROM briefs") == ask(location, "SELECT count(*) FROM brief_entries") == [(0,)]


# Made anew, copied.


@pytest.mark.slow
def test_a_rebuild_makes_the_same_briefs_again(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", [*user_turns(*FACTS), *long_turns(32, first=5)])
    memory.add_many("short", user_turns("hello"))
    memory.drain()
    before = [memory.brief("trip", version=n) for n in versions(memory)]
    assert len(before) >= 2
    memory.rebuild(conversation="trip")
    assert [memory.brief("trip", version=n) for n in versions(memory)] == before
    memory.rebuild(everyone=True)
    assert [memory.brief("trip", version=n) for n in versions(memory)] == before
    assert memory.brief("short") is None


def test_a_rebuild_of_one_person_leaves_the_briefs_of_others(open_memory: Open, clock: FakeClock) -> None:
    sara, omar = (open_memory(person=name, settings=SETTINGS) for name in ("sara", "omar"))
    for memory in (sara, omar):
        memory.add_many("trip", user_turns(*FACTS))
        memory.drain()
    before = brief_of(omar)
    clock.advance(timedelta(hours=1))
    sara.rebuild()
    assert brief_of(sara).created_at == clock.now()
    assert brief_of(omar) == before


def test_a_backup_has_the_briefs_and_a_restore_brings_them_back(
    open_memory: Open, tmp_path: Path, model: FakeModel | None
) -> None:
    memory = open_memory(settings=SETTINGS, model=model)
    made = folded(memory, "I live in Berlin.", "I moved to Lisbon. I live in Lisbon now.", "I like tea.")
    memory.backup(tmp_path / "copy.backup")
    copy = open_memory(location=tmp_path / "copy.backup", settings=SETTINGS)
    assert [copy.brief("trip", version=n) for n in (1, 2, 3)] == made
    folded(memory, "My shoe size is 44.", conversation="later", prefix="l")
    memory.add_many("trip", user_turns("I live in Oslo.", "Bye.", first=90))
    memory.compress("trip", force=True)
    memory.context("trip", "Where do I live?")
    memory.restore(tmp_path / "copy.backup")
    assert versions(memory) == [1, 2, 3]
    assert [memory.brief("trip", version=n) for n in (1, 2, 3)] == made
    assert memory.brief("later") is None
    context = memory.context("trip", "Where do I live?")
    assert "Oslo" not in context.text
    assert context.explain["brief"] == {"version": 3, "through_seq": made[-1].through_seq}
    assert memory.drain().complete
    memory.add_many("trip", user_turns("I live in Oslo.", "Bye.", first=90))
    memory.compress("trip", force=True)
    assert "Oslo" in json.dumps(brief_of(memory).to_dict(), default=str)


def test_an_export_holds_messages_alone_and_an_import_makes_briefs_anew(
    open_memory: Open, tmp_path: Path, model: FakeModel | None
) -> None:
    memory = open_memory(settings=SETTINGS, model=model)
    memory.add_many("trip", user_turns(*FACTS, "Good night."))
    plain = memory.export(tmp_path / "before.ndjson")
    memory.drain()
    before = brief_of(memory)
    assert memory.export(tmp_path / "after.ndjson") == plain == 10
    assert (tmp_path / "after.ndjson").read_text() == (tmp_path / "before.ndjson").read_text()
    other = open_memory(person="omar", settings=SETTINGS, model=model)
    other.import_file(tmp_path / "after.ndjson", own=True)
    assert other.brief("trip") is None
    other.drain()
    again = brief_of(other)
    assert again.narrative == before.narrative
    assert again.through_seq == before.through_seq


# Apart.


def test_people_with_the_same_conversation_never_see_each_others_brief(
    open_memory: Open, model: FakeModel | None
) -> None:
    sara, omar = (open_memory(person=name, settings=SETTINGS, model=model) for name in ("sara", "omar"))
    nobody = open_memory(person="nobody", settings=SETTINGS)
    folded(sara, "My dog is called Quixote.", "I live in Berlin.")
    folded(omar, "My cat is called Dulcinea.")
    facts = {"sara": ("Quixote", sara), "omar": ("Dulcinea", omar)}
    for name, (own, memory) in facts.items():
        shown = json.dumps(brief_of(memory).to_dict(), default=str)
        shown += memory.context("trip", "What is my animal called?").text
        assert own in shown
        assert not [other for who, (other, _) in facts.items() if who != name and other in shown]
    assert (versions(sara), versions(omar), versions(nobody)) == ([1, 2], [1], [])
    assert (nobody.brief("trip"), nobody.compress("trip", force=True)) == (None, None)
    assert "Quixote" not in nobody.context("trip", "What is my animal called?").text


def test_conversations_never_see_each_others_brief(open_memory: Open, model: FakeModel | None) -> None:
    """Spec §6: briefs never cross conversations."""
    memory = open_memory(settings=SETTINGS, model=model)
    folded(memory, "My dog is called Quixote.", conversation="one", prefix="a")
    folded(memory, "My cat is called Dulcinea.", conversation="two", prefix="b")
    for name, own, other in (("one", "Quixote", "Dulcinea"), ("two", "Dulcinea", "Quixote")):
        shown = json.dumps(brief_of(memory, name).to_dict(), default=str)
        assert own in shown
        assert other not in shown
        parts = _brief_parts(memory.context(name, "What is my animal called?").explain)
        assert own in parts
        assert other not in parts


def _brief_parts(explain: dict[str, Any]) -> str:
    return json.dumps([one for one in explain["parts"] if one["name"] in ("important_data", "summary")])
