"""When older turns are folded: each document's own numbers, its borders, and that folding comes to an end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

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
    first_due,
    within,
)

TODAY = date(2026, 3, 10)


def turn(tokens: int = 100, *, messages: int = 2, answers: int = 1, day: date = TODAY) -> TurnSize:
    return TurnSize(messages, tokens, answers, day, is_done=answers > 0)


def now(*turns: TurnSize, brief: int = 0, system: int = 0, today: date = TODAY) -> Situation:
    return Situation(turns, brief, system, today)


# Messages: document A


def test_four_messages_are_left_alone_and_the_fifth_folds_all_but_the_last_three() -> None:
    singles = [turn(messages=1, answers=0) for _ in range(5)]
    assert ManyMessages().due(now(*singles[:4])) == 0
    assert ManyMessages().due(now(*singles)) == 2


def test_three_kept_messages_are_widened_to_the_border_of_their_turn() -> None:
    assert ManyMessages().due(now(turn(), turn(), turn(messages=1))) == 1  # 2 2 1: the last three are two turns
    assert ManyMessages().due(now(turn(), turn(), turn())) == 1  # 2 2 2: the third message is half a turn
    assert ManyMessages().due(now(turn(), turn(messages=4), turn(messages=1))) == 1
    assert ManyMessages().due(now(turn(), turn(messages=3))) == 1


def test_one_turn_of_many_messages_is_never_folded_by_their_number() -> None:
    assert ManyMessages().due(now(turn(messages=50))) == 0
    assert ManyMessages().due(now(turn(messages=1), turn(messages=50))) == 1


# Tokens: documents B and A


def test_exactly_three_thousand_tokens_are_not_above_and_one_more_is() -> None:
    assert ManyTokens().due(now(turn(1000), turn(1000), turn(1000))) == 0
    assert ManyTokens().due(now(turn(1000), turn(1000), turn(1001))) == 1


def test_the_newest_turns_that_fit_in_2500_tokens_are_kept() -> None:
    assert ManyTokens().due(now(turn(501), turn(1250), turn(1250))) == 1  # 2500 exactly
    assert ManyTokens().due(now(turn(500), turn(1251), turn(1250))) == 2  # 2501 with the second
    assert ManyTokens().due(now(turn(600), turn(600), turn(600), turn(600), turn(601))) == 1


def test_system_prompt_and_brief_count_for_the_threshold_but_not_for_what_is_kept() -> None:
    turns = (turn(1400), turn(1200))
    assert ManyTokens().due(now(*turns, brief=200, system=200)) == 0
    assert ManyTokens().due(now(*turns, brief=200, system=201)) == 1
    assert ManyTokens().due(now(*turns, brief=201, system=200)) == 1
    assert ManyTokens().due(now(turn(1250), turn(1250), brief=400, system=200)) == 0  # above, but all of it fits


def test_a_single_turn_is_kept_however_large_it_is() -> None:
    assert ManyTokens().due(now(turn(1_000_000))) == 0
    assert ManyTokens(until=1500).due(now(turn(1_000_000))) == 0
    assert ManyTokens().due(now(turn(10), turn(1_000_000))) == 1
    assert ManyTokens(until=1500).due(now(turn(10), turn(1_000_000))) == 1
    assert Chunk().due(now(turn(1_000_000))) == 0
    assert Chunk().due(now(turn(1_000_000), turn(1), turn(1))) == 0


def test_until_lets_the_oldest_go_until_1500_are_left() -> None:
    six = [turn(501) for _ in range(6)]  # 3006
    assert ManyTokens(until=1500).due(now(*six)) == 4  # 1002 are left; with one more it were 1503
    assert ManyTokens(until=1500).due(now(turn(1001), turn(500), turn(500), turn(500), turn(500))) == 2  # 1500 exactly
    assert ManyTokens(until=1500).due(now(turn(1501), turn(1500))) == 1
    assert ManyTokens(until=1500).due(now(turn(1500), turn(1500))) == 0  # 3000 are not above
    assert ManyTokens(until=1500).due(now(turn(600), turn(600), turn(600), brief=900, system=301)) == 2


# Days: document A


def test_a_new_day_folds_what_came_before_it_and_nothing_of_today() -> None:
    yesterday, before = TODAY - timedelta(days=1), TODAY - timedelta(days=40)
    assert NewDay().due(now(turn(), turn())) == 0
    assert NewDay().due(now(turn(day=before), turn(day=yesterday), turn())) == 2
    assert NewDay().due(now(turn(day=before), turn(day=yesterday))) == 2
    assert NewDay().due(now(turn(day=yesterday), today=yesterday)) == 0


def test_a_clock_that_ran_ahead_folds_nothing() -> None:
    assert NewDay().due(now(turn(day=TODAY + timedelta(days=2)), turn(day=TODAY + timedelta(days=2)))) == 0


# Chunks: document D


def test_a_chunk_is_folded_above_6000_tokens_of_brief_and_turns_and_keeps_three_turns() -> None:
    turns = [turn(1500) for _ in range(4)]
    assert Chunk().due(now(*turns)) == 0  # 6000 exactly
    assert Chunk().due(now(*turns, brief=1)) == 1
    assert Chunk().due(now(*turns, system=5000)) == 0  # document D counts no system prompt
    assert Chunk().due(now(*(turn(1000) for _ in range(10)))) == 7


def test_a_chunk_needs_more_than_k_turns() -> None:
    assert Chunk().due(now(*(turn(9000) for _ in range(3)))) == 0
    assert Chunk().due(now(*(turn(9000) for _ in range(4)))) == 1
    assert Chunk(above=6000, keep=1).due(now(turn(9000), turn(10))) == 1


# Answers: document E


def test_every_fifth_answer_folds_what_is_answered() -> None:
    assert EveryAnswers().due(now(*(turn() for _ in range(4)))) == 0
    assert EveryAnswers().due(now(*(turn() for _ in range(5)))) == 5
    assert EveryAnswers().due(now(*(turn() for _ in range(5)), turn(messages=1, answers=0))) == 5
    assert EveryAnswers().due(now(*(turn() for _ in range(4)), turn(messages=1, answers=0))) == 0
    assert EveryAnswers().due(now(turn(messages=6, answers=5))) == 1
    assert EveryAnswers(answers=2).due(now(turn(), turn())) == 2


# All of them


EVERY: tuple[Trigger, ...] = (ManyMessages(), ManyTokens(), ManyTokens(until=1500), NewDay(), Chunk(), EveryAnswers())


@pytest.mark.parametrize("trigger", EVERY, ids=repr)
def test_nothing_said_is_nothing_due(trigger: Trigger) -> None:
    assert trigger.due(now()) == 0
    assert trigger.due(now(brief=100_000, system=100_000)) == 0


def test_of_several_triggers_the_one_that_asks_for_most_is_heard() -> None:
    turns = [turn(700) for _ in range(10)]
    assert first_due([Chunk(), EveryAnswers()], now(*turns)) == ("answers", 10)
    assert first_due([ManyTokens(), Chunk(keep=4)], now(*turns)) == ("tokens", 7)  # keeps 2100 tokens, or four turns
    assert first_due([Chunk(), ManyMessages()], now(*turns)) == ("messages", 8)
    assert first_due([NewDay(), Chunk()], now(turn(), turn())) == ("", 0)
    assert first_due([], now(*turns)) == ("", 0)


def test_a_fold_takes_as_many_turns_as_fit_and_one_at_least() -> None:
    turns = [turn(2000) for _ in range(5)]
    assert within(turns, 5, 6000) == 3
    assert within(turns, 2, 6000) == 2
    assert within(turns, 5, 5999) == 2
    assert within(turns, 5, 1) == 1
    assert within([turn(9000), turn(1)], 2, 6000) == 1
    assert within(turns, 0, 6000) == 0


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
def test_what_is_due_is_a_number_of_whole_turns(
    trigger: Trigger, turns: Sequence[TurnSize], brief: int, system: int
) -> None:
    due = trigger.due(Situation(turns, brief, system, TODAY))
    assert 0 <= due <= len(turns)
    if turns and isinstance(trigger, ManyMessages | ManyTokens | Chunk):
        assert due < len(turns), "the newest turn stays"


@given(st.integers(1, 12), st.integers(1, 12), TURNS)
def test_by_messages_the_fewest_turns_that_hold_the_last_ones_are_kept(
    at: int, keep: int, turns: Sequence[TurnSize]
) -> None:
    due = ManyMessages(at, keep).due(now(*turns))
    kept = [one.messages for one in turns[due:]]
    if due:
        assert sum(one.messages for one in turns) >= at
        assert sum(kept) >= keep
        assert sum(kept[1:]) < keep, "one turn less would have done"


@given(TURNS, st.integers(0, 2000), st.integers(0, 2000))
def test_by_tokens_what_is_kept_fits_or_is_one_turn(turns: Sequence[TurnSize], brief: int, system: int) -> None:
    situation = Situation(turns, brief, system, TODAY)
    due = ManyTokens().due(situation)
    kept = sum(one.tokens for one in turns[due:])
    if system + situation.tokens > 3000:
        assert kept <= 2500 or len(turns) - due <= 1
        assert not due or kept + turns[due - 1].tokens > 2500, "one turn more would have fitted"
    else:
        assert due == 0


@given(st.lists(TRIGGERS, min_size=1, max_size=4), TURNS, st.integers(0, 1500), st.integers(0, 3000), st.booleans())
def test_folding_until_nothing_is_due_comes_to_an_end(
    triggers: list[Trigger], turns: list[TurnSize], brief: int, system: int, by_steps: bool
) -> None:
    steps, most = 0, len(turns)
    while due := first_due(triggers, Situation(turns, brief, system, TODAY))[1]:
        steps += 1
        assert steps <= most, "each fold takes a turn"
        turns = turns[within(turns, due, 6000) if by_steps else due :]
        brief = min(1500, brief + 400)


@given(TURNS, st.integers(0, 40), st.integers(0, 20_000))
def test_a_step_is_within_what_is_due_and_within_its_tokens(turns: list[TurnSize], due: int, tokens: int) -> None:
    due = min(due, len(turns))
    taken = within(turns, due, tokens)
    assert (1 <= taken <= due) if due else taken == 0
    assert taken <= 1 or sum(one.tokens for one in turns[:taken]) <= tokens
    assert taken == due or sum(one.tokens for one in turns[: taken + 1]) > tokens
