"""Word pieces: the ids of the model's own tokenizer, for chat and for anything else that can be typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.providers.minilm import wordpiece
from recollect.providers.minilm.embedder import FOLDER
from recollect.providers.minilm.wordpiece import WordPiece, split_words

# What the `tokenizers` package gives with the model's tokenizer.json (special tokens in the text read as text).
GOLDEN: list[tuple[str, list[int]]] = [
    ("", []),
    ("   \t\n\r\n ", []),
    ("hello world", [7592, 2088]),
    ("Hello, World!", [7592, 1010, 2088, 999]),
    ("don't stop", [2123, 1005, 1056, 2644]),
    ("unaffable embeddings", [14477, 20961, 3468, 7861, 8270, 4667, 2015]),
    ("My sister lives in Lisbon.", [2026, 2905, 3268, 1999, 11929, 1012]),
    ("e-mail: sara@example.com", [1041, 1011, 5653, 1024, 7354, 1030, 2742, 1012, 4012]),
    (
        "https://a.com/b?c=d&e",
        [16770, 1024, 1013, 1013, 1037, 1012, 4012, 1013, 1038, 1029, 1039, 1027, 1040, 1004, 1041],
    ),
    ("3.14159 and 1,000,000", [1017, 1012, 15471, 28154, 1998, 1015, 1010, 2199, 1010, 2199]),
    ("def f(x): return x**2", [13366, 1042, 1006, 1060, 1007, 1024, 2709, 1060, 1008, 1008, 1016]),
    ("snake_case_name", [7488, 1035, 2553, 1035, 2171]),
    ("$5 + 10% ~ `x`", [1002, 1019, 1009, 2184, 1003, 1066, 1036, 1060, 1036]),
    ("ALL CAPS", [2035, 9700]),
    ("##ing [SEP] [CLS]", [1001, 1001, 13749, 1031, 19802, 1033, 1031, 18856, 2015, 1033]),
    ("a\x00b\x7fc", [5925]),
    ("a\x0bb\x0cc\x85d", [5925, 2094]),
    ("a\tb\nc\rd", [1037, 1038, 1039, 1040]),
    ("zero\u200bwidth\xadhyphen", [5717, 9148, 11927, 23644, 22571, 10222]),
    ("no\xa0break\u3000wide\u2028line", [2053, 3338, 2898, 2240]),
    ("\ufeffbom \ufffd", [8945, 2213]),
    ("Café naïve façade", [7668, 15743, 8508]),
    ("Cafe\u0301 e\u0301\u0323", [7668, 1041]),
    ("Ünïcödé", [27260]),
    ("İstanbul ıI", [9960, 1104, 2072]),
    ("ΟΔΟΣ σοφός Σ", [1169, 29722, 29730, 29733, 1173, 29730, 29736, 15297, 1173]),
    ("Москва ёлка й", [1191, 14150, 29747, 23925, 25529, 10260, 1185, 29436, 28598, 1188]),
    ("straße ẞ ß", [2358, 27807, 1096, 1096]),
    ("ﬁne ǅ", [1984, 2638, 100]),
    ("مرحبا، كيف؟", [1295, 17149, 29820, 29816, 25573, 1268, 1293, 14498, 29833, 100]),
    ("שלום עולם", [1266, 29799, 29792, 29800, 1259, 29792, 29799, 29800]),
    ("नमस्ते", [1327, 29867, 29874, 29859]),
    ("สวัสดี", [100]),
    ("日本語のテスト", [1864, 1876, 1950, 1671, 30239, 30233, 30240]),
    ("がぎ ガ", [1651, 30178, 1700]),
    ("中文，句子。", [1746, 1861, 1989, 100, 1816, 1636]),
    ("\uf900\U0002f800\U00020000", [100, 100, 100]),
    ("한국어 조선", [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 1464, 30011, 29997, 30008, 30021]),
    ("\U0001f642 ok \U0001f469\u200d\U0001f469\u200d\U0001f467", [100, 7929, 100]),
    ("→ ± × ÷ € £ ™", [1585, 1081, 1095, 1099, 1574, 1069, 1580]),
    ("“quotes” — dash … «g»", [1523, 16614, 1524, 1517, 11454, 1529, 1077, 1043, 1090]),
    ("¿qué? ¡sí!", [1094, 10861, 1029, 1067, 9033, 999]),
    ("፡ ። ፣", [100, 100, 100]),
    ("a\u0301\u0302\u0303b", [11113]),
    ("1٠ ½ ²", [100, 1092, 1082]),
    ("\ue000x\U000f0000y", [1060, 2100]),
    ("\u0890x\U0001e8d0y", [100]),
    ("\U000110bdz\u08e2z", [100]),
    ("x\u302e\u0301y", [100]),
    ("𝐛𝐨𝐥𝐝 Ｆｕｌｌ", [100, 100]),
]
UNKNOWN = 100


@pytest.fixture(scope="module")
def pieces() -> WordPiece:
    return WordPiece((FOLDER / "vocab.txt").read_text("utf-8").split("\n")[:-1])


@pytest.mark.parametrize(("text", "ids"), GOLDEN, ids=lambda value: ascii(value)[:30] if isinstance(value, str) else "")
def test_a_text_has_the_ids_of_the_models_own_tokenizer(pieces: WordPiece, text: str, ids: list[int]) -> None:
    assert pieces.encode(text) == ids


def test_the_vocabulary_is_the_one_of_bert_uncased(pieces: WordPiece) -> None:
    assert (pieces.start, pieces.end) == (101, 102)
    assert len((FOLDER / "vocab.txt").read_bytes().split(b"\n")) == 30_522 + 1


def test_a_word_of_a_hundred_characters_is_read_and_a_longer_one_is_unknown(pieces: WordPiece) -> None:
    assert UNKNOWN not in pieces.encode("a" * 100)
    assert pieces.encode("a" * 101) == [UNKNOWN]
    assert pieces.encode("e\u0301" * 100) == pieces.encode("e" * 100)  # counted after accents are gone


def test_half_a_surrogate_pair_is_dropped(pieces: WordPiece) -> None:
    assert pieces.encode("good\ud83d day\udc4d") == pieces.encode("good day")


def test_the_way_for_ascii_gives_what_the_way_for_all_text_gives() -> None:
    for first in range(128):
        for second in range(128):
            text = f"A{chr(first)}{chr(second)}b"
            assert split_words(text) == split_words(text + " é")[:-1], ascii(text)


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_has_ids_of_the_vocabulary_and_always_the_same(pieces: WordPiece, text: str) -> None:
    ids = pieces.encode(text)

    assert all(0 <= number < 30_522 for number in ids)
    assert ids == pieces.encode(text)
    assert len(ids) <= 4 * len(text)  # one character decomposes into at most four


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20)))
def test_words_with_blanks_between_them_are_read_one_by_one(pieces: WordPiece, words: list[str]) -> None:
    assert pieces.encode(" ".join(words)) == [number for word in words for number in pieces.encode(word)]


def test_the_memory_of_characters_is_bounded(pieces: WordPiece, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "_CACHED_CHARACTERS", 100)
    text = "".join(map(chr, range(0x4E00, 0x5200)))

    once = pieces.encode(text)

    assert len(wordpiece._CLEANED) <= 100
    assert once == pieces.encode(text)
