"""Embeds messages and questions: knows which embedder serves, and how its failures are named.

An embedder may be slow, unavailable, or another one than yesterday. Messages never wait for it: recall finds them by
their words at once, and by meaning when their vectors are there. Vectors of two embedders are never compared.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from recollect.core.errors import ProviderUnavailable, RecollectError
from recollect.core.protocols import Embedder, ExtendingEmbedder, SelectiveEmbedder
from recollect.jobs.worker import is_ending
from recollect.runtime.deadline import wait_for_answer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recollect.providers.minilm import MiniLM

    Vectors = NDArray[np.float32]
    Encode = Callable[[Sequence[str]], Vectors]

log = logging.getLogger(__name__)

MAX_INLINE_QUESTION_BYTES: Final = 200  # embedding a question of this length takes 20 ms at most, if it is words
MAX_BATCHED_QUESTIONS: Final = 8  # short questions that are embedded in one call
CACHED_QUESTIONS: Final = 256
BUILT_IN_EMBEDDER: Final = ("all-MiniLM-L6-v2/int8+ar1", 384)  # name and dimensions, known without loading it


class Embedders:
    """The embedder in use and, for vectors that it has not replaced yet, the built-in one."""

    def __init__(self, given: Embedder | None, *, patience: float = 60.0) -> None:
        """Use the given embedder, or the built-in one. It fails if it does not answer within `patience` seconds."""
        self._given, self._patience = given, patience
        self._built_in: MiniLM | None = None
        self.inline = False  # whether short questions are embedded without a thread
        self._batch = _QuestionBatch()
        self._questions: OrderedDict[tuple[str, int, str], Vectors] = OrderedDict()

    @property
    def current(self) -> Embedder:
        """Return the embedder in use."""
        return self._given if self._given is not None else self._load_built_in()

    @property
    def identity(self) -> tuple[str, int]:
        """Return name and dimensions of the embedder in use, without loading it."""
        return BUILT_IN_EMBEDDER if self._given is None else (self._given.name, self._given.dimensions)

    async def embed_aside(self, texts: Sequence[str]) -> Vectors:
        """Return one row for each text from the built-in embedder, on one thread: questions find a free core."""
        encode = partial(self._load_built_in().encode, single_thread=True)
        with _named_failures():
            return await asyncio.to_thread(encode, texts)

    def _load_built_in(self) -> MiniLM:
        if self._built_in is None:
            from recollect.providers.minilm import MiniLM

            self._built_in = MiniLM()
        return self._built_in

    def named(self, name: str, dimensions: int) -> Embedder | None:
        """Return the embedder with this name and these dimensions, or one that extends it, if it is one of the two."""
        for embedder in (self.current, self._load_built_in()):
            earlier = embedder.extends if isinstance(embedder, ExtendingEmbedder) else None
            if name in (embedder.name, earlier) and dimensions == embedder.dimensions:
                return embedder
        return None

    @staticmethod
    def reads(embedder: Embedder, text: str) -> bool:
        """Say whether an embedder can read a text. One that does not say so reads everything."""
        return not isinstance(embedder, SelectiveEmbedder) or embedder.reads(text)

    async def embed(self, embedder: Embedder, texts: Sequence[str], check: Callable[[], None] | None = None) -> Vectors:
        """Return one row of length 1 for each text.

        Work in the background brings a `check`, which is called now and then and may raise to end it.
        """
        import numpy as np

        from recollect.providers.minilm import MiniLM

        with _named_failures():
            if isinstance(embedder, MiniLM):
                return await asyncio.to_thread(embedder.encode, texts, check)
            rows: Any = np.asarray(await wait_for_answer(embedder.embed(texts), self._patience, check), np.float32)
        if rows.shape != (len(texts), embedder.dimensions) or not np.isfinite(rows).all():
            raise ProviderUnavailable("embedder_invalid", "The embedder's answer is not what was asked for.")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vectors = rows / np.where(lengths > 0, lengths, 1)
        return unit

    async def embed_question(self, embedder: Embedder, text: str) -> Vectors:
        """Return the vector of a question. Those asked lately are cached."""
        key = (embedder.name, embedder.dimensions, text)
        vector = self._questions.get(key)
        if vector is None:
            vector = self._questions[key] = await self._embed_question(embedder, text)
            while len(self._questions) > CACHED_QUESTIONS:
                self._questions.popitem(last=False)
        else:
            self._questions.move_to_end(key)
        return vector

    def forget(self, person: str | None = None) -> None:
        """Forget the vectors of questions. They are not sorted by person, so all of them go."""
        self._questions.clear()

    async def _embed_question(self, embedder: Embedder, text: str) -> Vectors:
        if self.inline and len(text.encode("utf-8", "replace")) <= MAX_INLINE_QUESTION_BYTES:
            from recollect.providers.minilm import MiniLM

            if isinstance(embedder, MiniLM):
                return await self._batch.embed(partial(embedder.encode, single_thread=True), text)
        vector: Vectors = (await self.embed(embedder, [text]))[0]
        return vector


class _QuestionBatch:
    """Embeds short questions on the loop's own thread, because changing threads takes longer.

    Questions that wait at the same time are embedded in one call: two fifths of a call for one question go into
    reading the model's weights.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, asyncio.Future[Vectors]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def embed(self, encode: Encode, text: str) -> asyncio.Future[Vectors]:
        """Return a future for the vector of a question."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the futures of a loop that has ended are not awaited any more
            self._loop, self._waiting = loop, []
        if not self._waiting:
            loop.call_soon(self._gather, encode, 0)
        future: asyncio.Future[Vectors] = loop.create_future()
        self._waiting.append((text, future))
        return future

    def _gather(self, encode: Encode, waiting_before: int) -> None:
        """Embed the waiting questions, once an iteration of the loop has brought no further one.

        So questions that arrive together share a call, and none waits for one that has not come.
        """
        if waiting_before < len(self._waiting) < MAX_BATCHED_QUESTIONS:
            asyncio.get_running_loop().call_soon(self._gather, encode, len(self._waiting))
            return
        waiting = [question for question in self._waiting if not question[1].done()]  # some were cancelled
        batch, self._waiting = waiting[:MAX_BATCHED_QUESTIONS], waiting[MAX_BATCHED_QUESTIONS:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._gather, encode, 0)
        if batch:
            _answer(encode, batch)


def _answer(encode: Encode, batch: Sequence[tuple[str, asyncio.Future[Vectors]]]) -> None:
    """Embed questions and set their futures. If that fails, embed each alone: one must not fail the others."""
    try:
        with _named_failures():
            rows = encode([text for text, _ in batch])
            answers = list(zip(rows, batch, strict=True))
    except Exception as error:  # noqa: BLE001 - the error goes to those who await the futures
        if len(batch) == 1:
            batch[0][1].set_exception(error)
        else:
            for question in batch:
                _answer(encode, [question])
        return
    for row, (_, future) in answers:
        future.set_result(row.copy())


@contextmanager
def _named_failures() -> Iterator[None]:
    """Turn any exception of an embedder into ProviderUnavailable, which callers know."""
    try:
        yield
    except RecollectError:
        raise
    except Exception as error:  # an embedder from outside may raise anything
        if is_ending(error):
            raise
        log.warning("the embedder failed: %s", type(error).__name__)
        raise ProviderUnavailable("embedder_failed", f"The embedder failed: {type(error).__name__}.") from error
