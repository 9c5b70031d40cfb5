"""Waits for calls that must end although something else never does.

A test that measures how long such a call takes fails on a busy machine. Here the other thing never ends by itself, so
a call that waited for it would never return. The limit only says when to give up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

GIVE_UP_SECONDS: Final = 300.0  # much longer than a busy machine needs
# As good as never for the call that is checked. It does end, so that the clean-up after a failed test does, too.
NEVER_SECONDS: Final = 3 * GIVE_UP_SECONDS


def run_to_end(call: Callable[[], T], seconds: float = GIVE_UP_SECONDS) -> T:
    """Run a call on a thread of its own. Return its result or raise its error. Fail if it does not end."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"it did not end within {seconds:g} seconds"
    if errors:
        raise errors[0]
    return results[0]
