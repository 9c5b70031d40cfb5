"""Passages: they cover the text, keep to their size, and fall where a reader would pause."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import count_tokens
from recollect.core.language.passages import (
    AIM_TOKENS,
    CHARACTERS_PER_FENCE,
    FREE_FENCES,
    MAX_CHARACTERS_PER_TOKEN,
    MAX_CODE_TOKENS,
    MAX_LANGUAGE_CHARACTERS,
    MAX_PROSE_TOKENS,
    Passage,
    estimate_tokens,
    split,
)
from support.growth import assert_linear

PROSE = {
    "english": "The bridge at the old mill is closed until Thursday, so the delivery takes the long way round. ",
    "german": "Die Rechnungsprüfung verschiebt sich um zwei Wochen, weil der Abteilungsleiter verreist ist. ",
    "polish": "Przewodniczący podkreślił konieczność przeprowadzenia szczegółowych konsultacji społecznych. ",
    "turkish": "Yarın öğleden sonra görüşürüz; çünkü şimdi çok işim var. ",
    "vietnamese": "Chúng ta sẽ đặt bàn ở quán bên bờ sông vào tối thứ bảy. ",
    "greek": "Η πτήση για τη Θεσσαλονίκη φεύγει αύριο το πρωί στις οκτώ και μισή. ",
    "russian": "Поезд отправляется завтра в шесть утра, билеты уже куплены. ",
    "hebrew": "הפגישה עם הצוות נדחתה ליום רביעי בשעה עשר בבוקר. ",
    "arabic": "ميزانية المشروع أربعون ألف دينار، فهل الاجتماع القادم يوم الثلاثاء؟ ",
    "tashkeel": "الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ وَالصَّلَاةُ عَلَى النَّبِيِّ ",
    "hindi": "हम नदी के किनारे वाला रेस्तराँ शनिवार शाम के लिए बुक करेंगे। ",
    "thai": "พรุ่งนี้เช้าเราจะไปตลาดน้ำกันตอนหกโมงครึ่ง ",
    "amharic": "አዲስ አበባ የኢትዮጵያ ዋና ከተማ ናት። ",
    "chinese": "桥梁在星期四之前关闭，所以送货要绕远路。",
    "japanese": "来週の火曜日に予算について話し合いましょう。",
    "korean": "다음 주 화요일에 예산에 대해 이야기합시다. ",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇯🇴 done ✅ ",
}
CODE = {
    "python": 'def total(rows: list[Row]) -> int:\n    """Cents."""\n    return sum(row.cents for row in rows)\n',
    "json": '{"id": "a1b2-c3", "list": [1, 2.5e-3, null, true], "path": "C:\\\\temp\\\\x"},\n',
    "sql": "SELECT o.id, SUM(l.cents) FROM orders o JOIN order_lines l USING (order_id) GROUP BY 1;\n",
    "log": "2024-05-01T12:00:11.734Z ERROR [worker-7] request_id=9f3c21aa status=503 took=1204ms\n",
    "table": "17,948271,0.173,2024-03-12\n",
}
SIGNS = "ab Z9\n\n\t.:!?`~#*-_字。؟ا́😀\u200b\r\x00\u2028"
LINES = [
    "",
    "```",
    "```python",
    "~~~~",
    "    ```",
    "",
    "# Head",
    "**Bold**",
    "Steps:",
    "- item one",
    "2. two",
    "    x = 1",
    "A sentence. Another one! And a third?",
    "",
]
LINES += ["word " * 90, "x" * 700, "字" * 300]
texts = st.one_of(
    st.text(),
    st.text(SIGNS, max_size=400),
    st.lists(
        st.sampled_from(LINES),
        max_size=40,
    ).map("\n".join),
)


def cut(text: str) -> list[str]:
    return [text[passage.start : passage.stop] for passage in split(text)]


def paragraph(tokens: int, word: str = "word") -> str:
    return " ".join([word] * tokens)


@given(texts)
def test_passages_are_in_order_apart_trimmed_and_cover_all_that_is_visible(text: str) -> None:
    done = 0
    for passage in split(text):
        assert done <= passage.start < passage.stop <= len(text)
        assert not text[done : passage.start].strip()
        piece = text[passage.start : passage.stop]
        assert piece == piece.strip()
        done = passage.stop
    assert not text[done:].strip()


@given(texts)
def test_no_passage_exceeds_its_size(text: str) -> None:
    for passage in split(text):
        limit = MAX_CODE_TOKENS if passage.kind == "code" else MAX_PROSE_TOKENS
        assert estimate_tokens(text[passage.start : passage.stop]) <= limit
        assert passage.stop - passage.start <= limit * MAX_CHARACTERS_PER_TOKEN


@given(texts)
def test_kind_and_language_are_bounded_and_the_same_every_time(text: str) -> None:
    passages = split(text)
    assert passages == split(text)
    for passage in passages:
        assert passage.kind in ("code", "prose")
        assert passage.language is None or (
            passage.kind == "code" and 0 < len(passage.language) <= MAX_LANGUAGE_CHARACTERS
        )


@given(st.text(SIGNS.replace("`", "").replace("~", ""), max_size=200))
def test_a_short_message_is_one_passage(text: str) -> None:
    if estimate_tokens(text.strip()) <= MAX_PROSE_TOKENS:
        assert cut(text) == ([text.strip()] if text.strip() else [])


@given(texts, texts)
def test_a_text_is_estimated_no_higher_than_its_lines_together(first: str, second: str) -> None:
    assert (
        estimate_tokens(first)
        <= estimate_tokens(first + "\n" + second)
        <= estimate_tokens(first) + estimate_tokens(second) + 1 + len(first + second) // 32
    )


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t\r\n \u3000"])
def test_blank_text_has_no_passages(text: str) -> None:
    assert split(text) == []


@pytest.mark.parametrize("name", [*PROSE, *CODE])
def test_the_cap_holds_for_the_exact_count(name: str) -> None:
    sample = PROSE.get(name) or CODE[name]
    for text in (sample * 60, "```\n" + sample * 60 + "\n```", sample.replace(" ", "") * 60):
        counts = [count_tokens(piece) for piece in cut(text)]
        assert len(counts) > 1
        assert max(counts) <= MAX_CODE_TOKENS
    assert estimate_tokens(sample * 3) >= 0.8 * count_tokens(sample * 3)


@pytest.mark.parametrize("kind", ["hex", "letters", "capitals", "digits", "base64", "rare"])
def test_the_cap_holds_for_text_that_no_vocabulary_knows(kind: str) -> None:
    chance = random.Random(7)
    alphabet = {
        "hex": "0123456789abcdef",
        "letters": "abcdefghijklmnopqrstuvwxyz",
        "capitals": "ACGT",
        "digits": "0123456789",
        "base64": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "rare": "".join(map(chr, range(0x12000, 0x12300))),
    }[kind]
    text = "```\n" + "".join(chance.choices(alphabet, k=8000)) + "\n```"
    assert max(count_tokens(piece) for piece in cut(text)) <= MAX_CODE_TOKENS


def test_prose_passages_of_a_long_message_come_near_the_aim() -> None:
    chance = random.Random(3)
    text = "\n\n".join(PROSE["english"].strip() + " " + paragraph(chance.randint(1, 90)) + "." for _ in range(60))
    sizes = [estimate_tokens(piece) for piece in cut(text)]
    assert AIM_TOKENS * 0.6 < sum(sizes) / len(sizes) <= AIM_TOKENS
    assert max(sizes) <= MAX_PROSE_TOKENS


def test_a_code_block_stays_whole_with_its_fences_and_names_its_language() -> None:
    code = "```Python title=x\n" + "value = compute(value)\n\n" * 60 + "```"
    text = f"Try this:\n\n{code}\n\nDoes it help?"
    assert estimate_tokens(code) > MAX_PROSE_TOKENS
    assert split(text) == [
        Passage(0, 9, "prose", None),
        Passage(11, 11 + len(code), "code", "python"),
        Passage(len(text) - 13, len(text), "prose", None),
    ]


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("", None),
        ("c++", "c++"),
        ("C#", "c#"),
        (" ts,ignore", "ts"),
        ("{.haskell .numberLines}", "haskell"),
        ("python:src/app.py", "python"),
        ("(none)", None),
        ("x" * 99, "x" * MAX_LANGUAGE_CHARACTERS),
        ("objective-c\r", "objective-c"),
    ],
)
def test_the_info_string_gives_the_language(info: str, language: str | None) -> None:
    for fence in ("```", "~~~~"):
        assert [(p.kind, p.language) for p in split(f"{fence}{info}\ncode\n{fence}\n")] == [("code", language)]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("```\na\n~~~\nb\n```\nc", ["code", "prose"]),  # the other sign does not close
        ("````\na\n```\nb\n````\nc", ["code", "prose"]),  # nor does a shorter fence
        ("```\na\n``` x\nb", ["code"]),  # nor one with words behind it; unclosed runs to the end
        ("   ```\na\n ```   \nb", ["code", "prose"]),
        ("    ```\n    a\n    ```", ["prose"]),  # indented by four
        ("``` not a fence ```\nb", ["prose"]),
        ("a ```b``` c", ["prose"]),
        ("```\n```\n```\n```", ["code", "code"]),
        ("a\n```", ["prose", "code"]),
        ("~~~ has `ticks`\na\n~~~", ["code"]),
    ],
)
def test_fences_are_those_of_commonmark(text: str, kinds: list[str]) -> None:
    assert [passage.kind for passage in split(text)] == kinds


def test_long_code_is_cut_at_blank_lines_and_keeps_its_language() -> None:
    function = "def step_{0}(state):\n    state.push({0})\n    return state.pop() + state.peek()\n\n"
    text = "```py\n" + "".join(function.format(number) for number in range(100)) + "```"
    pieces = cut(text)
    assert len(pieces) > 2
    assert all(piece.startswith("def ") for piece in pieces[1:])
    assert all(piece.endswith("peek()") for piece in pieces[:-1])
    assert {passage.language for passage in split(text)} == {"py"}


def test_long_code_without_blank_lines_is_cut_at_line_ends() -> None:
    lines = [f"grant_role({number}, 'name {number}');" for number in range(200)]
    inside = "\n".join(cut("```js\n" + "\n".join(lines) + "\n```")).split("\n")
    assert inside == ["```js", *lines, "```"]


def test_a_few_short_fences_are_passages_of_their_own() -> None:
    fences = "```sh\nls\n```\nThen:\n" * FREE_FENCES
    assert [passage.kind for passage in split(fences)] == ["code", "prose"] * FREE_FENCES


def test_very_many_short_fences_are_joined_with_their_neighbours() -> None:
    count = 20 * FREE_FENCES
    for text, kind, language in (
        ("```sh\nls\n```\n" * count, "code", "sh"),
        ("```sh\nls\n```\n```py\n1\n```\n" * count, "code", None),
        ("```sh\nls\n```\nThen:\n" * count, "prose", None),
    ):
        passages = split(text)
        assert {(passage.kind, passage.language) for passage in passages} == {(kind, language)}
        sizes = [estimate_tokens(piece) for piece in cut(text)]
        assert all(AIM_TOKENS * 0.8 < size <= AIM_TOKENS for size in sizes[:-1])


def test_a_long_code_block_among_very_many_short_ones_stays_whole() -> None:
    code = "```py\n" + "value = compute(value)\n" * 40 + "```"
    short = "```sh\nls\n```\n" * 20 * FREE_FENCES
    assert code in cut(f"{short}{code}\n{short}")


def test_fences_at_a_readable_distance_are_never_joined() -> None:
    code = "```sh\nls\n```"
    text = f"{code}\n{'word ' * (CHARACTERS_PER_FENCE // 5)}\n" * 200
    assert cut(text).count(code) == 200


def test_short_paragraphs_are_joined_and_long_ones_stand_alone() -> None:
    short, long = paragraph(30), paragraph(130)
    assert cut("\n\n".join([short, short, short, long, short])) == [f"{short}\n\n{short}\n\n{short}", long, short]


def test_a_heading_stays_with_what_follows_it() -> None:
    for heading in ("## Rollback", "**Rollback**", "# Part two\n\n## Rollback"):
        pieces = cut("\n\n".join([paragraph(100), heading, paragraph(50), paragraph(90)]))
        assert pieces[1] == f"{heading}\n\n{paragraph(50)}"
    assert cut(f"{paragraph(110)}\n# Next\n{paragraph(100)}")[1].startswith("# Next")


def test_a_heading_stays_with_the_first_piece_of_a_long_paragraph() -> None:
    pieces = cut("## Rollback\n\n" + (paragraph(20) + ". ") * 20 + "\n\n" + paragraph(20))
    assert pieces[0].startswith("## Rollback\n\nword")


def test_the_words_before_a_list_stay_with_it() -> None:
    items = [f"- {paragraph(20)}" for _ in range(5)]
    pieces = cut("\n\n".join([paragraph(80), "Please check:", *items, paragraph(100)]))
    assert pieces == [paragraph(80), "\n\n".join(["Please check:", *items]), paragraph(100)]


def test_a_long_list_is_cut_between_items() -> None:
    items = [f"{number}. {paragraph(20)}" for number in range(1, 60)]
    for glue in ("\n", "\n\n"):
        assert all(piece[0].isdigit() for piece in cut("First:" + glue + glue.join(items))[1:])


@pytest.mark.parametrize("end", [". ", "! ", "? ", "؟ ", "。", "！", "？」", ".\n", '." '])
def test_a_long_paragraph_is_cut_at_ends_of_sentences(end: str) -> None:
    sentence = ("字" * 11 if end[0] in "。！？" else "one two three four five six") + end
    pieces = cut(sentence * 60)
    assert len(pieces) > 2
    assert all(piece.endswith(end.strip()) for piece in pieces)


def test_a_sentence_without_end_is_cut_at_spaces_and_a_word_without_end_anywhere() -> None:
    words = [f"word{number}" for number in range(2000)]
    assert " ".join(cut(" ".join(words))).split() == words
    assert "".join(cut("x" * 5000)) == "x" * 5000


HARD = {
    "newlines": "\n",
    "one word": "a",
    "words": "a b ",
    "lines": "a\n",
    "paragraphs": "a\n\n",
    "sentences": "a. ",
    "dots": ".",
    "signs": ".)",
    "fences": "```\nx\n```\n",
    "open fences": "```a\n",
    "ticks": "`",
    "lines of ticks": "`" * 999 + "\n",
    "tilde fences": "~~~ a\n",
    "headings": "# a\n",
    "items": "- a\n\n",
    "leads": "a:\n\n",
    "bold": "**",
    "indents": "\n    ",
    "chinese": "字。",
    "emoji": "😀",
    "mixed": "a.B1",
    "digits": "1 ",
}


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("", ""), ("x", "`x`")], ids=["bare", "between words"])
@pytest.mark.parametrize("pattern", HARD.values(), ids=HARD)
def test_a_repeated_pattern_is_split_in_linear_time(pattern: str, before: str, after: str) -> None:
    assert_linear(split, lambda n: before + pattern * (n // len(pattern)) + after, 60_000)


@pytest.mark.parametrize("pattern", [*HARD.values(), "```\nx\n```\ny\n", "~~~\n~~~\n", "```\n```\n# a\n\n- b\n"])
def test_the_number_of_passages_is_bounded_by_the_length_of_the_text(pattern: str) -> None:
    """Each passage costs a vector, so none may be made for a few characters."""
    for characters in (1_000, 10_000, 100_000):
        text = pattern * (characters // len(pattern))
        assert len(split(text)) <= 2 * FREE_FENCES + len(text.encode()) / (AIM_TOKENS / 2)
