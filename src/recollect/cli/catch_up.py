"""Derived work as commands do it: all of it with a bar, or a little before a question."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from recollect.cli.display import count_bar, counted, note, spinner
from recollect.core.errors import RecollectError
from recollect.core.models import Done
from recollect.sync import Memory

SHORTLY: Final = 2.0  # seconds of work before a question,
LITTLE: Final = 64  # if no more messages than these wait for it
LOOK: Final = 0.5  # seconds between two looks at how far the work is
_COUNTS: Final = ("counted", "embedded")  # what stats count of messages that are through


def catch_up(memory: Memory) -> Done:
    """All that is missing."""
    with watched(memory, "Doing the derived work"):
        return memory.drain()


def catch_up_shortly(memory: Memory, *, quietly: bool = False) -> None:
    """What was added a moment ago, so that it is found by meaning too. What has piled up is left to a worker."""
    found = memory.stats()
    missing = found["messages"] - found.get("embedded", 0)
    if 0 < missing <= LITTLE:
        with spinner("Looking"):
            memory.drain(timeout=SHORTLY, briefs=False)
    elif missing and "embedded" in found and not quietly:
        waiting = f"{counted(missing, 'message')} can be found by words only"
        note(f"note: {waiting}, until `recollect worker --once` is through.")


@contextmanager
def watched(memory: Memory, label: str) -> Iterator[None]:
    """A bar on stderr, if that is a terminal, that follows how many of the person's messages are through."""
    if not sys.stderr.isatty():
        yield
        return
    stop = threading.Event()
    with count_bar(label) as show:
        follower = threading.Thread(target=_follow, args=(memory, show, stop), daemon=True)
        follower.start()
        try:
            yield
        finally:
            stop.set()
            follower.join()


def _follow(memory: Memory, show: Callable[[int, int], None], stop: threading.Event) -> None:
    while not stop.wait(LOOK):
        try:
            found = memory.stats()
        except RecollectError:
            return  # a bar is not worth an error
        show(min(found[name] for name in _COUNTS if name in found), found["messages"])
