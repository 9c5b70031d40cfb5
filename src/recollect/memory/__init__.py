"""AsyncMemory: the use cases. Each reads, decides in core, and makes one store write; `Memory` is its sync face."""

from __future__ import annotations

from recollect.memory.ask import Asking
from recollect.memory.brief import Briefing
from recollect.memory.evaluate import Measuring
from recollect.memory.log import Log
from recollect.memory.profile import Personal
from recollect.memory.topics import Topical


class AsyncMemory(Log, Asking, Briefing, Topical, Personal, Measuring):
    """A memory for one principal on one database.

    Use it as `async with AsyncMemory("chat.db") as memory`, or call `close()` at the end. It opens itself on first use.
    """
