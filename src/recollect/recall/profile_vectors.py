"""Compares the lines of a profile with a question by meaning.

A profile is a few lines, so their vectors are made when somebody first asks, and kept in memory only, under a hash of
each line. They go with the consent: a question that may not use the profile drops them, and so does every `forget`.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from recollect.core.errors import RecollectError
from recollect.core.profile import Profile, comparable_lines
from recollect.recall.embedding import Embedders

if TYPE_CHECKING:
    from recollect.recall.embedding import Vectors

log = logging.getLogger(__name__)

MAX_PEOPLE: Final = 200  # whose vectors are kept


class ProfileVectors:
    """Keeps the vectors of profile lines by person."""

    def __init__(self, embedders: Embedders) -> None:
        self._embedders = embedders
        self._vectors: OrderedDict[str, dict[bytes, Vectors]] = OrderedDict()

    def forget(self, person: str | None = None) -> None:
        """Forget the vectors of everybody, or of one person."""
        if person is None:
            self._vectors.clear()
        else:
            self._vectors.pop(person, None)

    async def compare(self, person: str, profile: Profile, question: str) -> Sequence[float]:
        """Return the cosine of each line with the question; nothing if there are no lines or no vectors for them."""
        lines = comparable_lines(profile)
        if not lines or not question.strip():
            self.forget(person)
            return ()
        try:
            rows = await self._lines_to_vectors(person, lines)
            asked = await self._embedders.embed_question(self._embedders.current, question)
        except RecollectError as error:
            log.warning("the profile is searched by its words alone: %s", error.code)
            return ()
        return [float(row @ asked) for row in rows]

    async def _lines_to_vectors(self, person: str, lines: Sequence[str]) -> list[Vectors]:
        """Return the vectors of all lines. Those that are new are embedded in one call; those that are gone go."""
        embedder = self._embedders.current
        digests = [hashlib.sha256(f"{embedder.name}\n{line}".encode("utf-8", "replace")).digest() for line in lines]
        known = self._vectors.get(person, {})
        new = {digest: line for digest, line in zip(digests, lines, strict=True) if digest not in known}
        if new:
            rows = await self._embedders.embed(embedder, list(new.values()))
            known = known | dict(zip(new, rows, strict=True))
        self._vectors[person] = {digest: known[digest] for digest in digests}
        self._vectors.move_to_end(person)
        while len(self._vectors) > MAX_PEOPLE:
            self._vectors.popitem(last=False)
        return [known[digest] for digest in digests]
