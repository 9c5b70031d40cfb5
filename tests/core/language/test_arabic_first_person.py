"""An Arabic text speaks of its speaker by a letter of a word."""

from __future__ import annotations

import pytest

from recollect.core.language.arabic_first_person import speaks_of_self


@pytest.mark.parametrize(
    "text",
    [
        "كم عمري؟",
        "وين سيارتي؟",
        "متى موعدنا مع الوزارة؟",
        "ما الذي أشتريه للعيد؟",
        "أين سأقيم في تركيا؟",
        "وين بنسافر؟ وين نسافر؟",
        "هل عندي حساسية؟",
        "ليش ما نحب هالمطعم؟",
        "من رافقنا في الرحلة؟",
        "لمكتبي أو لبيتي؟",
    ],
)
def test_words_for_i_we_my_and_our_are_found(text: str) -> None:
    assert speaks_of_self(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is the capital of Peru?",
        "ما عاصمة فرنسا؟",
        "أين الكرسي الكهربائي؟",
        "ما نتيجة المباراة؟",
        "كم سعر الخبز في كندا اليوم؟",
        "من هو أفضل لاعب في العالم؟",
        "متى بدأ فيروس كورونا؟",
        "هل القاضي عربي؟",
    ],
)
def test_other_questions_do_not_speak_of_the_speaker(text: str) -> None:
    assert not speaks_of_self(text)
