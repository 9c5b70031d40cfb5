"""Vectors for messages and questions: which embedder serves, and the chore that fills in what is missing.

The embedder may be slow, away, or another one than yesterday. Messages never wait for it: they are found by their words
at once and by meaning when their vectors are there. Vectors of two embedders never meet.
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
from recollect.core.language import passages
from recollect.core.models import BUILT_IN as QUOTING
from recollect.core.protocols import Clock, Embedder
from recollect.jobs.worker import Interrupted, Work, is_ending
from recollect.runtime.deadline import awaited
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    Encode = Callable[[Sequence[str]], Vectors]

log = logging.getLogger(__name__)

BATCH: Final = 256  # passages that are embedded in one call
BATCH_SIZE: Final = 60_000  # characters of messages whose vectors are saved together
SHORT: Final = 200  # bytes of a question that is embedded within 20 milliseconds, unless it is all signs
TOGETHER: Final = 8  # short questions that are embedded in one call
REMEMBERED: Final = 256  # questions whose vectors are kept
BUILT_IN: Final = ("all-MiniLM-L6-v2/int8", 384)  # what it is called, without loading it
REFUSED: Final = "provider_rejected"


class Embedders:
    """The embedder in use and, for vectors that it has not replaced yet, the built-in one."""

    def __init__(self, given: Embedder | None, *, patience: float = 60.0) -> None:
        """An embedder that does not answer within so many seconds has failed."""
        self._given, self._patience = given, patience
        self._built_in: Embedder | None = None
        self.inline = False  # whether short questions are embedded without a thread
        self._together = _Together()
        self._questions: OrderedDict[tuple[str, int, str], Vectors] = OrderedDict()

    @property
    def current(self) -> Embedder:
        return self._given if self._given is not None else self._own()

    @property
    def identity(self) -> tuple[str, int]:
        """Name and dimensions of the embedder in use."""
        return BUILT_IN if self._given is None else (self._given.name, self._given.dimensions)

    def _own(self) -> Embedder:
        if self._built_in is None:
            from recollect.providers.minilm import MiniLM

            self._built_in = MiniLM()
        return self._built_in

    def named(self, name: str, dimensions: int) -> Embedder | None:
        """The embedder that made some vectors, if it is at hand."""
        for one in (self.current, self._own()):
            if (one.name, one.dimensions) == (name, dimensions):
                return one
        return None

    async def embed(self, embedder: Embedder, texts: Sequence[str], check: Callable[[], None] | None = None) -> Vectors:
        """One row of length 1 for each text. Work in the background brings a `check`, which is called now and then and
        may raise to end it."""
        import numpy as np

        from recollect.providers.minilm import MiniLM

        with _named_failures():
            if isinstance(embedder, MiniLM):
                return await asyncio.to_thread(embedder.encode, texts, check)
            found: Any = np.asarray(await awaited(embedder.embed(texts), self._patience, check), np.float32)
        if found.shape != (len(texts), embedder.dimensions) or not np.isfinite(found).all():
            raise ProviderUnavailable("embedder_invalid", "The embedder's answer is not what was asked for.")
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        unit: Vectors = found / np.where(lengths > 0, lengths, 1)
        return unit

    async def embed_question(self, embedder: Embedder, text: str) -> Vectors:
        """The vector of a question; those asked lately are remembered."""
        name = (embedder.name, embedder.dimensions, text)
        found = self._questions.get(name)
        if found is None:
            found = self._questions[name] = await self._question(embedder, text)
            while len(self._questions) > REMEMBERED:
                self._questions.popitem(last=False)
        else:
            self._questions.move_to_end(name)
        return found

    async def _question(self, embedder: Embedder, text: str) -> Vectors:
        if self.inline and len(text.encode("utf-8", "replace")) <= SHORT:
            from recollect.providers.minilm import MiniLM

            if isinstance(embedder, MiniLM):
                return await self._together.embed(partial(embedder.encode, alone=True), text)
        vectors: Vectors = (await self.embed(embedder, [text]))[0]
        return vectors


class _Together:
    """Short questions on the loop's own thread, since changing threads takes longer, and those that wait in one call:
    two fifths of a call for one question is reading the weights."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, asyncio.Future[Vectors]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def embed(self, encode: Encode, text: str) -> asyncio.Future[Vectors]:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # nobody waits any more on one that has ended
            self._loop, self._waiting = loop, []
        if not self._waiting:
            loop.call_soon(self._gather, encode, 0)
        future: asyncio.Future[Vectors] = loop.create_future()
        self._waiting.append((text, future))
        return future

    def _gather(self, encode: Encode, before: int) -> None:
        """As long as a turn of the loop brings further questions, for one more: what has come meanwhile is read then,
        and nobody waits for a question that has not come."""
        if before < len(self._waiting) < TOGETHER:
            asyncio.get_running_loop().call_soon(self._gather, encode, len(self._waiting))
            return
        waiting = [one for one in self._waiting if not one[1].done()]  # some do not wait any more
        asked, self._waiting = waiting[:TOGETHER], waiting[TOGETHER:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._gather, encode, 0)
        if asked:
            _settle(encode, asked)


def _settle(encode: Encode, asked: Sequence[tuple[str, asyncio.Future[Vectors]]]) -> None:
    try:
        with _named_failures():
            rows = encode([text for text, _ in asked])
            found = list(zip(rows, asked, strict=True))
    except Exception as error:  # noqa: BLE001 - for those who wait
        if len(asked) == 1:
            asked[0][1].set_exception(error)
        else:  # nobody's question may cost another's
            for one in asked:
                _settle(encode, [one])
        return
    for row, (_, future) in found:
        future.set_result(row.copy())


