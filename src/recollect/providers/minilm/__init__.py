"""The embedder that ships with Recollect: all-MiniLM-L6-v2, offline, on the CPU, without torch."""

from __future__ import annotations

from recollect.providers.minilm.embedder import MiniLM

__all__ = ["MiniLM"]
