"""The ledger grows and never forgets: what merging keeps, joins, supersedes and leaves alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression import ledger
from recollect.core.compression.ledger import Entry, as_data, merge, normal, told

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [
    "user_preferences",
    "key_decisions",
    "important_facts",
    "source_urls",
    "document_structure",
    "entities",
    "custom_fields",
]


def entry(slot: str, value: str, *, day: int = 0, kind: str = ledger.FACT, **more: Any) -> Entry:
    fields: dict[str, Any] = {"subject": "user", "text": f"{slot} {value}", "sources": (f"m{day}",), "seq": day + 1}
    return Entry(kind=kind, slot=slot, value=value, at=START + timedelta(days=day), **(fields | more))


def holding(entries: Sequence[Entry]) -> list[str]:
    return [one.value for one in entries if one.holds]


# Document B


def test_document_b_merges_theme_and_font_and_both_addresses() -> None:
    existing = [
        entry("theme", "dark", kind=ledger.PREFERENCE, single=True),
        entry("url", "url1", kind=ledger.URL),
    ]
    new = [
        entry("font", "arial", day=1, kind=ledger.PREFERENCE, single=True),
        entry("url", "url2", day=1, kind=ledger.URL),
        entry("url", "url1", day=1, kind=ledger.URL),
    ]
    data = as_data(merge(existing, new))
    assert data["user_preferences"] == {"theme": "dark", "font": "arial"}
    assert data["source_urls"] == ["url1", "url2"]


def test_document_b_has_seven_keys_even_when_there_is_nothing() -> None:
    assert as_data([]) == {
        "user_preferences": {},
        "key_decisions": [],
        "important_facts": [],
        "source_urls": [],
        "document_structure": {},
        "entities": [],
        "custom_fields": {},
    }


def test_every_kind_has_its_place_in_document_bs_data() -> None:
    sections = [entry("sections", one, kind=ledger.STRUCTURE) for one in ("Introduction", "Methods", "Results")]
    data = as_data(
        [
            entry("theme", "dark", kind=ledger.PREFERENCE),
            entry("database", "PostgreSQL", kind=ledger.DECISION, text="We use PostgreSQL"),
            entry("finding", "X causes Y", text="X causes Y"),
            entry("url", "https://example.com/paper1", kind=ledger.URL),
            *sections,
            entry("person", "Huda", kind=ledger.ENTITY),
            entry("work", "Huda", kind=ledger.ENTITY),
            entry("goal", "publish", kind=ledger.INTENT, text="wants to publish"),
            entry("deadline", "?", kind=ledger.QUESTION, text="which deadline?"),
        ]
    )
    assert list(data) == KEYS
    assert data == {
        "user_preferences": {"theme": "dark"},
        "key_decisions": ["We use PostgreSQL"],
        "important_facts": ["X causes Y"],
        "source_urls": ["https://example.com/paper1"],
        "document_structure": {"sections": ["Introduction", "Methods", "Results"]},
        "entities": ["Huda"],
        "custom_fields": {"goals": ["wants to publish"], "open_questions": ["which deadline?"]},
    }


def test_a_structure_of_one_part_is_a_list_too_and_several_values_of_a_preference_are_one() -> None:
    data = as_data(
        [
            entry("sections", "Introduction", kind=ledger.STRUCTURE),
            entry("languages", "Python", kind=ledger.PREFERENCE),
            entry("languages", "Rust", kind=ledger.PREFERENCE),
        ]
    )
    assert data["document_structure"] == {"sections": ["Introduction"]}
    assert data["user_preferences"] == {"languages": ["Python", "Rust"]}


def test_what_others_prefer_is_told_with_their_name() -> None:
    sara = entry("theme", "light", kind=ledger.PREFERENCE, subject="Sara")
    data = as_data([entry("theme", "dark", kind=ledger.PREFERENCE), sara])
    assert data["user_preferences"] == {"theme": "dark", "Sara: theme": "light"}
    assert told(entry("home", "Berlin", subject="Sara", text="lives in Berlin")) == "Sara: lives in Berlin"
    assert told(entry("home", "Berlin", subject="Sara", text="Sara lives in Berlin")) == "Sara lives in Berlin"


def test_what_is_superseded_is_not_in_the_data_but_stays_in_the_ledger() -> None:
    merged = merge([], [entry("home", "Berlin", single=True), entry("home", "Paris", day=9, single=True)])
    assert as_data(merged)["important_facts"] == ["home Paris"]
    assert [(one.value, one.valid_to) for one in merged] == [("Berlin", START + timedelta(days=9)), ("Paris", None)]


# Superseding


def test_only_the_same_kind_subject_and_slot_is_superseded() -> None:
    old = [
        entry("home", "Berlin", single=True),
        entry("home", "Berlin", single=True, kind=ledger.PREFERENCE),
        entry("home", "Berlin", single=True, subject="Sara"),
        entry("office", "Berlin", single=True),
    ]
    merged = merge(old, [entry("home", "Paris", day=3, single=True)])
    assert [one.holds for one in merged] == [False, True, True, True, True]


def test_slots_and_subjects_are_compared_without_case_and_signs() -> None:
    old = [entry("Home-Town", "Berlin", single=True, subject="SARA ")]
    merged = merge(old, [entry("home town", "Paris", day=1, single=True, subject="sara")])
    assert holding(merged) == ["Paris"]


def test_values_of_a_slot_that_may_have_several_stand_side_by_side() -> None:
    merged = merge([entry("allergy", "peanuts")], [entry("allergy", "shellfish", day=1)])
    assert holding(merged) == ["peanuts", "shellfish"]
    one_single = merge([entry("allergy", "peanuts")], [entry("allergy", "shellfish", day=1, single=True)])
    assert holding(one_single) == ["peanuts", "shellfish"]


def test_the_same_value_again_changes_nothing() -> None:
    old = [entry("allergy", "Peanuts")]
    assert merge(old, [entry("allergy", "peanuts!", day=5)]) == old
    assert merge([], [entry("allergy", "peanuts"), entry("allergy", "PEANUTS", day=1)]) == [entry("allergy", "peanuts")]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (ledger.PREFERENCE, "C++", "C#"),
        (ledger.PREFERENCE, "C", "C++"),
        (ledger.PREFERENCE, "👍", "👎"),
        (ledger.FACT, "-5 degrees", "5 degrees"),
        (ledger.URL, "https://example.com/a/b", "https://example.com/a-b"),
        (ledger.URL, "https://example.com/?a=1&b", "https://example.com/a=1?b"),
    ],
)
def test_values_that_differ_only_in_their_signs_are_both_kept(kind: str, one: str, other: str) -> None:
    assert holding(merge([entry("slot", one, kind=kind)], [entry("slot", other, day=1, kind=kind)])) == [one, other]


def test_a_value_that_comes_back_holds_again_and_the_first_time_is_kept() -> None:
    moves = [entry("home", city, day=day, single=True) for day, city in enumerate(("Berlin", "Paris", "Berlin"))]
    merged = merge([], moves)
    assert [(one.value, one.holds) for one in merged] == [("Berlin", False), ("Paris", False), ("Berlin", True)]


def test_an_older_value_that_is_told_late_was_over_when_the_newer_one_began() -> None:
    merged = merge([entry("home", "Paris", day=9, single=True)], [entry("home", "Berlin", day=2, single=True)])
    assert [(one.value, one.valid_to) for one in merged] == [("Paris", None), ("Berlin", START + timedelta(days=9))]


def test_merging_the_same_news_twice_adds_nothing() -> None:
    """A fold is repeated after a crash, and rules and a model find the same things: history must not double."""
    news = [entry("home", "Berlin", single=True), entry("home", "Paris", day=9, single=True)]
    once = merge([], news)
    assert merge(once, news) == once


@pytest.mark.alone
def test_thousands_of_entries_of_one_slot_are_merged_at_once() -> None:
    """Links and names of a long conversation share a slot."""
    old = [entry("url", f"https://example.com/{place}", kind=ledger.URL) for place in range(1500)]
    new = [entry("url", f"https://example.com/{place}", day=1, kind=ledger.URL) for place in range(1400, 1600)]
    began = time.process_time()
    merged = merge(old, new)
    assert time.process_time() - began < 0.5
    assert [one.value for one in merged] == [f"https://example.com/{place}" for place in range(1600)]


# Endings


def test_an_ending_ends_the_value_it_names_and_no_other() -> None:
    old = [entry("allergy", "peanuts"), entry("allergy", "shellfish")]
    merged = merge(old, [entry("allergy", "peanuts", day=4, ends=True, text="no longer allergic to peanuts")])
    assert [one.valid_to for one in merged[:2]] == [START + timedelta(days=4), None]
    assert merged[2].text == "no longer allergic to peanuts"


def test_an_ending_that_names_no_value_ends_all_of_its_slot() -> None:
    old = [entry("diet", "vegan"), entry("diet", "gluten free"), entry("home", "Berlin")]
    merged = merge(old, [entry("diet", "", day=1, ends=True, text="no diet any more")])
    assert [one.holds for one in merged[:3]] == [False, False, True]


def test_an_ending_names_a_value_by_a_part_of_it() -> None:
    merged = merge([entry("job", "Siemens in Munich")], [entry("job", "siemens", day=1, ends=True)])
    assert not merged[0].holds


def test_a_value_that_ended_can_begin_again() -> None:
    told_all = [
        entry("job", "Siemens"),
        entry("job", "Siemens", day=1, ends=True, text="left Siemens"),
        entry("job", "Siemens", day=2),
    ]
    merged = merge([], told_all)
    assert [one.holds for one in merged] == [False, False, True]


def test_what_has_ended_is_never_shown_as_a_value_that_holds() -> None:
    """`ends` with the value "coffee" says that coffee is over: the data may not name coffee as a preference."""
    said = [
        entry("drink", "coffee", kind=ledger.PREFERENCE, text="likes coffee"),
        entry("drink", "coffee", day=1, kind=ledger.PREFERENCE, ends=True, text="does not like coffee any more"),
    ]
    assert "coffee" not in str(as_data(merge([], said))["user_preferences"].get("drink", ""))


# Properties

NAMES = st.sampled_from(["home", "Home", "allergy", "theme", "url", ""])
VALUES = st.sampled_from(["Berlin", "berlin", "Paris", "New York", "York", "", "…", "برلين"]) | st.text(max_size=6)
ENTRIES = st.builds(
    entry,
    slot=NAMES,
    value=VALUES,
    day=st.integers(0, 9),
    kind=st.sampled_from(ledger.KINDS),
    subject=st.sampled_from(["user", "Sara", ""]),
    single=st.booleans(),
    ends=st.sampled_from([False, False, False, True]),
)
MANY = st.lists(ENTRIES, max_size=25)


def slot_of(one: Entry) -> tuple[str, str, str]:
    return one.kind, normal(one.subject), normal(one.slot)


@given(MANY, MANY)
def test_merging_never_drops_and_never_reorders(old: list[Entry], new: list[Entry]) -> None:
    before = merge([], old)
    after = merge(before, new)
    assert len(after) >= len(before)
    for one, same in zip(before, after, strict=False):
        assert replace(same, valid_to=one.valid_to) == one, "only the end of its validity may change"
        assert one.holds or same.valid_to == one.valid_to, "what has ended stays ended"
    assert all(any(replace(one, valid_to=None) == told for told in new) for one in after[len(before) :])


@given(MANY, MANY)
def test_every_new_value_is_in_the_ledger_afterwards(old: list[Entry], new: list[Entry]) -> None:
    after = merge(merge([], old), new)
    known = {(*slot_of(one), normal(one.value), one.ends) for one in after}
    assert {(*slot_of(one), normal(one.value), one.ends) for one in new} <= known


@given(MANY, ENTRIES)
def test_what_has_nothing_to_do_with_it_is_untouched(old: list[Entry], new: Entry) -> None:
    before = merge([], old)
    after = merge(before, [new])
    for one, same in zip(before, after, strict=False):
        if slot_of(one) != slot_of(new):
            assert same == one


@given(MANY, ENTRIES)
def test_only_a_single_value_or_an_ending_supersedes(old: list[Entry], new: Entry) -> None:
    before = merge([], old)
    after = merge(before, [new])
    for one, same in zip(before, after, strict=False):
        if one.holds and not same.holds:
            assert slot_of(one) == slot_of(new)
            assert new.ends or (new.single and one.single) or one.ends
            assert same.valid_to is not None and same.valid_to >= one.at


@given(MANY)
def test_no_two_entries_that_hold_say_the_same(new: list[Entry]) -> None:
    held = [(*slot_of(one), ledger.same(one.value), one.ends) for one in merge([], new) if one.holds]
    assert len(held) == len(set(held))


@given(st.lists(st.builds(entry, slot=NAMES, value=VALUES, day=st.integers(0, 9), single=st.just(True)), max_size=20))
def test_of_a_single_slot_one_value_holds_the_one_of_the_latest_time(new: list[Entry]) -> None:
    merged = merge([], new)
    for slot in {slot_of(one) for one in merged}:
        alike = [one for one in merged if slot_of(one) == slot]
        held = [one for one in alike if one.holds]
        assert len(held) == 1
        assert held[0].at == max(one.at for one in alike)
        assert all(one.valid_to is None or one.at <= one.valid_to for one in alike)


@given(MANY)
def test_the_data_has_the_shape_of_document_b(new: list[Entry]) -> None:
    data = as_data(merge([], new))
    assert list(data) == KEYS
    for name in ("key_decisions", "important_facts", "source_urls", "entities"):
        assert all(isinstance(one, str) for one in data[name])
    for name in ("user_preferences", "document_structure", "custom_fields"):
        assert isinstance(data[name], dict)
    assert all(isinstance(parts, list) for parts in data["document_structure"].values())
