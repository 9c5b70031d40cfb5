"""Embeds text with all-MiniLM-L6-v2 through onnxruntime, offline and on the CPU.

Owns: loading the model once per process, cutting long texts into windows, and batching. The weights lie beside
this file as 8-bit numbers and become floats when they are loaded, so the vectors are the same on every CPU.
Nothing is loaded before the first text, and nothing is ever downloaded. How the file was made: `NOTICE`.
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
from recollect.providers.minilm.wordpiece import WordPiece
from recollect.runtime.machine import cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER: Final = Path(__file__).parent
MODEL_SHA256: Final = "1345e2a98d6e97a371fa75eb535de357d030e6d7c812ca68dee306aa62d45d58"
VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

WINDOW: Final = 254  # word pieces; with the marks at both ends these are the 256 the model was trained for
MAX_WINDOWS: Final = 64  # of one text: about 65 kB of English; of a longer one, as many windows spread over it
NICE: Final = 5  # of threads that embed in the background
_BATCH_PIECES: Final = 512  # padding included; measured: larger batches leave the caches, smaller ones cost more calls
_CALL: Final = 11  # pieces that take as long as a call itself, which reads all weights; measured


class MiniLM:
    """The built-in embedder: 384 dimensions, every vector of length 1. Safe to use from many threads.

    `threads` is how many batches of one call run side by side; by default one for each core this process may use.
    """

    name = "all-MiniLM-L6-v2/int8"
    dimensions = 384

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or cores()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in the order given. Other tasks run meanwhile."""
        vectors = await asyncio.to_thread(self.encode, texts)
        listed: list[list[float]] = vectors.tolist()
        return listed

    def encode(
        self, texts: Sequence[str], check: Callable[[], None] | None = None, *, alone: bool = False
    ) -> NDArray[np.float32]:
        """One row for each text, in the order given. `alone` keeps to this thread.

        The vector of a text longer than one window is the mean of its windows' vectors, weighted by their length.
        Work in the background brings a `check`: it gives way to others, and `check`, called before every batch some
        tens of milliseconds apart, may raise to end it.
        """
        model = _load()
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            for window in cut_windows(model.wordpiece.encode(text)):
                windows.append(window)
                owners.append(owner)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        batches = cut_batches([len(window) for window in windows])
        batched = [[windows[index] for index in batch] for batch in batches]
        for batch, rows in zip(batches, self._run(model, batched, check, alone), strict=True):
            for index, row in zip(batch, rows, strict=True):
                vectors[owners[index]] += row * max(1, len(windows[index]))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _run(
        self, model: _Loaded, batches: Sequence[Sequence[list[int]]], check: Callable[[], None] | None, alone: bool
    ) -> list[NDArray[np.float32]]:
        """The vectors of each batch. One batch keeps one core busy, so several cores take several batches."""

        def run(batch: Sequence[list[int]]) -> NDArray[np.float32]:
            if check is not None:
                check()
            return model.run(batch)

        threads = min(1 if alone else self._threads, len(batches))
        if check is None and threads < 2:
            return [run(batch) for batch in batches]
        begin = None if check is None else _give_way
        turn = nullcontext() if check is None else _one_at_a_time
        with turn, ThreadPoolExecutor(max(threads, 1), "recollect-embed", begin) as pool:
            return list(pool.map(run, batches))


def cut_windows(pieces: list[int]) -> list[list[int]]:
    """A text's pieces in windows of nearly equal length; at most `MAX_WINDOWS`, then spread evenly over the text."""
    if len(pieces) <= WINDOW:
        return [pieces]
    count = -(-len(pieces) // WINDOW)
    if count <= MAX_WINDOWS:
        cuts = [index * len(pieces) // count for index in range(count + 1)]
        return [pieces[start:end] for start, end in pairwise(cuts)]
    last = len(pieces) - WINDOW
    starts = [index * last // (MAX_WINDOWS - 1) for index in range(MAX_WINDOWS)]
    return [pieces[start : start + WINDOW] for start in starts]


def cut_batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of windows, longest first, batched with others of about their length, so that padding and calls together
    cost least."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    costs, begins = [0], [0]  # of the first so many windows: the least cost, and where the last batch begins
    for stop in range(1, len(order) + 1):
        best, begin, start = math.inf, 0, stop - 1
        while start >= 0 and (pieces := (stop - start) * (lengths[order[start]] + 2)) <= _BATCH_PIECES:
            if (cost := costs[start] + pieces + _CALL) < best:
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
    """What is used of onnxruntime's session."""

    def run(self, outputs: list[str], inputs: dict[str, Any]) -> list[Any]: ...


class _Loaded:
    """The model and its vocabulary in memory."""

    def __init__(self, session: _Session, wordpiece: WordPiece) -> None:
        self.session = session
        self.wordpiece = wordpiece

    def run(self, windows: Sequence[list[int]]) -> NDArray[np.float32]:
        """The vectors of one batch of windows."""
        longest = max(map(len, windows)) + 2
        ids = np.zeros((len(windows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = [self.wordpiece.start, *window, self.wordpiece.end]
            mask[row, : len(window) + 2] = 1
        vectors: NDArray[np.float32] = self.session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


# Loading, once per process: all embedders share one session.

_one_at_a_time: Final = threading.Lock()  # more threads than cores would only push each other out of the caches
_loaded: _Loaded | None = None
_loading = threading.Lock()


def _load() -> _Loaded:
    global _loaded
    with _loading:
        if _loaded is None:
            vocabulary = _checked("vocab.txt", VOCABULARY_SHA256).read_text("utf-8").split("\n")[:-1]
            _loaded = _Loaded(_open_session(_checked("model.onnx", MODEL_SHA256)), WordPiece(vocabulary))
        return _loaded


def _open_session(model: Path) -> _Session:
    """A session that uses one core for each call.

    Batches run side by side instead: measured, that is faster than sharing one batch among cores, does not
    collapse when other work needs them (onnxruntime's threads wait by spinning), and survives a fork.
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


def _checked(name: str, sha256: str) -> Path:
    """The path of a file of this package, once its content is known to be the one that was shipped."""
    path = FOLDER / name
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _damaged(f"its file {name} cannot be read: {error.strerror}") from error
    if found != sha256:
        raise _damaged(f"its file {name} is not the one that was shipped")
    return path


def _damaged(reason: str) -> ProviderUnavailable:
    message = f"The built-in embedder cannot be used: {reason}. Install recollect anew."
    return ProviderUnavailable("embedder_damaged", message, retryable=False)


def _give_way() -> None:
    """This thread runs when those who add and ask leave a core free."""
    if sys.platform == "linux":  # the one system on which a thread has a priority of its own
        with suppress(OSError):
            own = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, own, max(NICE, os.getpriority(os.PRIO_PROCESS, own)))
