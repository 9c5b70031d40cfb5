"""`recollect bench` and `recollect tune`: measures recall on the person's own data, and looks for better weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import typer

from recollect.cli.catch_up import show_progress
from recollect.cli.display import print_json, print_line, print_note, print_pairs, print_table, render_count
from recollect.cli.files import open_source
from recollect.cli.options import Call
from recollect.cli.recall import print_times

if TYPE_CHECKING:
    from recollect.recall.evaluation import Measured
    from recollect.recall.tuner import Tuned

_KNOWN_ITEMS_NOTE: Final = """\
Each question is made of four rarer words of one of your messages, and that message is the answer. This shows whether
messages are found again by some of their words. It does not show whether questions in other words are answered; for
that, label questions: recollect bench FILE. It favours words over meaning, and recall prefers what people said to what
an assistant said, which counts against it here."""


def tune(
    call: Call,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Labelled questions: JSON lines or a JSON list; - reads stdin.")
    ],
    apply: Annotated[
        bool, typer.Option("--apply", help="If better weights are found, use them for this person from now on.")
    ] = False,
    step: Annotated[float, typer.Option(help="Step between two weights that are tried.")] = 0.1,
) -> None:
    """Look for weights with which recall ranks answers higher.

    The file holds questions whose answers you know. A line of it is {"query": "…", "relevant": ["id of a message", …],
    "conversation": "…"}; the conversation may be left out. All weights that add up to 1 are tried, and compared by
    NDCG@5: how near to the top the right messages are among the first five.
    """
    with (
        open_source(file, call.file) as labelled,
        call.open(must_exist=True) as memory,
        show_progress(memory, "Trying weights"),
    ):
        tuned = memory.tune(labelled, apply=apply, step=step)
    if call.json:
        print_json(tuned)
    else:
        _print_tuned(tuned)
    _print_unknown_labels(tuned.unknown)
    print_note(_render_verdict(tuned))


def _print_tuned(tuned: Tuned) -> None:
    same = tuned.queries - tuned.better - tuned.worse
    print_pairs(
        [
            ("questions", tuned.queries),
            ("NDCG@5 now", f"{tuned.before:.4f}  {_render_weights(tuned.current)}"),
            ("NDCG@5 at best", f"{tuned.after:.4f}  {_render_weights(tuned.settings)}"),
            ("when held out", "-" if tuned.held_out is None else f"{tuned.held_out:.4f}"),
            ("better, worse, same", f"{tuned.better}, {tuned.worse}, {same}"),
            ("applied", tuned.applied),
        ]
    )
    print_line("")
    names = ("alpha", "beta", "gamma")
    weights = list(tuned.top)
    if not any(row["current"] for row in weights):
        current = dict(zip(names, tuned.current.values(), strict=True))
        weights.append(current | {"ndcg": tuned.before, "current": True})
    rows = [
        (*(f"{row[name]:g}" for name in names), f"{row['ndcg']:.4f}", "in use before" if row["current"] else "")
        for row in weights
    ]
    print_table((*names, "NDCG@5", ""), rows, numbers=(*names, "NDCG@5"))


def _render_weights(settings: dict[str, float]) -> str:
    return ", ".join(f"{name.removeprefix('rag_rerank_')} {value:g}" for name, value in settings.items())


def _render_verdict(tuned: Tuned) -> str:
    """Return one or two sentences: whether the gain can be trusted, and what was or can be done."""
    if not tuned.improves:
        return f"None of {tuned.points:,} weights tried is better than yours; nothing was changed."
    undo = "`recollect settings --unset NAME` takes each back."
    if not tuned.holds:
        applied = f" The weights are in use now; {undo}" if tuned.applied else ""
        reason = "these weights gain nothing on questions that they were not chosen by. Label more questions."
        return f"warning: this may be chance: {reason}{applied}"
    if tuned.applied:
        return f"These weights are in use now; {undo}"
    return "The gain holds on questions that the weights were not chosen by. Add --apply to use them."


def _print_unknown_labels(unknown: int) -> None:
    if unknown:
        print_note(f"warning: {render_count(unknown, 'label')} named no stored message, and did not count.")


def bench(
    call: Call,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="Labelled questions, as for `recollect tune`.")
    ] = None,
    sample: Annotated[int, typer.Option(metavar="N", help="Without a file: make N questions.")] = 100,
) -> None:
    """Measure how well and how fast recall answers on your data.

    Its quality is shown beside that of simpler methods. Without a file, questions are made of rarer words of your
    messages.
    """
    if file is None:
        measured = _measure(call, None, sample)
    else:
        with open_source(file, call.file) as labelled:
            measured = _measure(call, str(labelled), sample)
    if call.json:
        print_json(measured)
    else:
        _print_measured(measured)
    _print_unknown_labels(measured.unknown)
    for name in measured.degraded:
        print_note(f"warning: measured without {name}.")


def _measure(call: Call, labelled: str | None, sample: int) -> Measured:
    with call.open(must_exist=True) as memory, show_progress(memory, "Measuring"):
        return memory.bench(labelled, sample=sample)


def _print_measured(measured: Measured) -> None:
    if measured.kind == "known_items":
        print_note(_KNOWN_ITEMS_NOTE + "\n")
    columns = list(next(iter(measured.quality.values())))
    rows = [(name, *(f"{rates[column]:.3f}" for column in columns)) for name, rates in measured.quality.items()]
    heading = f"{render_count(measured.queries, 'question')}, {render_count(measured.scope, 'message')}"
    print_table((heading, *columns), rows, numbers=columns)
    print_line("")
    print_times(measured.ms)
    print_line("")
    print_line(f"The first question took {measured.first_ms:.0f} ms: it reads the messages and loads the embedder.")
    chance = 1 / math.sqrt(measured.queries)  # twice the largest standard error of a share
    print_note(f"With {render_count(measured.queries, 'question')}, differences below {chance:.2f} may be chance.")
