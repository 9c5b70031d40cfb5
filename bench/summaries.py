"""How well the extractive summariser tells dialogues, beside a lead and four summarisers of sumy at equal length.

ROUGE-1/2/L are F1 × 100 by rouge_score with its stemmer, against one reference each. All methods read the same lines
("name: text") and choose whole lines as long as they fit; "lead, cut" is cut at exactly the limit. sumy has its English
stemmer and stop words. Weights were searched on the dialogues from the 200th on ("dialogsum_rest") and on all of QMSum
and LoCoMo; the first 200 were looked at when the last few weights were settled. No set here is unseen.
LoCoMo has no summaries: there it is counted how much of the answers to its questions is still in the narrative (without
its dates, which the others do not tell). sumy takes minutes on meetings.

    python -m bench.summaries --data ../shared/bench --sets dialogsum qmsum
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench import data
from recollect.core.compression.narrative import Length, Statement, narrative, words
from recollect.core.compression.summariser import summarise
from recollect.core.language import analyser
from recollect.core.models import Message
from recollect.providers.tokenizer import tokenizer_for

TUNED_FROM: Final = 200  # the dialogue from which on weights were tuned
PIECES: Final = 5  # folds of the row that gets the dialogue bit by bit
OURS: Final = ("ours", "ours, folded")
_MARK: Final = re.compile(r"\{\w+\}")  # QMSum's notes of laughter and broken-off words
_DATE: Final = re.compile(r"\[[0-9]+ [A-Z][a-z]{2}(?: [0-9]{4})?\] ")
_START: Final = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """A dialogue, and what a summary of it is held against."""

    messages: list[Message]
    reference: str = ""
    answers: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [f"{message.name}: {message.content}" for message in self.messages]

    @property
    def turns(self) -> list[list[Message]]:
        turns: list[list[Message]] = []
        for message in self.messages:
            if message.role == "user" or not turns:
                turns.append([])
            turns[-1].append(message)
        return turns


@dataclass(frozen=True, slots=True)
class Task:
    cases: list[Case]
    length: Length
    unit: str


@dataclass(slots=True)
class Row:
    """What one method reached: a list of figures for each name, one for each dialogue."""

    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, found: Mapping[str, float]) -> None:
        for name, value in found.items():
            self.figures.setdefault(name, []).append(value)

    def mean(self, name: str) -> float:
        return fmean(self.figures[name])


# The data.


def load(folder: Path, name: str) -> Task:
    if name == "qmsum":
        return Task(list(_meetings(folder)), Length(100, 120, words), "words")
    if name == "locomo":
        return Task(list(_chats(folder)), Length(400, 500, tokenizer_for("o200k_base").count), "tokens")
    cases = list(_dialogues(folder))
    some = {"dialogsum": cases[:TUNED_FROM], "dialogsum_rest": cases[TUNED_FROM:]}
    if name not in some:
        raise SystemExit(f"There is no set {name!r}: dialogsum, dialogsum_rest, qmsum, locomo.")
    return Task(some[name], Length(20, 30, words), "words")


def _rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    path = folder / "summaries" / f"{name}.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"There is no {path}; name the folder of the data by --data.")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _dialogues(folder: Path) -> Iterator[Case]:
    for row in _rows(folder, "dialogsum_dev"):
        said = [line.partition(":") for line in row["dialogue"].split("\n")]
        yield Case(_messages([(name.strip(), text.strip()) for name, _, text in said]), row["summary"])


def _meetings(folder: Path) -> Iterator[Case]:
    for row in _rows(folder, "qmsum_val"):
        said = [(one["speaker"], _MARK.sub(" ", one["content"])) for one in row["meeting_transcripts"]]
        spoken = [(name, " ".join(text.split())) for name, text in said if any(map(str.isalpha, text))]
        yield Case(_messages(spoken), row["general_query_list"][0]["answer"])


def _chats(folder: Path) -> Iterator[Case]:
    for one in data.load(folder, "locomo"):
        said = [(message["speaker"], message["content"]) for message in one.messages]
        times = [datetime.fromisoformat(message["timestamp"]).replace(tzinfo=UTC) for message in one.messages]
        yield Case(_messages(said, times), answers=tuple(q.answer for q in one.questions if not q.apart))


def _messages(said: Sequence[tuple[str, str]], times: Sequence[datetime] | None = None) -> list[Message]:
    """Who speaks first is the user."""
    first = said[0][0]
    return [
        Message(
            id=f"m{at}",
            conversation="bench",
            seq=at + 1,
            role="user" if name == first else "assistant",
            content=text,
            at=times[at] if times else _START + timedelta(minutes=at),
            source="imported",
            name=name,
        )
        for at, (name, text) in enumerate(said)
    ]


# The methods.

Method = Callable[[Case, Length], str]


def ours(case: Case, length: Length) -> str:
    return narrative(summarise(case.turns, length=length))


def folded(case: Case, length: Length) -> str:
    """The same in pieces, each folded into the summary so far."""
    old: list[Statement] = []
    turns = case.turns
    size = -(-len(turns) // PIECES)
    for start in range(0, len(turns), size):
        old = summarise(turns[start : start + size], old=old, length=length)
    return narrative(old)


def lead(case: Case, length: Length) -> str:
    return _filled(case.lines, length)


def cut_lead(case: Case, length: Length) -> str:
    return _cut(" ".join(case.lines), length)


def _filled(lines: Sequence[str], length: Length) -> str:
    """Whole lines until one does not fit; at least the start of the first."""
    taken = ""
    for line in lines:
        more = f"{taken} {line}".strip()
        if length.measure(more) > length.most:
            break
        taken = more
    return taken or _cut(lines[0], length)


def _cut(text: str, length: Length) -> str:
    parts = text.split()[: length.most]
    while length.measure(" ".join(parts)) > length.most:
        parts = parts[: len(parts) * 99 // 100]
    return " ".join(parts)


class Plain:
    """A tokenizer for sumy that needs no downloads; lines are its sentences."""

    def to_sentences(self, text: str) -> list[str]:
        return [text]

    def to_words(self, text: str) -> tuple[str, ...]:
        return tuple(re.findall(r"\w+", text.lower()))


def sumy(name: str, joint: str = " ") -> Method:
    """One of sumy's summarisers: its best lines, the best first, until one does not fit; told in their order."""
    from importlib import import_module

    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.nlp.stemmers import Stemmer
    from sumy.utils import get_stop_words

    module, kind = {
        "TextRank": ("text_rank", "TextRankSummarizer"),
        "LexRank": ("lex_rank", "LexRankSummarizer"),
        "LSA": ("lsa", "LsaSummarizer"),
        "Luhn": ("luhn", "LuhnSummarizer"),
    }[name]
    summarizer = getattr(import_module(f"sumy.summarizers.{module}"), kind)(Stemmer("english"))
    if hasattr(type(summarizer), "stop_words"):
        summarizer.stop_words = get_stop_words("english")
    tokenizer = Plain()

    def told(case: Case, length: Length) -> str:
        def best(infos: Sequence[Any]) -> list[Any]:
            taken: list[Any] = []
            for info in infos:
                if length.measure(joint.join(str(one.sentence) for one in [*taken, info])) > length.most:
                    break
                taken.append(info)
            return taken or list(infos[:1])

        lines = [Sentence(line, tokenizer) for line in case.lines]
        found = [str(one) for one in summarizer(ObjectDocumentModel([Paragraph(lines)]), best)]
        return joint.join(found) if len(found) > 1 else _cut("".join(found), length)

    return told


