"""How a call to a provider is repeated, and when it is not tried at all.

Owns the retry loop, the waits between attempts and the circuit breaker. Knows nothing of HTTP bodies or of any
client: an attempt is a function that answers or raises `AttemptFailed`. Clock, sleep and chance are arguments.
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

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 8.0
LONGEST_RETRY_AFTER: Final = 30.0  # a provider may ask for hours; callers come back sooner or give up


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to connect, for one attempt, and for the whole call with its retries and waits."""

    connect: float = 5.0
    attempt: float = 60.0
    total: float = 120.0


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """After `failures` failed attempts in a row nothing is tried for `rest` seconds; then one attempt is."""

    failures: int = 5
    rest: float = 30.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Where time and chance come from. Tests replace it."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


DEFAULT_TIMEOUTS: Final = Timeouts()
DEFAULT_BREAKER: Final = BreakerSettings()
REAL_TIMING: Final = Timing()


class AttemptFailed(ProviderUnavailable):
    """One attempt failed. `retry_after` is what the provider asked for, in seconds; `status` what it answered with."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = True,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(code, message, retryable=retryable)
        self.retry_after, self.status = retry_after, status


class CircuitBreaker:
    """Keeps callers away from a provider that keeps failing, and finds out by itself when it is back."""

    def __init__(self, settings: BreakerSettings, *, provider: str, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._provider = provider
        self._monotonic = monotonic
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._opened_at is not None

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Lets one attempt through, or refuses it, and learns from its outcome.

        A refusal by the provider (not retryable) proves that it is there. A cancelled attempt proves nothing.
        """
        probe = self._admit()
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
            if probe:
                self._probing = False

    def answered(self) -> None:
        """A long attempt got its first good piece: others need not wait until it has ended."""
        if self._opened_at is not None:
            self._close()

    def _admit(self) -> bool:
        """Whether the admitted attempt is the probe of an open circuit."""
        if self._opened_at is None:
            return False
        left = self._opened_at + self._settings.rest - self._monotonic()
        if left > 0 or self._probing:
            raise ProviderUnavailable(
                "provider_circuit_open",
                f"{self._provider} failed {self._failures} times in a row; it is tried again in {max(left, 0):.0f} s.",
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


async def call(
    attempt: Callable[[float], Awaitable[Answer]],
    *,
    retries: int,
    timeouts: Timeouts,
    breaker: CircuitBreaker,
    timing: Timing,
) -> Answer:
    """Runs `attempt(seconds it may take)` until it answers, is refused, or retries or time run out."""
    deadline = timing.monotonic() + timeouts.total
    tried = 0
    while True:
        try:
            with breaker.attempt():
                return await attempt(min(timeouts.attempt, deadline - timing.monotonic()))
        except AttemptFailed as error:
            wait = _wait(tried, error.retry_after, timing.random())
            hopeless = not error.retryable or breaker.is_open or tried >= retries
            if hopeless or timing.monotonic() + wait >= deadline:
                raise
            tried += 1
            log.info("%s: trying again in %.1f s (%d of %d)", error.code, wait, tried, retries)
        await timing.sleep(wait)


def _wait(tried: int, retry_after: float | None, chance: float) -> float:
    """Exponential, between half and all of the step, so that many callers do not come back together."""
    if retry_after is not None:
        return min(retry_after, LONGEST_RETRY_AFTER)
    step = min(FIRST_WAIT * 2.0**tried, LONGEST_WAIT)
    return step * (0.5 + 0.5 * chance)


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds from a Retry-After header: a number, or an HTTP date. None when it says nothing usable."""
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
