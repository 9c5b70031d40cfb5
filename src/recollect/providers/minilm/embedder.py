"""Embeds text offline and on the CPU: with all-MiniLM-L6-v2 through onnxruntime, and Arabic words with a table.

Owns loading both once per process, cutting long texts into windows, batching, and the vectors of mixed texts. The
weights lie beside this file as 8-bit numbers and become floats when they are loaded, so the vectors are the same on
every CPU. Neither part is loaded before the first text that needs it, and nothing is ever downloaded. `NOTICE` says
how the files were made.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from recollect.core.errors import ProviderUnavailable
from recollect.providers.minilm.arabic_table import ArabicTable
from recollect.providers.minilm.scripts import ScriptParts, split_scripts
from recollect.providers.minilm.wordpiece import WordPiece
from recollect.runtime.forks import call_in_children, keep_in_children
from recollect.runtime.machine import count_usable_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER: Final = Path(__file__).parent
MODEL_SHA256: Final = "1345e2a98d6e97a371fa75eb535de357d030e6d7c812ca68dee306aa62d45d58"
VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
ARABIC_SHA256: Final = "dd4d616f4753438e2642a6394a6dc6d65f5fb570f1244a2d452ad385ff237a09"

WINDOW_PIECES: Final = 254  # with a mark at both ends these are the 256 that the model was trained for
MAX_WINDOWS: Final = 64  # of one text: about 65 kB of English; a longer text is sampled evenly
MAX_ARABIC_WORDS: Final = WINDOW_PIECES * MAX_WINDOWS  # of one text; a longer text is sampled evenly
# How many Arabic words a Latin one counts for in a mixed text: it is mostly a name or a term. Fitted to translations.
LATIN_WORD_WEIGHT: Final = 1.5
BACKGROUND_NICENESS: Final = 5
# Padding included. Measured: larger batches leave the CPU caches, smaller ones cost more calls.
_MAX_BATCH_PIECES: Final = 512
_CALL_COST_PIECES: Final = 11  # measured: a call reads all weights, which takes as long as so many pieces


class MiniLM:
    """The built-in embedder: 384 dimensions, every vector of length 1. Safe to use from many threads.

    A text in a script that it cannot read has the zero vector, which is near nothing.

    `threads` is the number of batches that run side by side; by default one for each core this process may use.
    """

    name = "all-MiniLM-L6-v2/int8+ar1"
    extends = "all-MiniLM-L6-v2/int8"  # the embedder without the Arabic table
    dimensions = 384

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or count_usable_cores()

    @staticmethod
    def reads(text: str) -> bool:
        """Say whether the text is in a script that the embedder can read: Latin or Arabic."""
        return split_scripts(text).is_readable

    @staticmethod
    def keeps_vector(text: str) -> bool:
        """Say whether the text has the same vector as with the embedder that this one extends."""
        parts = split_scripts(text)
        return not parts.arabic and parts.rest is not None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the order of the texts. The event loop is not blocked."""
        vectors = await asyncio.to_thread(self.encode, texts)
        rows: list[list[float]] = vectors.tolist()
        return rows

    def encode(
        self, texts: Sequence[str], check: Callable[[], None] | None = None, *, single_thread: bool = False
    ) -> NDArray[np.float32]:
        """Return one row for each text, in the order of the texts. `single_thread` stays on the calling thread.

        The vector of a text longer than one window is the mean of its windows' vectors, weighted by their length.
        Background work passes a `check`: it then runs at low priority, one call at a time. `check` is called before
        every batch, some tens of milliseconds apart, and may raise to end the call.
        """
        parts = [split_scripts(text) for text in texts]
        vectors = self._encode_rests([part.rest for part in parts], check, single_thread)
        for row, part in zip(vectors, parts, strict=True):
            if part.arabic:
                if check is not None:
                    check()
                _add_arabic(row, part)
        return vectors

    def _encode_rests(
        self, texts: Sequence[str | None], check: Callable[[], None] | None, single_thread: bool
    ) -> NDArray[np.float32]:
        """Return MiniLM's vector of each text. Where there is none, return the zero vector."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        if all(text is None for text in texts):
            return vectors
        model = _load()
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            for window in [] if text is None else cut_windows(model.wordpiece.encode(text)):
                windows.append(window)
                owners.append(owner)
        batches = cut_batches([len(window) for window in windows])
        batched = [[windows[index] for index in batch] for batch in batches]
        for batch, rows in zip(batches, self._run(model, batched, check, single_thread), strict=True):
            for index, row in zip(batch, rows, strict=True):
                vectors[owners[index]] += row * max(1, len(windows[index]))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths > 0, lengths, 1)
        return vectors

    def _run(
        self,
        model: _LoadedModel,
        batches: Sequence[Sequence[list[int]]],
        check: Callable[[], None] | None,
        single_thread: bool,
    ) -> list[NDArray[np.float32]]:
        """Return the vectors of each batch. A batch runs on one core, so several cores take several batches."""

        def run(batch: Sequence[list[int]]) -> NDArray[np.float32]:
            if check is not None:
                check()
            return model.run(batch)

        threads = min(1 if single_thread else self._threads, len(batches))
        if check is None and threads < 2:
            return [run(batch) for batch in batches]
        initializer = None if check is None else _lower_priority
        turn = nullcontext() if check is None else _background_lock
        with turn, ThreadPoolExecutor(max(threads, 1), "recollect-embed", initializer) as pool:
            return list(pool.map(run, batches))


def _add_arabic(row: NDArray[np.float32], part: ScriptParts) -> None:
    """Turn MiniLM's vector of a text's rest into that of the whole text. Each part counts by its words."""
    words = part.arabic[:: -(-len(part.arabic) // MAX_ARABIC_WORDS)]
    row *= LATIN_WORD_WEIGHT * part.rest_words
    row += len(part.arabic) * _load_arabic().encode(words)
    row /= np.linalg.norm(row)


def cut_windows(pieces: list[int]) -> list[list[int]]:
    """Cut the word pieces of a text into windows of nearly equal length.

    A text that needs more than `MAX_WINDOWS` is not covered whole: so many windows are spread evenly over it.
    """
    if len(pieces) <= WINDOW_PIECES:
        return [pieces]
    count = -(-len(pieces) // WINDOW_PIECES)
    if count <= MAX_WINDOWS:
        cuts = [index * len(pieces) // count for index in range(count + 1)]
        return [pieces[start:end] for start, end in pairwise(cuts)]
    last = len(pieces) - WINDOW_PIECES
    starts = [index * last // (MAX_WINDOWS - 1) for index in range(MAX_WINDOWS)]
    return [pieces[start : start + WINDOW_PIECES] for start in starts]


def cut_batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group windows into batches, given their lengths. Return lists of indices, the longest windows first.

    Windows of similar length share a batch. Dynamic programming finds the borders that cost least, in padding and
    calls together.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    costs, begins = [0], [0]  # for the first n windows: the least cost, and the start of the last batch
    for stop in range(1, len(order) + 1):
        best, begin, start = math.inf, 0, stop - 1
        while start >= 0 and (pieces := (stop - start) * (lengths[order[start]] + 2)) <= _MAX_BATCH_PIECES:
            if (cost := costs[start] + pieces + _CALL_COST_PIECES) < best:
                best, begin = cost, start
            start -= 1
        costs.append(int(best))
        begins.append(begin)
    batches, stop = [], len(order)
    while stop:
        batches.append(order[begins[stop] : stop])
        stop = begins[stop]
    return batches[::-1]


class _Session(Protocol):
    """The part of onnxruntime's session that is used here."""

    def run(self, outputs: list[str], inputs: dict[str, Any]) -> list[Any]: ...