METHODS: Final = ("lead", "lead, cut", "TextRank", "LexRank", "LSA", "Luhn", *OURS)
_SIMPLE: Final[Mapping[str, Method]] = {"lead": lead, "lead, cut": cut_lead, "ours": ours, "ours, folded": folded}


# The figures.


def scorer() -> Callable[[Case, str], dict[str, float]]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise SystemExit("This bench needs more packages: pip install -c constraints.txt -e '.[bench]'") from None

    kinds = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    rouge = RougeScorer(list(kinds), use_stemmer=True)

    def scored(case: Case, text: str) -> dict[str, float]:
        if case.answers:
            bare = _DATE.sub("", text)
            return {"answers %": 100 * fmean(_kept(answer, bare) for answer in case.answers)}
        found = rouge.score(case.reference, text)
        return {shown: 100 * found[kind].fmeasure for kind, shown in kinds.items()}

    return scored


def _kept(answer: str, text: str) -> float:
    """How much of an answer's words the text has."""
    wanted = set(analyser.words(answer))
    return len(wanted & set(analyser.words(text))) / len(wanted) if wanted else 1.0


def evaluate(task: Task, methods: Sequence[str]) -> dict[str, Row]:
    scored = scorer()
    rows = {}
    for name in methods:
        method = _SIMPLE.get(name) or sumy(name)
        row = rows[name] = Row()
        for case in task.cases:
            start = time.perf_counter()
            text = method(case, task.length)
            took = time.perf_counter() - start
            size = task.length.measure(text)
            assert size <= task.length.most, (name, size)
            row.add({**scored(case, text), task.unit: size, "ms": 1000 * took})
    return rows


def shown(name: str, task: Task, rows: Mapping[str, Row]) -> Table:
    title = f"{name}: {len(task.cases)} dialogues, at most {task.length.most} {task.unit}"
    table = Table("", title=title, title_justify="left")
    figures = list(next(iter(rows.values())).figures)
    for figure in figures:
        table.add_column(figure, justify="right")
    for method, row in rows.items():
        table.add_row(method, *(f"{row.mean(figure):.1f}" for figure in figures), end_section=method == METHODS[-3])
    others = [row for method, row in rows.items() if method not in OURS]
    if "ours" in rows and others:
        ahead = [rows["ours"].mean(figure) - max(row.mean(figure) for row in others) for figure in figures[:-2]]
        table.add_section()
        table.add_row("ours − best of the others", *(f"{value:+.1f}" for value in ahead), "", "")
    return table


def options() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT, help="folder of the data (../shared/bench)")
    reader.add_argument(
        "--sets", nargs="+", default=["dialogsum", "qmsum"], metavar="SET", help="also dialogsum_rest, locomo"
    )
    reader.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    reader.add_argument("--json", type=Path, help="write all figures here")
    return reader.parse_args()


def main() -> int:
    given = options()
    console = Console(width=None if sys.stdout.isatty() else 120)
    kept = {}
    for name in given.sets:
        task = load(given.data, name)
        rows = evaluate(task, [method for method in METHODS if method in given.methods])
        console.print(shown(name, task, rows))
        kept[name] = {method: {key: round(row.mean(key), 2) for key in row.figures} for method, row in rows.items()}
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
