"""How things look: data on stdout, as tables and text or as one JSON document; talk and progress on stderr.

Text that people or models wrote is never trusted with the terminal: its control characters are made visible.
"""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import Any, Final

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from recollect.core.models import Done, Message, plain

UNLIMITED: Final = 1_000_000  # columns: what goes into a pipe is not wrapped
INDENT: Final = " " * 7
_STATES: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}
_VISIBLE: Final = (
    {code: 0x2400 + code for code in range(0x20)}  # the pictures of control characters
    | {0x7F: 0x2421}
    | dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)  # and of directions
)
del _VISIBLE[ord("\n")], _VISIBLE[ord("\t")]
_NUMBERED: Final = {code: f"\\u{code:04x}" for code in _VISIBLE if code >= 0x20}  # below JSON does it itself


def clean(text: str) -> str:
    """The text without power over the terminal."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def line(text: str) -> str:
    """The same for what stands on one line: a break in a name must not look like another message."""
    return clean(text).replace("\n", "␊")


def out(text: str) -> None:
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def show_json(value: object) -> None:
    out(as_json(value, indent=2 if sys.stdout.isatty() else None))


def as_json(value: object, *, indent: int | None = None) -> str:
    """Characters that a terminal might obey are written as numbers: the value is the same."""
    return json_module.dumps(plain(value), ensure_ascii=False, indent=indent).translate(_NUMBERED)


def console() -> Console:
    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(width=width, highlight=False, markup=False, emoji=False)


def show(*items: Any) -> None:
    """By way of a text, so that a closed pipe is met in one place and no line ends in blanks."""
    target = console()
    with target.capture() as captured:
        for item in items:
            target.print(item, soft_wrap=isinstance(item, Text) and not sys.stdout.isatty())
    out("\n".join(line.rstrip() for line in captured.get().splitlines()))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()) -> None:
    """A table for people. `numbers` are the columns that stand to the right; one without a name holds bars."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        justify: JustifyMethod = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not column)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    show(table)


def show_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), _cell(value))
    show(table)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    shown = shown_value(value)
    return Text(shown, style=_STATES.get(shown, ""))


def shown_value(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M %Z")
    return line(str(value))


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shown_time(moment: datetime | None, zone: tzinfo) -> str:
    return "-" if moment is None else moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def show_messages(messages: Sequence[Message], zone: tzinfo) -> None:
    """Each with a line about it, then what it says: wrapped on a terminal, as it is in a pipe, never cut."""
    target = console()
    for message in messages:
        speaker = message.role if message.name is None else f"{message.role} ({line(message.name)})"
        head = Text.assemble(
            (f"{message.seq:>5}  ", "dim"), (shown_time(message.at, zone) + "  ", "dim"), (speaker, "bold")
        )
        body = Text(clean(_said(message)))
        body.expand_tabs(8)
        lines = body.wrap(target, target.width - len(INDENT)) if target.is_terminal else body.split("\n")
        show(head, *(Text(INDENT) + line for line in lines))


def _said(message: Message) -> str:
    calls = [call.get("function", call) for call in message.tool_calls or ()]
    shown = [f"[calls {json_module.dumps(call, ensure_ascii=False)}]" for call in calls]
    if message.damaged:
        shown.append("[its text is damaged: see recollect doctor]")
    return "\n".join([message.content, *shown] if message.content or not shown else shown)


def shortened(text: str, lines: int) -> list[Text]:
    """A text as one paragraph: on a terminal cut to so many lines, in a pipe whole and on one line."""
    target, body = console(), Text(flat(text))
    if not target.is_terminal:
        return [body]
    wrapped = list(body.wrap(target, max(target.width - len(INDENT), 1)))
    for one in wrapped:
        one.rstrip()
    if len(wrapped) > lines:
        wrapped[lines - 1].truncate(max(target.width - len(INDENT) - 1, 1))
        wrapped[lines - 1].append("…")
    return wrapped[:lines]


def flat(text: str) -> str:
    """A text as one paragraph, without power over the terminal."""
    return " ".join(clean(text).split())


def hanging(lead: str, *parts: str | tuple[str, str]) -> list[Text]:
    """A paragraph of parts, styled or not, behind a lead; on a terminal its further lines begin below the first."""
    target, body = console(), Text.assemble(*parts)
    lines = body.wrap(target, max(target.width - len(lead), 1)) if target.is_terminal else [body]
    return [Text(lead if not place else " " * len(lead)) + text for place, text in enumerate(lines)]


def bar(value: float, most: float, *, width: int = 24) -> str:
    """A length for a number, to an eighth of a column."""
    eighths = round(8 * width * value / most) if value > 0 and most > 0 else 0
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def show_done(done: Done, *, json: bool) -> None:
    """What derived work was done; what is missing is said on stderr."""
    if json:
        show_json(done)
    else:
        nothing = "nothing was missing" if done.complete else "nothing"
        show_pairs([(name, count) for name, count in done.counts.items() if count] or [("done", nothing)])
    tell_missing(done)


def tell_missing(done: Done) -> None:
    for name, reason in done.failed.items():
        note(f"warning: {name} failed [{reason}]; it is tried again by the next worker.")
    if not done.complete and not done.failed:
        note("warning: some work is left; another process may be doing it.")


@contextmanager
def spinner(label: str) -> Iterator[None]:
    """Something that moves on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True, highlight=False).status(label):
        yield


@contextmanager
def count_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr; what it gives takes how much is done, and of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr, if that is a terminal; what it gives takes the bytes done so far."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)
