"""Recollect: a lossless memory for LLM chat applications."""

from recollect.core.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    ProviderUnavailable,
    RecollectError,
    StoreUnavailable,
)
from recollect.core.models import Conversation, Done, Imported, Message, Principal, Receipt
from recollect.engine import AsyncMemory
from recollect.providers.tokenizer import count_tokens, count_tokens_for_messages
from recollect.settings import Settings
from recollect.sync import Memory

__all__ = [
    "AsyncMemory",
    "Conflict",
    "Conversation",
    "Denied",
    "Done",
    "Imported",
    "InvalidInput",
    "Memory",
    "Message",
    "NotFound",
    "Principal",
    "ProviderUnavailable",
    "Receipt",
    "RecollectError",
    "Settings",
    "StoreUnavailable",
    "count_tokens",
    "count_tokens_for_messages",
]
