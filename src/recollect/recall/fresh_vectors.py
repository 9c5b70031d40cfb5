"""Makes vectors for the newest messages while a question waits, so that what was just said is found by its meaning.

The worker makes and stores vectors a moment after a message was added. A question that comes sooner embeds the messages
that still lack them itself, up to a limit. Their vectors are kept in memory only, under a hash of the text, until the
worker's are there.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from recollect.core.errors import RecollectError
from recollect.core.message import Message, is_recalled
from recollect.core.models import Principal
from recollect.recall.embedding import Embedders
from recollect.recall.message_reader import MessageReader
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.vector_job import embedded_texts

if TYPE_CHECKING:
    from recollect.recall.embedding import Vectors

log = logging.getLogger(__name__)

MAX_FRESH_MESSAGES: Final = 16  # newest messages without vectors that a question embeds
MAX_FRESH_PASSAGES: Final = 16  # of them together: about 100 ms
MAX_KEPT: Final = 512  # messages whose vectors are kept in memory
UNSTORED_EMBEDDER_KEY: Final = -1  # of the embedder in use, where the database has no vectors of it yet


class FreshVectors:
    """Embeds messages that the worker has not come to yet."""

    def __init__(self, embedders: Embedders, reader: MessageReader) -> None:
        self._embedders, self._reader = embedders, reader
        self._rows: OrderedDict[bytes, Vectors] = OrderedDict()

    def forget(self) -> None:
        """Forget all vectors, also those that are being made. They are not sorted by person."""
        self._rows = OrderedDict()

    async def complete(
        self, principal: Principal, scope: ScopeIndex, embedders: Mapping[int, tuple[str, int]]
    ) -> tuple[ScopeIndex, tuple[str, ...]]:
        """Return the scope with vectors for its newest messages that have none yet, and the names of what failed.

        `embedders` are names and dimensions by key. While the vectors of a scope are made again by another embedder, it
        stays as it is: vectors of two embedders are never compared. It stays as it is too if the embedder does not
        answer: the messages are found by their words. It also stays as it is if most messages would still lack vectors:
        the few that had one would come before all others.
        """
        keys = [key for key, identity in embedders.items() if identity == self._embedders.identity]
        if any(mark.embedder not in (None, *keys) for mark in scope.marks.values()):
            return scope, ()
        missing = scope.newest_without_vectors(MAX_FRESH_MESSAGES)
        if not len(missing) or scope.lacks_vectors(but=len(missing)):
            return scope, ()
        messages = await self._reader.read(principal, scope, missing.tolist())
        try:
            rows = await self._embed(messages)
        except RecollectError as error:
            log.warning("new messages are found by their words alone: %s", error.code)
            return scope, ("embedder",)
        if rows and not scope.lacks_vectors(but=len(rows)):
            scope = scope.with_fresh_vectors(max(keys, default=UNSTORED_EMBEDDER_KEY), rows)
        return scope, ()

    async def _embed(self, messages: dict[int, Message]) -> dict[int, Vectors]:
        """Return the vectors of messages by their index, newest first, as far as the limit allows."""
        embedder, kept = self._embedders.current, self._rows  # another one after `forget`
        vectors: dict[int, Vectors] = {}
        texts_of: dict[int, list[str]] = {}
        digests: dict[int, bytes] = {}
        left = MAX_FRESH_PASSAGES
        for index, message in messages.items():
            texts = embedded_texts(message.content) if is_recalled(message.role, None) else []
            digest = hashlib.sha256("\0".join((embedder.name, *texts)).encode("utf-8", "replace")).digest()
            if digest in kept:
                vectors[index] = kept[digest]
            elif texts and len(texts) <= left:
                texts_of[index], digests[index] = texts, digest
                left -= len(texts)
        if texts_of:
            rows = await self._embedders.embed(embedder, [text for texts in texts_of.values() for text in texts])
            start = 0
            for index, texts in texts_of.items():
                vectors[index] = kept[digests[index]] = rows[start : start + len(texts)]
                start += len(texts)
        while len(kept) > MAX_KEPT:
            kept.popitem(last=False)
        return vectors
