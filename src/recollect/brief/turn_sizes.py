"""The sizes of turns that are not compressed yet, by which triggers decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.compression import triggers
from recollect.core.compression.narrative import length_for_version
from recollect.core.compression.triggers import TurnSize
from recollect.core.protocols import Tokenizer
from recollect.jobs.message_index import as_message
from recollect.providers.token_counts import count_message
from recollect.settings import Settings
from recollect.storage.driver import Row

STEP_TOKENS: Final = 6000  # most that one step compresses; more if `memory_chunk_summarize_threshold` is larger
EXPECTED_TOKENS_PER_WORD: Final = 1.6  # of a narrative: between English (1.3) and Arabic (2)
EXPECTED_LEDGER_TOKENS: Final = 100


@dataclass(frozen=True, slots=True)
class MeasuredTurn:
    """A turn that is not compressed yet."""

    size: TurnSize
    last_seq: int


def measure_turns(rows: Sequence[Row], zone: ZoneInfo, tokenizer: Callable[[], Tokenizer]) -> list[MeasuredTurn]:
    """Group rows of messages into turns and add up their sizes. Messages without a token count are counted here."""
    for row in rows:
        if row["tokens"] is None:
            row["tokens"] = count_message(as_message(row), tokenizer())
    return [_measure(list(group), zone) for _, group in groupby(rows, key=_TurnNumber())]


def end_of_step(turns: Sequence[MeasuredTurn], target: int, settings: Settings) -> int:
    """Return the seq of the last message of the next step.

    A step ends at `target`, a seq, at the latest. It has a maximum of tokens, because a model reads no more at once.
    """
    due = [turn.size for turn in turns if turn.last_seq <= target]
    max_tokens = max(STEP_TOKENS, settings.memory_chunk_summarize_threshold)
    return turns[triggers.count_turns_in_step(due, len(due), max_tokens) - 1].last_seq


def sum_tokens(turns: Sequence[MeasuredTurn], through: int) -> int:
    """Return the tokens of the turns up to a seq."""
    return sum(turn.size.tokens for turn in turns if turn.last_seq <= through)


def last_seq_before_tail(turns: Sequence[MeasuredTurn], tail_turns: int) -> int:
    """Return the last seq before the newest turns, which stay in the prompt in any case; 0 if there are no more."""
    return turns[-tail_turns - 1].last_seq if len(turns) > tail_turns else 0


def expected_brief_tokens(version: int, settings: Settings) -> int:
    """Return about how many tokens a version of the brief will have in a prompt."""
    narrative_tokens = settings.memory_summary_token_cap
    if settings.narrative_policy == "words":
        narrative_tokens = int(length_for_version(version).maximum * EXPECTED_TOKENS_PER_WORD)
    return min(narrative_tokens + EXPECTED_LEDGER_TOKENS, settings.memory_brief_token_budget)


def active_triggers(settings: Settings) -> list[triggers.Trigger]:
    """Return the triggers that the settings switch on."""
    active: list[triggers.Trigger] = []
    if settings.compress_messages_at:
        active.append(triggers.ManyMessages(settings.compress_messages_at, settings.compress_messages_keep))
    if settings.compress_tokens_above:
        until = settings.compress_tokens_until or None
        active.append(triggers.ManyTokens(settings.compress_tokens_above, settings.compress_tokens_keep, until))
    if settings.compress_daily:
        active.append(triggers.NewDay())
    if settings.memory_chunk_summarize_threshold:
        active.append(triggers.Chunk(settings.memory_chunk_summarize_threshold, settings.memory_k_raw_turns))
    if settings.rag_summary_frequency:
        active.append(triggers.EveryAnswers(settings.rag_summary_frequency))
    return active


class _TurnNumber:
    """Numbers rows by the turn they belong to, as `core.turns` does it for messages."""

    def __init__(self) -> None:
        self._turn = 0

    def __call__(self, row: Row) -> int:
        self._turn += row["role"] == "user"
        return self._turn


def _measure(rows: Sequence[Row], zone: ZoneInfo) -> MeasuredTurn:
    day: date = times.from_micros(rows[0]["at"]).astimezone(zone).date()
    answers = sum(row["role"] == "assistant" for row in rows)
    is_done = rows[-1]["role"] == "assistant" and not rows[-1]["calls"]
    tokens = sum(row["tokens"] for row in rows)
    return MeasuredTurn(TurnSize(len(rows), tokens, answers, day, is_done), rows[-1]["seq"])
