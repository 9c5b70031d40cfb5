"""Figures for Prometheus, and logs for people or as lines of JSON. Never content or keys."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from recollect.core.models import JsonObject
from recollect.server import spans

MULTIPLE: Final = "PROMETHEUS_MULTIPROC_DIR"  # where several processes of one server put their figures together
_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_ANSWERS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_RECORD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class Figures:
    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self.requests = Counter("recollect_requests", "Requests", ["method", "route", "status"], registry=self._own)
        self.seconds = Histogram(
            "recollect_request_seconds",
            "How long requests took",
            ["route"],
            buckets=_QUICK,
            registry=self._own,
        )
        self.context = Histogram(
            "recollect_context_seconds",
            "How long contexts of chats took",
            buckets=_QUICK,
            registry=self._own,
        )
        self.first = Histogram(
            "recollect_first_token_seconds",
            "Until the first words of an answer",
            buckets=_ANSWERS,
            registry=self._own,
        )
        self.answers = Counter("recollect_answers", "Answers of chats", ["model", "outcome"], registry=self._own)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method if method.isascii() and method.isalpha() else "?", route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def answer(self, done: JsonObject) -> None:
        spans.note_answer(done)
        outcome = "error" if done["error"] else "stopped" if done["stopped"] else "ok"
        self.answers.labels("built-in" if done["model"] == "recollect" else "model", outcome).inc()
        if done["ms"]["context"] is not None:
            self.context.observe(done["ms"]["context"] / 1000)
        if done["ms"]["first"] is not None:
            self.first.observe(done["ms"]["first"] / 1000)

    def render(self) -> tuple[bytes, str]:
        """Of all processes of this server, if there are several."""
        registry = self._own
        if os.environ.get(MULTIPLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, what happened, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        told |= {name: value for name, value in record.__dict__.items() if name not in _RECORD}
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__  # not what it says: that may be somebody's words
        return json.dumps(told, ensure_ascii=False, default=str)


class Plain(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in record.__dict__.items() if name not in _RECORD and value is not None}
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        kind = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] is not None else ""
        return f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {record.getMessage()} {told}{kind}"


def set_up_logs(*, lines: bool, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if lines else Plain())
    logging.getLogger().handlers[:] = [handler]  # also for what asyncio and others have to say
    for name, least in (("", "WARNING"), ("recollect", level.upper()), ("uvicorn", "WARNING")):
        logging.getLogger(name).setLevel(least)
