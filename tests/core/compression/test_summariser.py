"""The built-in summariser names speakers and days, keeps to its length, invents nothing and loses no fact."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression.attribution import ADDED_WORDS, strip_fillers, to_third_person
from recollect.core.compression.narrative import Length, Statement, count_words, length_for_version, render_narrative
from recollect.core.compression.summariser import summarise
from recollect.core.language import analyser, speech
from recollect.core.language.sentences import PAST_FORMS, shorten, split, tidy
from recollect.core.message import Message
from support.growth import assert_linear

START = datetime(2024, 5, 8, 9, tzinfo=UTC)
WIDE = Length(0, 1000, count_words)


def message(at: int, role: str, content: str, name: str | None = None, *, step: float = 1) -> Message:
    moment = START + timedelta(minutes=at * step)
    return Message(f"m{at}", "talk", at + 1, role, content, moment, "typed", name)


def talk(*texts: str, names: Sequence[str | None] = (None, None), step: float = 1) -> list[list[Message]]:
    """Return the turns of two people who speak alternately; the first is the user."""
    lines = [
        message(at, ("user", "assistant")[at % 2], text, names[at % 2], step=step) for at, text in enumerate(texts)
    ]
    return turns(lines)


def turns(messages: Sequence[Message]) -> list[list[Message]]:
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not groups:
            groups.append([])
        groups[-1].append(message)
    return groups


def report(text: str, *, asked: bool = False, whom: str | None = "Tom") -> str:
    return to_third_person(strip_fillers(text), "Sara", whom, asked=asked)


# Who said what.


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I need a doctor.", "Sara needs a doctor."),
        ("I'm broke.", "Sara is broke."),
        ("Well, I really hate my job!", "Sara really hates their job!"),
        ("I don't eat peanuts.", "Sara doesn't eat peanuts."),
        ("I have never been to Rome, and I wasn't ill when I was young.",
         "Sara has never been to Rome, and they weren't ill when they were young."),
        ("I can't come because I have to work.", "Sara can't come because they have to work."),
        ("I will send you the bill tomorrow.", "Sara will send Tom the bill tomorrow."),
        ("You should take it twice a day.", "Sara says Tom should take it twice a day."),
        ("My sister lives in Cairo.", "Sara's sister lives in Cairo."),
        ("Take it twice a day.", "Sara tells Tom to take it twice a day."),
        ("Please don't open the window.", "Sara asks Tom not to open the window."),
        ("We are going to the beach.", "Sara says they are going to the beach."),
        ("Let's meet at noon.", "Sara suggests they meet at noon."),
        ("Maybe I'll get a dog.", "Maybe Sara will get a dog."),
    ],
)  # fmt: skip
def test_plain_english_is_reported_in_the_third_person(said: str, expected: str) -> None:
    assert report(said) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Do you like surfing?", "Sara asks if Tom likes surfing."),
        ("Can I watch TV?", "Sara asks Tom if Sara can watch TV."),
        ("What time do you want to go?", "Sara asks what time Tom wants to go."),
        ("Did you see the film?", "Sara asks if Tom saw the film."),
        ("Where is the remote?", "Sara asks Tom where the remote is."),
        ("Why aren't you eating?", "Sara: Why aren't you eating?"),
        ("Why is the sky blue?", "Sara: Why is the sky blue?"),
    ],
)
def test_questions_are_reported_as_clauses_where_that_is_safe(asked: str, expected: str) -> None:
    assert report(asked, asked=True) == expected


@pytest.mark.parametrize(
    "said",
    [
        "I work and eat a lot.",  # the second verb hangs on the same subject
        "I am tired and want to sleep.",
        "My friends and I like it.",
        "It's good when you bake it.",  # "you" is anybody
        "You know that, don't you.",
        "So do I.",
        "I put it there.",  # today or yesterday
        "Before World War I ended much was different.",
        'He said "I am ill" and left.',
        "Ich brauche einen Arzt.",
        "أنا بحاجة إلى طبيب.",
        "我需要医生。",
    ],
)
def test_a_sentence_that_no_rule_knows_is_quoted(said: str) -> None:
    assert report(said) == f"Sara: {said}"


def test_the_us_is_no_pronoun() -> None:
    assert report("The US is large.") == "Sara says the US is large."


def test_a_sentence_with_you_is_quoted_if_the_listener_is_unknown() -> None:
    assert report("I will help you.", whom=None) == "Sara: I will help you."


def test_roles_replace_missing_names() -> None:
    found = summarise(talk("I moved to Lisbon in March.", "You should register at the city hall."), length=WIDE)
    assert render_narrative(found) == (
        "The user moved to Lisbon in March. The assistant says the user should register at the city hall."
    )


# Units.


def test_a_short_answer_is_joined_to_its_question() -> None:
    found = summarise(talk("Do you like surfing?", "Never tried.", names=("Sara", "Tom")), length=WIDE)
    assert found[0].text == "Sara asks if Tom likes surfing. Tom: Never tried."
    assert found[0].sources == ("m0", "m1")
    assert not any(one.text == "Tom: Never tried." for one in found)


def test_a_long_answer_stands_by_itself() -> None:
    answer = "The workshop in Porto repairs violas and violins from the nineteenth century only."
    found = summarise(talk("Where can I have it repaired?", answer), length=WIDE)
    assert any(one.sources == ("m1",) and "Porto" in one.text for one in found)


def test_greetings_and_thanks_give_way_to_facts() -> None:
    said = talk(
        "Hello there, good morning!", "Hi, nice to meet you!", "I am allergic to peanuts.", "Thanks for telling!"
    )
    assert render_narrative(summarise(said, length=Length(0, 8, count_words))) == "The user is allergic to peanuts."


def test_code_is_mentioned_but_not_quoted() -> None:
    said = talk("Why does it fail?", "Use this instead:\n```python\nsecret_value = compute()\n```\nIt closes the file.")
    text = render_narrative(summarise(said, length=WIDE))
    assert "[python code]" in text
    assert "secret_value" not in text


def test_tools_and_system_prompts_are_not_summarised() -> None:
    lines = [
        message(0, "system", "You are a travel agent for Oslo."),
        message(1, "user", "I want a cabin in Bergen."),
        message(2, "assistant", ""),
        message(3, "tool", '{"cabins": ["Troldhaugen"]}'),
    ]
    assert render_narrative(summarise([lines], length=WIDE)) == "The user wants a cabin in Bergen."


def test_a_negation_is_never_cut_off() -> None:
    said = "I would gladly come to the party on Saturday evening, but I do not have the time."
    cut = shorten(said, lambda text: count_words(text) <= 12)
    assert "but" in cut or not cut.startswith(said[: said.index(", but")] + " …")
    assert summarise(talk(said), length=WIDE)[0].text.endswith("but they do not have the time.")


def test_a_sentence_longer_than_the_length_ends_with_an_ellipsis() -> None:
    found = summarise(talk("word " * 200), length=Length(5, 10, count_words))
    assert 5 <= count_words(render_narrative(found)) <= 10
    assert found[0].text.endswith(" …")


# Time.


def test_a_day_is_labelled_when_it_changes() -> None:
    said = talk("I bought a red bicycle.", "Fine.", "I visited the old castle.", "Good.", step=60 * 10)
    text = render_narrative(summarise(said, length=WIDE))
    assert text.startswith("[8 May 2024] The user bought a red bicycle.")
    assert "[9 May] The user visited the old castle." in text


def test_a_single_day_has_no_label() -> None:
    assert "[" not in render_narrative(summarise(talk("I bought a red bicycle.", "It suits you."), length=WIDE))


def test_the_day_is_that_of_the_zone() -> None:
    said = talk("I bought a red bicycle.", "Fine.", "I sold the old piano.", step=60 * 8)
    assert "[9 May]" in render_narrative(summarise(said, length=WIDE, zone="Asia/Tokyo"))


def test_the_next_compression_labels_old_statements_anew() -> None:
    old = summarise(talk("I bought a red bicycle.", "Nice."), length=WIDE)
    later = [message(3000, "user", "I sold the old piano.")]
    both = summarise([later], old=old, length=WIDE)
    assert both[0].text == "[8 May 2024] The user bought a red bicycle."
    again = summarise([], old=both, length=WIDE)
    assert [one.text for one in again] == [one.text for one in both]


# Languages.


def test_arabic_is_quoted_and_kept_in_order() -> None:
    said = talk(
        "مرحبا، كيف حالك؟", "بخير.", "أنا أعاني من حساسية الفول السوداني.", "سأتذكر ذلك.", names=("سارة", "علي")
    )
    found = summarise(said, length=Length(0, 8, count_words))
    assert [one.text for one in found] == ["سارة: أنا أعاني من حساسية الفول السوداني."]


def test_chinese_is_cut_into_sentences_and_measured_by_characters() -> None:
    said = talk("你好！我对花生过敏，不能吃。今天天气不错。", "好的，我记住了。", names=("小李", "助手"))
    found = summarise(said, length=Length(0, 20, len))
    assert render_narrative(found) == "小李: 我对花生过敏，不能吃。"


# Length, repeated compression, and what survives it.

THINGS = ("boat", "lamp", "violin", "garden", "kitchen", "server", "invoice", "passport", "museum", "engine", "clinic")
DEEDS = ("painted", "repaired", "measured", "ordered", "moved", "cleaned", "tested", "visited", "planned", "insured")
PLACES = ("Oslo", "Cairo", "Lima", "Kyoto", "Turin", "Quito", "Hanoi", "Dakar", "Riga", "Cork")
CHATTER = (
    "How was your weekend?", "It was nice, thank you.", "The weather is lovely today, isn't it?", "Yes, very warm.",
    "Sounds good to me!", "See you tomorrow then.", "Good morning, how are you?", "That film was quite funny.",
    "We had a long walk around the lake.", "I watched some series in the evening.",
)  # fmt: skip


def history(chance: random.Random, count: int, start: int) -> list[list[Message]]:
    lines = []
    for at in range(start, start + count):
        text = (
            f"Yesterday I {chance.choice(DEEDS)} the {chance.choice(THINGS)} near {chance.choice(PLACES)} "
            f"for {chance.randint(10, 999)} dollars, and my {chance.choice(THINGS)} is still at the shop."
        )
        lines.append(message(at, ("user", "assistant")[at % 2], text, ("Sara", "Tom")[at % 2]))
    return turns(lines)


def chatter(chance: random.Random, count: int, start: int) -> list[list[Message]]:
    said = chance.choices(CHATTER, k=count)
    return turns([message(start + at, ("user", "assistant")[at % 2], text) for at, text in enumerate(said)])


def test_each_version_has_the_length_of_its_number() -> None:
    chance = random.Random(3)
    old: list[Statement] = []
    for version in range(1, 7):
        length = length_for_version(version)
        old = summarise(history(chance, 80, 80 * version), old=old, length=length)
        assert length.minimum <= count_words(render_narrative(old)) <= length.maximum
    assert (length.minimum, length.maximum) == (500, 750)


def test_a_fact_survives_five_compressions_of_small_talk() -> None:
    chance = random.Random(5)
    length = Length(100, 150, count_words)
    first = talk("I am allergic to peanuts.", "I will remember that.")
    old = summarise(first + chatter(chance, 40, 2), length=length)
    for step in range(1, 6):
        old = summarise(chatter(chance, 40, 100 * step), old=old, length=length)
        assert "allergic to peanuts" in render_narrative(old)


def test_old_and_new_share_the_length() -> None:
    chance = random.Random(9)
    length = Length(100, 150, count_words)
    old = summarise(history(chance, 60, 0), length=length)
    both = summarise(history(chance, 60, 60), old=old, length=length)
    kept = sum(one.at < START + timedelta(minutes=60) for one in both)
    assert 0 < kept < len(both)


def test_statements_are_in_the_order_of_time_and_name_their_sources() -> None:
    said = history(random.Random(1), 30, 0)
    known = {one.id: one.at for turn in said for one in turn}
    found = summarise(said, length=length_for_version(2))
    assert [one.at for one in found] == sorted(one.at for one in found)
    assert all(one.sources and one.at == known[one.sources[0]] for one in found)


def test_without_messages_there_are_no_statements() -> None:
    assert summarise([], length=length_for_version(1)) == []
    assert summarise(talk("", "   ", "\n\n", "😀🎉", "***", "```\n```"), length=Length(0, 0, count_words)) == []


# Properties.

WORDS = """
    I you we my your me I'm I've don't am are was have need like want go see to the a dog in Rome and but not never can
    will do what how when it is they . ? ! , um well so please let's world War US mine
