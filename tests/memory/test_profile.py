"""The profile is used and shown only with consent, in all processes at once, and erased when consent is revoked."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from recollect import InvalidInput, Memory, StoreUnavailable, count_tokens
from recollect.recall.prompt import fence
from recollect.testing import FakeEmbedder
from support.prompts import assert_valid_for_providers, assert_within, long_talk, part, tell
from support.tables import ask

Open = Callable[..., Memory]
CANARY = "zqcanary4711"
PROFILE: dict[str, Any] = {
    "preferences": {"coding_style": f"functional {CANARY}", "languages": ["Python", CANARY], "frameworks": []},
    "context": {"goals": f"ship the {CANARY} parser", "domain": None, "constraints": f"no {CANARY} dependencies"},
    "notes": f"My languages are known as {CANARY} around here.",
}
QUESTION = "Which languages do I know?"
on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def all_outputs(memory: Memory, folder: Path) -> str:
    """Return every output in which a profile could be seen."""
    memory.export(folder / "export.ndjson")
    seen = [
        memory.profile(),
        memory.context("trip", QUESTION),
        memory.context("trip", QUESTION, budget=500).explain,
        memory.recall(QUESTION),
        memory.recall(QUESTION, conversation="trip", budget=200),
        memory.metrics(),
        memory.stats(),
        memory.audit(limit=1000),
        (folder / "export.ndjson").read_text(),
    ]
    return repr(seen)


def test_a_profile_is_returned_as_it_was_set_once_there_is_consent(memory: Memory) -> None:
    assert memory.set_profile(PROFILE).to_dict()["notes"] == ""
    assert memory.set_consent(True) is True
    found = memory.profile()
    assert {name: getattr(found, name) for name in PROFILE} == PROFILE
    assert (found.consent, found.stored) == (True, True)
    assert json.loads(json.dumps(found.to_dict()))["updated_at"] == found.updated_at.isoformat()
    changed = memory.set_profile({"context": {"domain": "compilers"}, "notes": None})
    assert changed.context == PROFILE["context"] | {"domain": "compilers"}
    assert changed.notes == ""


def test_without_consent_a_profile_is_stored_but_shown_and_used_nowhere(memory: Memory, tmp_path: Path) -> None:
    tell(memory, "trip", long_talk(3))
    assert not memory.consent()
    assert not memory.profile().stored
    memory.set_profile(PROFILE)
    found = memory.profile()
    assert (found.consent, found.stored, found.updated_at) == (False, True, None)
    assert CANARY not in all_outputs(memory, tmp_path)


def test_with_consent_a_profile_is_in_prompt_recall_and_export(memory: Memory, tmp_path: Path) -> None:
    tell(memory, "trip", long_talk(3))
    memory.set_profile(PROFILE)
    memory.set_consent(True)
    context = memory.context("trip", QUESTION, system_prompt="Be brief.")
    assert [part["name"] for part in context.explain["parts"]][:2] == ["system_prompt", "profile"]
    items = part(context, "profile")
    assert f"Languages: Python, {CANARY}" in [item["text"] for item in items]
    assert_valid_for_providers(context.messages, "Be brief.", QUESTION)
    assert_within(context, 3000)
    block, _ = fence.split_fence(context.messages[1]["content"])
    assert block.startswith(f"{fence.OPEN_TAG}\n{fence.INTRODUCTION}\n{fence.PROFILE_HEADING}\n- ")
    assert [each.text for each in fence.parse_fence(block) if each.part == "profile"] == [
        item["text"] for item in items
    ]
    recalled = memory.recall(QUESTION)
    kinds = [hit.kind for hit in recalled]
    assert 0 < kinds.count("profile") == recalled.metrics["sources"]["profile"]
    assert "profile" not in kinds[: kinds.index("profile")]
    assert recalled.metrics["sources"]["other_conversations"] == len(kinds) - kinds.count("profile")
    assert memory.recall(QUESTION, until="2026-01-02").metrics["sources"]["profile"] == 0
    assert memory.metrics()["sources"]["profile"] == len(items) + kinds.count("profile")
    memory.export(tmp_path / "export.ndjson")
    assert CANARY in (tmp_path / "export.ndjson").read_text()


@pytest.mark.parametrize("budget", [80, 500, 2000, 3000])
def test_without_consent_a_prompt_is_the_same_as_without_a_profile(memory: Memory, budget: int) -> None:
    tell(memory, "trip", long_talk(12))
    memory.drain()
    before = memory.context("trip", "Which tool for module3?", budget=budget)
    memory.set_profile(PROFILE)
    assert memory.context("trip", "Which tool for module3?", budget=budget) == before
    memory.revoke_consent()
    memory.set_consent(True)
    assert memory.context("trip", "Which tool for module3?", budget=budget) == before


@pytest.mark.slow
@pytest.mark.parametrize("budget", [120, 300, 500, 1000, 2000, 2001, 4000])
def test_a_long_profile_takes_a_tenth_of_the_budget_and_leaves_recall_its_share(memory: Memory, budget: int) -> None:
    tell(memory, "trip", long_talk(60))
    memory.drain()
    before = memory.context("trip", "Which tool for module7?", budget=budget)
    memory.set_profile({"notes": " ".join(f"Fact {n} is that thing{n} is what it is." for n in range(200))})
    memory.set_profile({"notes": memory.set_consent(True) and memory.profile().notes + "\nI like tool7 for module7."})
    context = memory.context("trip", "Which tool for module7?", budget=budget)
    assert_within(context, budget)
    lines = "".join(f"- {each['text']}\n" for each in part(context, "profile"))
    assert count_tokens(lines) <= min(budget // 10, 200 if budget > 2000 else 60)
    if lines:
        assert "I like tool7 for module7." in lines
    left_out = [item for item in context.explain["left_out"] if item["kind"] == "profile"]
    assert left_out and all(item["reason"] == "no room" for item in left_out)
    if 300 <= budget <= 2000:
        (recall,) = (part["tokens"] for part in context.explain["parts"] if part["name"] == "recall")
        (share,) = (part["tokens"] for part in before.explain["parts"] if part["name"] == "recall")
        frame = count_tokens(fence.render_fence([]))
        assert recall >= min(0.6 * (budget - 20) - frame, 0.85 * share - frame)


def test_another_process_that_grants_or_revokes_is_seen_at_once(open_memory: Open) -> None:
    memory, other = open_memory(), open_memory()
    memory.set_profile(PROFILE)
    assert CANARY not in memory.context("trip", QUESTION).text
    other.set_consent(True)
    assert CANARY in memory.context("trip", QUESTION).text
    assert CANARY in repr(memory.recall(QUESTION))
    other.set_consent(False)
    assert CANARY not in memory.context("trip", QUESTION).text
    assert CANARY not in repr(memory.recall(QUESTION))
    assert not memory.profile().stored


def test_a_profile_belongs_to_its_person_alone(open_memory: Open, tmp_path: Path) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    sara.set_profile(PROFILE)
    sara.set_consent(True)
    omar.set_consent(True)
    assert not omar.profile().stored
    assert CANARY not in all_outputs(omar, tmp_path)
    omar.set_profile({"notes": "something else"})
    assert omar.revoke_consent().counts["profiles"] == 1
    assert sara.profile().notes == PROFILE["notes"]


def test_revoking_erases_the_profile_and_gives_a_receipt(memory: Memory, location: str, tmp_path: Path) -> None:
    memory.set_profile(PROFILE)
    memory.set_consent(True)
    receipt = memory.revoke_consent()
    assert {name: count for name, count in receipt.counts.items() if count} == {"profiles": 1}
    assert (receipt.scope, receipt.remaining, receipt.pending) == ({"profile": "local"}, 0, False)
    assert not memory.consent()
    assert not memory.profile().stored
    assert ask(location, "SELECT person FROM profiles") == []
    assert CANARY not in all_outputs(memory, tmp_path)
    memory.set_consent(True)
    assert memory.profile().notes == ""


@on_sqlite
def test_after_a_revoke_nothing_in_the_process_holds_the_profile(memory: Memory) -> None:
    def holders() -> int:
        gc.collect()
        strings = (each for held in gc.get_objects() for each in gc.get_referents(held) if type(each) is str)
        return sum("zqheld" in each and "4712" in each for each in strings)  # neither is whole in this file

    def uses() -> list[bool]:  # apart, so that nothing of it is held by this frame
        contexts = [memory.context("trip", QUESTION, budget=budget) for budget in (500, 3000)]
        return ["zqheld" in repr(hit) for hit in (*contexts, memory.recall(QUESTION))]

    memory.set_profile({"preferences": {"languages": ["".join(("zqheld", "4712"))]}})
    memory.set_consent(True)
    assert all(uses())
    assert holders() > 0
    memory.revoke_consent()
    assert holders() == 0


def test_revoking_with_nothing_stored_gives_a_receipt_too(memory: Memory) -> None:
    receipt = memory.revoke_consent()
    assert (receipt.counts["profiles"], receipt.pending) == (0, False)
    assert memory.set_consent(False) is False


def test_consent_is_off_even_if_the_erase_fails(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory.set_profile(PROFILE)
    memory.set_consent(True)

    async def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("disk_full", "No room.")

    with monkeypatch.context() as patch:
        patch.setattr(memory._engine._store, "erase", fail)
        with pytest.raises(StoreUnavailable):
            memory.revoke_consent()
    assert not memory.consent()
    assert memory.profile().stored
    assert CANARY not in all_outputs(memory, tmp_path)
    assert memory.revoke_consent().counts["profiles"] == 1


@on_sqlite
def test_a_revoke_while_another_process_reads_is_pending_and_finished_later(location: str, open_memory: Open) -> None:
    memory = open_memory()
    memory.set_profile(PROFILE)
    memory.set_consent(True)
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, location], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with reader:
        assert reader.stdin and reader.stdout
        assert reader.stdout.readline() == "reading\n"
        receipt = memory.revoke_consent()
        assert receipt.pending
        assert receipt.remaining > 0
        assert (memory.consent(), memory.profile().stored) == (False, False)
        reader.stdin.write("stop\n")
        reader.stdin.close()
        reader.wait(timeout=300)
    assert memory.drain().counts["erasures"] == 1


_READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM profiles").fetchall()
print("reading", flush=True)
sys.stdin.readline()
"""


