"""The sizes of system prompts, which count for the token trigger of briefs.

A prompt is built in one process, and compressed is perhaps in another: `recollect serve` has a worker beside it. So the
number of tokens is stored, beside the other things that processes share, and nothing of the prompt itself. Rows are
written later, by the worker or the server, since no question waits for a commit. They run out after a week without a
prompt, and go with their conversation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from recollect.core.models import Principal
from recollect.core.protocols import Clock
from recollect.jobs.buffer import BufferedRows
from recollect.storage.server_state import KEEP_REQUESTS_FOR, PromptSize
from recollect.storage.store import SqlStore

MAX_KNOWN_SIZES: Final = 1024  # conversations whose size is known without a read
RENEWAL_INTERVAL: Final = timedelta(days=1)  # an unchanged size is written again so often, long before it runs out

_Key = tuple[str, str]  # person and conversation


class PromptSizes(BufferedRows[PromptSize]):
    """Notes and returns the tokens of each conversation's system prompt."""

    name = "prompt sizes"
    retention = KEEP_REQUESTS_FOR

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        async def keep_old(before: datetime) -> int:
            return 0  # `TidyStore` deletes them, with the other rows that run out

        super().__init__(clock, save=self._save_sizes, delete_old=keep_old)
        self._state = store.server_state
        self._known: OrderedDict[_Key, int] = OrderedDict()
        self._saved: OrderedDict[_Key, tuple[int, datetime]] = OrderedDict()

    def note(self, principal: Principal, conversation: str, tokens: int) -> None:
        """Note the size of a system prompt that was just used. It is written unless the store has it already."""
        key, now = (principal.person, conversation), self._clock.now()
        _keep(self._known, key, tokens)
        saved_tokens, saved_at = self._saved.get(key, (None, now))
        if saved_tokens != tokens or abs(now - saved_at) >= RENEWAL_INTERVAL:
            self._buffer(PromptSize(principal.person, conversation, tokens, now))

    async def get(self, principal: Principal, conversation: str) -> int:
        """Return the tokens of the conversation's last system prompt; 0 if none is known."""
        key = (principal.person, conversation)
        buffered = [size.tokens for size in self._rows if (size.person, size.conversation) == key]
        tokens = buffered[-1] if buffered else self._known.get(key)
        return await self._state.prompt_tokens(principal, conversation) if tokens is None else tokens

    def forget(self, person: str | None = None) -> None:
        """Forget the sizes that are kept in memory: all, or those of a person."""
        for sizes in (self._known, self._saved):
            for key in [key for key in sizes if person in (None, key[0])]:
                del sizes[key]

    async def _save_sizes(self, sizes: Sequence[PromptSize]) -> None:
        """Write the last size of each conversation. One whose conversation does not exist yet is noted again later."""
        newest = {(size.person, size.conversation): size for size in sizes}
        in_order = [newest[key] for key in sorted(newest)]  # all who lock several conversations go by their names
        saved = await self._state.save_prompt_sizes(in_order)
        for size in saved:
            _keep(self._saved, (size.person, size.conversation), (size.tokens, size.at))


def _keep(sizes: OrderedDict[_Key, int] | OrderedDict[_Key, tuple[int, datetime]], key: _Key, value: object) -> None:
    sizes[key] = value  # type: ignore[assignment]
    sizes.move_to_end(key)
    while len(sizes) > MAX_KNOWN_SIZES:
        sizes.popitem(last=False)
