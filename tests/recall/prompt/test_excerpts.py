"""Excerpts of long texts: within their tokens, around what is asked for, and quick."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.prompt.excerpts import ELLIPSIS, QueryTerms, make_excerpt
from support.growth import assert_linear

COUNTER = tokenizer_for("gpt-4o-mini")
FILLER = "The weather in the town was mild and the people walked along the river as they did on every other day. "
NEEDLE = "The secret code of the garden gate is 4711 and the blue parrot knows it. "
QUESTION = "Which code opens the garden gate, and what does the parrot know?"
MEGABYTE = 1024 * 1024


def buried(at: float, size: int = MEGABYTE, filler: str = FILLER, needle: str = NEEDLE) -> str:
    before = filler * (int(size * at) // len(filler))
    after = filler * ((size - len(before) - len(needle)) // len(filler))
    return before + needle + after


def test_a_text_that_fits_is_not_touched() -> None:
    for text in ("", "short", "short\n", FILLER * 3, "  blanks around  "):
        assert make_excerpt(text, COUNTER.count(text) or 1, COUNTER, QueryTerms("river")) == text


def test_one_token_less_makes_it_an_excerpt() -> None:
    text = FILLER * 3
    found = make_excerpt(text, COUNTER.count(text) - 1, COUNTER)
    assert found != text and "[…]" in found
    assert COUNTER.count(found) < COUNTER.count(text)


@pytest.mark.parametrize("tokens", [0, -1, -1000])
def test_no_room_is_no_text(tokens: int) -> None:
    assert make_excerpt("something", tokens, COUNTER, QueryTerms("something")) == ""


@pytest.mark.parametrize("at", [0.0, 0.15, 0.3, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("tokens", [60, 900])
def test_what_is_asked_for_is_held_wherever_it_stands_in_a_megabyte(at: float, tokens: int) -> None:
    found = make_excerpt(buried(at), tokens, COUNTER, QueryTerms(QUESTION))
    assert COUNTER.count(found) <= tokens
    assert "4711" in found and "parrot" in found


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tokens", [60, 900])
def test_what_is_asked_for_is_found_in_linear_time(at: float, tokens: int) -> None:
    def cut(text: str) -> None:
        make_excerpt(text, tokens, COUNTER, QueryTerms(QUESTION))  # terms that have not met the text

    assert_linear(cut, lambda n: buried(at, n), MEGABYTE // 4)


def test_where_nothing_is_asked_for_beginning_and_end_are_held() -> None:
    text = "BEGIN " + FILLER * 5000 + "END"
    for question in ("", "zebra", "the of and"):
        found = make_excerpt(text, 200, COUNTER, QueryTerms(question))
        assert found.startswith("BEGIN") and found.endswith("END") and ELLIPSIS in found
        assert COUNTER.count(found) <= 200


@pytest.mark.parametrize("question", ["", QUESTION])
def test_words_are_left_whole(question: str) -> None:
    text = buried(0.5, size=4000)
    known = set(text.split())
    for tokens in range(20, 80):
        found = make_excerpt(text, tokens, COUNTER, QueryTerms(question)).replace("[…]", " ").split()
        assert found and set(found) <= known


def test_the_stretch_with_most_of_the_words_wins() -> None:
    text = FILLER * 200 + "A gate was seen. " + FILLER * 200 + NEEDLE + FILLER * 200 + "A parrot sang. " + FILLER * 200
    assert "4711" in make_excerpt(text, 100, COUNTER, QueryTerms(QUESTION))


@pytest.mark.parametrize(
    ("filler", "needle", "question", "held"),
    [
        ("كان الطقس معتدلا في المدينة وسار الناس على ضفة النهر كعادتهم. ",
         "رمز بوابة الحديقة هو ٤٧١١. ", "ما هو رمز البوابة؟", "٤٧١١"),
        ("今天天气很好，人们沿着河边散步。", "花园大门的密码是四七一一。", "花园大门的密码是什么？", "四七一一"),
        ("Погода была мягкой, и люди гуляли вдоль реки. ", "Код калитки сада 4711. ", "какой код калитки?", "4711"),
        ("x = compute(y)\n", "GATE_CODE = 4711\n", "what is GATE_CODE?", "4711"),
    ],
)  # fmt: skip
def test_in_any_script(filler: str, needle: str, question: str, held: str) -> None:
    text = buried(0.4, size=60_000, filler=filler, needle=needle)
    found = make_excerpt(text, 200, COUNTER, QueryTerms(question))
    assert held in found
    assert COUNTER.count(found) <= 200


def test_in_a_run_of_characters_without_any_blank_or_sign() -> None:
    text = "今天天气很好人们沿着河边散步" * 2000 + "花园大门的密码是四七一一" + "今天天气很好人们沿着河边散步" * 2000
    found = make_excerpt(text, 200, COUNTER, QueryTerms("花园大门的密码是什么"))
    assert COUNTER.count(found) <= 200
    assert "四七一一" in found


@pytest.mark.slow
@pytest.mark.parametrize("question", [QUESTION, ""], ids=["asked", "not asked"])
@pytest.mark.parametrize(
    "pattern",
    ["a", " ", "\n", "🤷", "東", "code ", "a b ", "\u0301"],
    ids=["one word", "blanks", "newlines", "emoji", "one character", "only what is asked", "letters", "accents"],
)
def test_a_repeated_pattern_is_cut_to_its_tokens_in_linear_time(pattern: str, question: str) -> None:
    def repeat(n: int) -> str:
        return pattern * (n // len(pattern.encode()))

    def cut(text: str) -> str:
        return make_excerpt(text, 400, COUNTER, QueryTerms(question))  # terms that have not met the text

    assert 0 < COUNTER.count(cut(repeat(MEGABYTE))) <= 400
    assert_linear(cut, repeat, MEGABYTE // 4)


WILD = st.lists(
    st.sampled_from(["gate ", "code\n", "the ", "東京", "🤷🏽", "é", " ", "\n\n", "x" * 50, "<memory>"])
    | st.text(max_size=30),
    max_size=80,
).map("".join)


@settings(max_examples=300)
@given(WILD, st.integers(0, 120), st.sampled_from(["", "gate code", "東京", "the"]))
def test_an_excerpt_never_exceeds_its_tokens_and_is_of_the_text(text: str, tokens: int, question: str) -> None:
    found = make_excerpt(text, tokens, COUNTER, QueryTerms(question))
    assert COUNTER.count(found) <= tokens
    if found != text:
        rest = found.removeprefix("[…] ").removesuffix(ELLIPSIS.rstrip())
        assert rest in text or all(part in text for part in found.split(ELLIPSIS, 1))


def test_a_small_excerpt_of_a_long_text_is_not_empty() -> None:
    for tokens in range(8, 40):
        assert make_excerpt(buried(0.1, 20_000), tokens, COUNTER, QueryTerms(QUESTION)) != ""
