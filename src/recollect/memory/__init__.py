"""AsyncMemory: the use cases, one mixin for each group.

A use case reads from the store, lets `core` decide, and makes one write. `recollect.sync.Memory` offers the same
methods without `await`.
"""

from __future__ import annotations

from recollect.memory.ask import AskMixin
from recollect.memory.brief import BriefMixin
from recollect.memory.client_history import ClientHistoryMixin
from recollect.memory.evaluate import EvaluateMixin
from recollect.memory.profile import ProfileMixin
from recollect.memory.topics import TopicsMixin


class AsyncMemory(ClientHistoryMixin, AskMixin, BriefMixin, TopicsMixin, ProfileMixin, EvaluateMixin):
    """A memory for one principal on one database.

    Use it as `async with AsyncMemory("chat.db") as memory`, or call `close()` at the end. It opens itself on first use.
    """
