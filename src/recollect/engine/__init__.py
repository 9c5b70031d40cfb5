"""AsyncMemory: the use cases. Each reads, decides in core, and makes one store write; `Memory` is its sync face."""

from __future__ import annotations

from recollect.engine.asking import Asking
from recollect.engine.briefing import Briefing
from recollect.engine.log import Log
from recollect.engine.measuring import Measuring
from recollect.engine.profile import Personal
from recollect.engine.topics import Topical


class AsyncMemory(Log, Asking, Briefing, Topical, Personal, Measuring):
    """A memory for one principal on one database.

    Use it as `async with AsyncMemory("chat.db") as memory`, or call `close()` at the end. It opens itself on first use.
    """
