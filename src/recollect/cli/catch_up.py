"""Does derived work for commands: all of it with a progress bar, or the newest messages' before a question."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from recollect.cli.display import count_bar, print_note, render_count, spinner
from recollect.core.errors import RecollectError
from recollect.core.models import Done
from recollect.sync import Memory

QUICK_WORK_SECONDS: Final = 2.0
MAX_QUICK_MESSAGES: Final = 64  # if more wait, they are left to a worker
POLL_SECONDS: Final = 0.5  # between two updates of the bar
_PROGRESS_COUNTS: Final = ("counted", "embedded")  # the stats that count finished messages


def catch_up(memory: Memory) -> Done:
    """Do all derived work that is missing."""
    with show_progress(memory, "Doing the derived work"):
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


@contextmanager
def show_progress(memory: Memory, label: str) -> Iterator[None]:
    """Show a bar while the block runs: how many of the person's messages are finished. Nothing if stderr is a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    stop = threading.Event()
    with count_bar(label) as set_progress:
        updater = threading.Thread(target=_update_bar, args=(memory, set_progress, stop), daemon=True)
        updater.start()
        try:
            yield
        finally:
            stop.set()
            updater.join()


def _update_bar(memory: Memory, set_progress: Callable[[int, int], None], stop: threading.Event) -> None:
    while not stop.wait(POLL_SECONDS):
        try:
            stats = memory.stats()
        except RecollectError:
            return  # the bar alone must not fail the command
        set_progress(min(stats[name] for name in _PROGRESS_COUNTS if name in stats), stats["messages"])
