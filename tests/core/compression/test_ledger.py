"""The ledger never drops an entry: merging adds, supersedes and ends entries, and leaves all others alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression import ledger
from recollect.core.compression.ledger import Entry, merge, normalise_words, render_entry, to_important_data
from support.growth import assert_linear, count_calls

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


def valid_values(entries: Sequence[Entry]) -> list[str]:
    return [entry.value for entry in entries if entry.holds]


# The important data of a brief


def test_merging_adds_a_font_to_a_theme_and_a_second_url_to_the_first() -> None:
    existing = [
        entry("theme", "dark", kind=ledger.PREFERENCE, single=True),
        entry("url", "url1", kind=ledger.URL),
    ]
    new = [
        entry("font", "arial", day=1, kind=ledger.PREFERENCE, single=True),
        entry("url", "url2", day=1, kind=ledger.URL),
        entry("url", "url1", day=1, kind=ledger.URL),
    ]
    data = to_important_data(merge(existing, new))
    assert data["user_preferences"] == {"theme": "dark", "font": "arial"}
    assert data["source_urls"] == ["url1", "url2"]


def test_the_important_data_has_seven_keys_even_without_entries() -> None:
    assert to_important_data([]) == {
        "user_preferences": {},
        "key_decisions": [],
        "important_facts": [],
        "source_urls": [],
        "document_structure": {},
        "entities": [],
        "custom_fields": {},
    }


def test_every_kind_of_entry_is_in_the_important_data() -> None:
    sections = [entry("sections", one, kind=ledger.STRUCTURE) for one in ("Introduction", "Methods", "Results")]
    data = to_important_data(
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


def test_a_structure_is_always_a_list_and_a_preference_only_with_several_values() -> None:
    data = to_important_data(
        [
            entry("sections", "Introduction", kind=ledger.STRUCTURE),
            entry("languages", "Python", kind=ledger.PREFERENCE),
            entry("languages", "Rust", kind=ledger.PREFERENCE),
        ]
    )
    assert data["document_structure"] == {"sections": ["Introduction"]}
    assert data["user_preferences"] == {"languages": ["Python", "Rust"]}


def test_entries_of_other_people_are_rendered_with_their_name() -> None:
    sara = entry("theme", "light", kind=ledger.PREFERENCE, subject="Sara")
    data = to_important_data([entry("theme", "dark", kind=ledger.PREFERENCE), sara])
    assert data["user_preferences"] == {"theme": "dark", "Sara: theme": "light"}
    assert render_entry(entry("home", "Berlin", subject="Sara", text="lives in Berlin")) == "Sara: lives in Berlin"
    assert render_entry(entry("home", "Berlin", subject="Sara", text="Sara lives in Berlin")) == "Sara lives in Berlin"


def test_a_superseded_entry_leaves_the_data_and_stays_in_the_ledger() -> None:
    merged = merge([], [entry("home", "Berlin", single=True), entry("home", "Paris", day=9, single=True)])
    assert to_important_data(merged)["important_facts"] == ["home Paris"]
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


def test_slots_and_subjects_are_compared_without_case_and_punctuation() -> None:
    old = [entry("Home-Town", "Berlin", single=True, subject="SARA ")]
    merged = merge(old, [entry("home town", "Paris", day=1, single=True, subject="sara")])
    assert valid_values(merged) == ["Paris"]


def test_a_slot_that_is_not_single_keeps_several_values() -> None:
    merged = merge([entry("allergy", "peanuts")], [entry("allergy", "shellfish", day=1)])
    assert valid_values(merged) == ["peanuts", "shellfish"]
    one_single = merge([entry("allergy", "peanuts")], [entry("allergy", "shellfish", day=1, single=True)])
    assert valid_values(one_single) == ["peanuts", "shellfish"]


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
def test_values_that_differ_only_in_punctuation_are_both_kept(kind: str, one: str, other: str) -> None:
    assert valid_values(merge([entry("slot", one, kind=kind)], [entry("slot", other, day=1, kind=kind)])) == [
        one,
        other,
    ]


def test_a_value_that_comes_back_holds_again_and_the_first_time_is_kept() -> None:
    moves = [entry("home", city, day=day, single=True) for day, city in enumerate(("Berlin", "Paris", "Berlin"))]
    merged = merge([], moves)
    assert [(one.value, one.holds) for one in merged] == [("Berlin", False), ("Paris", False), ("Berlin", True)]


def test_an_older_value_that_is_merged_late_ended_when_the_newer_one_began() -> None:
    merged = merge([entry("home", "Paris", day=9, single=True)], [entry("home", "Berlin", day=2, single=True)])
    assert [(one.value, one.valid_to) for one in merged] == [("Paris", None), ("Berlin", START + timedelta(days=9))]


def test_merging_the_same_entries_twice_adds_nothing() -> None:
    """A compression is repeated after a crash, and rules and a model find the same entries."""
    new = [entry("home", "Berlin", single=True), entry("home", "Paris", day=9, single=True)]
    once = merge([], new)
    assert merge(once, new) == once


def links(first: int, last: int, *, day: int = 0) -> list[Entry]:
    return [entry("url", f"https://example.com/{n}", day=day, kind=ledger.URL) for n in range(first, last)]


def test_thousands_of_entries_of_one_slot_are_merged_without_comparing_each_with_each() -> None:
    """Links and names of a long conversation share a slot."""
    old, new = links(0, 1500), links(1400, 1600, day=1)
    assert merge(old, new) == [*old, *links(1500, 1600, day=1)]
    assert count_calls(lambda: merge(old, new)) < 20 * (len(old) + len(new))


def test_new_entries_are_merged_in_time_linear_in_the_ledger() -> None:
    new = links(0, 50, day=1)
    assert_linear(lambda old: merge(old, new), lambda n: links(50, n), 1000)


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
    entries = [
        entry("job", "Siemens"),
        entry("job", "Siemens", day=1, ends=True, text="left Siemens"),
        entry("job", "Siemens", day=2),
    ]
    merged = merge([], entries)
    assert [one.holds for one in merged] == [False, False, True]


def test_an_ended_value_is_not_in_the_data() -> None:
    """An entry with `ends` and the value "coffee" must not put coffee among the preferences."""
    entries = [
        entry("drink", "coffee", kind=ledger.PREFERENCE, text="likes coffee"),
        entry("drink", "coffee", day=1, kind=ledger.PREFERENCE, ends=True, text="does not like coffee any more"),
    ]
    assert "coffee" not in str(to_important_data(merge([], entries))["user_preferences"].get("drink", ""))


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
ENTRY_LISTS = st.lists(ENTRIES, max_size=25)


def slot_of(entry: Entry) -> tuple[str, str, str]:
    return entry.kind, normalise_words(entry.subject), normalise_words(entry.slot)


@given(ENTRY_LISTS, ENTRY_LISTS)
def test_merging_never_drops_and_never_reorders(old: list[Entry], new: list[Entry]) -> None:
    before = merge([], old)
    after = merge(before, new)
    assert len(after) >= len(before)
    for old_entry, entry in zip(before, after, strict=False):
        assert replace(entry, valid_to=old_entry.valid_to) == old_entry, "only the end of its validity may change"
        assert old_entry.holds or entry.valid_to == old_entry.valid_to, "an ended entry stays ended"
    assert all(any(replace(added, valid_to=None) == entry for entry in new) for added in after[len(before) :])


@given(ENTRY_LISTS, ENTRY_LISTS)
def test_every_new_value_is_in_the_ledger_afterwards(old: list[Entry], new: list[Entry]) -> None:
    after = merge(merge([], old), new)
    known = {(*slot_of(one), normalise_words(one.value), one.ends) for one in after}
    assert {(*slot_of(one), normalise_words(one.value), one.ends) for one in new} <= known


@given(ENTRY_LISTS, ENTRIES)
def test_entries_of_other_slots_are_untouched(old: list[Entry], new: Entry) -> None:
    before = merge([], old)
    after = merge(before, [new])
    for old_entry, entry in zip(before, after, strict=False):
        if slot_of(old_entry) != slot_of(new):
            assert entry == old_entry


@given(ENTRY_LISTS, ENTRIES)
def test_only_a_single_value_or_an_ending_supersedes(old: list[Entry], new: Entry) -> None:
    before = merge([], old)
    after = merge(before, [new])
    for old_entry, entry in zip(before, after, strict=False):
        if old_entry.holds and not entry.holds:
            assert slot_of(old_entry) == slot_of(new)
            assert new.ends or (new.single and old_entry.single) or old_entry.ends
            assert entry.valid_to is not None and entry.valid_to >= old_entry.at


@given(ENTRY_LISTS)
def test_no_two_valid_entries_have_the_same_value(new: list[Entry]) -> None:
    held = [(*slot_of(one), ledger.normalise_value(one.value), one.ends) for one in merge([], new) if one.holds]
    assert len(held) == len(set(held))


@given(st.lists(st.builds(entry, slot=NAMES, value=VALUES, day=st.integers(0, 9), single=st.just(True)), max_size=20))
def test_of_a_single_slot_only_the_latest_value_holds(new: list[Entry]) -> None:
    merged = merge([], new)
    for slot in {slot_of(one) for one in merged}:
        alike = [one for one in merged if slot_of(one) == slot]
        held = [one for one in alike if one.holds]
        assert len(held) == 1
        assert held[0].at == max(one.at for one in alike)
        assert all(one.valid_to is None or one.at <= one.valid_to for one in alike)


@given(ENTRY_LISTS)
def test_the_important_data_has_the_types_of_its_keys(new: list[Entry]) -> None:
    data = to_important_data(merge([], new))
    assert list(data) == KEYS
    for name in ("key_decisions", "important_facts", "source_urls", "entities"):
        assert all(isinstance(one, str) for one in data[name])
    for name in ("user_preferences", "document_structure", "custom_fields"):
        assert isinstance(data[name], dict)
    assert all(isinstance(parts, list) for parts in data["document_structure"].values())


def test_forget_clears_the_cache_of_normalised_texts() -> None:
    normalise_words("A secret of Sara's")
    assert normalise_words.cache_info().currsize
    ledger.forget()
    assert normalise_words.cache_info().currsize == 0
