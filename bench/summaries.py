"""Compares the built-in summariser with a lead and four summarisers of sumy at equal length.

ROUGE-1/2/L are F1 × 100 by rouge_score with its stemmer, against one reference each. All methods read the same lines
("name: text"). All but ours choose whole lines while they fit; "lead, cut" is cut at exactly the limit. sumy has its
English stemmer and stop words, and takes minutes on meetings.
The weights were tuned on the dialogues from the 200th on ("dialogsum_rest") and on all of QMSum and LoCoMo. The first
200 were seen when the last few weights were settled. So no set here is unseen.
LoCoMo has no summaries. There the figure is the share of its answers' words that the narrative still has, without its
day labels, which the other methods do not write.

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
from recollect.core.compression.narrative import Length, Statement, count_words, render_narrative
from recollect.core.compression.summariser import summarise
from recollect.core.language import analyser
from recollect.core.message import Message
from recollect.providers.tokenizer import tokenizer_for

FIRST_TUNED_DIALOGUE: Final = 200  # the weights were tuned on this dialogue and later ones
PIECES: Final = 5  # compressions of a dialogue in the row "ours, in pieces"
OURS: Final = ("ours", "ours, in pieces")
_TRANSCRIPT_NOTE: Final = re.compile(r"\{\w+\}")  # QMSum marks laughter and broken-off words so
_DAY_LABEL: Final = re.compile(r"\[[0-9]+ [A-Z][a-z]{2}(?: [0-9]{4})?\] ")
_START: Final = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """A dialogue, with its reference summary or the answers that a summary should still contain."""

    messages: list[Message]
    reference: str = ""
    answers: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Return the messages as "name: text"."""
        return [f"{message.name}: {message.content}" for message in self.messages]

    @property
    def turns(self) -> list[list[Message]]:
        """Return the messages in turns, each with a user message first."""
        turns: list[list[Message]] = []
        for message in self.messages:
            if message.role == "user" or not turns:
                turns.append([])
            turns[-1].append(message)
        return turns


@dataclass(frozen=True, slots=True)
class Task:
    """The dialogues of a set, and the length that all methods must keep to."""

    cases: list[Case]
    length: Length
    unit: str


@dataclass(slots=True)
class Row:
    """The figures of one method: for each name a list with one value for each dialogue."""

    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: Mapping[str, float]) -> None:
        """Add the figures of one dialogue."""
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def mean(self, name: str) -> float:
        """Return the mean of a figure over all dialogues."""
        return fmean(self.figures[name])


# The data.


def load(folder: Path, name: str) -> Task:
    """Return a set by its name."""
    if name == "qmsum":
        return Task(list(_read_meetings(folder)), Length(100, 120, count_words), "words")
    if name == "locomo":
        return Task(list(_read_chats(folder)), Length(400, 500, tokenizer_for("o200k_base").count), "tokens")
    cases = list(_read_dialogues(folder))
    dialogsum_sets = {"dialogsum": cases[:FIRST_TUNED_DIALOGUE], "dialogsum_rest": cases[FIRST_TUNED_DIALOGUE:]}
    if name not in dialogsum_sets:
        raise SystemExit(f"There is no set {name!r}: dialogsum, dialogsum_rest, qmsum, locomo.")
    return Task(dialogsum_sets[name], Length(20, 30, count_words), "words")


def _read_rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    path = folder / "summaries" / f"{name}.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"There is no {path}; name the folder of the data by --data.")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _read_dialogues(folder: Path) -> Iterator[Case]:
    for row in _read_rows(folder, "dialogsum_dev"):
        lines = [line.partition(":") for line in row["dialogue"].split("\n")]
        yield Case(_to_messages([(name.strip(), text.strip()) for name, _, text in lines]), row["summary"])


def _read_meetings(folder: Path) -> Iterator[Case]:
    for row in _read_rows(folder, "qmsum_val"):
        transcript = [
            (line["speaker"], _TRANSCRIPT_NOTE.sub(" ", line["content"])) for line in row["meeting_transcripts"]
        ]
        lines = [(name, " ".join(text.split())) for name, text in transcript if any(map(str.isalpha, text))]
        yield Case(_to_messages(lines), row["general_query_list"][0]["answer"])


def _read_chats(folder: Path) -> Iterator[Case]:
    for chat in data.load(folder, "locomo"):
        lines = [(message["speaker"], message["content"]) for message in chat.messages]
        times = [datetime.fromisoformat(message["timestamp"]).replace(tzinfo=UTC) for message in chat.messages]
        yield Case(_to_messages(lines, times), answers=tuple(q.answer for q in chat.questions if not q.is_excluded))


def _to_messages(lines: Sequence[tuple[str, str]], times: Sequence[datetime] | None = None) -> list[Message]:
    """Return lines of (name, text) as messages. The first speaker is the user, all others are assistants."""
    first_speaker = lines[0][0]
    return [
        Message(
            id=f"m{index}",
            conversation="bench",
            seq=index + 1,
            role="user" if name == first_speaker else "assistant",
            content=text,
            at=times[index] if times else _START + timedelta(minutes=index),
            source="imported",
            name=name,
        )
        for index, (name, text) in enumerate(lines)
    ]


# The methods.

Method = Callable[[Case, Length], str]


def summarise_whole(case: Case, length: Length) -> str:
    """Return our narrative of the dialogue, read at once."""
    return render_narrative(summarise(case.turns, length=length))


