"""Ends running answers at SIGTERM and SIGINT, so that their listeners get the last event before connections close."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from recollect.chat.chats import Chats

ANSWER_GRACE_SECONDS: Final = 1.5  # for an answer to end by itself
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def end_answers_on_signal(chats: Chats) -> Iterator[None]:
    """Close `chats` when a signal comes, then call the handler that was there before.

    Outside the main thread this does nothing: Python handles signals only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    earlier_handlers = {number: signal.getsignal(number) for number in _SIGNALS}

    def close_chats() -> None:
        tasks.add(loop.create_task(chats.close(ANSWER_GRACE_SECONDS)))

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(close_chats)
        handler = earlier_handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in earlier_handlers.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)
