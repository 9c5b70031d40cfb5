"""Does derived work for commands: all of it with its progress, or the newest messages' before a question."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from recollect.cli.display import count_bar, print_note, render_count, spinner
from recollect.core.errors import RecollectError
from recollect.core.models import Done
from recollect.sync import Memory

QUICK_WORK_SECONDS: Final = 2.0
MAX_QUICK_MESSAGES: Final = 64  # if more wait, they are left to a worker
POLL_SECONDS: Final = 0.5  # between two updates of the bar
MIN_NOTED_MESSAGES: Final = 1000  # from so many missing messages on, progress is also noted where there is no bar
NOTE_SECONDS: Final = 15.0  # between two such notes
_PROGRESS_COUNTS: Final = ("counted", "embedded")  # the stats that count finished messages


def catch_up(memory: Memory, label: str = "Doing the derived work") -> Done:
    """Do all derived work that is missing, and show its progress under the label."""
    with show_progress(memory, label):
        return memory.drain()


def catch_up_new_messages(memory: Memory, *, quiet: bool = False) -> None:
    """Embed the messages that were added a moment ago, so that they are found by meaning too.

    This takes QUICK_WORK_SECONDS at most. If more than MAX_QUICK_MESSAGES wait, do nothing; a note says so
    unless `quiet`.
    """
    stats = memory.stats()
    missing = stats["messages"] - stats.get("embedded", 0)
    if 0 < missing <= MAX_QUICK_MESSAGES:
        with spinner("Searching"):
            memory.drain(timeout=QUICK_WORK_SECONDS, briefs=False)
    elif missing and "embedded" in stats and not quiet:
        waiting = f"{render_count(missing, 'message')} can be found by words only"
        print_note(f"note: {waiting}, until a worker has embedded them: `recollect worker --once`.")


def count_searchable(memory: Memory) -> tuple[int, int]:
    """Return how many of the person's messages can be found by words, and how many of them by meaning too."""
    stats = memory.stats()
    return stats["messages"], min(stats["messages"], stats.get("embedded", stats["messages"]))


def render_searchable(by_words: int, by_meaning: int) -> str:
    """Return what can be found in which way, as one sentence."""
    if by_meaning >= by_words:
        return f"All {render_count(by_words, 'message')} can be found by words and by meaning."
    meaning = f"{by_meaning:,} of them by meaning too" if by_meaning else "none of them by meaning yet"
    return f"{render_count(by_words, 'message')} can be found by words now, {meaning}."


@contextmanager
def show_progress(memory: Memory, label: str) -> Iterator[None]:
    """Show while the block runs how many of the person's messages are finished.

    On a terminal that is a bar. Elsewhere it is a note from time to time, if many messages are unfinished.
    """
    stop = threading.Event()
    with ExitStack() as display:
        is_terminal = sys.stderr.isatty()
        update = display.enter_context(count_bar(label)) if is_terminal else ProgressNotes(label).update
        updater = threading.Thread(target=_update_progress, args=(memory, update, stop), daemon=True)
        updater.start()
        try:
            yield
        finally:
            stop.set()
            updater.join()


class ProgressNotes:
    """Prints progress as lines, for logs and pipes: how many are done, of how many, and how long the rest may take."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._clock = label, clock
        self._first: tuple[float, int] | None = None  # when it was first looked, and how many were done then
        self._noted_at = clock()

    def update(self, done: int, total: int) -> None:
        """Print a note, if the last one is old enough and many are missing."""
        now = self._clock()
        if self._first is None:
            self._first = (now, done)
        if total - done < MIN_NOTED_MESSAGES or now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        print_note(f"{self._label}: {done:,} of {total:,}{self._estimate(now, done, total)}")

    def _estimate(self, now: float, done: int, total: int) -> str:
        first_at, first_done = self._first or (now, done)
        if done <= first_done:
            return ""
        return f", about {render_duration((total - done) * (now - first_at) / (done - first_done))} left"


def render_duration(seconds: float) -> str:
    """Return a duration as people say it: "40 seconds", "6 minutes", "3 hours"."""
    if seconds < 90:
        return render_count(max(1, round(seconds)), "second")
    return (
        render_count(round(seconds / 60), "minute") if seconds < 5400 else render_count(round(seconds / 3600), "hour")
    )


def _update_progress(memory: Memory, update: Callable[[int, int], None], stop: threading.Event) -> None:
    while not stop.wait(POLL_SECONDS):
        try:
            stats = memory.stats()
        except RecollectError:
            return  # the display alone must not fail the command
        update(min(stats[name] for name in _PROGRESS_COUNTS if name in stats), stats["messages"])
