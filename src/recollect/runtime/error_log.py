"""Logs unexpected errors: their type and where they happened, never their message, which may quote a person."""

from __future__ import annotations

import logging
import traceback


def log_unexpected(log: logging.Logger, action: str, error: BaseException) -> None:
    """Log the error's type and stack. `action` names what failed."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed unexpectedly: %s\n%s", action, type(error).__name__, frames)
