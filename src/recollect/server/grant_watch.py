"""Ends long answers to callers whose key was revoked or has expired, or whose session has ended.

The guard checks a request once, when it comes. An answer may be sent for minutes after that. One task per process asks
the database again, once for each key or session that is in use, so it also notices what other processes did. A key with
the scope `act_as` counts once, however many persons it asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from recollect.admin.access import Access, Grant
from recollect.core.errors import Denied, RecollectError
from recollect.runtime.interruption import Interruption

POLL_SECONDS: Final = 0.5


class GrantWatcher:
    """Knows which keys and sessions have answers in progress in this process, and ends those of bad ones."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._watches: dict[tuple[str, bytes | None], set[Interruption]] = {}  # by key and session
        self._polling: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, grant: Grant, on_end: Callable[[], None]) -> Iterator[Interruption]:
        """Yield what interrupts an answer to a grant that is no longer good, and raises Denied there.

        The grant is watched until the block ends. `on_end` is called before the answer is interrupted.
        """
        watch, credential = Interruption(_access_ended, on_end), (grant.key, grant.session)
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
