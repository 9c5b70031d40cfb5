"""Checks how the work of a function grows with its input, so that no test depends on how fast a machine is.

A bound in seconds fails on a slow machine and passes on a fast one. Here a function is measured at a size and at four
times that size, on the same machine and in the same moment. Linear work takes four times as long, quadratic work
sixteen times. Absolute times are printed by `python -m bench.limits`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

STEP: Final = 4  # how many times larger the large input is
MIN_SECONDS: Final = 0.005  # that the small input must take, so that the clock's steps and interrupts do not decide
MAX_SMALLER_STEPS: Final = 4  # sizes below the given one that are tried before it, each a quarter of the next
MAX_SIZE_FACTOR: Final = 16  # by which the small input may be enlarged until it takes that long
REPEATS: Final = (3, 5)  # measurements of each size: three, and five new ones if those are close to the limit
CLOSE: Final = 2.0  # up to so many times the limit is close to it


def assert_linear(
    run: Callable[[T], object],
    make: Callable[[int], T],
    n: int,
    *,
    factor: float = 6.0,
    clock: Callable[[], float] = time.thread_time,
) -> None:
    """Assert that `run` needs at most `factor` times as long for `make(4 * n)` as for `make(n)`.

    Processor time is compared, not time by the clock: `clock` is that of the calling thread. Pass
    `time.process_time` if the work is done on other threads. Inputs are made outside the measurement. The best of
    several measurements counts, so `run` must not answer from a cache when it meets an input again. `n` is doubled
    until the small input takes 5 ms. A function that stays below that (for example because it reads only the
    beginning) is compared with 5 ms. Smaller sizes are tried first, so that a quadratic function is caught before it
    takes minutes.
    """
    measure = _Measure(run, make, factor, clock)
    size = max(1, n // STEP**MAX_SMALLER_STEPS)
    run(make(size))  # compiles patterns and fills caches that live as long as the process
    seconds = measure.seconds(size)
    while size * STEP <= n:
        previous, seconds = seconds, measure.seconds(STEP * size)
        if seconds > CLOSE * factor * max(previous, MIN_SECONDS):
            measure.check(size)
        size *= STEP
    max_n = MAX_SIZE_FACTOR * n
    while measure.seconds(n) < MIN_SECONDS and n < max_n:
        n *= 2
    measure.check(n)


@dataclass(frozen=True)
class _Measure(Generic[T]):
    """The seconds that a function takes for inputs of some sizes."""

    run: Callable[[T], object]
    make: Callable[[int], T]
    factor: float
    clock: Callable[[], float]

    def seconds(self, n: int) -> float:
        return _seconds(self.run, self.make(n), self.clock)

    def check(self, n: int) -> None:
        """Raise AssertionError if four times the input takes too much longer, in the best of several measurements."""
        small, large = self.make(n), self.make(STEP * n)
        for repeats in REPEATS:
            small_seconds = min(_seconds(self.run, small, self.clock) for _ in range(repeats))
            limit = self.factor * max(small_seconds, MIN_SECONDS)
            large_seconds = float("inf")
            for _ in range(repeats):
                large_seconds = min(large_seconds, _seconds(self.run, large, self.clock))
                if large_seconds <= limit:  # more measurements could only lower it
                    return
            if large_seconds > CLOSE * limit:
                break
        raise AssertionError(
            f"work grows faster than its input: {1000 * small_seconds:.1f} ms at n = {n:,}, "
            f"{1000 * large_seconds:.1f} ms at {STEP} n, which is more than {self.factor:g} times as long"
        )


def count_calls(run: Callable[[], object]) -> int:
    """Return how many Python functions are called while `run` runs on this thread. The count is the same each time."""
    calls = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


def _seconds(run: Callable[[T], object], argument: T, clock: Callable[[], float]) -> float:
    with _no_garbage_collection():
        start = clock()
        run(argument)
        return clock() - start


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep the collector out of the measurement: its time depends on all other objects of the process."""
    was_enabled = gc.isenabled()
    gc.collect(0)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
