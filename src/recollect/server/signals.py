"""SIGTERM while answers are being written: they come to an end at once, so that their listeners hear it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from recollect.chat.chats import Chats

PATIENCE: Final = 1.5  # seconds that an answer has to end by itself
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def hurried_by_signals(chats: Chats) -> Iterator[None]:
    """Whoever handles the signals goes on doing so. In a thread there are none to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def hurry() -> None:
        tasks.add(loop.create_task(chats.close(PATIENCE)))

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(hurry)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)
