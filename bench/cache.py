"""An embedder that remembers between runs what it embedded. For benches of quality, where time does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.providers.minilm import MiniLM

Floats = NDArray[np.float32]


class CachedEmbedder(MiniLM):
    """The built-in embedder, under its own name. Vectors are kept by that name and a hash of the text."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._own = MiniLM()
        self._path = path
        self._known: dict[bytes, Floats] = {}
        self._saved = 0
        if path is not None and path.exists():
            with np.load(path) as stored:
                rows = zip(stored["keys"], stored["vectors"], strict=True)
                self._known = {key.tobytes(): vector for key, vector in rows}
            self._saved = len(self._known)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        found: list[list[float]] = self.encode(texts).tolist()
        return found

    def encode(self, texts: Sequence[str], check: Callable[[], None] | None = None, *, alone: bool = False) -> Floats:
        keys = [blake2b(f"{self.name}\0{text}".encode(), digest_size=16).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self._own.encode(list(new.values()), check, alone=alone), strict=True))
        return np.stack([self._known[key] for key in keys]) if keys else np.empty((0, self.dimensions), np.float32)

    def save(self) -> None:
        """To the file, if there is anything new; whole or not at all."""
        if self._path is None or len(self._known) == self._saved:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        keys = np.frombuffer(b"".join(self._known), np.uint8).reshape(-1, 16)
        partial = self._path.with_suffix(".part.npz")
        np.savez(partial, keys=keys, vectors=np.stack(list(self._known.values())))
        partial.replace(self._path)
        self._saved = len(self._known)
