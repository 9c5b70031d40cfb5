"""Recollect: a lossless memory for LLM chat applications."""

from typing import TYPE_CHECKING

from recollect.core.compression.brief import Brief
from recollect.core.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    ProviderUnavailable,
    RecollectError,
    StoreUnavailable,
)
from recollect.core.message import Message
from recollect.core.models import (
    AuditEntry,
    Context,
    Conversation,
    Done,
    Hit,
    Imported,
    Principal,
    Recalled,
    Receipt,
    Restored,
    Similar,
)
from recollect.core.profile import Profile
from recollect.memory import AsyncMemory
from recollect.providers.token_counts import count_tokens, count_tokens_for_messages
from recollect.settings import Settings
from recollect.sync import Memory

__all__ = [
    "AsyncMemory",
    "AuditEntry",
    "Brief",
    "Conflict",
    "Context",
    "Conversation",
    "Denied",
    "Done",
    "Hit",
    "Imported",
    "InvalidInput",
    "Memory",
    "Message",
    "NotFound",
    "Principal",
    "Profile",
    "ProviderUnavailable",
    "Recalled",
    "Receipt",
    "RecollectError",
    "Restored",
    "Settings",
    "Similar",
    "StoreUnavailable",
    "count_tokens",
    "count_tokens_for_messages",
]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Return `__version__`, read from the installed metadata when it is first asked for."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        globals()[name] = version("recollect")
        return globals()[name]
