"""One step of compression: what a writer gets to make the next version of a summary, and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from recollect.core.compression.brief import BriefBody
from recollect.core.compression.summary import Summary
from recollect.core.message import Message
from recollect.settings import Settings

MODEL_TIMED_OUT: Final = "timeout"  # the reason, where a model did not answer in time


@dataclass(frozen=True, slots=True)
class CompressionStep:
    """The last summary, the turns that go into the next one, and the settings that say how long it may be."""

    conversation: str
    old: Summary | None
    turns: Sequence[Sequence[Message]]
    version: int  # of the summary that is made, from 1
    zone: str
    now: datetime
    tokens: int  # of the turns
    settings: Settings
    ask_model: bool = True

    @property
    def messages(self) -> list[Message]:
        """Return the messages of all turns in order."""
        return [message for turn in self.turns for message in turn]


class Writer(Protocol):
    """Makes the next version of a summary. It may ask a model, but never fails for want of one."""

    async def write(self, step: CompressionStep, check: Callable[[], None]) -> BriefBody:
        """Return the next version. `check` is called now and then and may raise to end the work."""
        ...
