"""Memory never invents: which sentences rest on what was said, and on which messages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression import grounding
from recollect.core.compression.grounding import Said, sentences

SAID = (
    (("m1",), "I'm allergic to peanuts, and my sister Huda moved to Berlin in March."),
    (("m2",), "She is an engineer at a museum; her rent is 1250 euros since 2026-03-04."),
    (("m3",), "We compared the two papers https://example.com/paper1 and https://example.com/paper2 yesterday."),
    (("m4",), "The dentist appointment is on Thursday at 9:30, write to sara@example.org before."),
    (("m5",), "أنا أسكن في الرياض منذ ٢٠١٩ وأعمل مهندسا في شركة كبيرة."),
    (("m6",), "我住在上海，喜欢喝绿茶。"),
)


def Sources(said: Sequence[tuple[tuple[str, ...], str]], names: Sequence[str] = ()) -> grounding.Sources:  # noqa: N802
    return grounding.Sources([Said(ids, text) for ids, text in said], names=names)


@pytest.fixture(scope="module")
def said() -> grounding.Sources:
    return Sources(SAID, names=["Omar"])


@pytest.mark.parametrize(
    ("sentence", "ids"),
    [
        ("The user is allergic to peanuts.", ("m1",)),
        ("Omar has an allergy: allergic to peanuts.", ("m1",)),
        ("Her sister Huda moved to Berlin in March.", ("m1",)),
        ("Huda pays a rent of 1250 euros since 2026-03-04.", ("m2", "m1")),
        ("The papers https://example.com/paper1 and https://example.com/paper2 were compared.", ("m3",)),
        ("The dentist is seen on Thursday at 9:30.", ("m4",)),
        ("They should write to sara@example.org before the appointment.", ("m4",)),
        ("يسكن المستخدم في الرياض ويعمل مهندسا.", ("m5",)),
        ("The user is allergic to peanuts and the dentist appointment is on Thursday.", ("m4", "m1")),
        ("用户喜欢喝绿茶。", ("m6",)),
    ],
)
def test_a_paraphrase_rests_on_the_messages_that_have_its_words(
    said: grounding.Sources, sentence: str, ids: tuple[str, ...]
) -> None:
    assert sorted(said.support(sentence)) == sorted(ids)


@pytest.mark.parametrize(
    "sentence",
    [
        "The rent of the engineer at the museum is 1300 euros.",
        "Huda moved to Berlin in March 2025.",
        "The dentist appointment is on Thursday at 9:45.",
        "The rent is 1250 euros since 2026-03-05.",
        "The rent is 1250 euros since 04.03.2026.",
    ],
)
def test_an_invented_number_or_date_is_not_supported(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "The rent of the engineer at the museum is 125 euros.",
        "The rent of the engineer at the museum is 50 euros.",
        "The dentist appointment is on Thursday at 9:3.",
    ],
)
def test_a_piece_of_a_number_that_was_said_is_another_number(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "The user's sister Layla moved to Berlin in March.",
        "The sister Huda moved to Madrid in March.",
        "The sister moved in April, not in March.",
        "The engineer works at a museum of NASA.",  # nothing but capitals
        "The sister of Émile moved to Berlin.",  # a capital with an accent
    ],
)
def test_an_invented_name_is_not_supported(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "Layla is allergic to peanuts.",
        "Madrid is where the sister moved in March.",
        "Layla's sister Huda moved to Berlin.",
        "She is called: Layla, the sister who moved to Berlin in March.",
    ],
)
def test_an_invented_name_is_not_supported_where_any_word_has_a_capital(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "Besides, the user is allergic to peanuts.",
        "Unfortunately the sister Huda moved to Berlin.",
        "Omar: allergic to peanuts.",
    ],
)
def test_a_word_of_style_at_the_beginning_is_no_invented_name(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ("m1",)


@pytest.mark.parametrize(
    "sentence",
    [
        "We compared the two papers at https://example.com/paper3.",
        "We compared the two papers https://example.org/paper1 and https://example.com/paper2.",
        "Write to omar@example.org before the dentist appointment on Thursday.",
        "We compared two papers, see www.example.net.",
        "We compared the two papers at https://example.com/pap.",  # only the beginning of one that was said
        "Write to ara@example.org before the dentist appointment on Thursday.",  # only the end
    ],
)
def test_an_invented_address_is_not_supported(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    ["", " ", "\n", "…", "?!", "The user said so.", "It was discussed.", "المستخدم قال", "Bananas grow on tall trees."],
)
def test_what_tells_nothing_or_something_else_rests_on_nothing(said: grounding.Sources, sentence: str) -> None:
    assert said.support(sentence) == ()


def test_most_of_the_telling_words_must_have_been_said(said: grounding.Sources) -> None:
    assert said.support("allergic peanuts bicycle garden") == ("m1",)
    assert said.support("allergic peanuts bicycle garden sunshine") == ()


def test_digits_of_all_kinds_are_the_same_number(said: grounding.Sources) -> None:
    assert said.support("يسكن في الرياض منذ 2019") == ("m5",)
    assert said.support("يسكن في الرياض منذ ۲۰۱۹") == ("m5",)
    assert said.support("يسكن في الرياض منذ ٢٠١٨") == ()
    assert said.support("The rent is ١٢٥٠ euros.") == ("m2",)


def test_speakers_may_be_named_anywhere_and_others_not() -> None:
    texts = [(("a",), "I will bring the salad.")]
    assert Sources(texts, names=["Omar Haddad"]).support("The salad is brought by Omar Haddad.") == ("a",)
    assert Sources(texts).support("The salad is brought by Omar Haddad.") == ()


def test_a_text_that_stands_for_several_messages_names_them_all() -> None:
    sources = Sources([(("a", "b"), "Huda lives in Berlin."), (("c",), "Her cat is called Mishmish.")])
    assert sources.support("Huda lives in Berlin.") == ("a", "b")
    assert set(sources.support("Huda in Berlin has the cat Mishmish.")) == {"a", "b", "c"}


def test_without_sources_nothing_is_supported() -> None:
    assert Sources([]).support("Huda lives in Berlin.") == ()
    assert Sources([(("a",), "")]).support("Huda lives in Berlin.") == ()


def test_what_only_many_messages_together_would_say_is_not_supported() -> None:
    sources = Sources(
        [((f"m{i}",), word) for i, word in enumerate(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"])]
    )
    assert sources.support("alpha beta gamma delta") == ("m0", "m1", "m2", "m3")
    assert sources.support("alpha beta gamma delta epsilon zeta eta theta iota") == ()


# Sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\n\t ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It costs 3.5 euros. Version 2.0.1 is out.", ["It costs 3.5 euros.", "Version 2.0.1 is out."]),
        ("See main.py or example.com/a.b?c=d!", ["See main.py or example.com/a.b?c=d!"]),
        ("First line\nsecond line\n\nthird", ["First line", "second line", "third"]),
        ("ماذا تريد؟ أريد الشاي. حسنا!", ["ماذا تريد؟", "أريد الشاي.", "حسنا!"]),
        ("我住在上海。你呢？好！", ["我住在上海。", "你呢？", "好！"]),
        ("٣.٥ كيلو. نعم", ["٣.٥ كيلو.", "نعم"]),
    ],
)
def test_a_text_is_cut_where_its_sentences_end(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


# Properties

WILD = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@given(st.lists(WILD, max_size=5), WILD)
def test_any_text_can_be_a_source_and_a_sentence(texts: list[str], sentence: str) -> None:
    sources = Sources([((f"m{place}",), text) for place, text in enumerate(texts)], names=texts[:1])
    support = sources.support(sentence)
    assert set(support) <= {f"m{place}" for place in range(len(texts))}
    assert len(support) == len(set(support)) <= 4


@given(WILD)
def test_sentences_hold_everything_but_blanks(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(one == one.strip() != "" for one in found)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_of_two_different_numbers_only_the_one_that_was_said_is_supported(one: int, other: int) -> None:
    sources = Sources([(("a",), f"The invoice has the number {one} and was paid.")])
    assert sources.support(f"The invoice number is {one}.") == ("a",)
    assert (sources.support(f"The invoice number is {other}.") == ("a",)) == (one == other)


@pytest.mark.parametrize(
    "sentence",
    [
        "The user eats fish.",
        "The user accepted the offer of 5000 euros.",
        "The user likes tea.",
        "The user prefers light mode.",
    ],
)
def test_what_was_denied_or_said_by_another_is_not_supported(sentence: str) -> None:
    told = grounding.Sources(
        [
            Said(("a",), "I do not eat fish. I did not accept the offer of 5000 euros.", "user"),
            Said(("b",), "I like tea, and I prefer light mode.", "assistant"),
        ]
    )
    assert told.support(sentence) == ()
    assert told.support("The user does not eat fish.") == ("a",)
    assert told.support("The assistant likes tea.") == ("b",)
