"""Repeats failed calls to a provider, and stops calling a provider that keeps failing.

Owns the retry loop, the waits between attempts and the circuit breaker. Knows nothing of HTTP: an attempt is a function
that returns an answer or raises `AttemptFailed`. Clock, sleep and randomness are arguments.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from recollect.core.errors import ProviderUnavailable

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

FIRST_WAIT_SECONDS: Final = 0.5
MAX_WAIT_SECONDS: Final = 8.0
MAX_RETRY_AFTER_SECONDS: Final = 30.0  # a provider may ask for hours; callers retry sooner or give up


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for connecting, for one attempt, and for the whole call with its retries and waits."""

    connect: float = 5.0
    attempt: float = 60.0
    total: float = 120.0


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """The rules of a circuit breaker: after `failures` failures in a row it is open for `open_seconds`.

    While it is open, no attempt is made. After that, a single attempt probes whether the provider is back.
    """

    failures: int = 5
    open_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The sources of time and randomness. Tests replace them."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


DEFAULT_TIMEOUTS: Final = Timeouts()
DEFAULT_BREAKER: Final = BreakerSettings()
REAL_TIMING: Final = Timing()


class AttemptFailed(ProviderUnavailable):
    """A failed attempt. `retry_after` is the wait that the provider asked for, in seconds; `status` its HTTP status."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = True,
        retry_after: float | None = None,
        status: int | None = None,
        explanation: str = "",
    ) -> None:
        super().__init__(code, message, retryable=retryable)
        self.retry_after, self.status, self.explanation = retry_after, status, explanation


class CircuitBreaker:
    """Refuses attempts at a provider that keeps failing, and probes by itself whether it is back."""

    def __init__(self, settings: BreakerSettings, *, provider: str, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._provider = provider
        self._monotonic = monotonic
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Return True if attempts are refused, apart from a probe."""
        return self._opened_at is not None

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Admit one attempt or refuse it, and note its outcome.

        A refusal by the provider (not retryable) proves that it is there. A cancelled attempt proves nothing.
        """
        is_probe = self._admit()
        try:
            yield
        except AttemptFailed as error:
            if error.retryable:
                self._note_failure()
            else:
                self._close()
            raise
        else:
            self._close()
        finally:
            if is_probe:
                self._probing = False

    def note_answer(self) -> None:
        """Note that a streamed attempt got a good piece: other attempts need not wait until it has ended."""
        if self._opened_at is not None:
            self._close()

    def _admit(self) -> bool:
        """Admit an attempt or raise. Return True if the attempt is the probe of an open circuit."""
        if self._opened_at is None:
            return False
        wait = self._opened_at + self._settings.open_seconds - self._monotonic()
        if wait > 0 or self._probing:
            raise ProviderUnavailable(
                "provider_circuit_open",
                f"{self._provider} failed {self._failures} times in a row; it is tried again in {max(wait, 0):.0f} s.",
            )
        self._probing = True
        return True

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= self._settings.failures:
            if self._opened_at is None:
                log.warning("%s failed %d times in a row; resting", self._provider, self._failures)
            self._opened_at = self._monotonic()

    def _close(self) -> None:
        if self._opened_at is not None:
            log.info("%s answers again", self._provider)
        self._failures = 0
        self._opened_at = None


async def call_with_retries(
    attempt: Callable[[float], Awaitable[Answer]],
    *,
    retries: int,
    timeouts: Timeouts,
    breaker: CircuitBreaker,
    timing: Timing,
) -> Answer:
    """Call `attempt(seconds)` until it answers, is refused, or retries or time run out.

    The argument of `attempt` is how many seconds it may take.
    """
    deadline = timing.monotonic() + timeouts.total
    retried = 0
    while True:
        try:
            with breaker.attempt():
                return await attempt(min(timeouts.attempt, deadline - timing.monotonic()))
        except AttemptFailed as error:
            wait = _wait_seconds(retried, error.retry_after, timing.random())
            hopeless = not error.retryable or breaker.is_open or retried >= retries
            if hopeless or timing.monotonic() + wait >= deadline:
                raise
            retried += 1
            log.info("%s: trying again in %.1f s (%d of %d)", error.code, wait, retried, retries)
        await timing.sleep(wait)


def _wait_seconds(retried: int, retry_after: float | None, chance: float) -> float:
    """Return the wait before the next attempt: exponential, spread by chance so that callers do not retry together."""
    if retry_after is not None:
        return min(retry_after, MAX_RETRY_AFTER_SECONDS)
    step = min(FIRST_WAIT_SECONDS * 2.0**retried, MAX_WAIT_SECONDS)
    return step * (0.5 + 0.5 * chance)


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or an HTTP date; None if it is unusable."""
    if header is None:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
