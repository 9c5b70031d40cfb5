"""The check of growth: quadratic work is caught, linear work passes, however fast the machine is."""

from __future__ import annotations

import re
import threading
import time
from contextlib import nullcontext
from itertools import count

import pytest

from support.growth import assert_linear, count_calls

QUADRATIC = "grows faster than its input"


class ManualClock:
    """A clock that moves only when it is told how much work was done."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def work(self, seconds: float) -> None:
        self.seconds += seconds


def count_words(text: str) -> int:
    return len(re.findall(r"\w+", text))


def remove_trailing_blanks(text: str) -> str:
    return re.sub(r" +$", "", text)  # quadratic: tries to end a run of blanks at each of its blanks


def make_words(n: int) -> str:
    return "word " * n


def make_blanks(n: int) -> str:
    return " " * n + "x"


def test_a_linear_function_passes() -> None:
    assert_linear(count_words, make_words, 20_000)


def test_a_quadratic_function_is_caught() -> None:
    with pytest.raises(AssertionError, match=QUADRATIC):
        assert_linear(remove_trailing_blanks, make_blanks, 500)


def test_a_quadratic_function_on_another_thread_is_caught_by_the_clock_of_the_process() -> None:
    def run(blanks: str) -> None:
        thread = threading.Thread(target=remove_trailing_blanks, args=(blanks,))
        thread.start()
        thread.join()

    with pytest.raises(AssertionError, match=QUADRATIC):
        assert_linear(run, make_blanks, 500, clock=time.process_time)


@pytest.mark.parametrize("speed", [1e-9, 1e-6, 1e-3, 1.0])
def test_the_speed_of_the_machine_does_not_matter(speed: float) -> None:
    clock = ManualClock()
    assert_linear(lambda n: clock.work(speed * n), lambda n: n, 1000, clock=clock)
    with pytest.raises(AssertionError, match=QUADRATIC):
        assert_linear(lambda n: clock.work(speed * n * n), lambda n: n, 1000, clock=clock)


def test_a_small_quadratic_share_of_linear_work_is_caught() -> None:
    clock = ManualClock()
    with pytest.raises(AssertionError, match=QUADRATIC):
        assert_linear(lambda n: clock.work(0.75 * n + 0.25 * n * n / 1000), lambda n: n, 1000, clock=clock)


def test_a_wait_is_no_work() -> None:
    """A busy machine makes a test wait. Only time on the processor counts."""
    assert_linear(lambda seconds: time.sleep(seconds), lambda n: 0.02 if n > 200 else 0.0, 100)


def test_work_that_ends_at_a_limit_passes() -> None:
    clock = ManualClock()
    assert_linear(lambda n: clock.work(min(n, 10) * 1e-5), lambda n: n, 1, clock=clock)


def test_inputs_are_made_outside_the_measurement() -> None:
    clock = ManualClock()

    def make(n: int) -> int:
        clock.work(n * n)
        return n

    assert_linear(clock.work, make, 100, clock=clock)


@pytest.mark.parametrize(("disturbed_calls", "passes"), [(0, True), (1, True), (7, True), (8, False)])
def test_the_best_of_several_measurements_counts(disturbed_calls: int, passes: bool) -> None:
    """The first calls with the large input take twice as long as they should, which is eight times the small input."""
    clock, calls_with_large = ManualClock(), count()

    def run(n: int) -> None:
        clock.work(2 * n if n == 400 and next(calls_with_large) < disturbed_calls else n)

    with nullcontext() if passes else pytest.raises(AssertionError, match=QUADRATIC):
        assert_linear(run, lambda n: n, 100, clock=clock)


def test_calls_are_counted_to_the_last_one() -> None:
    def call(times: int) -> None:
        for _ in range(times):
            make_words(1)

    assert [count_calls(lambda n=n: call(n)) for n in (0, 1, 1000)] == [2, 3, 1002]
