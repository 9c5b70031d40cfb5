"""Prints to the terminal: data on stdout, as tables and text or as one JSON document; notes and progress on stderr.

Text that people or models wrote must not control the terminal. Its control characters are made visible here.
This module knows how values look, not what they mean.
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

from recollect.core.message import Message
from recollect.core.models import Done, plain

PIPE_COLUMNS: Final = 1_000_000  # text in a pipe is never wrapped
INDENT: Final = " " * 7
TAB_COLUMNS: Final = 8
_STATE_STYLES: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}
_VISIBLE_CONTROLS: Final = (
    {code: 0x2400 + code for code in range(0x20)}  # Unicode has a picture for each control character
    | {0x7F: 0x2421}
    | dict.fromkeys((0x2028, 0x2029), 0x2424)  # separators of lines and paragraphs
    # Direction marks and C1 controls have none: they become U+FFFD.
    | dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)
)
del _VISIBLE_CONTROLS[ord("\n")], _VISIBLE_CONTROLS[ord("\t")]
# JSON escapes the controls below 0x20 by itself.
_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _VISIBLE_CONTROLS if code >= 0x20}


def to_printable(text: str) -> str:
    """Return the text with every control character but line break and tab replaced by a visible one."""
    return text.replace("\r\n", "\n").translate(_VISIBLE_CONTROLS)


def to_line(text: str) -> str:
    """Return the printable text on one line. A line break in a name must not look like another message."""
    return to_printable(text).replace("\n", "␊")


def to_paragraph(text: str) -> str:
    """Return the printable text as one paragraph: every run of blanks and line breaks becomes one blank."""
    return " ".join(to_printable(text).split())


def print_line(text: str) -> None:
    """Write the text and a line break to stdout."""
    sys.stdout.write(text + "\n")


def print_note(text: str) -> None:
    """Write the printable text and a line break to stderr, at once. Names in it need `to_line`."""
    sys.stderr.write(to_printable(text) + "\n")
    sys.stderr.flush()


def print_json(value: object) -> None:
    """Print the value as one JSON document: indented on a terminal, on one line in a pipe."""
    print_line(to_json_text(value, indent=2 if sys.stdout.isatty() else None))


def to_json_text(value: object, *, indent: int | None = None) -> str:
    """Return the value as JSON. Characters that could control a terminal are escaped, so the value stays the same."""
    return escape_json(json_module.dumps(plain(value), ensure_ascii=False, indent=indent))


def escape_json(text: str) -> str:
    """Return JSON of the same value without characters that could control a terminal."""
    return text.translate(_JSON_ESCAPES)


def make_console() -> Console:
    """Return a console on stdout. It is as wide as the terminal; in a pipe it never wraps."""
    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(width=width, highlight=False, markup=False, emoji=False)


def print_items(*items: Any) -> None:
    """Print rich texts and tables to stdout, without blanks at the ends of lines.

    They are rendered to a string first, so that a closed pipe raises in `print_line` alone.
    """
    console = make_console()
    with console.capture() as captured:
        for item in items:
            console.print(item, soft_wrap=isinstance(item, Text) and not sys.stdout.isatty())
    print_line("\n".join(row.rstrip() for row in captured.get().removesuffix("\n").split("\n")))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()) -> None:
    """Print a table. `numbers` names the columns to align right. A column with an empty name is never wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        justify: JustifyMethod = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not column)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    print_items(table)


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), _cell(value))
    print_items(table)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    text = render_value(value)
    return Text(text, style=_STATE_STYLES.get(text, ""))


def render_value(value: object) -> str:
    """Return a value as people read it: "-" for none, yes and no, numbers with commas, times with their zone."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M %Z")
    return to_line(str(value))


def render_count(number: int, noun: str) -> str:
    """Return "1 message" or "2,000 messages"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def render_time(moment: datetime | None, zone: tzinfo) -> str:
    """Return the moment to the minute, in the zone; "-" if there is none."""
    return "-" if moment is None else moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def print_messages(messages: Sequence[Message], zone: tzinfo) -> None:
    """Print each message whole: a line with its number, time and speaker, then its text.

    The text is wrapped on a terminal and left as it is in a pipe.
    """
    console = make_console()
    for message in messages:
        speaker = message.role if message.name is None else f"{message.role} ({to_line(message.name)})"
        head = Text.assemble(
            (f"{message.seq:>5}  ", "dim"), (render_time(message.at, zone) + "  ", "dim"), (speaker, "bold")
        )
        body = Text(to_printable(_render_content(message)))
        body.expand_tabs(TAB_COLUMNS)
        rows = body.wrap(console, console.width - len(INDENT)) if console.is_terminal else body.split("\n")
        print_items(head, *(Text(INDENT) + row for row in rows))


def _render_content(message: Message) -> str:
    calls = [call.get("function", call) for call in message.tool_calls or ()]
    notes = [f"[calls {json_module.dumps(call, ensure_ascii=False)}]" for call in calls]
    if message.damaged:
        notes.append("[its text is damaged: see recollect doctor]")
    return "\n".join([message.content, *notes] if message.content or not notes else notes)


def render_excerpt(text: str, max_lines: int) -> list[Text]:
    """Return the text as one paragraph: cut to `max_lines` on a terminal, whole and on one line in a pipe."""
    console, body = make_console(), Text(to_paragraph(text))
    if not console.is_terminal:
        return [body]
    rows = list(body.wrap(console, max(console.width - len(INDENT), 1)))
    for row in rows:
        row.rstrip()
    if len(rows) > max_lines:
        rows[max_lines - 1].truncate(max(console.width - len(INDENT) - 1, 1))
        rows[max_lines - 1].append("…")
    return rows[:max_lines]


def render_hanging(lead: str, *parts: str | tuple[str, str]) -> list[Text]:
    """Return a paragraph that begins with a lead. On a terminal its further lines are indented by the lead's width.

    A part is a text, or a text with its style.
    """
    console, body = make_console(), Text.assemble(*parts)
    rows = body.wrap(console, max(console.width - len(lead), 1)) if console.is_terminal else [body]
    return [Text(" " * len(lead) if index else lead) + row for index, row in enumerate(rows)]


def render_bar(value: float, full_value: float, *, width: int = 24) -> str:
    """Return a bar for the value, to an eighth of a column. `full_value` fills `width` columns."""
    eighths = round(8 * width * value / full_value) if value > 0 and full_value > 0 else 0
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def print_work_done(done: Done, *, json: bool) -> None:
    """Print how much derived work was done, and on stderr what is left."""
    if json:
        print_json(done)
    else:
        nothing = "nothing was missing" if done.complete else "nothing"
        print_pairs([(name, count) for name, count in done.counts.items() if count] or [("done", nothing)])
    print_work_left(done)


def print_work_left(done: Done) -> None:
    """Print a warning on stderr for each kind of derived work that failed or is left to another process."""
    for name, reason in done.failed.items():
        print_note(f"warning: {name} failed [{reason}]. The next worker tries again.")
    if not done.complete and not done.failed:
        print_note("warning: some work is left; another process may be doing it.")


@contextmanager
def spinner(label: str) -> Iterator[None]:
    """Show a moving sign on stderr while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True, highlight=False).status(label):
        yield


@contextmanager
def count_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr. Yield a function that takes how many are done, and of how many."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar for `total` bytes on stderr. Yield a function that takes the bytes done so far.

    Yield None if stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)
