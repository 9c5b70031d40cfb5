"""How well the rules find ledger entries: precision, recall and F1 on the labelled utterances, by language and kind.

    python -m bench.ledger [--split dev|held] [--misses] [--data FILE]

A finding is right if its kind is expected and all words of that expectation stand in its text or value. Entities are
counted apart. `--misses` shows what went wrong, of the split "dev" only: the other one stays unseen.
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
from recollect.core.models import Message

DATA: Final = Path("tests/data/ledger.json")
AT: Final = "2026-01-01T00:00:00+00:00"


@dataclass(slots=True)
class Score:
    """Findings that are right and wrong, expectations that are met and missed."""

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


def message(turn: Mapping[str, Any], seq: int) -> Message:
    role = turn["role"]
    source = "typed" if role == "user" else role if role in ("assistant", "tool") else "imported"
    at = datetime.fromisoformat(turn.get("at", AT))
    return Message(str(seq), "bench", seq, role, turn["text"], at, source, name=turn.get("name"))


def folded(text: str) -> str:
    """For comparing: without case, and Arabic as the analyser folds it."""
    return " ".join(analyser.raw_words(text))


def meets(entry: Entry, expected: Mapping[str, Any]) -> bool:
    told = f" {folded(entry.text)} {folded(entry.value)} "
    plain = f"{entry.text} {entry.value}".casefold()
    return entry.kind == expected["kind"] and all(
        word.casefold() in plain or folded(word) in told for word in expected["holds"]
    )


def score(entries: Sequence[Entry], expected: Sequence[Mapping[str, Any]]) -> dict[str, Score]:
    """By kind; a second finding for the same expectation is neither right nor wrong."""
    scores: dict[str, Score] = defaultdict(Score)
    met = [False] * len(expected)
    for entry in entries:
        places = [place for place, wanted in enumerate(expected) if meets(entry, wanted)]
        if not places:
            scores[entry.kind].wrong += 1
        elif new := [place for place in places if not met[place]]:
            scores[entry.kind].right += 1
            met[new[0]] = True
    for wanted, done in zip(expected, met, strict=True):
        scores[wanted["kind"]].met += done
        scores[wanted["kind"]].missed += not done
    return scores


def utterances(data: Mapping[str, Any], split: str) -> dict[tuple[str, str], Score]:
    """By language and kind."""
    totals: dict[tuple[str, str], Score] = defaultdict(Score)
    for item in data["utterances"]:
        if item["split"] == split:
            for kind, part in score(extract([message(item, 1)]), item["expect"]).items():
                totals[item["language"], kind].add(part)
    return totals


def total(scores: Mapping[tuple[str, str], Score], *, language: str | None = None, kinds: Iterable[str] = ()) -> Score:
    """All together; without entities unless they are asked for."""
    chosen = set(kinds)
    whole = Score()
    for (spoken, kind), part in scores.items():
        if language in (None, spoken) and (kind in chosen if chosen else kind != ENTITY):
            whole.add(part)
    return whole


def is_right(sequence: Mapping[str, Any]) -> bool:
    """Whether what holds, what is over and what is untouched are as they should be after merging turn by turn."""
    entries: list[Entry] = []
    for seq, turn in enumerate(sequence["turns"], 1):
        entries = merge(entries, extract([message(turn, seq)]))
    held = [entry for entry in entries if entry.holds and not entry.ends]
    over = [entry for entry in entries if not entry.holds]
    return (
        all(any(meets(entry, wanted) for entry in held) for wanted in (*sequence["current"], *sequence["untouched"]))
        and all(any(meets(entry, wanted) for entry in over) for wanted in sequence["superseded"])
        and not any(meets(entry, wanted) for entry in held for wanted in sequence["superseded"])
    )


def show(data: Mapping[str, Any], split: str) -> None:
    scores = utterances(data, split)
    print(f"{split:<24}{'precision':>10}{'recall':>9}{'F1':>7}{'found':>7}{'wanted':>8}")
    rows = [("all but entities", total(scores))]
    languages = sorted({language for language, _ in scores})
    rows += [(f"  {language}", total(scores, language=language)) for language in languages]
    for kind in sorted({kind for _, kind in scores}):
        rows.append((kind, total(scores, kinds=[kind])))
        rows += [(f"  {language}", total(scores, language=language, kinds=[kind])) for language in languages]
    for name, part in rows:
        counts = f"{part.right + part.wrong:7}{part.met + part.missed:8}"
        print(f"{name:<24}{part.precision:10.3f}{part.recall:9.3f}{part.f1:7.3f}{counts}")
    print()


def show_misses(data: Mapping[str, Any]) -> None:
    for item in data["utterances"]:
        if item["split"] != "dev":
            continue
        entries = [entry for entry in extract([message(item, 1)]) if entry.kind != ENTITY]
        expected = [wanted for wanted in item["expect"] if wanted["kind"] != ENTITY]
        wrong = [entry for entry in entries if not any(meets(entry, wanted) for wanted in expected)]
        missed = [wanted for wanted in expected if not any(meets(entry, wanted) for entry in entries)]
        if wrong or missed:
            print(item["id"], item["text"][:600])
            for entry in wrong:
                print("    wrong ", entry.kind, "|", entry.slot, "|", entry.value, "|", entry.text)
            for wanted in missed:
                print("    missed", wanted["kind"], wanted.get("slot"), wanted["holds"])


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--split", choices=("dev", "held"))
    reader.add_argument("--misses", action="store_true")
    reader.add_argument("--data", type=Path, default=DATA)
    options = reader.parse_args()
    data = json.loads(options.data.read_text("utf-8"))
    for split in (options.split,) if options.split else ("dev", "held"):
        show(data, split)
    right = [sequence["id"] for sequence in data["sequences"] if is_right(sequence)]
    print(f"sequences right: {len(right)} of {len(data['sequences'])}")
    if options.misses:
        show_misses(data)


if __name__ == "__main__":
    main()
