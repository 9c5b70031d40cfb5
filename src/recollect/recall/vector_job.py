"""The job that embeds messages: it fills in missing vectors, and makes all of them again for another embedder.

An embedder that extends the earlier one takes over the vectors of texts which it reads in the same way. So does the
same embedder, where only messages with the name of a speaker are embedded in another way than before.

Messages never wait for it: they are found by their words at once, and by meaning when their vectors are stored.
Vectors of two embedders are never compared.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from recollect.core.errors import ProviderUnavailable
from recollect.core.language import passages
from recollect.core.message import is_recalled
from recollect.core.protocols import Clock, Embedder, ExtendingEmbedder
from recollect.jobs.job import ConversationJob, ConversationWork, Interrupted, Pace, StopSignal, TurnOver
from recollect.recall.embedding import Embedders
from recollect.storage import vectors
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

log = logging.getLogger(__name__)

TURN_BYTES: Final = 24_000  # of text that is embedded in one turn: about a second of a slow core
TURN_PASSAGES: Final = 128  # of a longer message, in one turn
MAX_KEPT_PASSAGES: Final = 1 << 20  # whose borders are kept between turns: 8 MiB, above 100 of the longest messages
REFUSED: Final = "provider_rejected"
# Versions of passages with equal borders. Up to 2, the name of the speaker was embedded before each passage. A new
# version joins them only if it moves no border.
EQUAL_PASSAGES: Final = frozenset((2, 3))


class EmbedMessages(ConversationJob):
    """Embeds the passages of each message. Its maintenance brings a new embedder into force."""

    name = "vectors"
    cursor = vectors.CURSOR
    pace = Pace(messages=128, parallel=2, max_bytes=TURN_BYTES)

    def __init__(self, store: SqlStore, clock: Clock, embedders: Embedders, backfill: Callable[[], bool]) -> None:
        """`backfill` says whether older messages get vectors of a new embedder too."""
        super().__init__(store)
        self._clock, self._embedders, self._backfill = clock, embedders, backfill
        self._row: Row | None = None
        self._earlier: dict[int, Row | None] = {}  # by embedder key: the row of the one whose vectors are taken over
        self._is_replaced = False
        self._borders = KeptBorders()

    async def tend(self) -> int:
        """Bring the embedder into force, once. Vectors of another one are then outdated, which makes work due."""
        if self._row is None and not self._is_replaced:
            name, dimensions = self._embedders.identity
            newest = await self._store.vectors.current_embedder()
            # The same embedder takes most vectors over. Without them, older conversations would have two kinds.
            backfill = self._backfill() or (newest is not None and self._is_alike(newest, {name}, dimensions))
            self._row = await self._store.vectors.use_embedder(
                name, dimensions, passages=passages.VERSION, now=self._clock.now(), backfill=backfill
            )
        return 0

    async def _find_earlier(self, row: Row) -> Row | None:
        """Return the row of an earlier embedder whose vectors are taken over, if one was used here."""
        if row["key"] not in self._earlier:
            embedder = self._embedders.current
            names = {embedder.name, embedder.extends if isinstance(embedder, ExtendingEmbedder) else embedder.name}
            rows = await self._store.vectors.embedders()
            earlier = [other for other in rows if other["key"] < row["key"]]
            alike = [other for other in earlier if self._is_alike(other, names, row["dimensions"])]
            self._earlier[row["key"]] = max(alike, key=lambda other: int(other["key"]), default=None)
        return self._earlier[row["key"]]

    def _is_alike(self, row: Row, names: Collection[str], dimensions: int) -> bool:
        """Return whether the vectors of an embedder with one of these names have the borders of today."""
        is_equal = {row["passages"], passages.VERSION} <= EQUAL_PASSAGES
        return is_equal and row["name"] in names and row["dimensions"] == dimensions

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Embed the messages of a slice that have no vectors. Return how many.

        Of a long message only the next passages are embedded. Their vectors are stored, and the cursor stays.
        """
        await self.tend()
        if self._row is None:
            raise _replaced()
        row, owner = self._row, (work.principal, work.conversation)
        earlier = await self._find_earlier(row)
        messages = await self._store.vectors.to_embed(
            *owner,
            embedder=row["key"],
            earlier=None if earlier is None else earlier["key"],
            after=work.after,
            through=work.through,
        )
        taken_over = TakenOver(self._embedders.current, earlier)
        missing = await asyncio.to_thread(_find_missing, messages, row["dimensions"], self._borders, taken_over)
        is_long = len(messages) == 1 and sum(len(message.texts) for message in missing) > TURN_PASSAGES
        if is_long:
            missing = [message._replace(texts=message.texts[:TURN_PASSAGES]) for message in missing]
        blobs = await self._blobs(self._embedders.current, [message.texts for message in missing], stop)
        new_vectors = [(message.seq, message.blob + blob) for message, blob in zip(missing, blobs, strict=True)]
        through = work.after if is_long else work.through
        saved = await self._store.vectors.save(
            *owner, work.made_of, new_vectors, embedder=row, after=work.after, through=through
        )
        if not saved:
            await self._step_back()
            raise _replaced() if self._is_replaced else Interrupted
        if is_long:
            raise TurnOver
        return len(missing)

    async def _step_back(self) -> None:
        """Find out why the row is not in force any more: another embedder is, or a restore brought other rows."""
        name, dimensions = self._embedders.identity
        newest = await self._store.vectors.current_embedder()
        is_same = newest is None or (newest["name"], newest["dimensions"]) == (name, dimensions)
        self._row = None
        self._earlier.clear()
        if not is_same:
            self._is_replaced = True  # the last one to start is in force; two that take turns would never be done
            log.warning("another process uses another embedder than %s on this database", name)

    def reset(self) -> None:
        """Look again which embedder is in force: after a restore it may be another one."""
        self._row, self._is_replaced = None, False
        self._earlier.clear()

    async def _blobs(
        self, embedder: Embedder, texts_by_message: Sequence[Sequence[str]], stop: StopSignal
    ) -> list[bytes]:
        """Return for each message the vectors of its passages, packed."""
        import numpy as np

        from recollect.recall.vectors import pack

        def check() -> None:
            if stop.must_stop():
                raise Interrupted

        texts = [text for passage_texts in texts_by_message for text in passage_texts]
        if texts and stop.should_end():
            raise Interrupted
        rows = await self._embed(embedder, texts, check) if texts else np.empty((0, embedder.dimensions), np.float32)
        blobs, start = [], 0
        for passage_texts in texts_by_message:
            blobs.append(pack(rows[start : start + len(passage_texts)]))
            start += len(passage_texts)
        return blobs

    async def _embed(self, embedder: Embedder, texts: Sequence[str], check: Callable[[], None]) -> Vectors:
        """Embed texts. A text that the embedder refuses gets the zero vector, which is near nothing.

        If it refuses every text, the fault may be its address or name: raise, store nothing, and try again later.
        """
        import numpy as np

        try:
            return await self._embedders.embed(embedder, texts, check)
        except ProviderUnavailable as error:
            if error.code != REFUSED or len(texts) == 1:
                raise
            single_vectors = [await self._embed_accepted(embedder, text, check) for text in texts]
            if all(vector is None for vector in single_vectors):
                raise
        refused = sum(vector is None for vector in single_vectors)
        log.warning("the embedder refused %d of %d texts", refused, len(texts))
        zero = np.zeros((1, embedder.dimensions), np.float32)
        return np.concatenate([zero if vector is None else vector for vector in single_vectors])

    async def _embed_accepted(self, embedder: Embedder, text: str, check: Callable[[], None]) -> Vectors | None:
        """Embed one text, or return None if the embedder refuses it."""
        try:
            return await self._embedders.embed(embedder, [text], check)
        except ProviderUnavailable as error:
            if error.code != REFUSED:
                raise
            return None


