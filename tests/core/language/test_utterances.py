"""What people write to a chat is read as telling, asking, greeting or thanking, in English and Arabic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.core.language.memory_requests import asks_for_everything
from recollect.core.language.utterances import (
    Language,
    detect_language,
    read_utterance,
    tells_something,
)
from support.growth import assert_linear

UTTERANCES = json.loads((Path(__file__).parents[2] / "data/utterances.json").read_text("utf-8"))
CASES = [
    (language, kind, text) for language, parts in UTTERANCES.items() for part in parts.values() for kind, text in part
]


@pytest.mark.parametrize(("language", "kind", "text"), CASES)
def test_every_kind_of_message_is_told_apart(language: Language, kind: str, text: str) -> None:
    act = read_utterance(text)
    assert detect_language(text) == language
    assert act.tells == (kind in ("statement", "mixed"))
    assert act.asks == (kind in ("question", "request", "mixed"))
    assert act.greets or kind != "greeting"
    assert act.thanks or act.acknowledges or kind != "thanks"


@pytest.mark.parametrize("text", ["gate code", "peanuts", "رمز البوابة", "فلفل"])
def test_a_few_words_may_be_a_note_or_a_search(text: str) -> None:
    act = read_utterance(text)
    assert act.tells and act.asks


@pytest.mark.parametrize("text", ["", "  ", "?!", "…", "\n\n", "🙂"])
def test_a_message_without_words_tells_nothing(text: str) -> None:
    assert not tells_something(text)


@pytest.mark.parametrize(
    ("text", "tells"),
    [("Ich wohne in Bonn.", True), ("Wo wohne ich?", False), ("我住在上海。", True), ("我住在哪里？", False)],
)
def test_in_other_languages_the_question_mark_decides(text: str, tells: bool) -> None:
    assert (tells_something(text), read_utterance(text).asks) == (tells, not tells)
    assert detect_language(text) == "en"


def test_persian_and_urdu_are_not_taken_for_arabic() -> None:
    assert detect_language("من به بادام زمینی حساسیت دارم و پدرم هم") == "en"
    assert detect_language("میں لاہور میں رہتا ہوں") == "en"
    assert detect_language("أستخدم PostgreSQL في العمل منذ سنوات") == "ar"


@pytest.mark.parametrize(
    ("text", "everything"),
    [
        ("What do you know about me?", True), ("tell me everything you remember", True), ("Who am I?", True),
        ("What have I told you so far?", True), ("ماذا تعرف عني؟", True), ("من أنا؟", True),
        ("What do you know about Lena?", False), ("Do you remember my name?", False), ("ماذا تعرف عن لينا؟", False),
    ],
)  # fmt: skip
def test_a_question_for_everything_is_recognised(text: str, everything: bool) -> None:
    assert asks_for_everything(text) == everything


@pytest.mark.parametrize(
    "piece", ["so ", "ok, ", "thanks ", "تمام، ", "شكرا لك ", "شكرا علي علي ", "?", "when a,", "hi "]
)
def test_reading_a_long_message_takes_linear_time(piece: str) -> None:
    assert_linear(read_utterance, lambda n: piece * n + "x", 2000)
