"""Recollect: a lossless memory for LLM chat applications."""

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
from recollect.core.models import (
    AuditEntry,
    Context,
    Conversation,
    Done,
    Hit,
    Imported,
    Message,
    Principal,
    Recalled,
    Receipt,
    Similar,
)
from recollect.core.profile import Profile
from recollect.memory import AsyncMemory
from recollect.providers.tokenizer import count_tokens, count_tokens_for_messages
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
    "Settings",
    "Similar",
    "StoreUnavailable",
    "count_tokens",
    "count_tokens_for_messages",
]
