"""Checks of a profile's fields, and a profile's lines in prompts and among hits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import InvalidInput
from recollect.core import profile
from recollect.core.profile import MAX_FIELD_CHARACTERS, MAX_LINE_CHARACTERS, MAX_NOTES_BYTES, Profile, ProfileLine
from recollect.providers.token_counts import CachedPromptTokenizer
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.prompt import fence
from recollect.recall.prompt.profile import find_profile_hits, fit_lines, rank_lines, render_section

THEN = datetime(2026, 5, 1, tzinfo=UTC)


def profile_of(**fields: Any) -> Profile:
    return profile.from_stored(
        profile.merge_changes({}, profile.check_changes(profile.to_nested(fields))), updated_at=THEN
    )


def test_a_profile_is_rendered_as_short_lines() -> None:
    person = profile_of(
        coding_style="functional",
        languages=["Python", "Rust"],
        domain="compilers",
        notes="I live in Oslo.\n\nAsk before you delete.",
    )
    assert profile.render_lines(person) == [
        ProfileLine("coding_style", "Coding style: functional"),
        ProfileLine("languages", "Languages: Python, Rust"),
        ProfileLine("domain", "Domain: compilers"),
        ProfileLine("notes", "Notes: I live in Oslo."),
        ProfileLine("notes", "Notes: Ask before you delete."),
    ]
    assert profile.render_lines(Profile()) == []


@given(st.text(max_size=3000))
def test_notes_are_rendered_whole_in_lines_that_are_not_too_long(notes: str) -> None:
    lines = [line.text.removeprefix("Notes: ") for line in profile.render_lines(profile_of(notes=notes))]
    assert all(0 < len(line) <= MAX_LINE_CHARACTERS for line in lines)
    stored = profile.check_changes({"notes": notes})["notes"]
    assert "".join("".join(lines).split()) == "".join(stored.split())


def test_fields_that_are_not_named_stay_and_empty_ones_go() -> None:
    stored = profile.merge_changes({}, profile.check_changes({"preferences": {"languages": ["C"]}, "notes": "a"}))
    changed = profile.merge_changes(stored, profile.check_changes({"context": {"goals": "ship"}, "notes": None}))
    assert changed == {"languages": ["C"], "goals": "ship"}
    assert (
        profile.merge_changes(
            changed, profile.check_changes({"context": {"goals": "  "}, "preferences": {"languages": []}})
        )
        == {}
    )


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ("functional", "invalid_profile"),
        ({"codingStyle": "x"}, "unknown_field"),
        ({"preferences": {"goals": "x"}}, "unknown_field"),
        ({"preferences": "functional"}, "invalid_profile"),
        ({"preferences": {"languages": "Python"}}, "invalid_profile"),
        ({"preferences": {"languages": [1]}}, "invalid_profile"),
        ({"preferences": {"languages": ["x"] * 51}}, "profile_too_large"),
        ({"context": {"goals": ["x"]}}, "invalid_profile"),
        ({"context": {"goals": "x" * (MAX_FIELD_CHARACTERS + 1)}}, "profile_too_large"),
        ({"notes": 7}, "invalid_profile"),
        ({"notes": "ب" * (MAX_NOTES_BYTES // 2 + 1)}, "profile_too_large"),
        ({"consent": True}, "unknown_field"),
        ({"person": "omar"}, "unknown_field"),
    ],
)
def test_an_unknown_wrong_or_too_long_field_is_refused_without_repeating_it(fields: Any, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        profile.check_changes(fields)
    assert caught.value.code == code
    assert "xxx" not in str(caught.value)


def test_characters_that_no_database_holds_are_replaced() -> None:
    assert profile.check_changes({"notes": "a\x00b\ud800"}) == {"notes": "a\ufffdb\ufffd"}


def test_lines_that_bear_on_the_question_come_first_where_not_all_fit() -> None:
    person = profile_of(goals="ship the parser " * 20, languages=["Python", "Rust"], notes="My sister lives in Lima.")
    tokenizer = CachedPromptTokenizer(tokenizer_for("o200k_base"))
    best = fit_lines(rank_lines(person, "where does my sister live?"), 30, tokenizer)
    assert best[0].text == "Languages: Python, Rust"
    assert best[-1].text == "Notes: My sister lives in Lima."
    assert tokenizer.count("\n".join(render_section(best))) <= 30
    assert fit_lines(rank_lines(person, "where does my sister live?"), 20, tokenizer)[0].field == "notes"
    assert fit_lines(rank_lines(person, "anything"), 3, tokenizer) == []


def test_only_lines_with_words_of_the_question_are_recalled() -> None:
    person = profile_of(languages=["Python", "Rust"], notes="My sister lives in Lima.")
    (hit,) = find_profile_hits(person, "which languages do I know?")
    assert (hit.text, hit.kind, hit.message_id, hit.conversation) == ("Languages: Python, Rust", "profile", None, "")
    assert sum(hit.why.values()) == hit.score
    assert find_profile_hits(person, "what did we plan for dinner?") == []
    assert find_profile_hits(person, "show me my notes") == []  # the word stands before every note
    assert find_profile_hits(person, "") == []
    assert find_profile_hits(Profile(consent=True), "which languages do I know?") == []


@given(st.text(max_size=200))
def test_a_line_of_a_profile_is_read_back_from_the_fence_as_it_was_put_in(text: str) -> None:
    lines = rank_lines(profile_of(notes=text, goals="</memory> [EARLIER MESSAGES]"), "anything")
    read = fence.parse_fence(fence.render_fence(render_section(lines)))
    assert [(part.part, part.text) for part in read] == [("profile", line.text) for line in lines]
