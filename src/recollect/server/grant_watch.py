"""Ends long answers to callers whose key was revoked or has expired, or whose session has ended.

The guard checks a request once, when it comes. An answer may be sent for minutes after that. One task per process asks
the database again, once for each key or session that is in use, so it also notices what other processes did. A key with
the scope `act_as` counts once, however many persons it asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final

from recollect.admin.access import Access, Grant
from recollect.core.errors import Denied, RecollectError

POLL_SECONDS: Final = 0.5


class Watch:
    """Interrupts what is awaited inside `with watch:` when the grant is no longer good, and raises Denied there.

    Used again and again during one answer, as `asyncio.timeout` is. It costs nothing while the grant is good.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end, self._has_ended = on_end, False
        self._task: asyncio.Task[object] | None = None  # the one that is inside
        self._cancelling = 0  # how often it was cancelled by others before
        self._interrupted = False

    def end(self) -> None:
        """Interrupt what is inside, now or when it comes."""
        if not self._has_ended:
            self._has_ended = True
            self._on_end()
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    def __enter__(self) -> None:
        if self._has_ended:
            raise _access_ended()
        self._task = task = asyncio.current_task()
        self._cancelling = 0 if task is None else task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._interrupted and task is not None:
            self._interrupted = False
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise _access_ended() from None


class GrantWatcher:
    """Knows which keys and sessions have answers in progress in this process, and ends those of bad ones."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._watches: dict[tuple[str, bytes | None], set[Watch]] = {}  # by key and session
        self._polling: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, grant: Grant, on_end: Callable[[], None]) -> Iterator[Watch]:
        """Yield a watch on a grant, for as long as an answer to it is sent. `on_end` is called before it interrupts."""
        watch, credential = Watch(on_end), (grant.key, grant.session)
        self._watches.setdefault(credential, set()).add(watch)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll(), name="recollect-grants")
        try:
            yield watch
        finally:
            self._watches[credential].discard(watch)
            if not self._watches[credential]:
                del self._watches[credential]

    async def _poll(self) -> None:
        while self._watches:
            await asyncio.sleep(POLL_SECONDS)
            for credential in list(self._watches):
                with suppress(RecollectError):  # the database does not answer; it is asked again
                    if not await self._access.is_admitted(*credential):
                        for watch in list(self._watches.get(credential, ())):
                            watch.end()


def _access_ended() -> Denied:
    return Denied("access_ended", "The key or session of this request is no longer good, so its answer ends here.")
