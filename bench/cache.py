"""An embedder that keeps vectors from one run to the next, for benches of quality, where time does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.providers.minilm import MiniLM

Floats = NDArray[np.float32]


class CachedEmbedder(MiniLM):
    """The built-in embedder with a file of vectors, by the name of the embedder that made it and a hash of the text."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._embedder = MiniLM()
        self._path = path
        self._vectors: dict[bytes, Floats] = {}
        self._saved_count = 0
        if path is not None and path.exists():
            with np.load(path) as stored:
                rows = zip(stored["keys"], stored["vectors"], strict=True)
                self._vectors = {key.tobytes(): vector for key, vector in rows}
            self._saved_count = len(self._vectors)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text."""
        vectors: list[list[float]] = self.encode(texts).tolist()
        return vectors

    def encode(
        self, texts: Sequence[str], check: Callable[[], None] | None = None, *, single_thread: bool = False
    ) -> Floats:
        """Return one row for each text; embed only texts that the file does not hold."""
        names = [self.name if not self.keeps_vector(text) else self.extends for text in texts]
        pairs = zip(names, texts, strict=True)
        keys = [blake2b(f"{name}\0{text}".encode(), digest_size=16).digest() for name, text in pairs]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if new:
            vectors = self._embedder.encode(list(new.values()), check, single_thread=single_thread)
            self._vectors.update(zip(new, vectors, strict=True))
        return np.stack([self._vectors[key] for key in keys]) if keys else np.empty((0, self.dimensions), np.float32)

    def save(self) -> None:
        """Write the file if there are new vectors. It is replaced as a whole."""
        if self._path is None or len(self._vectors) == self._saved_count:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        keys = np.frombuffer(b"".join(self._vectors), np.uint8).reshape(-1, 16)
        partial = self._path.with_suffix(".part.npz")
        np.savez(partial, keys=keys, vectors=np.stack(list(self._vectors.values())))
        partial.replace(self._path)
        self._saved_count = len(self._vectors)