def embedded_texts(content: str) -> list[str]:
    """Return the passages of a message as they are embedded."""
    return _cut(content, _split(content))


def _split(content: str) -> array[int]:
    """Return the borders of the passages of a text: start and stop of each, one after the other."""
    return array("I", (border for passage in passages.split(content) for border in passage[:2]))


def _cut(content: str, borders: array[int]) -> list[str]:
    return [content[start:stop] for start, stop in zip(borders[::2], borders[1::2], strict=True)]


class KeptBorders:
    """The borders of passages of messages that take several turns, so that a message is split once and not each turn.

    They are positions and hold no words. When there are too many, those that were used longest ago are dropped, and
    their messages are split again.
    """

    def __init__(self, max_passages: int = MAX_KEPT_PASSAGES) -> None:
        self._max_borders = 2 * max_passages
        self._borders: dict[tuple[int, int], array[int]] = {}  # by hash and length of the text
        self._count = 0
        self._lock = threading.Lock()  # slices of several conversations are done at once

    def take(self, content: str) -> array[int]:
        """Return the borders of a text. They are not kept any longer."""
        with self._lock:
            borders = self._borders.pop((hash(content), len(content)), None)
            if borders is not None:
                self._count -= len(borders)
                return borders
        return _split(content)

    def keep(self, content: str, borders: array[int]) -> None:
        """Keep the borders of a text for its next turn."""
        with self._lock:
            earlier = self._borders.pop((hash(content), len(content)), ())
            self._borders[hash(content), len(content)] = borders
            self._count += len(borders) - len(earlier)
            while self._count > self._max_borders:
                self._count -= len(self._borders.pop(next(iter(self._borders))))


