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
GROWTH_SHARE: Final = 0.5  # a brief may grow by so much of the tokens that it takes out of the prompt


class DoesNotPay(Exception):
    """Raised where the next version would make prompts longer. It is put off until there are more turns."""

    def __init__(self, *, asked_model: bool = False) -> None:
        """`asked_model` says that it took the call of a model to find out."""
        super().__init__()
        self.asked_model = asked_model


@dataclass(frozen=True, slots=True)
class CompressionStep:
    """The last summary, the turns that go into the next one, and the settings that say how long it may be."""

    conversation: str
    old: Summary | None
    turns: Sequence[Sequence[Message]]
    version: int  # of the summary that is made, from 1
    zone: str
    now: datetime
    tokens: int  # of the turns that leave the prompt
    settings: Settings
    ask_model: bool = True
    must_pay: bool = False  # raise DoesNotPay instead of making prompts longer

    @property
    def messages(self) -> list[Message]:
        """Return the messages of all turns in order."""
        return [message for turn in self.turns for message in turn]

    @property
    def old_tokens(self) -> int:
        """Return the tokens of the last summary in a prompt."""
        return self.old.tokens if self.old is not None else 0

    @property
    def tokens_before(self) -> int:
        """Return the tokens that the next version replaces in a prompt: the last summary and the turns."""
        return self.old_tokens + self.tokens

    @property
    def max_tokens(self) -> int:
        """Return the tokens that the next version may have in a prompt, where it must pay."""
        return self.old_tokens + int(self.tokens * GROWTH_SHARE)


class Writer(Protocol):
    """Makes the next version of a summary. It may ask a model, but never fails for want of one."""

    async def write(self, step: CompressionStep, check: Callable[[], None]) -> BriefBody:
        """Return the next version. `check` is called now and then and may raise to end the work.

        Raise DoesNotPay if the step must pay and would not.
        """
        ...
