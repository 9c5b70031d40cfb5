"""Briefs when rows are damaged and clocks jump, and a prompt that is no text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from recollect import InvalidInput, Memory
from recollect.core.compression.brief import Brief
from recollect.settings import Settings
from recollect.testing import FakeClock
from support.summaries import (
    Open,
    brief_as_json,
    brief_of,
    eager_settings,
    long_turns,
    on_sqlite,
    run_at_once,
    user_turns,
)
from support.tables import ask

# Damaged rows.

DAMAGES = {
    "not JSON": "UPDATE briefs SET body = 'nonsense'",
    "empty": "UPDATE briefs SET body = ''",
    "truncated": "UPDATE briefs SET body = substr(body, 1, length(body) / 2)",
    "null": "UPDATE briefs SET body = 'null'",
    "list": "UPDATE briefs SET body = '[]'",
    "empty object": "UPDATE briefs SET body = '{}'",
    "number": "UPDATE briefs SET body = '17'",
    "deep": "UPDATE briefs SET body = '" + "[" * 5000 + "'",
    "statements of another shape": 'UPDATE briefs SET body = \'{"statements": 3, "record": {},'
    ' "dropped": 0, "degraded": null}\'',
    "a statement of another shape": 'UPDATE briefs SET body = \'{"statements": [["x", "y", "z", {}]], "record": {},'
    ' "dropped": 0, "degraded": null}\'',
    "a number as text": 'UPDATE briefs SET body = \'{"statements": [["x", ["s0"], "soon", 1]], "record": {},'
    ' "dropped": "many", "degraded": null}\'',
    "a time out of range": 'UPDATE briefs SET body = \'{"statements": [["x", ["s0"], 9e30, 1]], "record": {},'
    ' "dropped": 0, "degraded": null}\'',
    "degraded of another type": 'UPDATE briefs SET body = \'{"statements": [["x", ["s0"], 1, 1]], "record": {},'
    ' "dropped": 0, "degraded": {"a": []}}\'',
    "an endless number": 'UPDATE briefs SET body = \'{"statements": [["x", ["s0"], 1, 1]], "record": {},'
    ' "dropped": Infinity, "degraded": null}\'',
    "entry not JSON": "UPDATE brief_entries SET entry = 'nonsense'",
    "entry truncated": "UPDATE brief_entries SET entry = substr(entry, 1, length(entry) - 5)",
    "entry of another shape": "UPDATE brief_entries SET entry = '[]'",
    "entry without sources": 'UPDATE brief_entries SET entry = \'{"kind": "fact"}\'',
    "entry of an unknown kind": 'UPDATE brief_entries SET entry = replace(entry, \'"kind":"\', \'"kind":"x\')',
    "entry with numbers as text": 'UPDATE brief_entries SET entry = replace(entry, \'"seq":\', \'"seq":"a","old":\')',
    "entry with an impossible time": 'UPDATE brief_entries SET entry = replace(entry, \'"at":\', \'"at":9e99,"old":\')',
    "entry ended in an impossible time": "UPDATE brief_entries SET ended_version = 1, ended_at = 9000000000000000000",
    "a cursor beyond the log": "UPDATE briefs SET through_seq = 1000000",
    "an impossible time": "UPDATE briefs SET created_at = 9000000000000000000",
}


def _damaged(open_memory: Open, location: str, *damages: str) -> tuple[Memory, dict[str, Brief]]:
    """A conversation for each damage, with the brief that it had before."""
    first = open_memory(settings=eager_settings())
    for name in damages:
        turns = user_turns("I am allergic to peanuts.", "I live in Riyadh.", "I like tea.", "Good night.")
        first.add_many(name, [one | {"id": f"{name} {one['id']}"} for one in turns])
    first.drain()
    before = {name: brief_of(first, name) for name in damages}
    assert all(brief.entries for brief in before.values())
    first.close()
    for name in damages:
        where = f"WHERE conversation_key = (SELECT key FROM conversations WHERE name = '{name}')"  # noqa: S608 - ours
        ask(location, f"{(DAMAGES | LOST)[name]} {where}")
    return open_memory(settings=eager_settings()), before


def _wrong(names: Iterable[str], find: Callable[[str], Any], expected: Callable[[str], Any]) -> dict[str, Any]:
    """For which names something else is found, or an error."""
    found = {name: run_at_once(partial(find, name))[0] for name in names}
    return {name: value for name, value in found.items() if value != expected(name)}


@pytest.mark.slow
def test_a_damaged_brief_is_noticed_in_a_context_and_made_anew(open_memory: Open, location: str) -> None:
    """B phase 8.3: contexts work and name it, and the worker makes it anew from the log."""
    memory, before = _damaged(open_memory, location, *DAMAGES)
    wrong = _wrong(before, lambda name: memory.context(name, "What may I not eat?").degraded, lambda _: ("brief",))
    assert wrong == {}
    assert memory.drain().complete
    assert _wrong(before, lambda name: brief_of(memory, name), lambda name: before[name]) == {}
    assert _wrong(before, lambda name: memory.context(name, "What may I not eat?").degraded, lambda _: ()) == {}


def test_a_damaged_brief_is_made_anew_for_who_asks_for_it(open_memory: Open, location: str) -> None:
    memory, before = _damaged(open_memory, location, *DAMAGES)
    assert _wrong(before, memory.brief, lambda name: before[name]) == {}


@pytest.mark.slow
def test_a_damaged_brief_is_made_anew_by_the_next_fold(open_memory: Open, location: str) -> None:
    memory, before = _damaged(open_memory, location, *DAMAGES)
    for name in before:
        turns = user_turns("I like cake.", "I like milk.", first=20)
        memory.add_many(name, [one | {"id": f"{name} {one['id']}"} for one in turns])
    done = memory.drain()
    assert (done.complete, done.failed) == (True, {})

    def tells_all(name: str) -> bool:
        brief = brief_of(memory, name)
        told = brief_as_json(brief)
        return brief.through_seq == 10 and all(one in told for one in ("peanuts", "Riyadh", "tea", "cake"))

    assert _wrong(before, tells_all, lambda _: True) == {}


LOST = {"no entries": "DELETE FROM brief_entries", "no brief": "DELETE FROM briefs"}


def test_a_brief_without_its_entries_does_no_harm(open_memory: Open, location: str) -> None:
    """As after a kill between two writes, which one transaction forbids."""
    memory, _ = _damaged(open_memory, location, "no entries")
    assert memory.context("no entries", "What may I not eat?").tokens <= 3000
    memory.add_many("no entries", user_turns("I like cake.", "I like milk.", first=20))
    assert memory.drain().complete
    assert brief_of(memory, "no entries").through_seq == 10
    memory.rebuild()
    assert "peanuts" in json.dumps(brief_of(memory, "no entries").ledger)


def test_entries_without_a_brief_do_no_harm(open_memory: Open, location: str) -> None:
    memory, before = _damaged(open_memory, location, "no brief")
    context = memory.context("no brief", "What may I not eat?")
    assert (context.degraded, context.explain["brief"]) == ((), None)
    assert "peanuts" in context.text
    brief = memory.compress("no brief")
    assert brief is not None
    assert brief.entries == before["no brief"].entries
    assert memory.drain().complete
    assert brief_of(memory, "no brief") == brief


# R12: clocks and zones.

DAILY = Settings(compress_daily=True, memory_chunk_summarize_threshold=0, compress_must_pay=False)


def test_jumps_of_the_clock_neither_lose_nor_repeat_anything(open_memory: Open, clock: FakeClock) -> None:
    """R12: ±48 h; the cursor only rises, order is that of seq."""
    memory = open_memory(settings=DAILY)
    cursors = [0]
    for place, hours in enumerate((0, 48, -48, 96, -24, -48, 48, 24)):
        clock.advance(timedelta(hours=hours))
        memory.add_many("trip", long_turns(2, first=2 * place, count=1))
        assert memory.drain().complete
        brief = memory.brief("trip")
        cursors.append(brief.through_seq if brief else 0)
        context = memory.context("trip", "hello")
        assert context.tokens <= 3000
        assert memory.history("trip")[-1].content in context.text
    assert cursors == sorted(cursors)
    assert cursors[-1] > 0
    brief = brief_of(memory)
    assert brief.messages_summarized_count == brief.through_seq
    assert [m.seq for m in memory.history("trip")] == list(range(1, 33))


@on_sqlite
@pytest.mark.parametrize(
    ("zone", "first", "second", "folds"),
    [
        ("Asia/Riyadh", "2026-03-01T20:30Z", "2026-03-01T21:30Z", True),  # midnight is at 21:00 UTC
        ("Asia/Riyadh", "2026-03-01T21:30Z", "2026-03-02T20:30Z", False),
        ("UTC", "2026-03-01T20:30Z", "2026-03-01T21:30Z", False),
        ("America/New_York", "2026-03-08T04:30Z", "2026-03-08T05:30Z", True),  # the night of 23 hours begins
        ("America/New_York", "2026-03-08T05:30Z", "2026-03-09T03:30Z", False),  # 22 hours later, the same day
        ("America/New_York", "2026-03-08T05:30Z", "2026-03-09T04:30Z", True),  # 23 hours later, the next
        ("America/New_York", "2026-11-01T04:30Z", "2026-11-02T04:30Z", False),  # 24 hours later, the same day
        ("America/New_York", "2026-11-01T04:30Z", "2026-11-02T05:30Z", True),
        ("Pacific/Apia", "2011-12-30T09:30Z", "2011-12-30T10:30Z", True),  # the 30th was left out
        ("Asia/Kathmandu", "2026-01-01T18:00Z", "2026-01-01T18:20Z", True),  # at 5:45
    ],
)
def test_a_day_ends_at_midnight_of_the_conversations_zone(
    open_memory: Open, zone: str, first: str, second: str, folds: bool
) -> None:
    """R12: zones, and days of 23 and 25 hours."""
    clock = FakeClock(datetime.fromisoformat(first).astimezone(UTC))
    memory = open_memory(settings=DAILY, clock=clock)
    memory.add("trip", "user", "I like tea.")
    memory.update_conversation("trip", zone=zone)
    memory.add("trip", "assistant", "Tea it is.")
    clock.advance(datetime.fromisoformat(second) - clock.now())
    memory.add("trip", "user", "Good night.")
    memory.drain()
    brief = memory.brief("trip")
    assert (brief.through_seq if brief else 0) == (2 if folds else 0)


def test_yesterday_is_folded_without_a_new_message_when_the_worker_looks(open_memory: Open, clock: FakeClock) -> None:
    """Spec §4: when the local date changes, what came before today is due; nobody need say anything for that."""
    memory = open_memory(settings=DAILY)
    memory.add_many("trip", long_turns(2, count=1))
    memory.drain()
    clock.advance(timedelta(days=1))
    memory.drain()
    assert brief_of(memory).through_seq == 4


# What is not text.


@on_sqlite
@pytest.mark.parametrize("prompt", [5, b"You are", ["You are"]])
def test_a_system_prompt_that_is_no_text_is_refused(open_memory: Open, prompt: Any) -> None:
    """Its size counts for the brief, so it is looked at early; the error is the caller's all the same."""
    memory = open_memory()
    memory.add("trip", "user", "hello")
    with pytest.raises(InvalidInput):
        memory.context("trip", "hello", system_prompt=prompt)
