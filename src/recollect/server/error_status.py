"""Chooses the HTTP status of an error, and when the request may be repeated, for every form of answer."""

from __future__ import annotations

from typing import Final

from recollect.core.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    ProviderUnavailable,
    RecollectError,
    StoreUnavailable,
)

_STATUS_BY_ERROR: Final = (
    (InvalidInput, 422), (NotFound, 404), (Conflict, 409), (Denied, 403), (StoreUnavailable, 503),
    (ProviderUnavailable, 502),
)  # fmt: skip
_STATUS_BY_CODE: Final = {  # codes whose status differs from that of their error class
    "content_too_large": 413, "metadata_too_large": 413, "profile_too_large": 413, "body_too_large": 413,
    "budget_too_small": 409, "invalid_period": 409, "provider_timeout": 504, "provider_rate_limited": 429,
}  # fmt: skip


def status_of(error: RecollectError) -> int:
    """Return the HTTP status for an error: by its code, else by its class, else 500."""
    if error.code in _STATUS_BY_CODE:
        return _STATUS_BY_CODE[error.code]
    return next((status for kind, status in _STATUS_BY_ERROR if isinstance(error, kind)), 500)


def retry_headers(error: RecollectError) -> dict[str, str]:
    """Return when to repeat the request, for an error that passes: in as many seconds as a model asked for, else 1."""
    seconds = getattr(error, "retry_after", None)
    return {"Retry-After": str(max(1, int(seconds or 1)))} if status_of(error) in (429, 503) else {}
