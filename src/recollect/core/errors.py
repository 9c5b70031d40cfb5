"""The one tree of exceptions that callers see.

Every error carries a stable `code` (what happened, for programs) and `retryable` (whether the same
call may succeed later). Drivers and providers translate their own exceptions where they enter.
"""

from __future__ import annotations


class RecollectError(Exception):
    """Base of everything Recollect raises on purpose."""

    retryable = False
    explanation = ""  # what a provider said about it; for the one who asked, never for a log

    def __init__(self, code: str, message: str, *, retryable: bool | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        if retryable is not None:
            self.retryable = retryable

    @property
    def full_message(self) -> str:
        """Return the message with the provider's own explanation, for the one who asked."""
        return f"{self.message} It says: {self.explanation}" if self.explanation else self.message

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class InvalidInput(RecollectError):
    """The caller's arguments cannot be stored or answered; nothing was changed."""


class NotFound(RecollectError):
    """No such thing for this principal. Other people's things are not found either."""


class Conflict(RecollectError):
    """The request contradicts what is already stored."""


class Denied(RecollectError):
    """The principal may not do this."""


class StoreUnavailable(RecollectError):
    """The database cannot serve this now; nothing was acknowledged."""

    retryable = True


class ProviderUnavailable(RecollectError):
    """A model or embedder did not answer usefully."""

    retryable = True


def question_erased() -> Conflict:
    """Return the error for an answer that is not stored, because what it answers was erased meanwhile."""
    message = "The question was erased while its answer was being written. The answer is not stored."
    return Conflict("question_erased", message)
