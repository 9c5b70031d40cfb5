"""The built-in assistant: what it says to what it is told and asked, and which hits it quotes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from recollect.core import assistant
from recollect.core.assistant_phrases import PHRASES, describe_age
from recollect.core.message import Message
from recollect.core.models import Hit, Neighbour
from recollect.core.quote_choice import choose_quotes

NOW = datetime(2026, 1, 4, 10, tzinfo=UTC)


def hit(text: str, *, role: str = "user", name: str | None = None, days: int = 3, **why: float) -> Hit:
    at = NOW - timedelta(days=days)
    parts = {"role": 0.35, "session": 0.15, **why}
    return Hit(f"id of {text}", "trip", 1, role, text, at, sum(parts.values()), "message", parts, name)


def message(text: str, role: str = "user") -> Message:
    return Message(f"id of {text}", "trip", 1, role, text, NOW, "typed")


def answer(text: str, *hits: Hit, stored: bool = True) -> assistant.BuiltInAnswer:
    return assistant.build_answer(text, assistant.Found(hits), now=NOW, is_stored=stored)


def test_what_is_told_is_confirmed_and_nothing_is_quoted() -> None:
    told = answer("I moved to\n Lyon.", hit("I live in Paris.", dense=0.4))
    assert told == assistant.BuiltInAnswer("Noted: “I moved to Lyon.”")
    assert answer("x" * 500 + " is my name.").text == f"Noted: “{'x' * 199}…”"


def test_what_is_not_stored_is_not_confirmed() -> None:
    assert "Noted" not in answer("I moved to Lyon.", stored=False).text


def test_a_message_that_tells_and_asks_is_confirmed_and_answered() -> None:
    both = answer("I moved to Lyon. Who else lives there?", hit("Omar lives in Lyon.", bm25=0.4))
    assert both.text == (
        "Noted: “I moved to Lyon. Who else lives there?”\n\n"
        "This is what I remember:\n- 1 Jan 2026 (3 days ago), you said: “Omar lives in Lyon.”"
    )
    assert answer("I moved to Lyon. Who else lives there?").text.startswith("Noted: ")


def test_greetings_thanks_and_agreement_get_a_short_reply() -> None:
    texts = [answer(text).text for text in ("Hello!", "thanks", "ok", "مرحبا", "شكراً", "تمام")]
    english, arabic = PHRASES["en"], PHRASES["ar"]
    assert texts == [
        english.greeting, english.welcome, english.acknowledged, arabic.greeting, arabic.welcome, arabic.acknowledged,
    ]  # fmt: skip


def test_an_answer_has_the_language_of_the_question() -> None:
    told = answer("أين يعيش عمر؟", hit("عمر يعيش في ليون.", bm25=0.4), hit("Omar: Lyon", bm25=0.4, name="Omar"))
    assert told.text == (
        "هذا ما أتذكره:\n- 1 يناير 2026 (قبل 3 أيام)، قلت: «عمر يعيش في ليون.»\n"
        "- 1 يناير 2026 (قبل 3 أيام)، من Omar: «Omar: Lyon»"
    )
    assert answer("أين يعيش عمر؟").text == "لا أتذكر شيئاً عن ذلك بعد."
    assert answer("Où habite Omar ?", hit("Omar habite à Lyon.", bm25=0.4)).text.startswith("This is what I remember:")


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=5), "الآن"), (timedelta(minutes=1), "قبل دقيقة"), (timedelta(hours=2), "قبل ساعتين"),
        (timedelta(days=5), "قبل 5 أيام"), (timedelta(minutes=11), "قبل 11 دقيقة"), (timedelta(days=7), "قبل أسبوع"),
        (timedelta(days=70), "قبل شهرين"), (timedelta(days=365 * 103 + 60), "قبل 103 سنوات"),
    ],
)  # fmt: skip
def test_ages_are_counted_as_arabic_counts(age: timedelta, words: str) -> None:
    assert describe_age(NOW - age, NOW, "ar") == words


def test_questions_are_no_memories_but_answers_to_them_are() -> None:
    asked = hit("Where does Omar live?", dense=0.5, bm25=0.4)
    answered = hit("Omar lives in Lyon.", role="assistant", dense=0.4, bm25=0.3)
    assert answer("where is Omar", asked, answered).quoted == (answered,)
    assert answer("where is Omar", asked).text == "I remember nothing about that yet."


def test_sources_are_what_was_quoted() -> None:
    near, far = hit("Omar lives in Lyon.", bm25=0.4, dense=0.3), hit("I like tea.", dense=0.01)
    told = answer("Where does Omar live?", near, far)
    assert [source["message_id"] for source in told.sources()] == ["id of Omar lives in Lyon."]
    assert told.sources()[0].keys() == {"part", "conversation", "seq", "message_id", "kind", "score", "why"}


def test_a_hit_must_bear_on_the_question_however_high_its_score_is() -> None:
    """A score also counts the speaker and the session, which no question changes."""
    unrelated = [hit(text, dense=0.1) for text in ("I like tea.", "I fly on Friday.", "My dog is old.")]
    assert choose_quotes("What is the capital of France?", unrelated).hits == ()
    related = hit("Our cat is called Mia.", dense=0.25)
    assert choose_quotes("Do I have pets?", [*unrelated, related]).hits == (related,)


def test_what_people_said_comes_before_what_the_assistant_made_of_it() -> None:
    said = hit("I am allergic to peanuts.", dense=0.26)
    repeated = hit("Peanuts are what you cannot eat.", role="assistant", dense=0.35, bm25=0.4)
    assert choose_quotes("What can I not eat?", [repeated, said]).hits == (said, repeated)
    unrelated = [hit(text, dense=0.01) for text in ("I like tea.", "My dog is old.")]
    assert choose_quotes("What can I not eat?", [repeated, said, *unrelated]).hits == (said, repeated)
    assert choose_quotes("What can I not eat?", [repeated, *unrelated]).hits == (repeated,)


def test_a_reply_is_quoted_after_the_statement_that_it_replies_to() -> None:
    def reply_to(text: str) -> Hit:
        reply = hit("Peanuts are what you cannot eat.", role="assistant", bm25=0.4)
        return replace(reply, seq=2, neighbours=(Neighbour("n", 1, "user", text, NOW),))

    told = reply_to("I am allergic to peanuts.")
    quoted = choose_quotes("What can I not eat?", [told]).hits
    assert [each.text for each in quoted] == ["I am allergic to peanuts.", "Peanuts are what you cannot eat."]
    asked = reply_to("Which food is dangerous for me?")
    assert choose_quotes("What can I not eat?", [asked]).hits == (asked,)


def test_where_every_meaning_is_near_the_answer_says_that_it_is_unsure() -> None:
    """So the vectors of an embedder are that does not know the language."""
    alike = [hit(text, dense=dense) for text, dense in (("أحب الشاي.", 0.45), ("كلبي كبير.", 0.44), ("اسمي منى", 0.43))]
    chosen = choose_quotes("ما عاصمة فرنسا؟", alike)
    assert (chosen.is_sure, len(chosen.hits)) == (False, 3)
    assert answer("ما عاصمة فرنسا؟", *alike).text.startswith("لست متأكداً من ذلك. أقرب ما أتذكره:\n- ")


def test_dates_count_only_where_they_tell_messages_apart() -> None:
    today = [hit(text, days=0, date=0.05, dense=0.1) for text in ("I like tea.", "My dog is old.")]
    assert choose_quotes("Plan dinner for tonight.", today).hits == ()
    older = hit("I fly on Friday.", days=30, dense=0.1)
    assert choose_quotes("What did I say today?", [*today, older]).hits == tuple(today)


def test_who_asks_for_everything_gets_the_newest_that_was_told() -> None:
    newest = [
        message("I like tea."),
        message("Noted.", "assistant"),
        message("Where is Omar?"),
        message("I fly on Friday."),
    ]
    told = assistant.build_answer("What do you know about me?", assistant.Found((), newest), now=NOW)
    assert [source.id for source in told.quoted if isinstance(source, Message)] == [
        "id of I fly on Friday.", "id of I like tea.",
    ]  # fmt: skip


@pytest.mark.parametrize("question", ["What did I tell you today?", "شو قلت لك اليوم؟"])
def test_who_asks_for_a_day_gets_only_what_was_told_on_that_day_in_the_zone_of_the_conversation(question: str) -> None:
    older = replace(message("I fly on Friday."), at=NOW - timedelta(hours=14))  # the evening before, in UTC
    newest = [older, message("I like tea."), message("My dog is old.")]

    def quoted(zone: str) -> list[str]:
        told = assistant.build_answer(question, assistant.Found((), newest), now=NOW, zone=zone)
        return [source.content for source in told.quoted if isinstance(source, Message)]

    assert quoted("UTC") == ["My dog is old.", "I like tea."]
    assert quoted("Pacific/Auckland") == ["My dog is old.", "I like tea.", "I fly on Friday."]
    assert quoted("UTC") != [each.content for each in newest]


def test_a_day_that_the_newest_messages_do_not_reach_is_answered_by_hits_of_it() -> None:
    hits = [hit("I fly on Friday.", days=1), hit("I like tea.", days=9), hit("Where is Omar?", days=1)]
    found = assistant.Found(hits, [message("My dog is old.")])
    told = assistant.build_answer("What did I tell you yesterday?", found, now=NOW)
    assert told.quoted == (hits[0],)


@pytest.mark.parametrize("text", ["Forget my wifi password", "Please forget my wifi password.", "انس كلمة السر"])
def test_who_asks_to_forget_something_is_told_how_and_nothing_of_it_is_quoted(text: str) -> None:
    secret = hit("My wifi password is hunter2, كلمة السر", dense=0.6, bm25=0.6)
    assert not assistant.needs_memory(text)
    told = answer(text, secret)
    assert told.quoted == ()
    assert "hunter2" not in told.text
    assert "/forget" in told.text and "recollect erase" in told.text


def test_what_is_told_beside_a_request_to_forget_is_noted() -> None:
    told = answer("I moved to Lyon. Forget my old address.").text
    assert told.startswith("Noted: ") and "/forget" in told


def test_the_notice_is_taken_off_an_answer_in_both_languages() -> None:
    for question in ("Hi", "مرحبا"):
        assert assistant.strip_notice(f"Noted: “x”\n\n{assistant.notice(question)}") == "Noted: “x”"
    assert assistant.strip_notice("No model is set.") == "No model is set."
