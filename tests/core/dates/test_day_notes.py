"""Words such as "yesterday" get the date that they meant."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression.attribution import strip_day_label
from recollect.core.compression.ledger import merge
from recollect.core.compression.narrative import Length, count_words, render_narrative
from recollect.core.compression.summariser import summarise
from recollect.core.dates.day_notes import MAX_NOTES, add_dates
from recollect.core.extract import extract
from recollect.core.message import Message

MONDAY = datetime(2023, 5, 8, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I went to a support group yesterday.", "I went to a support group yesterday (7 May 2023)."),
        ("The day before yesterday it rained", "The day before yesterday (6 May 2023) it rained"),
        ("we met last night", "we met last night (7 May 2023)"),
        ("This morning I ran", "This morning (8 May 2023) I ran"),
        ("I leave tomorrow, or so", "I leave tomorrow (9 May 2023), or so"),
        ("I ran a race last Saturday", "I ran a race last Saturday (6 May 2023)"),
        ("two Fridays ago", "two Fridays ago (28 April 2023)"),
        ("last week was hard", "last week (week of 1 May 2023) was hard"),
        ("we hiked last weekend", "we hiked last weekend (weekend of 6 May 2023)"),
        ("we go camping next month", "we go camping next month (June 2023)"),
        ("I moved here last year", "I moved here last year (2022)"),
        ("three days ago", "three days ago (5 May 2023)"),
        ("two weeks ago", "two weeks ago (about 24 April 2023)"),
        ("four months ago", "four months ago (January 2023)"),
        ("I started transitioning three years ago", "I started transitioning three years ago (2020)"),
        ("25 years ago", "25 years ago (about 1998)"),
        ("ذهبت أمس إلى السوق", "ذهبت أمس (7 مايو 2023) إلى السوق"),
        ("سافرت قبل ثلاث سنوات إلى مصر", "سافرت قبل ثلاث سنوات (2020) إلى مصر"),
        ("الشهر الماضي", "الشهر الماضي (أبريل 2023)"),
        ("العام المقبل", "العام المقبل (2024)"),
        ("الأسبوع القادم", "الأسبوع القادم (أسبوع 15 مايو 2023)"),
        ("زرنا أهلي قبل أسبوعين", "زرنا أهلي قبل أسبوعين (نحو 24 أبريل 2023)"),
        ("وأمس مرضت", "وأمس (7 مايو 2023) مرضت"),
        ("Sara: Yesterday I ran", "Sara: Yesterday (7 May 2023) I ran"),
        ("He said no. Yesterday I left", "He said no. Yesterday (7 May 2023) I left"),
    ],
)
def test_words_for_days_get_their_date(text: str, expected: str) -> None:
    assert add_dates(text, MONDAY) == expected
    assert add_dates(expected, MONDAY) == expected  # once


@pytest.mark.parametrize(
    "text",
    [
        "next Friday",  # this week's or the one after
        "this Friday",
        "last summer",  # of which half of the world
        "a few years ago",
        "three hours ago",
        "last year's prize, a last-minute idea, the last time",
        "on Friday, in May, on 3 June 2022",
        "the past few weeks",
        "moved to Berlin 1.5 years ago",
        "half a year ago",
        "this weekend, next weekend, the coming week",
        "vegan for the last month",
        "two weeks from tomorrow",
        "قبل أسبوع من الزفاف",  # "a week before the wedding"
        "تزوجنا بعد سنة",  # "we married after a year"
        'She said "I leave tomorrow" and left',
        "see https://example.com/today/x or git log --since=yesterday",
        "favourite song: Yesterday",
        "We saw The Day After Tomorrow",
        "أنا بكره الجزر",  # "I hate carrots"
        "في اليوم التالي",  # "on the day after"
        "",
    ],
)
def test_words_without_a_certain_date_stay_as_they_are(text: str) -> None:
    assert add_dates(text, MONDAY) == text


def test_days_are_those_of_the_speakers_zone() -> None:
    late = datetime(2023, 5, 8, 22, tzinfo=UTC)
    assert add_dates("yesterday", late, "Asia/Riyadh") == "yesterday (8 May 2023)"
    assert add_dates("yesterday", late, "America/New_York") == "yesterday (7 May 2023)"


@given(
    st.lists(
        st.sampled_from(("yesterday", "two days ago", "أمس", "last week", "(", "x", "\n", "é")) | st.text(max_size=9)
    ),
    st.datetimes(datetime(1900, 1, 2), datetime(2199, 12, 30), timezones=st.just(UTC)),
)
def test_nothing_but_dates_is_added(parts: list[str], at: datetime) -> None:
    text = " ".join(parts)
    dated = add_dates(text, at)
    month = r"(?:[A-Z][a-z]+ |[\u0621-\u064a]{4,6} )?"
    added = re.findall(rf" \((?:about |week(?:end)? of )?(?:[0-9]{{1,2}} )?{month}[0-9-]{{4,10}}\)", dated)
    assert len(dated) - len(text) <= sum(map(len, added))
    assert dated == text or added
    assert add_dates(dated, at) == dated
    if len(added) <= MAX_NOTES and "(" not in text:
        for each in added:
            dated = dated.replace(each, "", 1)
        assert dated == text


def _message(text: str, seq: int, at: datetime) -> Message:
    return Message(f"m{seq}", "c", seq, "user", text, at, "typed", name="Sara")


def test_a_ledger_entry_has_the_date_in_its_text_and_not_in_its_value() -> None:
    (entry,) = (
        entry
        for entry in extract([_message("I went to a pottery class yesterday.", 1, MONDAY)])
        if entry.kind == "fact"
    )
    assert "yesterday (7 May 2023)" in entry.text
    assert "2023" not in entry.value


def test_the_same_words_on_another_day_are_another_event() -> None:
    text = "Yesterday we went to the zoo with Anna."
    entries = extract(
        [_message(text, 1, MONDAY), _message(text, 2, datetime(2023, 7, 8, tzinfo=UTC)), _message(text, 3, MONDAY)]
    )
    events = [entry.text for entry in merge([], entries) if entry.slot == "event"]
    assert len(events) == 2
    assert "(7 May 2023)" in events[0]
    assert "(7 July 2023)" in events[1]


def test_links_and_titles_get_no_date() -> None:
    entries = extract(
        [_message("My website is https://example.com/today/x and my favourite song is Yesterday.", 1, MONDAY)]
    )
    assert entries
    assert not [entry.text for entry in entries if "2023" in entry.text]


def test_a_word_cut_by_the_reading_limit_gets_no_date() -> None:
    assert "(" not in add_dates("y" * 1990 + " next weekend we go", MONDAY)


def test_a_narrative_of_several_days_labels_each_once() -> None:
    turns = [
        [_message("I signed up for a pottery class yesterday because my sister told me to.", 1, MONDAY)],
        [_message("My brother opened his bakery in Lyon two days ago.", 2, datetime(2023, 6, 9, 9, tzinfo=UTC))],
    ]
    length = Length(20, 80, count_words)
    statements = summarise(turns, length=length)
    text = render_narrative(statements)
    assert "[8 May 2023] " in text
    assert "yesterday (7 May 2023)" in text
    assert "[9 June] " in text
    assert "two days ago (7 June 2023)" in text
    assert render_narrative(summarise([], old=statements, length=length)) == text  # compressed again
    assert strip_day_label("[9 Jun] x") == strip_day_label("[9 June] x") == "x"  # as earlier versions wrote it


def test_a_narrative_of_one_day_has_no_dates() -> None:
    statements = summarise(
        [[_message("I signed up for a pottery class yesterday.", 1, MONDAY)]], length=Length(5, 30, count_words)
    )
    assert "2023" not in render_narrative(statements)