def _content(row: Row) -> str:
    """Return the text to embed: nothing of a message that is never recalled."""
    content: str = row["content"] if is_recalled(row["role"], row["model_variant"]) else ""
    return content


class TakenOver(NamedTuple):
    """Says which vectors of an earlier embedder are those that the current one would make."""

    embedder: Embedder
    earlier: Row | None

    def keeps(self, row: Row, texts: Sequence[str]) -> bool:
        """Return whether a message keeps its earlier vectors. `texts` are its passages."""
        if self.earlier is None or (row["name"] is not None and self.earlier["passages"] != passages.VERSION):
            return False
        if self.earlier["name"] == self.embedder.name:
            return True
        return isinstance(self.embedder, ExtendingEmbedder) and all(map(self.embedder.keeps_vector, texts))


class _UnembeddedMessage(NamedTuple):
    """A message that lacks vectors: the packed ones that it has, and the texts of the passages that come next."""

    seq: int
    blob: bytes
    texts: list[str]


def _find_missing(
    rows: Sequence[Row], dimensions: int, kept: KeptBorders, taken_over: TakenOver
) -> list[_UnembeddedMessage]:
    """Return the messages that lack vectors. Stored vectors that cannot be those of the first passages are replaced.

    A message whose vectors an earlier embedder made in the same way has them, and no text that comes next.
    """
    from recollect.recall.vectors import SCALE_BYTES

    missing = []
    for row in rows:
        content, blob = _content(row), bytes(row["vectors"] or b"")
        borders = kept.take(content)
        if row["vectors"] is None and row["earlier"] is not None:
            earlier = bytes(row["earlier"])
            is_whole = 2 * len(earlier) == len(borders) * (dimensions + SCALE_BYTES)
            if is_whole and taken_over.keeps(row, _cut(content, borders)):
                missing.append(_UnembeddedMessage(row["seq"], earlier, []))
                continue
        count, rest = divmod(len(blob), dimensions + SCALE_BYTES)
        is_damaged = rest > 0 or 2 * count > len(borders)
        if is_damaged:
            count, blob = 0, b""
        if row["vectors"] is None or is_damaged or 2 * count < len(borders):
            missing.append(_UnembeddedMessage(row["seq"], blob, _cut(content, borders[2 * count :])))
        if len(borders) > 2 * (count + TURN_PASSAGES):  # there will be another turn
            kept.keep(content, borders)
    return missing


def _replaced() -> ProviderUnavailable:
    return ProviderUnavailable("embedder_replaced", "Another process uses another embedder.", retryable=False)
