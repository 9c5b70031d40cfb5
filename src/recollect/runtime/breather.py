"""Lets other threads have the interpreter while a long computation runs on a thread."""

from __future__ import annotations

import time
from typing import Final

WORK_SECONDS: Final = 0.0005  # of computing before other threads get a turn
PAUSE_SECONDS: Final = 0.00005  # of each turn of the other threads, at least


class Breather:
    """A function to call often from a long computation. It sleeps for a moment now and then.

    Without it, other threads get the interpreter lock only every few milliseconds. Storing a message needs it several
    times.
    """

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def __call__(self) -> None:
        if time.perf_counter() - self._since > WORK_SECONDS:
            time.sleep(PAUSE_SECONDS)
            self._since = time.perf_counter()
