"""Arabic in the built-in embedder: near its English translation, mixed with English, and other scripts left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from recollect.providers.minilm import MiniLM, embedder
from recollect.providers.minilm.arabic_words import normalise, split_words, stem
from recollect.providers.minilm.scripts import split_scripts

# Each with its translation; the third of each row is about something else.
TRANSLATIONS = [
    ("أين يقع أقرب مستشفى؟", "Where is the nearest hospital?", "I forgot my password."),
    ("أحب شرب القهوة في الصباح.", "I like to drink coffee in the morning.", "The car needs new tyres."),
    ("سيبدأ الاجتماع يوم الثلاثاء.", "The meeting will begin on Tuesday.", "My brother is afraid of dogs."),
    ("نسيت كلمة المرور.", "I forgot my password.", "Where is the nearest hospital?"),
    ("أختي تعيش في باريس.", "My sister lives in Paris.", "The file could not be saved."),
]
FOREIGN = [
    "Где находится ближайшая больница?",
    "私は京都に住んでいます。",
    "我昨天买了一本书。",
    "איפה בית החולים הקרוב?",
    "मुझे सुबह कॉफी पीना पसंद है।",
    "โรงพยาบาลที่ใกล้ที่สุดอยู่ที่ไหน",
    "Πού είναι το πλησιέστερο νοσοκομείο;",
    "가장 가까운 병원이 어디예요?",
    "ყველაზე ახლო საავადმყოფო სად არის?",
    "Anna: Где находится ближайшая больница?",
]
READABLE = [
    "",
    "…",
    "12:30",
    "🙂🙂",
    "Ich wohne in München.",
    "Où est l'hôpital ?",
    "Đường này đi đâu?",
    "ﬁne",
    "My friend Иван lives in Berlin.",
    "I stayed in 東京 for a week.",
    "أحب القهوة.",
    "أرسل لي ملف report.pdf",
    "نقلت الاجتماع مع Иван إلى الغد",
]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM()


@pytest.mark.parametrize(("arabic", "english", "other"), TRANSLATIONS)
def test_an_arabic_sentence_lies_by_its_translation(minilm: MiniLM, arabic: str, english: str, other: str) -> None:
    vector, near, far = minilm.encode([arabic, english, other])

    assert float(vector @ near) > 0.5
    assert float(vector @ far) < 0.35


def test_unrelated_arabic_sentences_are_not_near_each_other(minilm: MiniLM) -> None:
    vectors = minilm.encode([arabic for arabic, _, _ in TRANSLATIONS])
    cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]

    assert float(np.median(cosines)) < 0.2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("القهوة", "القَهْوَةُ"),
        ("القهوة", "القهـــوة"),
        ("أحمد", "احمد"),
        ("مستشفى", "مستشفي"),
        ("الساعة ٣", "الساعة 3"),
        ("کتاب", "كتاب"),
        ("ﻛﺘﺎﺏ", "كتاب"),
        ("كتا\u200fب", "كتاب"),
    ],
)
def test_spellings_of_one_word_have_one_vector(minilm: MiniLM, one: str, other: str) -> None:
    first, second = minilm.encode([one, other])

    assert first.tolist() == second.tolist()


def test_a_mixed_text_is_near_both_of_its_halves_and_nearest_to_its_whole(minilm: MiniLM) -> None:
    mixed, whole, arabic, english, other = minilm.encode(
        [
            "عندي مشكلة في تثبيت Microsoft Teams",
            "I have a problem installing Microsoft Teams",
            "عندي مشكلة في التثبيت",
            "Microsoft Teams",
            "My sister lives in Paris.",
        ]
    )

    assert float(mixed @ whole) > max(float(arabic @ whole), 0.6)
    assert min(float(mixed @ arabic), float(mixed @ english)) > 0.4
    assert float(mixed @ other) < 0.2


def test_english_vectors_are_those_of_the_model_alone_to_the_bit(minilm: MiniLM) -> None:
    texts = ["My sister lives in Lisbon.", "ok", "", "Café — naïve 🙂", "I stayed in 東京 for a week."]
    model = embedder._load()
    for text in texts:
        pieces = model.wordpiece.encode(text)
        row = model.run([pieces])[0] * np.float32(max(1, len(pieces)))
        assert minilm.keeps_vector(text)
        assert minilm.encode([text])[0].tolist() == (row / np.linalg.norm(row)).tolist()


def test_english_vectors_do_not_depend_on_arabic_in_the_same_call(minilm: MiniLM) -> None:
    texts = [f"This is sentence number {number} of the talk." for number in range(6)]

    alone, beside = minilm.encode(texts), minilm.encode([*texts, "أحب القهوة.", *FOREIGN])

    assert alone.tolist() == beside[: len(texts)].tolist()


@pytest.mark.parametrize("text", FOREIGN)
def test_a_text_in_a_script_that_cannot_be_read_is_near_nothing(minilm: MiniLM, text: str) -> None:
    assert not minilm.reads(text)
    assert not minilm.keeps_vector(text)
    assert not minilm.encode([text]).any()


@pytest.mark.parametrize("text", READABLE)
def test_a_text_that_can_mostly_be_read_has_a_vector(minilm: MiniLM, text: str) -> None:
    assert minilm.reads(text)
    assert float(np.linalg.norm(minilm.encode([text])[0])) == pytest.approx(1, abs=1e-5)


def test_texts_with_arabic_letters_do_not_keep_their_vectors_and_others_do(minilm: MiniLM) -> None:
    assert [text for text in READABLE if not minilm.keeps_vector(text)] == READABLE[-3:]


def test_signs_of_arabic_without_a_letter_are_left_to_the_model(minilm: MiniLM) -> None:
    assert split_scripts("yes؟ no،").rest == "yes؟ no،"
    assert minilm.keeps_vector("٣ + ٤")


def test_words_are_split_from_signs_and_numbers_are_words() -> None:
    assert split_words(normalise("قال: «نعم»، ثم ٣٫٥ مرّات!")) == ["قال", "نعم", "ثم", "3", "5", "مرات"]


@pytest.mark.parametrize("word", ["الكتاب", "والكتاب", "بالكتاب", "كتابها", "وكتابنا"])
def test_forms_of_a_word_share_a_stem(word: str) -> None:
    assert stem(normalise(word)) == "كتاب"


def test_a_long_text_is_read_by_a_bounded_number_of_words(minilm: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    table = embedder._load_arabic()
    encode = table.encode
    monkeypatch.setattr(table, "encode", lambda words: (read.append(len(words)), encode(words))[1])
    monkeypatch.setattr(embedder, "MAX_ARABIC_WORDS", 100)

    vector, short = minilm.encode(["قهوة " * 50_000, "قهوة " * 100])

    assert read == [100, 100]
    assert float(vector @ short) > 0.9999


def test_erased_words_are_forgotten(minilm: MiniLM) -> None:
    minilm.encode(["كلمة سرية"])
    assert embedder._load_arabic()._vector.cache_info().currsize > 0

    embedder.forget()

    assert embedder._load_arabic()._vector.cache_info().currsize == 0


def test_an_english_process_does_not_read_the_arabic_file_nor_an_arabic_one_the_model(tmp_path: Path) -> None:
    program = (
        "from recollect.providers.minilm import MiniLM, embedder\n"
        "MiniLM().encode(['hello', 'Привет'])\n"
        "assert embedder._arabic is None\n"
        "embedder._loaded = None\n"
        "MiniLM().encode(['مرحبا'])\n"
        "assert embedder._loaded is None and embedder._arabic is not None\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_arabic_file_is_small_enough_for_the_package() -> None:
    assert (embedder.FOLDER / "arabic.npz").stat().st_size <= 20_000_000


def test_nothing_that_ships_needs_torch() -> None:
    sources = (embedder.FOLDER.parent.parent).rglob("*.py")

    assert [path.name for path in sources if "import torch" in path.read_text("utf-8")] == []