class _LoadedModel:
    """The model and its vocabulary in memory."""

    def __init__(self, session: _Session, wordpiece: WordPiece) -> None:
        self.session = session
        self.wordpiece = wordpiece

    def run(self, windows: Sequence[list[int]]) -> NDArray[np.float32]:
        """Return the vectors of one batch of windows."""
        longest = max(map(len, windows)) + 2
        ids = np.zeros((len(windows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = [self.wordpiece.start, *window, self.wordpiece.end]
            mask[row, : len(window) + 2] = 1
        vectors: NDArray[np.float32] = self.session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


# Loading, once per process: all embedders share one session.

_background_lock = threading.Lock()  # two background calls would push each other out of the CPU caches
_loaded: _LoadedModel | None = None
_arabic: ArabicTable | None = None
_loading = threading.Lock()


def _begin_in_child() -> None:
    """Begin without a model in a forked child: other threads of the parent may have held its locks."""
    global _background_lock, _loaded, _arabic, _loading
    _background_lock, _loaded, _arabic, _loading = threading.Lock(), None, None, threading.Lock()


call_in_children(_begin_in_child)


def forget() -> None:
    """Drop the words that the loaded parts keep. Some may come from messages that were erased."""
    if _loaded is not None:
        _loaded.wordpiece.forget()
    if _arabic is not None:
        _arabic.forget()


def _load() -> _LoadedModel:
    global _loaded
    with _loading:
        if _loaded is None:
            vocabulary = _verify_file("vocab.txt", VOCABULARY_SHA256).read_text("utf-8").split("\n")[:-1]
            _loaded = _LoadedModel(_open_session(_verify_file("model.onnx", MODEL_SHA256)), WordPiece(vocabulary))
            keep_in_children(_loaded)
        return _loaded


def _load_arabic() -> ArabicTable:
    global _arabic
    with _loading:
        if _arabic is None:
            _arabic = ArabicTable.read(_verify_file("arabic.npz", ARABIC_SHA256).read_bytes())
        return _arabic


def _open_session(model: Path) -> _Session:
    """Open a session that uses one core for each call.

    Batches run side by side instead. Measured, that is faster than sharing one batch among cores. It also does not
    collapse when other work needs the cores (onnxruntime's threads wait by spinning).
    """
    import onnxruntime  # type: ignore[import-untyped]

    onnxruntime.disable_telemetry_events()  # some builds send them by default
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # make the weights floats once, at load
    session: _Session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session


def _verify_file(name: str, sha256: str) -> Path:
    """Return the path of a file of this package. Raise if its content is not the one that was shipped."""
    path = FOLDER / name
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _damaged_error(f"its file {name} cannot be read: {error.strerror}") from error
    if digest != sha256:
        raise _damaged_error(f"its file {name} is not the one that was shipped")
    return path


def _damaged_error(reason: str) -> ProviderUnavailable:
    fix = "In the folder of Recollect run: pip install --force-reinstall ."
    message = f"The built-in embedder cannot be used: {reason}. {fix}"
    return ProviderUnavailable("embedder_damaged", message, retryable=False)


def _lower_priority() -> None:
    """Lower the priority of this thread, so that adds and questions get the cores first."""
    if sys.platform == "linux":  # only on Linux has a thread a priority of its own
        with suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(BACKGROUND_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
