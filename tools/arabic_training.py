"""Trains the Arabic table: an Arabic sentence shall lie where MiniLM puts its English translation.

A sentence is the sum of the rows of its words, made to length 1. Only rows that a batch uses are changed by it.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch.nn.functional import embedding_bag, normalize

from recollect.providers.minilm.arabic_table import NGRAM_WEIGHT, find_rows
from recollect.providers.minilm.arabic_words import list_forms, list_ngrams

DIMENSIONS: Final = 384
BUCKETS: Final = 20_000
MIN_USES: Final = 2  # of a form, to get a row of its own
EPOCHS: Final = 4
BATCH: Final = 1024
RATE: Final = 1e-2  # falls to 0
DROPOUT: Final = 0.2
TEMPERATURE: Final = 0.05
SAME_COSINE: Final = 0.95  # two English sentences nearer than this are no negatives of each other
COSINE_WEIGHT: Final = 4.0
SEED: Final = 17


class Lexicon(NamedTuple):
    """The words of the training sentences, and the rows of each: `starts` cuts `rows` and `weights` into words."""

    names: list[str]  # of the rows before the buckets
    words: dict[str, int]
    starts: np.ndarray
    rows: np.ndarray
    weights: np.ndarray


class Table(NamedTuple):
    """A trained table: a row for each name, then a row for each bucket."""

    names: list[str]
    rows: np.ndarray
    bias: np.ndarray


def build_lexicon(sentences: Sequence[Sequence[str]]) -> Lexicon:
    """Collect the forms that are used often enough, and the rows of every word."""
    words = Counter(word for sentence in sentences for word in sentence)
    uses: Counter[str] = Counter()
    for word, count in words.items():
        for form in list_forms(word):
            uses[form] += count
    names = sorted(form for form, count in uses.items() if count >= MIN_USES)
    numbers = {name: row for row, name in enumerate(names)}
    starts, rows, weights = [0], [], []
    for word in words:
        forms, ngrams = find_rows(word, numbers), list_ngrams(word, BUCKETS)
        rows += forms + [len(names) + bucket for bucket in ngrams]
        weights += [1.0] * len(forms) + [NGRAM_WEIGHT / len(ngrams)] * len(ngrams)
        starts.append(len(rows))
    index = {word: number for number, word in enumerate(words)}
    return Lexicon(names, index, np.array(starts), np.array(rows), np.array(weights, np.float32))


class Trainer:
    """Holds the table while it is trained, with Adam's means of each row."""

    def __init__(self, lexicon: Lexicon) -> None:
        generator = torch.Generator().manual_seed(SEED)
        count = len(lexicon.names) + BUCKETS
        self._lexicon = lexicon
        self.table = torch.empty(count, DIMENSIONS).normal_(0, 0.01, generator=generator).requires_grad_()
        self.bias = torch.zeros(DIMENSIONS, requires_grad=True)
        self._sparse = torch.optim.SparseAdam([self.table], lr=RATE)
        self._dense = torch.optim.Adam([self.bias], lr=RATE)
        self._generator = generator

    def encode(self, sentences: Sequence[np.ndarray], *, dropout: float = 0.0) -> torch.Tensor:
        """Return the vectors of some sentences, given the numbers of their words."""
        words, places = np.unique(np.concatenate(sentences), return_inverse=True)
        starts, lexicon = self._lexicon.starts, self._lexicon
        lengths = starts[words + 1] - starts[words]
        picked = (
            np.repeat(starts[words], lengths)
            + np.arange(lengths.sum())
            - np.repeat(np.cumsum(lengths) - lengths, lengths)
        )
        weights = torch.from_numpy(lexicon.weights[picked])
        if dropout:
            kept = torch.rand(len(weights), generator=self._generator) >= dropout
            weights = weights * kept / (1 - dropout)
        offsets = torch.from_numpy(np.cumsum(lengths) - lengths)
        rows = torch.from_numpy(lexicon.rows[picked])
        vectors = embedding_bag(rows, self.table, offsets, mode="sum", sparse=True, per_sample_weights=weights)
        sizes = np.array([len(sentence) for sentence in sentences])
        begins = torch.from_numpy(np.cumsum(sizes) - sizes)
        sums = embedding_bag(torch.from_numpy(places), vectors, begins, mode="sum")
        return normalize(sums + self.bias)

    def step(self, sentences: Sequence[np.ndarray], targets: torch.Tensor, rate: float) -> float:
        """Learn from one batch. Return its loss."""
        for optimiser in (self._sparse, self._dense):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
        loss = compute_loss(self.encode(sentences, dropout=DROPOUT), targets)
        loss.backward()
        self._sparse.step()
        self._dense.step()
        return float(loss.detach())


def compute_loss(vectors: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return how far sentences are from their translations, and how much nearer to other ones."""
    scores = vectors @ targets.T / TEMPERATURE
    same = targets @ targets.T > SAME_COSINE
    same.fill_diagonal_(False)
    scores = scores.masked_fill(same, -torch.inf)
    labels = torch.arange(len(vectors))
    contrast = torch.nn.functional.cross_entropy(scores, labels) + torch.nn.functional.cross_entropy(scores.T, labels)
    return COSINE_WEIGHT * (1 - (vectors * targets).sum(1).mean()) + contrast / 2


def train(
    sentences: Sequence[Sequence[str]], targets: np.ndarray, repeats: Sequence[int], epochs: int = EPOCHS
) -> Table:
    """Train a table. `repeats` says how often each sentence comes in an epoch."""
    torch.use_deterministic_algorithms(True)
    lexicon = build_lexicon(sentences)
    numbers = [np.array([lexicon.words[word] for word in sentence]) for sentence in sentences]
    order, shuffle = np.repeat(np.arange(len(sentences)), repeats), np.random.default_rng(SEED)
    trainer = Trainer(lexicon)
    steps, done = epochs * math.ceil(len(order) / BATCH), 0
    for epoch in range(epochs):
        shuffle.shuffle(order)
        losses = []
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            rate = RATE * (1 - done / steps)
            losses.append(trainer.step([numbers[index] for index in batch], torch.from_numpy(targets[batch]), rate))
            done += 1
        sys.stderr.write(f"epoch {epoch + 1} of {epochs}: loss {np.mean(losses):.4f}\n")
    return Table(lexicon.names, trainer.table.detach().numpy(), trainer.bias.detach().numpy())
