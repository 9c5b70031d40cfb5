"""Questions for all that is remembered, and requests to forget, are told apart from others in English and Arabic.

The cases were written before the rules. Those called unseen were not tried while the rules were written.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from recollect.core.language.memory_requests import asked_day, asks_for_everything, asks_to_forget
from recollect.core.language.utterances import read_utterance
from support.growth import assert_linear

CASES = json.loads((Path(__file__).parents[2] / "data/memory_requests.json").read_text("utf-8"))
TODAY = date(2026, 1, 4)


def cases(kind: str) -> list[tuple[str, bool]]:
    halves = [half for language in CASES[kind].values() for half in language.values()]
    return [(text, answer == "yes") for half in halves for answer, texts in half.items() for text in texts]


@pytest.mark.parametrize(("text", "expected"), cases("everything"))
def test_a_question_for_everything_is_told_from_one_for_something(text: str, expected: bool) -> None:
    assert asks_for_everything(text) == expected


@pytest.mark.parametrize(("text", "expected"), cases("forget"))
def test_a_request_to_forget_is_told_from_other_sentences_about_forgetting(text: str, expected: bool) -> None:
    assert asks_to_forget(text) == expected


@pytest.mark.parametrize("text", [text for kind in CASES for text, expected in cases(kind) if expected])
def test_such_a_message_asks_and_tells_nothing(text: str) -> None:
    act = read_utterance(text)
    assert act.asks and not act.tells


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("What did I tell you today?", 4), ("What did I say this morning?", 4), ("What did I tell you yesterday?", 3),
        ("شو قلت لك اليوم؟", 4), ("قلتلك ايه النهارده؟", 4), ("ما الذي قلته لك أمس؟", 3), ("ماذا قلت لك البارحة؟", 3),
        ("What do you know about me?", None), ("ماذا تعرف عني؟", None),
    ],
)  # fmt: skip
def test_the_day_that_is_asked_for_is_read(text: str, day: int | None) -> None:
    assert asked_day(text, TODAY) == (day and TODAY.replace(day=day))


@pytest.mark.parametrize("piece", ["please ", "so ", "what did i ", "من فضلك ", "كل ما ", "forget "])
def test_reading_a_long_request_takes_linear_time(piece: str) -> None:
    assert_linear(asks_to_forget, lambda n: piece * n + "x", 2000)
    assert not asks_for_everything(piece * 100)
