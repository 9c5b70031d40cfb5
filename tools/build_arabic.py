"""Builds the file of the Arabic table of the built-in embedder from pairs of Arabic and English sentences.

The pairs lie outside the repository; `NOTICE` names their sources. Run it in an environment with Recollect and torch;
Recollect itself never needs torch:

    .venv/bin/pip install torch==2.13.0
    .venv/bin/python tools/build_arabic.py --data ../shared/arabic

The vectors of the English sides take about twenty minutes of one core and are kept in `--cache`; training takes ten.
Building twice on one machine gives the same bytes. Another processor may add floats in another order: then rebuild and
measure with `make bench-arabic`. When the file changes on purpose, put its new hash into `embedder.py` and `NOTICE`,
and give the embedder a new name: its Arabic vectors are no longer the old ones.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np
import torch
from arabic_pairs import Pair, Teacher, read_pairs
from arabic_training import Table, train

from recollect.providers.minilm.arabic_table import MIDDLE_CODE, ArabicTable
from recollect.providers.minilm.arabic_words import normalise, split_words
from recollect.providers.minilm.embedder import FOLDER

FILE = "arabic.npz"
TATOEBA_REPEATS = 2  # its sentences are nearest to what people write in a chat


def split(pair: Pair) -> list[str]:
    """Return the words of the Arabic side, as the embedder will see them."""
    return split_words(normalise(pair.arabic))


def quantise(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return 4-bit codes, two in a byte, and one scale for each row, chosen for the least squared error."""
    largest = np.abs(table).max(axis=1, keepdims=True) + np.float32(1e-6)
    best = np.full(len(table), np.inf, np.float32)
    scales = np.zeros((len(table), 1), np.float16)
    for share in np.arange(0.5, 1.01, 0.05):
        tried = (largest * share / MIDDLE_CODE).astype(np.float16)
        decoded = (round_to_codes(table, tried) - np.float32(MIDDLE_CODE)) * tried.astype(np.float32)
        error = ((decoded - table) ** 2).sum(axis=1)
        scales[error < best] = tried[error < best]
        best = np.minimum(best, error)
    codes = round_to_codes(table, scales)
    return codes[:, ::2] | (codes[:, 1::2] << 4), scales.ravel()


def round_to_codes(table: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the nearest of the codes 0 to 15 for each number."""
    return np.clip(np.rint(table / scales.astype(np.float32) + np.float32(MIDDLE_CODE)), 0, 15).astype(np.uint8)


def write(table: Table, path: Path) -> None:
    """Write a table as 4-bit numbers, and its hash into SHA256SUMS."""
    codes, scales = quantise(table.rows)
    names = np.frombuffer("\n".join(table.names).encode(), np.uint8)
    np.savez(path, names=names, codes=codes, scales=scales, bias=table.bias.astype(np.float32))
    sums = path.parent / "SHA256SUMS"
    lines = [line for line in sums.read_text("utf-8").splitlines() if not line.endswith(FILE)] if sums.exists() else []
    lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {FILE}")
    sums.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    sys.stdout.write(f"{lines[-1]} ({path.stat().st_size / 1e6:.1f} MB, {len(table.names):,} names)\n")


def accuracy(arabic: np.ndarray, english: np.ndarray) -> tuple[float, float]:
    """Return how often the nearest sentence of the other language is the translation, for both directions."""
    scores, numbers = arabic @ english.T, np.arange(len(arabic))
    return float((scores.argmax(1) == numbers).mean()), float((scores.argmax(0) == numbers).mean())


def main() -> None:
    """Train the table and write it into the package."""
    parser = argparse.ArgumentParser(description="Build the Arabic table of the built-in embedder.")
    parser.add_argument("--data", type=Path, default=Path("../shared/arabic"), help="the folder with the pairs")
    parser.add_argument("--cache", type=Path, default=Path("build/arabic"), help="where English vectors are kept")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the file goes (default: into the package)")
    parser.add_argument("--threads", type=int, default=1, help="of training; another number gives other bytes")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pairs, teacher = read_pairs(options.data), Teacher(options.cache)
    targets = teacher.embed([pair.english for pair in pairs.train])
    repeats = [TATOEBA_REPEATS if pair.source == "tatoeba" else 1 for pair in pairs.train]
    write(train([split(pair) for pair in pairs.train], targets, repeats), options.out / FILE)
    table = ArabicTable.read((options.out / FILE).read_bytes())
    arabic = np.array([table.encode(split(pair)) for pair in pairs.dev])
    there, back = accuracy(arabic, teacher.embed([pair.english for pair in pairs.dev]))
    sys.stdout.write(f"sentences of Tatoeba kept aside: {there:.1%} to English, {back:.1%} to Arabic\n")


if __name__ == "__main__":
    main()
