"""Memory invents nothing: a sentence is supported only by messages that say it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.compression.source_check import SourceIndex, SourceText, split_sentences

MESSAGES = (
    (("m1",), "I'm allergic to peanuts, and my sister Huda moved to Berlin in March."),
    (("m2",), "She is an engineer at a museum; her rent is 1250 euros since 2026-03-04."),
    (("m3",), "We compared the two papers https://example.com/paper1 and https://example.com/paper2 yesterday."),
    (("m4",), "The dentist appointment is on Thursday at 9:30, write to sara@example.org before."),
    (("m5",), "أنا أسكن في الرياض منذ ٢٠١٩ وأعمل مهندسا في شركة كبيرة."),
    (("m6",), "我住在上海，喜欢喝绿茶。"),
)


def index_texts(texts: Sequence[tuple[tuple[str, ...], str]], names: Sequence[str] = ()) -> SourceIndex:
    return SourceIndex([SourceText(ids, text) for ids, text in texts], names=names)


@pytest.fixture(scope="module")
def sources() -> SourceIndex:
    return index_texts(MESSAGES, names=["Omar"])


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
def test_a_paraphrase_is_supported_by_the_messages_that_have_its_words(
    sources: SourceIndex, sentence: str, ids: tuple[str, ...]
) -> None:
    assert sorted(sources.find_support(sentence)) == sorted(ids)


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
def test_an_invented_number_or_date_is_not_supported(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "The rent of the engineer at the museum is 125 euros.",
        "The rent of the engineer at the museum is 50 euros.",
        "The dentist appointment is on Thursday at 9:3.",
    ],
)
def test_a_part_of_a_number_is_another_number(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ()


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
def test_an_invented_name_is_not_supported(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "Layla is allergic to peanuts.",
        "Madrid is where the sister moved in March.",
        "Layla's sister Huda moved to Berlin.",
        "She is called: Layla, the sister who moved to Berlin in March.",
    ],
)
def test_an_invented_name_is_not_supported_where_any_word_has_a_capital(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "Besides, the user is allergic to peanuts.",
        "Unfortunately the sister Huda moved to Berlin.",
        "Omar: allergic to peanuts.",
    ],
)
def test_an_ordinary_first_word_is_no_invented_name(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ("m1",)


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
def test_an_invented_address_is_not_supported(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    ["", " ", "\n", "…", "?!", "The user said so.", "It was discussed.", "المستخدم قال", "Bananas grow on tall trees."],
)
def test_an_empty_or_unrelated_sentence_is_not_supported(sources: SourceIndex, sentence: str) -> None:
    assert sources.find_support(sentence) == ()


def test_half_of_the_content_words_must_occur_in_the_sources(sources: SourceIndex) -> None:
    assert sources.find_support("allergic peanuts bicycle garden") == ("m1",)
    assert sources.find_support("allergic peanuts bicycle garden sunshine") == ()


def test_digits_of_all_kinds_are_the_same_number(sources: SourceIndex) -> None:
    assert sources.find_support("يسكن في الرياض منذ 2019") == ("m5",)
    assert sources.find_support("يسكن في الرياض منذ ۲۰۱۹") == ("m5",)
    assert sources.find_support("يسكن في الرياض منذ ٢٠١٨") == ()
    assert sources.find_support("The rent is ١٢٥٠ euros.") == ("m2",)


def test_speakers_may_be_named_anywhere_and_others_not() -> None:
    texts = [(("a",), "I will bring the salad.")]
    assert index_texts(texts, names=["Omar Haddad"]).find_support("The salad is brought by Omar Haddad.") == ("a",)
    assert index_texts(texts).find_support("The salad is brought by Omar Haddad.") == ()


def test_a_source_text_of_several_messages_names_them_all() -> None:
    sources = index_texts([(("a", "b"), "Huda lives in Berlin."), (("c",), "Her cat is called Mishmish.")])
    assert sources.find_support("Huda lives in Berlin.") == ("a", "b")
    assert set(sources.find_support("Huda in Berlin has the cat Mishmish.")) == {"a", "b", "c"}


def test_without_sources_nothing_is_supported() -> None:
    assert index_texts([]).find_support("Huda lives in Berlin.") == ()
    assert index_texts([(("a",), "")]).find_support("Huda lives in Berlin.") == ()


def test_more_than_four_messages_together_support_nothing() -> None:
    sources = index_texts(
        [((f"m{i}",), word) for i, word in enumerate(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"])]
    )
    assert sources.find_support("alpha beta gamma delta") == ("m0", "m1", "m2", "m3")
    assert sources.find_support("alpha beta gamma delta epsilon zeta eta theta iota") == ()


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
    assert split_sentences(text) == expected


# Properties

WILD = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@given(st.lists(WILD, max_size=5), WILD)
def test_any_text_can_be_a_source_and_a_sentence(texts: list[str], sentence: str) -> None:
    sources = index_texts([((f"m{index}",), text) for index, text in enumerate(texts)], names=texts[:1])
    support = sources.find_support(sentence)
    assert set(support) <= {f"m{index}" for index in range(len(texts))}
    assert len(support) == len(set(support)) <= 4


@given(WILD)
def test_sentences_hold_everything_but_blanks(text: str) -> None:
    pieces = split_sentences(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece == piece.strip() != "" for piece in pieces)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_only_the_number_in_the_source_is_supported(number: int, other: int) -> None:
    sources = index_texts([(("a",), f"The invoice has the number {number} and was paid.")])
    assert sources.find_support(f"The invoice number is {number}.") == ("a",)
    assert (sources.find_support(f"The invoice number is {other}.") == ("a",)) == (number == other)


@pytest.mark.parametrize(
    "sentence",
    [
        "The user eats fish.",
        "The user accepted the offer of 5000 euros.",
        "The user likes tea.",
        "The user prefers light mode.",
    ],
)
def test_a_denied_claim_or_one_of_another_speaker_is_not_supported(sentence: str) -> None:
    sources = SourceIndex(
        [
            SourceText(("a",), "I do not eat fish. I did not accept the offer of 5000 euros.", "user"),
            SourceText(("b",), "I like tea, and I prefer light mode.", "assistant"),
        ]
    )
    assert sources.find_support(sentence) == ()
    assert sources.find_support("The user does not eat fish.") == ("a",)
    assert sources.find_support("The assistant likes tea.") == ("b",)
