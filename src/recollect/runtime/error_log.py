"""Errors that nobody foresaw, in a log: where they happened, never what they say, which may be somebody's words."""

from __future__ import annotations

import logging
import traceback


def log_unexpected(log: logging.Logger, what: str, error: BaseException) -> None:
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed unexpectedly: %s\n%s", what, type(error).__name__, frames)
