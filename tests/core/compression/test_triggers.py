"""When older turns are compressed: the numbers of each preset, their limits, and that compressing comes to an end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression.triggers import (
    Chunk,
    EveryAnswers,
    ManyMessages,
    ManyTokens,
    NewDay,
    Situation,
    Trigger,
    TurnSize,
    count_turns_in_step,
    largest_due,
)

TODAY = date(2026, 3, 10)


def turn(tokens: int = 100, *, messages: int = 2, answers: int = 1, day: date = TODAY) -> TurnSize:
    return TurnSize(messages, tokens, answers, day, is_done=answers > 0)


def now(*turns: TurnSize, brief: int = 0, system: int = 0, next_brief: int = 0, today: date = TODAY) -> Situation:
    return Situation(turns, brief, system, today, next_brief)


# By messages (preset `compact`)


def test_four_messages_stay_and_the_fifth_compresses_all_but_the_last_three() -> None:
    singles = [turn(messages=1, answers=0) for _ in range(5)]
    assert ManyMessages().count_due(now(*singles[:4])) == 0
    assert ManyMessages().count_due(now(*singles)) == 2


def test_three_kept_messages_are_widened_to_the_border_of_their_turn() -> None:
    assert ManyMessages().count_due(now(turn(), turn(), turn(messages=1))) == 1  # 2 2 1: the last three are two turns
    assert ManyMessages().count_due(now(turn(), turn(), turn())) == 1  # 2 2 2: the third message is half a turn
    assert ManyMessages().count_due(now(turn(), turn(messages=4), turn(messages=1))) == 1
    assert ManyMessages().count_due(now(turn(), turn(messages=3))) == 1


def test_a_single_turn_of_many_messages_is_never_compressed_by_their_number() -> None:
    assert ManyMessages().count_due(now(turn(messages=50))) == 0
    assert ManyMessages().count_due(now(turn(messages=1), turn(messages=50))) == 1


# By tokens (preset `sessions`)


def test_exactly_three_thousand_tokens_are_not_above_and_one_more_is() -> None:
    assert ManyTokens().count_due(now(turn(1000), turn(1000), turn(1000))) == 0
    assert ManyTokens().count_due(now(turn(1000), turn(1000), turn(1001))) == 2


def test_the_newest_turns_that_fit_in_2500_tokens_and_a_third_of_the_threshold_are_kept() -> None:
    assert ManyTokens().count_due(now(*(turn(250) for _ in range(13)))) == 9  # 1000 exactly
    assert ManyTokens().count_due(now(*(turn(251) for _ in range(13)))) == 10
    assert ManyTokens(above=9000).count_due(now(*(turn(1250) for _ in range(8)))) == 6  # 2500 exactly
    assert ManyTokens(above=9000).count_due(now(*(turn(1251) for _ in range(8)))) == 7


def test_system_prompt_and_the_next_brief_count_for_what_is_kept() -> None:
    turns = [turn(150) for _ in range(20)]
    assert ManyTokens().count_due(now(*turns, system=100)) == 14  # 900 are kept
    assert ManyTokens().count_due(now(*turns, system=100, next_brief=300)) == 16
    assert ManyTokens().count_due(now(*turns, brief=800, next_brief=300)) == 19
    assert ManyTokens().count_due(now(*turns, brief=800, system=5000)) == 19  # the newest stays


def test_system_prompt_and_brief_count_for_the_threshold() -> None:
    turns = (turn(1400), turn(1200))
    assert ManyTokens().count_due(now(*turns, brief=200, system=200)) == 0
    assert ManyTokens().count_due(now(*turns, brief=200, system=201)) == 1
    assert ManyTokens().count_due(now(*turns, brief=201, system=200)) == 1


def test_turns_may_have_most_of_the_threshold_however_long_the_system_prompt_is() -> None:
    assert ManyTokens().count_due(now(*(turn(150) for _ in range(12)), brief=900, system=50_000)) == 0  # 1800
    assert ManyTokens().count_due(now(*(turn(151) for _ in range(12)), brief=900, system=50_000)) == 11


def test_a_single_turn_is_kept_however_large_it_is() -> None:
    assert ManyTokens().count_due(now(turn(1_000_000))) == 0
    assert ManyTokens(until=1500).count_due(now(turn(1_000_000))) == 0
    assert ManyTokens().count_due(now(turn(10), turn(1_000_000))) == 1
    assert ManyTokens(until=1500).count_due(now(turn(10), turn(1_000_000))) == 1
    assert Chunk().count_due(now(turn(1_000_000))) == 0
    assert Chunk().count_due(now(turn(1_000_000), turn(1), turn(1))) == 0


def test_until_lets_the_oldest_go_until_1500_are_left() -> None:
    six = [turn(501) for _ in range(6)]  # 3006
    assert ManyTokens(until=1500).count_due(now(*six)) == 4  # 1002 are left; with one more it were 1503
    assert (
        ManyTokens(until=1500).count_due(now(turn(1001), turn(500), turn(500), turn(500), turn(500))) == 2
    )  # 1500 exactly
    assert ManyTokens(until=1500).count_due(now(turn(1501), turn(1500))) == 1
    assert ManyTokens(until=1500).count_due(now(turn(1500), turn(1500))) == 0  # 3000 are not above
    assert ManyTokens(until=1500).count_due(now(*(turn(500) for _ in range(5)), brief=900, system=301)) == 4
    assert ManyTokens(until=2900).count_due(now(*six)) == 4  # never more than half of the threshold is left


# By days


def test_a_new_day_compresses_earlier_turns_and_none_of_today() -> None:
    yesterday, before = TODAY - timedelta(days=1), TODAY - timedelta(days=40)
    assert NewDay().count_due(now(turn(), turn())) == 0
    assert NewDay().count_due(now(turn(day=before), turn(day=yesterday), turn())) == 2
    assert NewDay().count_due(now(turn(day=before), turn(day=yesterday))) == 2
    assert NewDay().count_due(now(turn(day=yesterday), today=yesterday)) == 0


def test_turns_of_a_future_day_are_not_compressed() -> None:
    assert NewDay().count_due(now(turn(day=TODAY + timedelta(days=2)), turn(day=TODAY + timedelta(days=2)))) == 0


# By chunks (preset `briefs`)


def test_a_chunk_is_compressed_above_6000_tokens_of_brief_and_turns_and_three_turns_stay() -> None:
    turns = [turn(1500) for _ in range(4)]
    assert Chunk().count_due(now(*turns)) == 0  # 6000 exactly
    assert Chunk().count_due(now(*turns, brief=1)) == 1
    assert Chunk().count_due(now(*turns, system=5000)) == 0  # the system prompt does not count
    assert Chunk().count_due(now(*(turn(1000) for _ in range(10)))) == 7


def test_a_chunk_needs_more_turns_than_are_kept() -> None:
    assert Chunk().count_due(now(*(turn(9000) for _ in range(3)))) == 0
    assert Chunk().count_due(now(*(turn(9000) for _ in range(4)))) == 1
    assert Chunk(above=6000, keep=1).count_due(now(turn(9000), turn(10))) == 1


# By answers (preset `recall`)


def test_every_fifth_answer_compresses_the_answered_turns() -> None:
    assert EveryAnswers().count_due(now(*(turn() for _ in range(4)))) == 0
    assert EveryAnswers().count_due(now(*(turn() for _ in range(5)))) == 5
    assert EveryAnswers().count_due(now(*(turn() for _ in range(5)), turn(messages=1, answers=0))) == 5
    assert EveryAnswers().count_due(now(*(turn() for _ in range(4)), turn(messages=1, answers=0))) == 0
    assert EveryAnswers().count_due(now(turn(messages=6, answers=5))) == 1
    assert EveryAnswers(answers=2).count_due(now(turn(), turn())) == 2


# All triggers


ALL_TRIGGERS: tuple[Trigger, ...] = (
    ManyMessages(),
    ManyTokens(),
    ManyTokens(until=1500),
    NewDay(),
    Chunk(),
    EveryAnswers(),
)


@pytest.mark.parametrize("trigger", ALL_TRIGGERS, ids=repr)
def test_without_turns_nothing_is_due(trigger: Trigger) -> None:
    assert trigger.count_due(now()) == 0
    assert trigger.count_due(now(brief=100_000, system=100_000)) == 0


def test_of_several_triggers_the_one_with_most_turns_due_decides() -> None:
    turns = [turn(700) for _ in range(10)]
    assert largest_due([Chunk(), EveryAnswers()], now(*turns)) == ("answers", 10)
    assert largest_due([ManyTokens(), Chunk(keep=4)], now(*turns)) == ("tokens", 9)  # keeps 700 tokens, or four turns
    assert largest_due([Chunk(), ManyMessages()], now(*turns)) == ("messages", 8)
    assert largest_due([NewDay(), Chunk()], now(turn(), turn())) == ("", 0)
    assert largest_due([], now(*turns)) == ("", 0)


def test_a_step_takes_as_many_turns_as_fit_and_at_least_one() -> None:
    turns = [turn(2000) for _ in range(5)]
    assert count_turns_in_step(turns, 5, 6000) == 3
    assert count_turns_in_step(turns, 2, 6000) == 2
    assert count_turns_in_step(turns, 5, 5999) == 2
    assert count_turns_in_step(turns, 5, 1) == 1
    assert count_turns_in_step([turn(9000), turn(1)], 2, 6000) == 1
    assert count_turns_in_step(turns, 0, 6000) == 0


SIZES = st.builds(
    TurnSize,
    messages=st.integers(1, 12),
    tokens=st.integers(0, 9000),
    answers=st.integers(0, 3),
    day=st.dates(TODAY - timedelta(days=3), TODAY),
)
TRIGGERS = st.one_of(
    st.builds(ManyMessages, at=st.integers(1, 12), keep=st.integers(1, 12)),
    st.builds(ManyTokens, above=st.integers(1, 9000), keep=st.integers(1, 9000)),
    st.builds(ManyTokens, above=st.integers(1, 9000), until=st.integers(1, 9000)),
    st.just(NewDay()),
    st.builds(Chunk, above=st.integers(1, 9000), keep=st.integers(1, 6)),
    st.builds(EveryAnswers, answers=st.integers(1, 9)),
)
TURNS = st.lists(SIZES, max_size=25)


@given(TRIGGERS, TURNS, st.integers(0, 3000), st.integers(0, 3000))
def test_the_due_turns_are_at_most_all_and_the_newest_stays(
    trigger: Trigger, turns: Sequence[TurnSize], brief: int, system: int
) -> None:
    due = trigger.count_due(Situation(turns, brief, system, TODAY))
    assert 0 <= due <= len(turns)
    if turns and isinstance(trigger, ManyMessages | ManyTokens | Chunk):
        assert due < len(turns), "the newest turn stays"


@given(st.integers(1, 12), st.integers(1, 12), TURNS)
def test_by_messages_the_fewest_turns_with_enough_messages_are_kept(
    at: int, keep: int, turns: Sequence[TurnSize]
) -> None:
    due = ManyMessages(at, keep).count_due(now(*turns))
    kept = [size.messages for size in turns[due:]]
    if due:
        assert sum(size.messages for size in turns) >= at
        assert sum(kept) >= keep
        assert sum(kept[1:]) < keep, "one turn less would have done"


@given(TURNS, st.integers(0, 2000), st.integers(0, 2000))
def test_by_tokens_the_kept_turns_fit_or_are_a_single_one(turns: Sequence[TurnSize], brief: int, system: int) -> None:
    situation = Situation(turns, brief, system, TODAY)
    due = ManyTokens().count_due(situation)
    kept = sum(size.tokens for size in turns[due:])
    limit = 1000 - system - brief
    if due:
        assert system + situation.tokens > 3000
        assert kept <= limit or len(turns) - due == 1
        assert kept + turns[due - 1].tokens > limit, "one turn more would have fitted"
    else:
        assert system + situation.tokens <= 3000 or sum(size.tokens for size in turns) <= 1800 or len(turns) == 1


@given(
    st.lists(st.integers(30, 300), min_size=80, max_size=80),
    st.integers(0, 1000),
    st.integers(0, 5000),
    st.sampled_from([None, 1, 1500, 3000]),
)
def test_turns_of_an_ordinary_size_are_never_compressed_one_by_one(
    sizes: list[int], brief: int, system: int, until: int | None
) -> None:
    trigger, uncompressed, numbers = ManyTokens(until=until), list[TurnSize](), list[int]()
    for number, tokens in enumerate(sizes):
        uncompressed.append(turn(tokens))
        if due := trigger.count_due(now(*uncompressed, brief=brief if numbers else 0, system=system)):
            uncompressed, numbers = uncompressed[due:], [*numbers, number]
    gaps = [later - earlier for earlier, later in pairwise(numbers)]
    assert all(gap >= 3 for gap in gaps), gaps


@given(st.lists(TRIGGERS, min_size=1, max_size=4), TURNS, st.integers(0, 1500), st.integers(0, 3000), st.booleans())
def test_compressing_until_nothing_is_due_comes_to_an_end(
    triggers: list[Trigger], turns: list[TurnSize], brief: int, system: int, by_steps: bool
) -> None:
    steps, max_steps = 0, len(turns)
    while due := largest_due(triggers, Situation(turns, brief, system, TODAY))[1]:
        steps += 1
        assert steps <= max_steps, "each step compresses a turn"
        turns = turns[count_turns_in_step(turns, due, 6000) if by_steps else due :]
        brief = min(1500, brief + 400)


@given(TURNS, st.integers(0, 40), st.integers(0, 20_000))
def test_a_step_has_no_more_turns_than_are_due_and_no_more_tokens_than_allowed(
    turns: list[TurnSize], due: int, tokens: int
) -> None:
    due = min(due, len(turns))
    taken = count_turns_in_step(turns, due, tokens)
    assert (1 <= taken <= due) if due else taken == 0
    assert taken <= 1 or sum(size.tokens for size in turns[:taken]) <= tokens
    assert taken == due or sum(size.tokens for size in turns[: taken + 1]) > tokens