def summarise_in_pieces(case: Case, length: Length) -> str:
    """Return our narrative of the dialogue, compressed piece by piece into the summary so far."""
    old: list[Statement] = []
    turns = case.turns
    size = -(-len(turns) // PIECES)
    for start in range(0, len(turns), size):
        old = summarise(turns[start : start + size], old=old, length=length)
    return render_narrative(old)


def take_lead(case: Case, length: Length) -> str:
    """Return the first lines that fit."""
    return _take_lines(case.lines, length)


def cut_lead(case: Case, length: Length) -> str:
    """Return the beginning of the dialogue, cut at the limit."""
    return _cut(" ".join(case.lines), length)


def _take_lines(lines: Sequence[str], length: Length) -> str:
    """Return whole lines until one does not fit; at least the start of the first."""
    taken = ""
    for line in lines:
        longer = f"{taken} {line}".strip()
        if length.measure(longer) > length.maximum:
            break
        taken = longer
    return taken or _cut(lines[0], length)


def _cut(text: str, length: Length) -> str:
    parts = text.split()[: length.maximum]
    while length.measure(" ".join(parts)) > length.maximum:
        parts = parts[: len(parts) * 99 // 100]
    return " ".join(parts)


class LineTokenizer:
    """A tokenizer for sumy that needs no downloads. A line is a sentence."""

    def to_sentences(self, text: str) -> list[str]:
        """Return the line as the only sentence."""
        return [text]

    def to_words(self, text: str) -> tuple[str, ...]:
        """Return the words in lower case."""
        return tuple(re.findall(r"\w+", text.lower()))


def load_sumy(name: str, joint: str = " ") -> Method:
    """Return one of sumy's summarisers. It takes the best lines until one does not fit, in their original order."""
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
    tokenizer = LineTokenizer()

    def summarise_by_sumy(case: Case, length: Length) -> str:
        def take_best(infos: Sequence[Any]) -> list[Any]:
            taken: list[Any] = []
            for info in infos:
                if length.measure(joint.join(str(rated.sentence) for rated in [*taken, info])) > length.maximum:
                    break
                taken.append(info)
            return taken or list(infos[:1])

        lines = [Sentence(line, tokenizer) for line in case.lines]
        chosen = [str(sentence) for sentence in summarizer(ObjectDocumentModel([Paragraph(lines)]), take_best)]
        return joint.join(chosen) if len(chosen) > 1 else _cut("".join(chosen), length)

    return summarise_by_sumy


METHODS: Final = ("lead", "lead, cut", "TextRank", "LexRank", "LSA", "Luhn", *OURS)
_OWN_METHODS: Final[Mapping[str, Method]] = {
    "lead": take_lead,
    "lead, cut": cut_lead,
    "ours": summarise_whole,
    "ours, in pieces": summarise_in_pieces,
}


# The figures.


def load_scorer() -> Callable[[Case, str], dict[str, float]]:
    """Return a function that scores a summary of a case."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise SystemExit("This bench needs more packages: pip install -c constraints.txt -e '.[bench]'") from None

    kinds = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    rouge = RougeScorer(list(kinds), use_stemmer=True)

    def score(case: Case, text: str) -> dict[str, float]:
        if case.answers:
            unlabelled = _DAY_LABEL.sub("", text)
            return {"answers %": 100 * fmean(_kept_share(answer, unlabelled) for answer in case.answers)}
        scores = rouge.score(case.reference, text)
        return {name: 100 * scores[kind].fmeasure for kind, name in kinds.items()}

    return score


def _kept_share(answer: str, text: str) -> float:
    """Return the share of an answer's words that the text has."""
    answer_words = set(analyser.words(answer))
    return len(answer_words & set(analyser.words(text))) / len(answer_words) if answer_words else 1.0


def evaluate(task: Task, methods: Sequence[str]) -> dict[str, Row]:
    """Return the figures of each method on all dialogues of a set."""
    score = load_scorer()
    rows = {}
    for name in methods:
        method = _OWN_METHODS.get(name) or load_sumy(name)
        row = rows[name] = Row()
        for case in task.cases:
            start = time.perf_counter()
            text = method(case, task.length)
            seconds = time.perf_counter() - start
            size = task.length.measure(text)
            assert size <= task.length.maximum, (name, size)
            row.add({**score(case, text), task.unit: size, "ms": 1000 * seconds})
    return rows


def to_table(name: str, task: Task, rows: Mapping[str, Row]) -> Table:
    """Return the figures of a set as a table, with our lead over the best other method."""
    title = f"{name}: {len(task.cases)} dialogues, at most {task.length.maximum} {task.unit}"
    table = Table("", title=title, title_justify="left")
    figures = list(next(iter(rows.values())).figures)
    for figure in figures:
        table.add_column(figure, justify="right")
    for method, row in rows.items():
        table.add_row(method, *(f"{row.mean(figure):.1f}" for figure in figures), end_section=method == METHODS[-3])
    others = [row for method, row in rows.items() if method not in OURS]
    if "ours" in rows and others:
        leads = [rows["ours"].mean(figure) - max(row.mean(figure) for row in others) for figure in figures[:-2]]
        table.add_section()
        table.add_row("ours − best of the others", *(f"{value:+.1f}" for value in leads), "", "")
    return table


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    parser.add_argument(
        "--sets", nargs="+", default=["dialogsum", "qmsum"], metavar="SET", help="also dialogsum_rest, locomo"
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser.parse_args()


def main() -> int:
    """Print a table for each set, and write the figures as JSON if asked to."""
    options = parse_options()
    console = Console(width=None if sys.stdout.isatty() else 120)
    figures = {}
    for name in options.sets:
        task = load(options.data, name)
        rows = evaluate(task, [method for method in METHODS if method in options.methods])
        console.print(to_table(name, task, rows))
        figures[name] = {method: {key: round(row.mean(key), 2) for key in row.figures} for method, row in rows.items()}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
