"""Formats logs for people or as JSON, for the server and the worker beside it."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime
from typing import Any, Final

_STANDARD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLogFormatter(logging.Formatter):
    """Formats each record as one line of JSON: time, level, logger, event, and the record's extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Of an exception only the class is logged: its text may quote a message."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainLogFormatter(logging.Formatter):
    """Formats each record as one line of text for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Of an exception only the class is logged: its text may quote a message."""
        extra = {
            name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS and value is not None
        }
        fields = " ".join(f"{name}={value}" for name, value in extra.items())
        error = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] is not None else ""
        time = self.formatTime(record, "%H:%M:%S")
        return f"{time} {record.levelname.lower():7} {record.getMessage()} {fields}{error}"


def set_up_logs(*, as_json: bool, level: str) -> None:
    """Send all logs of this process to stderr: ours from `level` on, those of libraries from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter() if as_json else PlainLogFormatter())
    logging.getLogger().handlers[:] = [handler]
    for name, lowest_level in (("", "WARNING"), ("recollect", level.upper()), ("uvicorn", "WARNING")):
        logging.getLogger(name).setLevel(lowest_level)