@contextmanager
def _named_failures() -> Iterator[None]:
    """Whatever an embedder may raise, as what callers know."""
    try:
        yield
    except RecollectError:
        raise
    except Exception as error:  # whatever an embedder of somebody else may raise
        if is_ending(error):
            raise
        log.warning("the embedder failed: %s", type(error).__name__)
        raise ProviderUnavailable("embedder_failed", f"The embedder failed: {type(error).__name__}.") from error


class EmbedMessages:
    """Vectors for the passages of each message. They are made once, and anew when the embedder changes.

    A chore, and an upkeep too: an embedder that is new here outdates vectors, which is how there comes to be work.
    """

    name = "vectors"

    def __init__(self, store: SqlStore, clock: Clock, embedders: Embedders, backfill: Callable[[], bool]) -> None:
        self._store, self._clock, self._embedders, self._backfill = store, clock, embedders, backfill
        self._row: Row | None = None
        self._replaced = False

    async def tend(self) -> int:
        """Bring the embedder into force, once."""
        if self._row is None and not self._replaced:
            name, dimensions = self._embedders.identity
            self._row = await self._store.vectors.use(
                name,
                dimensions,
                passages=passages.VERSION,
                now=self._clock.now(),
                backfill=self._backfill(),
            )
        return 0

    async def do(self, work: Work) -> int:
        await self.tend()
        if self._row is None:
            raise _replaced()
        row, where = self._row, (work.principal, work.conversation)
        found = await self._store.vectors.unembedded(
            *where, embedder=row["key"], after=work.after, through=work.through
        )
        after, done = work.after, 0
        for batch, through in _batches(found, work.through):
            pieces = await asyncio.to_thread(lambda rows: [embedded_texts(*_said(one)) for one in rows], batch)
            blobs = await self._blobs(self._embedders.current, pieces, work)
            made = [(one["seq"], blob) for one, blob in zip(batch, blobs, strict=True)]
            saved = await self._store.vectors.save(
                *where, work.made_of, made, embedder=row, after=after, through=through
            )
            if not saved:
                await self._step_back()
                raise _replaced() if self._replaced else Interrupted
            after, done = through, done + len(batch)
        return done

    async def _step_back(self) -> None:
        """The row is not in force any more: another embedder is, or a restore brought other rows."""
        name, dimensions = self._embedders.identity
        newest = await self._store.vectors.in_force()
        same = newest is None or (newest["name"], newest["dimensions"]) == (name, dimensions)
        self._row = None
        if not same:
            self._replaced = True  # the last one to start is in force; two that take turns would never be done
            log.warning("another process uses another embedder than %s on this database", name)

    def reset(self) -> None:
        """After a restore: other rows may be in force."""
        self._row, self._replaced = None, False

    async def _blobs(self, embedder: Embedder, pieces: Sequence[Sequence[str]], work: Work) -> list[bytes]:
        import numpy as np

        from recollect.recall.vectors import pack

        def check() -> None:
            if work.is_stopped():
                raise Interrupted

        texts = [text for some in pieces for text in some]
        vectors = []
        for start in range(0, len(texts), BATCH):
            if work.is_over():
                raise Interrupted
            vectors.append(await self._embed(embedder, texts[start : start + BATCH], check))
        rows = np.concatenate(vectors) if vectors else np.empty((0, embedder.dimensions), np.float32)
        blobs, start = [], 0
        for some in pieces:
            blobs.append(pack(rows[start : start + len(some)]))
            start += len(some)
        return blobs

    async def _embed(self, embedder: Embedder, texts: Sequence[str], check: Callable[[], None]) -> Vectors:
        """A text that the embedder refuses gets the zero vector, which is near nothing, if it takes others.

        If it refuses all, the fault may be its address or name: nothing is stored, and it is tried again.
        """
        import numpy as np

        try:
            return await self._embedders.embed(embedder, texts, check)
        except ProviderUnavailable as error:
            if error.code != REFUSED or len(texts) == 1:
                raise
            single = [await self._accepted(embedder, text, check) for text in texts]
            if all(one is None for one in single):
                raise
        log.warning("the embedder refused %d of %d texts", sum(one is None for one in single), len(texts))
        nothing = np.zeros((1, embedder.dimensions), np.float32)
        return np.concatenate([nothing if one is None else one for one in single])

    async def _accepted(self, embedder: Embedder, text: str, check: Callable[[], None]) -> Vectors | None:
        try:
            return await self._embedders.embed(embedder, [text], check)
        except ProviderUnavailable as error:
            if error.code != REFUSED:
                raise
            return None


def _said(row: Row) -> tuple[str, str | None]:
    return ("", None) if row["model_variant"] == QUOTING else (row["content"], row["name"])


def _batches(rows: Sequence[Row], through: int) -> Iterator[tuple[list[Row], int]]:
    """Messages in batches of so much text, each with the seq up to which it reaches: what is done is saved soon."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        if batch and size + len(row["content"]) > BATCH_SIZE:
            yield batch, batch[-1]["seq"]
            batch, size = [], 0
        batch.append(row)
        size += len(row["content"])
    yield batch, through


def _replaced() -> ProviderUnavailable:
    return ProviderUnavailable("embedder_replaced", "Another process uses another embedder.", retryable=False)


def embedded_texts(content: str, name: str | None) -> list[str]:
    """The passages of a message as they are embedded: with the speaker, who is part of what a turn means."""
    pieces = [content[passage.start : passage.stop] for passage in passages.split(content)]
    return pieces if name is None else [f"{name}: {piece}" for piece in pieces]
