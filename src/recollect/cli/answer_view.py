"""How an answer is shown: its words as they come, and below them what they rest on or why they end."""

from __future__ import annotations

import re
import sys
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from recollect.cli.display import clean, console, counted, line, note
from recollect.core.models import JsonObject

HELD: Final = 24  # columns of a word that may still go on before it is shown; some scripts have no blanks
TAB: Final = 8
_PIECES: Final = re.compile(r"\n|[^\S\n]+|\S+")


class Flow:
    """Text on stdout as it comes: broken between words on a terminal, as it is in a pipe, and without power over it."""

    def __init__(self) -> None:
        target = console()
        self._width = target.width if target.is_terminal else None
        self._column = 0
        self._blank = self._word = self._held = ""

    def write(self, text: str) -> None:
        text, self._held = self._held + text, ""
        if text.endswith("\r"):  # the first half of a line break, perhaps
            text, self._held = text[:-1], "\r"
        shown = clean(text)
        if self._width is None:
            self._put(shown)
        else:
            for piece in _PIECES.findall(shown.expandtabs(TAB)):
                self._take(piece)
            if cell_len(self._word) > HELD:
                self._put_word()
        sys.stdout.flush()

    def end(self) -> None:
        """What was held back, and a line break if there is none."""
        self._put_word()
        self._put(clean(self._held))
        if self._column:
            self._put("\n")
        self._held = ""
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
        """The word behind its blanks, or on a new line if it does not fit."""
        if self._word and self._width is not None:
            if self._column and self._column + cell_len(self._blank + self._word) > self._width:
                self._put("\n")
                self._blank = ""
            self._put(self._blank + self._word)
            self._blank = self._word = ""

    def _put(self, text: str) -> None:
        sys.stdout.write(text)
        _, is_broken, last = text.rpartition("\n")
        self._column = cell_len(last) + (0 if is_broken else self._column)
        if self._width is not None and self._column > self._width:
            self._column %= self._width


def dim(text: str) -> None:
    """Something about an answer, beside it."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False, markup=False, emoji=False).print(Text(text, "dim"))
    else:
        note(text)


def figures(sources: JsonObject | None, done: JsonObject, *, memory: str) -> str:
    """What an answer rests on, in a line."""
    told = [f"model {line(str(done['model']))}"]
    if sources is not None:
        context, own = sources["context"], (sources["message"] or {}).get("id")
        count = sum(own is None or one.get("message_id") != own for one in sources["sources"])
        used = {0: "no memories", 1: "1 memory"}.get(count, f"{count:,} memories")
        tokens = counted(context["tokens"], "token")
        told[:0] = (
            ["memory off", tokens] if memory == "off" else [f"used {used}", tokens, f"context {context['ms']:.0f} ms"]
        )
        if context["degraded"]:
            told.append("degraded: " + ", ".join(line(str(name)) for name in context["degraded"]))
    return " · ".join(told)


def ending(done: JsonObject, *, memory: str, anything: bool) -> str | None:
    """Why an answer ended early, and what is stored; None if it did not."""
    error = done["error"]
    if error is None and not done["stopped"]:
        return None
    why = "stopped" if error is None else f"error: {line(str(error['message']))} [{line(str(error['code']))}]"
    if memory != "on":
        kept = "nothing is stored"
    elif done["message"] is not None:
        kept = "what came of the answer is stored"
    elif anything and error is not None:
        kept = "your message is stored, the answer is not"
    else:
        kept = "your message is stored"
    return f"{why} · {kept}" + ("" if error is None else " · /retry asks again")
