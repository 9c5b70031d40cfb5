"""The built-in embedder: near the original model, whole on long texts, and the same in any company."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.core.errors import ProviderUnavailable
from recollect.providers.minilm import MiniLM, embedder
from recollect.providers.minilm.embedder import FOLDER, MAX_WINDOWS, WINDOW_PIECES, cut_batches, cut_windows

SISTER = "My sister lives in Lisbon with her two dogs."
MEETING = "The meeting moved to Tuesday at 3 pm."
TEXTS = [SISTER, "", MEETING, "I am allergic to peanuts.", "ok", "Café — naïve 🙂 東京", MEETING * 20, "a " * 700]
FILLER = "The weather was grey and nothing much happened on that day. " * 60

# Cosines that the original model gives, worked out in double precision.
ORIGINAL = [
    (SISTER, "Where does my sister live?", 0.5144),
    (SISTER, "Which pets does she have in Portugal?", 0.6997),
    (SISTER, "The invoice is due on Friday.", 0.1047),
    ("I am allergic to peanuts.", "What can't I eat?", 0.4203),
    ("I am allergic to peanuts.", "Peanuts make me sick.", 0.7747),
    ("The cat sat on the mat.", "A kitten was resting on the rug.", 0.6253),
    ("Ich wohne in München.", "I live in Munich.", 0.6412),
    ("", "hello", 0.5098),
    (MEETING, "When is the meeting?", 0.7274),
    (MEETING, "How do I bake sourdough bread?", 0.0053),
]
ORIGINAL_BEGINNING = [0.0921, -0.0322, 0.0491, 0.0372, -0.0951, 0.0100]  # of the vector of SISTER


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM()


@pytest.fixture
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "_loaded", None)
    monkeypatch.setattr(embedder, "_arabic", None)


def lengths(vectors: np.ndarray) -> Any:
    return np.linalg.norm(vectors, axis=1)


@pytest.mark.parametrize("name", ["model.onnx", "vocab.txt", "arabic.npz"])
def test_the_shipped_files_are_the_ones_named_in_code_sums_and_notice(name: str) -> None:
    found = hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()

    assert found in (embedder.MODEL_SHA256, embedder.VOCABULARY_SHA256, embedder.ARABIC_SHA256)
    assert f"{found}  {name}\n" in (FOLDER / "SHA256SUMS").read_text("utf-8")
    assert found in (FOLDER / "NOTICE").read_text("utf-8")
    assert "Apache License" in (FOLDER / "LICENSE").read_text("utf-8")


@pytest.mark.parametrize(("one", "other", "cosine"), ORIGINAL)
def test_two_texts_are_as_near_as_in_the_original_model(minilm: MiniLM, one: str, other: str, cosine: float) -> None:
    first, second = minilm.encode([one, other])

    assert float(first @ second) == pytest.approx(cosine, abs=0.01)


def test_a_vector_is_the_original_models(minilm: MiniLM) -> None:
    vector = minilm.encode([SISTER])[0]

    assert vector[:6].tolist() == pytest.approx(ORIGINAL_BEGINNING, abs=0.01)


def test_vectors_have_length_one_and_the_order_of_their_texts(minilm: MiniLM) -> None:
    vectors = minilm.encode(TEXTS)
    alone = np.vstack([minilm.encode([text]) for text in TEXTS])

    assert vectors.shape == (len(TEXTS), minilm.dimensions)
    assert vectors.dtype == np.float32
    assert lengths(vectors) == pytest.approx(1, abs=1e-5)
    assert ((vectors * alone).sum(axis=1) > 0.9999).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_many_texts_get_the_same_vectors_with_any_number_of_threads(minilm: MiniLM, threads: int) -> None:
    texts = [f"{word} {number}" * (1 + number % 5) for number in range(40) for word in ("red", "green", "blue")]

    assert np.allclose(MiniLM(threads=threads).encode(texts), minilm.encode(texts), atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_encoding_can_be_ended_between_batches(threads: int) -> None:
    class Enough(Exception):
        pass

    looks = iter(range(1000))

    def check() -> None:
        if next(looks) == 3:
            raise Enough

    with pytest.raises(Enough):
        MiniLM(threads=threads).encode([FILLER] * 100, check)
    assert next(looks) < 10  # of some hundred batches, those that were running went on


def test_no_texts_give_no_vectors(minilm: MiniLM) -> None:
    assert minilm.encode([]).shape == (0, 384)
    assert asyncio.run(minilm.embed([])) == []


def test_embed_gives_plain_floats_equal_to_encode(minilm: MiniLM) -> None:
    vectors = asyncio.run(minilm.embed([SISTER, ""]))

    assert all(type(number) is float for vector in vectors for number in vector)
    assert np.allclose(vectors, minilm.encode([SISTER, ""]), atol=1e-6)


@pytest.mark.parametrize("blank", ["", " ", "\n\t\n", "\x00", "\u200b", "\ufeff", "\ud83d"])
def test_a_text_without_words_has_the_vector_of_the_empty_text(minilm: MiniLM, blank: str) -> None:
    empty, vector = minilm.encode(["", blank])

    assert lengths(vector[None]) == pytest.approx(1, abs=1e-5)
    assert float(empty @ vector) > 0.9999


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(codec=None), max_size=120), max_size=6))
def test_any_text_has_a_finite_vector_of_length_one_or_zero_if_it_cannot_be_read(
    minilm: MiniLM, texts: list[str]
) -> None:
    vectors = minilm.encode(texts)

    assert np.isfinite(vectors).all()
    assert lengths(vectors) == pytest.approx([float(minilm.reads(text)) for text in texts], abs=1e-5)


@pytest.mark.parametrize("place", ["beginning", "middle", "end"])
def test_a_fact_anywhere_in_a_long_text_moves_its_vector(minilm: MiniLM, place: str) -> None:
    told = {"beginning": SISTER + FILLER, "middle": FILLER[:1800] + SISTER + FILLER[1800:], "end": FILLER + SISTER}
    question, without, with_fact = minilm.encode(["Where does my sister live?", FILLER, told[place]])

    assert float(question @ with_fact) > float(question @ without) + 0.02


def test_a_long_texts_vector_is_the_weighted_mean_of_its_windows(minilm: MiniLM) -> None:
    words = [f"word{number}" for number in range(300)]
    pieces = embedder._load().wordpiece.encode(" ".join(words))
    windows = cut_windows(pieces)
    rows = np.vstack([embedder._load().run([window]) for window in windows])
    mean = np.array([len(window) for window in windows]) @ rows

    assert len(windows) > 1
    assert np.allclose(minilm.encode([" ".join(words)])[0], mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize(
    "length", [0, 1, WINDOW_PIECES, WINDOW_PIECES + 1, 5 * WINDOW_PIECES + 3, MAX_WINDOWS * WINDOW_PIECES]
)
def test_windows_hold_every_piece_once(length: int) -> None:
    pieces = list(range(length))
    windows = cut_windows(pieces)

    assert [piece for window in windows for piece in window] == pieces
    assert len(windows) == max(1, -(-length // WINDOW_PIECES))
    assert max(map(len, windows)) - min(map(len, windows)) <= 1


def test_a_huge_text_is_read_in_a_bounded_number_of_windows_from_its_beginning_to_its_end() -> None:
    pieces = list(range(1_000_000))
    windows = cut_windows(pieces)
    gaps = np.diff([window[0] for window in windows])

    assert [len(window) for window in windows] == [WINDOW_PIECES] * MAX_WINDOWS
    assert (windows[0][0], windows[-1][-1]) == (0, len(pieces) - 1)
    assert gaps.max() - gaps.min() <= 1


@given(st.lists(st.integers(0, WINDOW_PIECES), max_size=200))
def test_batches_hold_every_window_once_and_stay_within_their_bound(sizes: list[int]) -> None:
    batches = cut_batches(sizes)

    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    assert all(len(batch) * (max(sizes[index] for index in batch) + 2) <= 512 for batch in batches)


def test_questions_of_very_different_length_are_not_padded_to_the_longest() -> None:
    assert cut_batches([28, 12, 26, 11]) == [[0, 2], [1, 3]]
    assert cut_batches([15, 16, 18, 17]) == [[2, 3, 1, 0]]
    assert cut_batches([]) == []


def test_one_thread_is_enough_if_it_is_asked_for(minilm: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = minilm.encode(TEXTS)
    monkeypatch.setattr(embedder, "ThreadPoolExecutor", None)
    assert np.allclose(minilm.encode(TEXTS, single_thread=True), expected, atol=1e-6)


@pytest.mark.usefixtures("not_loaded")
def test_threads_that_begin_at_once_load_once_and_get_the_same_vectors(
    minilm: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    open_session = embedder._open_session

    def open_and_note(model: Path) -> Any:
        opened.append(model)
        return open_session(model)

    monkeypatch.setattr(embedder, "_open_session", open_and_note)
    start, results = threading.Barrier(4), []

    def work() -> None:
        start.wait()
        results.append(minilm.encode(TEXTS))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(opened) == 1
    assert len(results) == 4
    assert all(np.allclose(result, results[0], atol=1e-6) for result in results)


@pytest.mark.usefixtures("not_loaded")
@pytest.mark.parametrize("broken", ["model.onnx", "vocab.txt", "arabic.npz"])
@pytest.mark.parametrize("how", ["missing", "changed"])
def test_a_missing_or_changed_file_is_refused_by_name(
    broken: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model.onnx", "vocab.txt", "arabic.npz"):
        (tmp_path / name).symlink_to(FOLDER / name)
    (tmp_path / broken).unlink()
    if how == "changed":
        (tmp_path / broken).write_bytes((FOLDER / broken).read_bytes()[:-1] + b"?")
    monkeypatch.setattr(embedder, "FOLDER", tmp_path)

    with pytest.raises(ProviderUnavailable, match=broken) as caught:
        MiniLM().encode(["hello", "مرحبا"])

    assert (caught.value.code, caught.value.retryable) == ("embedder_damaged", False)


def test_importing_loads_no_runtime_and_the_package_itself_loads_no_embedder() -> None:
    program = (
        "import sys, recollect; assert 'recollect.providers.minilm' not in sys.modules;"
        "from recollect.providers.minilm import MiniLM; MiniLM(); assert 'onnxruntime' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
