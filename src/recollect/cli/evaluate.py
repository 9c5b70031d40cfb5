"""Measuring recall on one's own data, and finding better weights for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import typer

from recollect.cli.catch_up import watched
from recollect.cli.display import counted, note, out, show_json, show_pairs, show_table
from recollect.cli.files import readable
from recollect.cli.options import Call
from recollect.cli.recall import show_times

if TYPE_CHECKING:
    from recollect.recall.evaluation import Measured
    from recollect.recall.tuner import Tuned

_KNOWN_ITEMS: Final = """\
Each question is made of four rarer words of one of your messages, and that message is the answer. This shows whether
messages are found again by some of their words. It does not show whether questions in other words are answered; for
that, label questions: recollect bench FILE. It favours words over meaning, and recall prefers what people said to what
an assistant said, which counts against it here."""


def tune(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Labelled questions, as NDJSON or a JSON list.")],
    apply: Annotated[bool, typer.Option("--apply", help="Put better weights in force, for this person.")] = False,
    step: Annotated[float, typer.Option(help="How fine the grid is.")] = 0.1,
) -> None:
    """Look for weights of recall that rank labelled questions better.

    A line of the file is {"query": "…", "relevant": ["id of a message", …], "conversation": "…"}; the conversation may
    be left out. All weights that add up to 1 are tried, and compared by NDCG@5.
    """
    with readable(file) as labelled, call.open(must_exist=True) as memory, watched(memory, "Trying weights"):
        tuned = memory.tune(labelled, apply=apply, step=step)
    if call.json:
        show_json(tuned)
    else:
        _show_tuned(tuned)
    _tell_unknown(tuned.unknown)
    note(_verdict(tuned))


def _show_tuned(tuned: Tuned) -> None:
    same = tuned.queries - tuned.better - tuned.worse
    show_pairs(
        [
            ("questions", tuned.queries),
            ("NDCG@5 now", f"{tuned.before:.4f}  {_weights(tuned.current)}"),
            ("NDCG@5 at best", f"{tuned.after:.4f}  {_weights(tuned.settings)}"),
            ("when held out", "-" if tuned.held_out is None else f"{tuned.held_out:.4f}"),
            ("better, worse, same", f"{tuned.better}, {tuned.worse}, {same}"),
            ("applied", tuned.applied),
        ]
    )
    out("")
    names = ("alpha", "beta", "gamma")
    shown = list(tuned.top)
    if not any(row["current"] for row in shown):
        in_force = dict(zip(names, tuned.current.values(), strict=True))
        shown.append(in_force | {"ndcg": tuned.before, "current": True})
    rows = [
        (*(f"{row[name]:g}" for name in names), f"{row['ndcg']:.4f}", "was in force" if row["current"] else "")
        for row in shown
    ]
    show_table((*names, "NDCG@5", ""), rows, numbers=(*names, "NDCG@5"))


def _weights(settings: dict[str, float]) -> str:
    return ", ".join(f"{name.removeprefix('rag_rerank_')} {value:g}" for name, value in settings.items())


def _verdict(tuned: Tuned) -> str:
    """What the numbers mean, in a sentence."""
    if not tuned.improves:
        return f"None of {tuned.points:,} weights tried is better than those in force; nothing was changed."
    if not tuned.holds:
        done = "They are in force now; `recollect settings --unset NAME` takes them back." if tuned.applied else ""
        reason = "on questions that they were not chosen by these weights gain nothing. Label more questions."
        return f"warning: this may be chance: {reason} {done}".rstrip()
    if tuned.applied:
        return "These weights are in force now; `recollect settings --unset NAME` takes one back."
    return "The gain holds on questions that the weights were not chosen by. `--apply` puts them in force."


def _tell_unknown(unknown: int) -> None:
    if unknown:
        note(f"warning: {counted(unknown, 'label')} named no stored message, and did not count.")


def bench(
    call: Call,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="Labelled questions, as for `recollect tune`.")
    ] = None,
    sample: Annotated[int, typer.Option(help="Without a file: how many questions to make.")] = 100,
) -> None:
    """Measure recall on your own data: quality beside plainer ways, and times.

    Without a file questions are made of rarer words of your messages.
    """
    if file is None:
        measured = _measured(call, None, sample)
    else:
        with readable(file) as labelled:
            measured = _measured(call, str(labelled), sample)
    if call.json:
        show_json(measured)
    else:
        _show_measured(measured)
    _tell_unknown(measured.unknown)
    for name in measured.degraded:
        note(f"warning: measured without {name}.")


def _measured(call: Call, labelled: str | None, sample: int) -> Measured:
    with call.open(must_exist=True) as memory, watched(memory, "Measuring"):
        return memory.bench(labelled, sample=sample)


def _show_measured(measured: Measured) -> None:
    if measured.kind == "known_items":
        note(_KNOWN_ITEMS + "\n")
    columns = list(next(iter(measured.quality.values())))
    rows = [(name, *(f"{rates[column]:.3f}" for column in columns)) for name, rates in measured.quality.items()]
    asked = f"{counted(measured.queries, 'question')}, {counted(measured.scope, 'message')}"
    show_table((asked, *columns), rows, numbers=columns)
    out("")
    show_times(measured.ms)
    out("")
    out(f"The first question took {measured.first_ms:.0f} ms: it reads the scope and loads the model.")
    chance = 1 / math.sqrt(measured.queries)  # twice the largest standard error of a share
    note(f"With {counted(measured.queries, 'question')}, differences below {chance:.2f} may be chance.")