def test_an_erased_person_takes_profile_consent_and_audit_log_along(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    for memory in (sara, omar):
        memory.set_profile(PROFILE)
        memory.set_consent(True)
    counts = sara.erase(person="sara").counts
    assert (counts["profiles"], counts["consents"], counts["audit"]) == (1, 1, 2)
    assert (sara.consent(), sara.profile().stored, sara.audit()) == (False, False, [])
    assert omar.profile().notes == PROFILE["notes"]
    assert len(omar.audit()) == 2


def test_the_same_words_in_a_message_or_in_another_profile_are_not_counted_as_remaining(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    same = 'He said "the same long sentence" \\ again and again.'
    for memory in (sara, omar):
        memory.set_profile({"notes": same, "context": {"goals": "the goal that both of them have"}})
    omar.add("trip", "user", "the goal that both of them have")
    receipt = sara.revoke_consent()
    assert (receipt.remaining, receipt.pending, receipt.counts["profiles"]) == (0, False, 1)


def test_a_backup_carries_profile_consent_and_audit_log(open_memory: Open, tmp_path: Path) -> None:
    memory, omar = open_memory(), open_memory(person="omar")
    memory.add("trip", "user", "hello")
    memory.set_profile(PROFILE)
    memory.set_consent(True)
    memory.context("trip", QUESTION)
    omar.set_profile({"notes": "not to be shown"})
    before, log = memory.profile(), [(entry.at, entry.action, entry.details) for entry in memory.audit()]
    memory.backup(tmp_path / "copy.backup")
    copy = open_memory(location=tmp_path / "copy.backup")
    assert copy.profile() == before
    assert [(entry.at, entry.action, entry.details) for entry in copy.audit()] == log
    memory.set_profile({"notes": "changed later"})
    memory.restore(tmp_path / "copy.backup")
    assert memory.profile() == before
    assert [(entry.at, entry.action, entry.details) for entry in memory.audit()] == log
    assert (omar.profile().stored, omar.consent()) == (True, False)


def test_profiles_move_between_the_databases(tmp_path: Path, pg: str) -> None:
    with Memory(tmp_path / "here.db", worker=False) as here, Memory(pg, worker=False) as there:
        here.set_profile(PROFILE)
        here.set_consent(True)
        here.backup(tmp_path / "one.backup")
        there.restore(tmp_path / "one.backup")
        assert there.profile() == here.profile()
        there.backup(tmp_path / "two.backup")
        here.set_profile({"notes": "changed later"})
        here.restore(tmp_path / "two.backup")
        assert here.profile() == there.profile()


def test_an_exported_profile_comes_back_equal_but_consent_does_not(open_memory: Open, tmp_path: Path) -> None:
    memory, omar = open_memory(), open_memory(person="omar")
    memory.add("trip", "user", "hello")
    memory.set_profile(PROFILE)
    memory.set_consent(True)
    memory.export(tmp_path / "one.ndjson")
    result = omar.import_file(tmp_path / "one.ndjson", own=True)
    assert (result.added, result.skipped) == (1, ())
    assert (omar.consent(), omar.profile().stored) == (False, True)
    omar.set_consent(True)
    assert omar.profile() == memory.profile()
    omar.export(tmp_path / "two.ndjson")
    assert (tmp_path / "one.ndjson").read_bytes() == (tmp_path / "two.ndjson").read_bytes()
    assert omar.import_file(tmp_path / "one.ndjson", own=True).skipped == ()


def test_an_import_never_replaces_a_profile_that_is_there(open_memory: Open, tmp_path: Path) -> None:
    memory, omar = open_memory(), open_memory(person="omar")
    memory.set_profile(PROFILE)
    memory.set_consent(True)
    memory.export(tmp_path / "one.ndjson")
    omar.set_profile({"notes": "my own"})
    result = omar.import_file(tmp_path / "one.ndjson", own=True)
    assert result.skipped_count == 1
    assert CANARY not in result.skipped[0]
    omar.set_consent(True)
    assert omar.profile().notes == "my own"


@pytest.mark.parametrize(
    "record",
    [
        {"notes": "no time"},
        {"notes": 7, "updated_at": "2026-01-01T00:00:00+00:00"},
        {"notes": "x", "updated_at": "yesterday"},
        {"notes": "x", "updated_at": "0001-01-01T00:00:00+00:00"},
        {"notes": "x", "person": "omar", "updated_at": "2026-01-01T00:00:00+00:00"},
        {"notes": "x" * 9000, "updated_at": "2026-01-01T00:00:00+00:00"},
        {"preferences": [], "updated_at": "2026-01-01T00:00:00+00:00"},
    ],
)
def test_a_profile_that_cannot_be_read_is_reported_and_the_rest_goes_in(
    memory: Memory, tmp_path: Path, record: dict[str, Any]
) -> None:
    said = {"type": "message", "conversation": "t", "id": "1", "role": "user", "content": "x"}
    lines = [{"format": "recollect", "version": 1}, {"type": "profile"} | record, said]
    (tmp_path / "file.ndjson").write_text("\n".join(map(json.dumps, lines)))
    result = memory.import_file(tmp_path / "file.ndjson")
    assert (result.added, result.skipped_count) == (1, 1)
    assert not memory.profile().stored


def test_changes_of_different_fields_at_once_all_stay(open_memory: Open) -> None:
    memories = [open_memory() for _ in range(4)]
    fields = ("goals", "domain", "constraints")

    def change(place: int) -> None:
        for number in range(10):
            memories[place].set_profile({"context": {fields[place]: f"value {number}"}})

    threads = [threading.Thread(target=change, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memories[3].set_consent(True)
    assert memories[3].profile().context == dict.fromkeys(fields, "value 9")


def test_a_refused_change_changes_nothing(memory: Memory) -> None:
    memory.set_profile({"notes": "kept"})
    memory.set_consent(True)
    for fields in ({"notes": "other", "nonsense": 1}, {"notes": "x" * 9000}, None):
        with pytest.raises(InvalidInput):
            memory.set_profile(fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        memory.set_consent("yes")  # type: ignore[arg-type]
    assert memory.profile().notes == "kept"
    assert memory.set_profile({}).notes == "kept"
    assert not memory.set_profile({"notes": ""}).stored


def test_a_profile_is_found_by_meaning_without_a_shared_word(location: str) -> None:
    notes = "I am allergic to peanuts.\nI play tennis every Thursday.\nMy manager is Huda."
    with Memory(location, worker=False) as memory:  # with the built-in embedder
        memory.set_profile({"notes": notes, "context": {"constraints": "no cloud services, everything on premises"}})
        memory.set_consent(True)
        (food,) = memory.recall("what food makes me sick?")
        assert (food.kind, food.text) == ("profile", "Notes: I am allergic to peanuts.")
        assert food.why == {"dense": food.score}
        assert memory.recall("can we host this on AWS?")[0].text.startswith("Constraints: ")
        assert len(memory.recall("when was the treaty of Versailles signed?")) == 0
        lines = part(memory.context("trip", "which sport do I do?", budget=260), "profile")  # room for one of them
        assert [line["text"] for line in lines] == ["Notes: I play tennis every Thursday."]
        memory.revoke_consent()
        assert memory.recall("what food makes me sick?").hits == ()


def test_vectors_of_a_profile_are_kept_only_as_long_as_its_consent(open_memory: Open) -> None:
    memory, other = open_memory(), open_memory()
    memory.set_profile({"notes": "I play tennis."})
    memory.set_consent(True)
    for one in (memory, other):
        one.recall("tennis")
    vectors = other._engine._recaller.profiles._vectors
    assert list(vectors) == ["local"]
    memory.revoke_consent()
    assert memory._engine._recaller.profiles._vectors == {}
    other.recall("anything")  # in another process: gone with the next question
    assert vectors == {}


def test_an_embedder_that_fails_leaves_a_profile_that_is_found_by_its_words(open_memory: Open) -> None:
    class Failing(FakeEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            raise ConnectionError("gone")

    memory = open_memory(embedder=Failing())
    memory.set_profile({"notes": "I play tennis."})
    memory.set_consent(True)
    assert [hit.text for hit in memory.recall("tennis")] == ["Notes: I play tennis."]
