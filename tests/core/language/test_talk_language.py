"""Labels and answers have the language of the talk."""

from __future__ import annotations

import pytest

from recollect.core.language.talk_language import answer_language, clear_language, talk_language

ARABIC = "أسكن في مسقط وأعمل في وزارة النقل"
ENGLISH = "I live in Muscat and work for the ministry"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ARABIC, "ar"),
        (ENGLISH, "en"),
        ("استخدم PostgreSQL لقاعدة البيانات", "ar"),
        ("PostgreSQL؟", "ar"),
        ("is it", "en"),
        ("ok", None),
        ("Salalah", None),
        ("123 👍", None),
        ("", None),
    ],
)
def test_a_text_shows_its_language_unless_it_is_a_name_or_a_short_word(text: str, language: str | None) -> None:
    assert clear_language(text) == language


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        ([ARABIC, "نعم", "PostgreSQL"], "ar"),
        ([ENGLISH, "yes", "نعم"], "en"),
        ([ARABIC, ENGLISH], "en"),
        ([ENGLISH, ARABIC, "ok"], "ar"),
        (["من در تهران زندگی می‌کنم و کار می‌کنم"], "en"),
        (["123"], "en"),
        ([], "en"),
    ],
)
def test_a_talk_has_the_language_of_its_letters_and_of_the_newest_text_if_they_are_mixed(
    texts: list[str], language: str
) -> None:
    assert talk_language(texts) == language


def test_an_answer_follows_the_question_and_else_the_talk() -> None:
    assert answer_language("What did I say?", [ARABIC]) == "en"
    assert answer_language("ok", [ARABIC]) == "ar"
    assert answer_language("ok") == "en"
