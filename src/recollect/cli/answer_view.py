"""Prints an answer of a chat: its words as they arrive, then a line on what it is based on or why it ended early."""

from __future__ import annotations

import re
import sys
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from recollect.cli.display import TAB_COLUMNS, make_console, print_note, render_count, to_line, to_printable
from recollect.core.models import JsonObject

MAX_HELD_COLUMNS: Final = 24  # a word is held back until it ends or is this long; some scripts have no blanks
_PIECES: Final = re.compile(r"\n|[^\S\n]+|\S+")


class AnswerPrinter:
    """Prints text to stdout as it arrives, with control characters made visible.

    On a terminal lines are broken between words. In a pipe the text stays as it is.
    """

    def __init__(self) -> None:
        console = make_console()
        self._width = console.width if console.is_terminal else None
        self._column = 0
        self._blank = self._word = self._carriage_return = ""

    def write(self, text: str) -> None:
        """Print the text. The last word is held back until it is known where it ends."""
        text, self._carriage_return = self._carriage_return + text, ""
        if text.endswith("\r"):  # this may be the first half of a line break
            text, self._carriage_return = text[:-1], "\r"
        printable = to_printable(text)
        if self._width is None:
            self._put(printable)
        else:
            for piece in _PIECES.findall(printable.expandtabs(TAB_COLUMNS)):
                self._take(piece)
            if cell_len(self._word) > MAX_HELD_COLUMNS:
                self._put_word()
        sys.stdout.flush()

    def end(self) -> None:
        """Print the word that was held back, and a line break if the text did not end with one."""
        self._put_word()
        self._put(to_printable(self._carriage_return))
        if self._column:
            self._put("\n")
        self._carriage_return = ""
        sys.stdout.flush()

    def _take(self, piece: str) -> None:
        if not piece.isspace():
            self._word += piece
            return
        self._put_word()
        if piece == "\n":
            self._put("\n")
            self._blank = ""
        else:
            self._blank += piece

    def _put_word(self) -> None:
        """Print the word after its blanks, or on a new line if it does not fit."""
        if self._word and self._width is not None:
            if self._column and self._column + cell_len(self._blank + self._word) > self._width:
                self._put("\n")
                self._blank = ""
            self._put(self._blank + self._word)
            self._blank = self._word = ""

    def _put(self, text: str) -> None:
        sys.stdout.write(text)
        _, line_break, last_line = text.rpartition("\n")
        self._column = cell_len(last_line) + (0 if line_break else self._column)
        if self._width is not None and self._column > self._width:
            self._column %= self._width


def print_dim(text: str) -> None:
    """Print a note about an answer to stderr, dimmed if that is a terminal."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False, markup=False, emoji=False).print(Text(text, "dim"))
    else:
        print_note(text)


def render_figures(sources: JsonObject | None, done: JsonObject, *, memory: str) -> str:
    """Return one line: how many memories and tokens an answer used, how long that took, and the model.

    `sources` and `done` are the data of the events with these names.
    """
    parts = [f"model {to_line(str(done['model']))}"]
    if sources is not None:
        context, count = sources["context"], _count_memories(sources)
        used = {0: "no memories", 1: "1 memory"}.get(count, f"{count:,} memories")
        tokens = [render_count(context["tokens"], "token")] if context["tokens"] else []  # none without a model
        parts[:0] = (
            ["memory off", *tokens] if memory == "off" else [f"used {used}", *tokens, f"context {context['ms']:.0f} ms"]
        )
        if context["degraded"]:
            parts.append("degraded: " + ", ".join(to_line(str(name)) for name in context["degraded"]))
    return " · ".join(parts)


def _count_memories(sources: JsonObject) -> int:
    """Return how many messages an answer rests on, without the question. Lines of the profile count one each."""
    ids = [source.get("message_id") for source in sources["sources"]]
    question_id = (sources["message"] or {}).get("id")
    return len({each for each in ids if each is not None} - {question_id}) + ids.count(None)


def render_ending(done: JsonObject, *, memory: str, has_text: bool) -> str | None:
    """Return why an answer ended early and what is stored of it; None if it did not end early."""
    error = done["error"]
    if error is None and not done["stopped"]:
        return None
    why = "stopped" if error is None else f"error: {to_line(str(error['message']))} [{to_line(str(error['code']))}]"
    if memory != "on":
        stored = "nothing is stored"
    elif done["message"] is not None:
        stored = "the answer is stored as far as it came"
    elif has_text and error is not None:
        stored = "your message is stored, the answer is not"
    else:
        stored = "your message is stored"
    return f"{why} · {stored}" + ("" if error is None else " · /retry asks again")
