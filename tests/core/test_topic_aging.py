"""Topics age by the table of half-lives; merged topics are put together; titles are short."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core import times, topics
from recollect.core.topics import (
    DEFAULT_IMPORTANCE,
    FADED_PRIORITY,
    MIN_IMPORTANCE,
    Aging,
    Topic,
    TopicGroup,
    decay_curve,
    group_rows,
    priority,
)

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
CROSSING = math.log2(20)  # half-lives from 1.0 to 0.05
TABLE = [(range(5), 1, "short"), (range(5, 10), 2, "medium"), (range(10, 15), 4, "long"), (range(15, 20), 8, "long"),
         (range(20, 25), 16, "long"), (range(25, 60), 30, "long")]  # fmt: skip
ROWS = [
    pytest.param(accesses, days, kind, id=f"{accesses} accesses")
    for numbers, days, kind in TABLE
    for accesses in numbers
]


def row(key: int, **values: Any) -> dict[str, Any]:
    """Return a stored topic."""
    plain = {
        "key": key, "id": f"t{key}", "opened_seq": key, "created_at": times.to_micros(NOW),
        "active_at": times.to_micros(NOW), "accesses": 0, "messages": 1, "archived": 0, "restored": 0, "cold": 0,
        "title": f"topic {key}", "summary": None, "tags": "[]", "pinned": 0, "importance": None, "deletions": 0,
        "merged_into": None, "score": 0.0, "praise": 0,
    }  # fmt: skip
    return plain | values


def shown(*rows: dict[str, Any], active: int | None = None, now: datetime = NOW) -> list[Topic]:
    groups = group_rows(rows)
    return [topics.to_topic(group, "trip", summary="", active=active, now=now, aging=Aging()) for group in groups]


@pytest.mark.parametrize(("accesses", "days", "kind"), ROWS)
def test_a_topic_with_so_many_accesses_has_the_half_life_of_the_table(accesses: int, days: int, kind: str) -> None:
    assert Aging().half_life(accesses) == days * DAY
    assert Aging().memory_type(accesses) == kind


@pytest.mark.parametrize(("accesses", "days", "kind"), ROWS)
def test_a_topic_crosses_a_twentieth_after_4_32_half_lives(accesses: int, days: int, kind: str) -> None:
    """A topic that is said to last "about 5 days" crosses the line within the fifth day."""
    half_life = Aging().half_life(accesses)
    crossing = topics.time_until_faded(1.0, half_life)
    assert crossing / half_life == pytest.approx(4.3219, abs=1e-4)
    assert priority(1.0, crossing, half_life) == pytest.approx(FADED_PRIORITY)
    moment = timedelta(minutes=1)
    assert priority(1.0, crossing - moment, half_life) > FADED_PRIORITY > priority(1.0, crossing + moment, half_life)


def test_priorities_halve_with_every_half_life() -> None:
    for days in (1, 16):
        priorities = [priority(1.0, age * days * DAY, days * DAY) for age in range(6)]
        assert priorities == [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125]


def test_a_half_life_is_bounded_however_often_a_topic_was_accessed() -> None:
    assert Aging().half_life(10**9) == 30 * DAY
    assert Aging(base_half_life=3 * DAY, max_half_life=DAY).half_life(0) == 3 * DAY
    assert Aging(base_half_life=DAY, max_half_life=7 * DAY, accesses_per_doubling=2).half_life(6) == 7 * DAY
    assert Aging(base_half_life=DAY, max_half_life=7 * DAY, accesses_per_doubling=2).half_life(5) == 4 * DAY


@pytest.mark.parametrize(("importance", "half_lives"), [(1.0, 4.3219), (0.5, 3.3219), (0.1, 1.0), (0.05, 0), (0, 0)])
def test_a_less_important_topic_fades_sooner(importance: float, half_lives: float) -> None:
    assert topics.time_until_faded(importance, DAY) / DAY == pytest.approx(half_lives, abs=1e-4)


def test_a_topic_with_an_importance_below_the_line_has_faded_at_once() -> None:
    assert topics.time_until_faded(0.01, DAY) == timedelta(0)
    assert priority(0.01, timedelta(0), DAY) < FADED_PRIORITY


@given(st.floats(0, 1), st.timedeltas(timedelta(0), 50_000 * DAY), st.integers(0, 100))
def test_a_moment_in_the_future_counts_as_now(importance: float, ahead: timedelta, accesses: int) -> None:
    assert priority(importance, -ahead, Aging().half_life(accesses)) == importance


@given(st.floats(0, 1), st.timedeltas(timedelta(0), 50_000 * DAY), st.timedeltas(timedelta(0), 50_000 * DAY))
def test_a_priority_never_rises_by_waiting(importance: float, age: timedelta, more: timedelta) -> None:
    later, sooner = priority(importance, age + more, DAY), priority(importance, age, DAY)
    assert 0 <= later <= sooner <= importance


@given(st.none() | st.floats(0, 1), st.floats(-1e4, 1e4))
def test_importance_with_feedback_stays_within_its_bounds(given: float | None, score: float) -> None:
    base, importance = DEFAULT_IMPORTANCE if given is None else given, topics.importance_with_feedback(given, score)
    assert min(base, MIN_IMPORTANCE) <= importance <= 1.0
    if score > 0:
        assert importance >= base
    elif score < 0:
        assert importance <= base
    else:
        assert importance == base


@given(st.floats(0, 1), st.floats(-50, 50), st.floats(0, 50))
def test_better_feedback_never_lowers_the_importance(given: float, score: float, more: float) -> None:
    assert (
        topics.importance_with_feedback(given, score + more) >= topics.importance_with_feedback(given, score)
        or score + more == 0
    )


def test_two_points_halve_or_double_importance() -> None:
    assert topics.importance_with_feedback(None, -2) == 0.5
    assert topics.importance_with_feedback(0.25, 2) == 0.5
    assert topics.importance_with_feedback(0.9, 2) == 1.0
    assert topics.importance_with_feedback(None, -100) == MIN_IMPORTANCE
    assert topics.importance_with_feedback(0.01, -100) == 0.01


@given(st.floats(0, 1), st.integers(0, 40), st.integers(2, 200))
def test_a_decay_curve_starts_at_the_importance_and_falls_below_the_line(
    importance: float, accesses: int, points: int
) -> None:
    (topic,) = shown(row(1, importance=importance, accesses=accesses))
    curve = decay_curve(topic, points=points)
    moments, values = [at for at, _ in curve], [value for _, value in curve]
    assert len(curve) == points
    assert moments[0] == topic.last_active_at
    assert values[0] == importance
    assert values[-1] < FADED_PRIORITY or values[-1] == importance == FADED_PRIORITY
    assert moments == sorted(moments)
    assert values == sorted(values, reverse=True)


def test_a_decay_curve_of_some_days_ends_after_them() -> None:
    (topic,) = shown(row(1))
    curve = decay_curve(topic, days=3, points=4)
    assert [value for _, value in curve] == [1.0, 0.5, 0.25, 0.125]
    assert curve[-1][0] == NOW + 3 * DAY


def test_a_topic_is_shown_as_of_now() -> None:
    (topic,) = shown(row(1, accesses=6, importance=0.8), now=NOW + 2 * DAY)
    assert (topic.half_life_days, topic.memory_type, topic.access_count) == (2.0, "medium", 6)
    assert topic.priority == pytest.approx(0.4)
    assert topic.fades_at - topic.last_active_at == topics.time_until_faded(0.8, 2 * DAY)


def test_ages_are_never_below_zero() -> None:
    (topic,) = shown(row(1), now=NOW - 2 * DAY)
    stats = topics.to_stats(topic, NOW - 2 * DAY)
    assert (stats.age_seconds, stats.inactive_seconds, topic.priority) == (0, 0, 1.0)


@pytest.mark.parametrize(
    ("values", "active", "state"),
    [
        ({}, None, "warm"),
        ({}, 1, "active"),
        ({"messages": 9, "archived": 5}, None, "archived"),
        ({"messages": 9, "archived": 9, "cold": 1}, None, "cold"),
        ({"messages": 9, "archived": 5}, 1, "active"),
    ],
)
def test_a_topic_has_one_of_four_states(values: dict[str, Any], active: int | None, state: str) -> None:
    (topic,) = shown(row(1, **values), active=active)
    assert topic.state == state
    assert topic.active_messages + topic.archived_messages == topic.messages


def test_a_restored_topic_counts_no_message_as_archived() -> None:
    back, gone = row(1, messages=9, archived=5, restored=1), row(2, messages=9, archived=5)
    assert [topic.archived_messages for active in (1, None) for topic in shown(back, gone, active=active)] == [
        0,
        5,
        0,
        5,
    ]


def test_a_topic_without_a_narrative_has_no_summary() -> None:
    (group,) = group_rows([row(1)])
    summaries = [
        topics.to_topic(group, "trip", summary=text, active=None, now=NOW, aging=Aging()).summary
        for text in ("", "It was a fine day.")
    ]
    assert summaries == [None, "It was a fine day."]


# Merges


def keys(groups: list[TopicGroup]) -> list[list[int]]:
    return [group.keys for group in groups]


def test_topics_are_grouped_under_what_they_were_merged_into() -> None:
    assert keys(group_rows([row(1), row(2), row(3, merged_into=1)])) == [[1, 3], [2]]
    assert group_rows([]) == []


def test_a_chain_of_merges_is_one_topic() -> None:
    rows = [row(1, merged_into=2), row(2, merged_into=3), row(3), row(4, merged_into=1)]
    assert keys(group_rows(rows)) == [[3, 1, 2, 4]]


def test_a_topic_merged_into_a_missing_one_is_a_topic_of_its_own() -> None:
    assert keys(group_rows([row(1, merged_into=9), row(2)])) == [[1], [2]]


@given(st.lists(st.none() | st.integers(1, 8), min_size=1, max_size=8))
def test_grouping_ends_and_loses_no_topic_whatever_was_merged_into_what(into: list[int | None]) -> None:
    rows = [row(key, merged_into=other) for key, other in enumerate(into, 1)]
    grouped = [key for group in group_rows(rows) for key in group.keys]
    assert sorted(grouped) == [row["key"] for row in rows]


def test_a_merged_topic_adds_up_its_parts() -> None:
    later = times.to_micros(NOW + DAY)
    (topic,) = shown(
        row(1, accesses=3, messages=4, archived=2, tags='["a", "b"]', created_at=later),
        row(2, accesses=2, messages=5, merged_into=1, tags='["b", "c"]', active_at=later, pinned=1, importance=0.3),
        now=NOW + DAY,
    )
    assert (topic.access_count, topic.messages, topic.archived_messages, topic.half_life_days) == (5, 9, 2, 2.0)
    assert (topic.tags, topic.pinned, topic.importance) == (("a", "b"), False, 1.0)  # said of the whole
    assert (topic.created_at, topic.last_active_at, topic.merged) == (NOW, NOW + DAY, ("t2",))


def test_praise_lets_a_topic_last_and_deletions_let_it_fade() -> None:
    praised, deleted = shown(row(1, accesses=4, praise=1, score=1.0), row(2, deletions=2))
    assert (praised.access_count, praised.half_life_days, praised.importance) == (5, 2.0, 1.0)
    assert deleted.importance == 0.5


# Titles


def test_a_title_is_the_first_80_characters_on_one_line() -> None:
    assert topics.make_title("x" * 200) == "x" * 80
    assert topics.make_title("  where\n\tto   eat?\n") == "where to eat?"
    assert topics.make_title("a" * 79 + " b") == "a" * 79
    assert topics.make_title(" \n ") == topics.make_title("") == "…"
    assert topics.make_title("مرحبا بك") == "مرحبا بك"


@given(st.text())
def test_a_title_is_short_and_never_empty(text: str) -> None:
    title = topics.make_title(text)
    assert 0 < len(title) <= 80
    assert title == " ".join(title.split()) or title == "…"