"""
SENTENCE = st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join)
ANYTHING = st.one_of(SENTENCE, st.text(max_size=120), st.text("aA.?!'*`#[]() \n我。؟لا-_~|0", max_size=80))
TALKS = st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), ANYTHING), max_size=12)
NAMES = st.sampled_from([None, "Sara", "Tom", "the Smiths", "  ", "سارة", "user", "[x]\n"])


@given(TALKS, NAMES, st.integers(0, 60), st.integers(0, 60))
def test_any_dialogue_keeps_to_its_length_and_is_deterministic(
    said: list[tuple[str, str]], name: str | None, minimum: int, more: int
) -> None:
    lines = [message(at, role, text, name if at % 2 else None, step=300) for at, (role, text) in enumerate(said)]
    for measure in (count_words, len):
        length = Length(minimum, minimum + more, measure)
        half = summarise(turns(lines[:6]), length=length)
        whole = summarise(turns(lines[6:]), old=half, length=length)
        assert measure(render_narrative(half)) <= length.maximum
        assert measure(render_narrative(whole)) <= length.maximum
        assert whole == summarise(turns(lines[6:]), old=half, length=length)


MONTHS = {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}


def stems(text: str) -> set[str]:
    return {found for raw in analyser.raw_words(text) for found in (raw, analyser.to_index_word(raw)) if found}


@given(st.lists(ANYTHING, min_size=1, max_size=8))
def test_no_word_is_invented(said: list[str]) -> None:
    lines = {f"m{at}": message(at, ("user", "assistant")[at % 2], text) for at, text in enumerate(said)}
    for one in summarise(turns(list(lines.values())), length=WIDE):
        allowed = stems(" ".join([*ADDED_WORDS, *PAST_FORMS, "goes"]))
        for source in one.sources:
            allowed |= stems(lines[source].content) | stems(tidy(lines[source].content))
            allowed |= stems(" ".join(split(lines[source].content)))
        for word in analyser.raw_words(one.text):
            assert word in allowed or analyser.to_index_word(word) in allowed, (word, one.text)


@given(st.text(max_size=200), st.integers(0, 30))
def test_a_shortened_text_fits(text: str, maximum: int) -> None:
    for measure in (count_words, len):
        cut = shorten(text, lambda part, measure=measure: measure(part) <= maximum)
        assert measure(cut) <= maximum


# Size.


def summarise_fifth_version(said: list[list[Message]]) -> None:
    summarise(said, length=length_for_version(5))


@pytest.mark.slow
@pytest.mark.parametrize("n", [16_000, 250_000])  # 64,000 characters of a message are read
@pytest.mark.parametrize(
    "text", ["a", "a ", "a. ", "我", "?", "- **x** ", "```\n", "[x](", "I'm ", "' ", "\n", "I and "]
)
def test_a_long_message_is_summarised_in_linear_time(text: str, n: int) -> None:
    assert_linear(summarise_fifth_version, lambda n: talk(text * (n // len(text))), n)


def test_many_messages_are_summarised_in_linear_time() -> None:
    assert_linear(summarise_fifth_version, lambda n: history(random.Random(2), n, 0), 500)


def test_a_denied_question_keeps_its_denial() -> None:
    said = talk(
        "Hello, I have a request about my account.",
        "So you want to cancel your subscription and delete the account?",
        "No! Please just change my address to 5 High Street, Leeds.",
        "I changed the address to 5 High Street in Leeds.",
    )
    text = render_narrative(summarise(said, length=Length(10, 60, count_words)))
    assert "5 High Street" in text
    assert "delete the account" not in text or "No!" in text


def test_an_unanswered_question_of_the_assistant_is_left_out() -> None:
    said = talk("The invoice of the dentist came today, 300 euros.", "You moved to Berlin with your family, right?")
    assert "Berlin" not in render_narrative(summarise(said, length=Length(10, 60, count_words)))


def test_a_statement_that_is_already_shown_gives_way_to_others() -> None:
    said = talk(
        "I am allergic to peanuts and to shellfish of any kind.",
        "Noted.",
        "My brother opened a bakery in Lyon with two friends.",
        "How nice.",
    )
    short = Length(5, 14, count_words)
    free = render_narrative(summarise(said, length=short))
    shown = ["My brother opened a bakery in Lyon with two friends"]
    known = render_narrative(summarise(said, length=short, already_shown=shown))
    assert "allergic" in known
    assert known != free or "bakery" not in free


def test_pause_is_called_often() -> None:
    calls: list[int] = []
    said = talk(*(f"My aunt number {n} lives in town {n} with {n} cats." for n in range(40)))
    summarise(said, length=Length(20, 40, count_words), pause=lambda: calls.append(1))
    assert len(calls) > 40


def test_urls_stay_as_they_are() -> None:
    said = talk("The repo is at https://github.com/acme/orders, and the docs are in its wiki.", "Thanks.")
    assert "https://github.com/acme/orders" in render_narrative(summarise(said, length=Length(5, 40, count_words)))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (
            "Ivan: I moved to Moscow.\nMe: why?\nIvan: I like snow.\nWhat now?",
            "What now?",
        ),
        ("Budget: 500 euros\nDeadline: 3 May", "Budget: 500 euros\nDeadline: 3 May"),
        ("Translate: I am allergic to peanuts.", "Translate"),
    ],
)
def test_pasted_dialogue_does_not_count_as_own_words(text: str, own: str) -> None:
    assert speech.extract_own_words(text).strip() == own


@pytest.mark.parametrize("text", ["Change of plan: Huda comes on Sunday.", "Help desk closed the ticket."])
def test_a_sentence_that_only_begins_like_an_order_is_quoted(text: str) -> None:
    assert report(text).startswith("Sara: ")
