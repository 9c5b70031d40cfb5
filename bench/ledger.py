"""Measures how well the rules find ledger entries: precision, recall and F1 on labelled utterances.

    python -m bench.ledger [--split dev|held] [--misses] [--data FILE]

The figures are by language and kind. An entry is right if a label has its kind and all words of that label occur in
the entry's text or value. Entities are counted apart. `--misses` prints the errors of the split "dev" only, so that
the split "held" stays unseen.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from recollect.core.compression.ledger import ENTITY, Entry, merge
from recollect.core.extract import extract
from recollect.core.language import analyser
from recollect.core.message import Message

LABELS_FILE: Final = Path("tests/data/ledger.json")
DEFAULT_TIME: Final = "2026-01-01T00:00:00+00:00"


@dataclass(slots=True)
class Score:
    """Counts of entries that are right and wrong, and of labels that are met and missed."""

    right: int = 0
    wrong: int = 0
    met: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.met / (self.met + self.missed) if self.met + self.missed else 1.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def add(self, other: Score) -> None:
        self.right += other.right
        self.wrong += other.wrong
        self.met += other.met
        self.missed += other.missed


def to_message(turn: Mapping[str, Any], seq: int) -> Message:
    """Return a labelled turn as a message."""
    role = turn["role"]
    source = "typed" if role == "user" else role if role in ("assistant", "tool") else "imported"
    at = datetime.fromisoformat(turn.get("at", DEFAULT_TIME))
    return Message(str(seq), "bench", seq, role, turn["text"], at, source, name=turn.get("name"))


def normalise(text: str) -> str:
    """Return the words of a text for comparison: without case, and Arabic letters as the analyser normalises them."""
    return " ".join(analyser.raw_words(text))


def meets(entry: Entry, label: Mapping[str, Any]) -> bool:
    """Return whether an entry has the kind of a label and all its words."""
    normalised = f" {normalise(entry.text)} {normalise(entry.value)} "
    plain = f"{entry.text} {entry.value}".casefold()
    return entry.kind == label["kind"] and all(
        word.casefold() in plain or normalise(word) in normalised for word in label["holds"]
    )


def score_entries(entries: Sequence[Entry], labels: Sequence[Mapping[str, Any]]) -> dict[str, Score]:
    """Return the score by kind. A second entry for the same label is neither right nor wrong."""
    scores: dict[str, Score] = defaultdict(Score)
    is_met = [False] * len(labels)
    for entry in entries:
        indexes = [index for index, label in enumerate(labels) if meets(entry, label)]
        if not indexes:
            scores[entry.kind].wrong += 1
        elif unmet := [index for index in indexes if not is_met[index]]:
            scores[entry.kind].right += 1
            is_met[unmet[0]] = True
    for label, met in zip(labels, is_met, strict=True):
        scores[label["kind"]].met += met
        scores[label["kind"]].missed += not met
    return scores


def score_utterances(data: Mapping[str, Any], split: str) -> dict[tuple[str, str], Score]:
    """Return the scores of a split by language and kind."""
    totals: dict[tuple[str, str], Score] = defaultdict(Score)
    for item in data["utterances"]:
        if item["split"] == split:
            for kind, part in score_entries(extract([to_message(item, 1)]), item["expect"]).items():
                totals[item["language"], kind].add(part)
    return totals


def sum_scores(
    scores: Mapping[tuple[str, str], Score], *, language: str | None = None, kinds: Iterable[str] = ()
) -> Score:
    """Return the sum over a language (or all) and the kinds (or all but entities)."""
    chosen_kinds = set(kinds)
    total = Score()
    for (score_language, kind), score in scores.items():
        if language in (None, score_language) and (kind in chosen_kinds if chosen_kinds else kind != ENTITY):
            total.add(score)
    return total


def is_correct(sequence: Mapping[str, Any]) -> bool:
    """Merge a sequence turn by turn. Return whether exactly the labelled entries are current and superseded."""
    entries: list[Entry] = []
    for seq, turn in enumerate(sequence["turns"], 1):
        entries = merge(entries, extract([to_message(turn, seq)]))
    current = [entry for entry in entries if entry.holds and not entry.ends]
    superseded = [entry for entry in entries if not entry.holds]
    return (
        all(any(meets(entry, label) for entry in current) for label in (*sequence["current"], *sequence["untouched"]))
        and all(any(meets(entry, label) for entry in superseded) for label in sequence["superseded"])
        and not any(meets(entry, label) for entry in current for label in sequence["superseded"])
    )


def print_scores(data: Mapping[str, Any], split: str) -> None:
    """Print a row for each kind and language of a split."""
    scores = score_utterances(data, split)
    print(f"{split:<24}{'precision':>10}{'recall':>9}{'F1':>7}{'found':>7}{'wanted':>8}")
    rows = [("all but entities", sum_scores(scores))]
    languages = sorted({language for language, _ in scores})
    rows += [(f"  {language}", sum_scores(scores, language=language)) for language in languages]
    for kind in sorted({kind for _, kind in scores}):
        rows.append((kind, sum_scores(scores, kinds=[kind])))
        rows += [(f"  {language}", sum_scores(scores, language=language, kinds=[kind])) for language in languages]
    for name, score in rows:
        counts = f"{score.right + score.wrong:7}{score.met + score.missed:8}"
        print(f"{name:<24}{score.precision:10.3f}{score.recall:9.3f}{score.f1:7.3f}{counts}")
    print()


def print_misses(data: Mapping[str, Any]) -> None:
    """Print the utterances of the split "dev" that have wrong entries or missed labels."""
    for item in data["utterances"]:
        if item["split"] != "dev":
            continue
        entries = [entry for entry in extract([to_message(item, 1)]) if entry.kind != ENTITY]
        labels = [label for label in item["expect"] if label["kind"] != ENTITY]
        wrong = [entry for entry in entries if not any(meets(entry, label) for label in labels)]
        missed = [label for label in labels if not any(meets(entry, label) for entry in entries)]
        if wrong or missed:
            print(item["id"], item["text"][:600])
            for entry in wrong:
                print("    wrong ", entry.kind, "|", entry.slot, "|", entry.value, "|", entry.text)
            for label in missed:
                print("    missed", label["kind"], label.get("slot"), label["holds"])


def main() -> None:
    """Print the scores of the labelled utterances and sequences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("dev", "held"))
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--data", type=Path, default=LABELS_FILE)
    options = parser.parse_args()
    data = json.loads(options.data.read_text("utf-8"))
    for split in (options.split,) if options.split else ("dev", "held"):
        print_scores(data, split)
    correct = [sequence["id"] for sequence in data["sequences"] if is_correct(sequence)]
    print(f"sequences right: {len(correct)} of {len(data['sequences'])}")
    if options.misses:
        print_misses(data)


if __name__ == "__main__":
    main()
