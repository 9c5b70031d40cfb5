"""Counts requests and answers for Prometheus. Never content or keys."""

from __future__ import annotations

import os
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from recollect.core.models import JsonObject
from recollect.server import spans

MULTIPROCESS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"  # names the folder in which all processes keep their figures
_REQUEST_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_ANSWER_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds


class ServerMetrics:
    """The Prometheus metrics of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "recollect_requests", "Requests", ["method", "route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "recollect_request_seconds",
            "How long requests took",
            ["route"],
            buckets=_REQUEST_BUCKETS,
            registry=self._registry,
        )
        self.context = Histogram(
            "recollect_context_seconds",
            "How long contexts of chats took",
            buckets=_REQUEST_BUCKETS,
            registry=self._registry,
        )
        self.first = Histogram(
            "recollect_first_token_seconds",
            "Until the first words of an answer",
            buckets=_ANSWER_BUCKETS,
            registry=self._registry,
        )
        self.refused_connections = Counter(
            "recollect_refused_connections",
            "Connections that ended before their request reached the server",
            ["code"],
            registry=self._registry,
        )
        self.answers = Counter("recollect_answers", "Answers of chats", ["model", "outcome"], registry=self._registry)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. Strange methods are counted as "?", so that callers cannot invent labels."""
        self.requests.labels(method if method.isascii() and method.isalpha() else "?", route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def observe_refused_connection(self, code: str) -> None:
        """Count a connection that was ended because of its size, its slowness or the number of connections."""
        self.refused_connections.labels(code).inc()

    def observe_answer(self, done: JsonObject) -> None:
        """Count an answer that has ended, and send its span. `done` has figures and names, no content."""
        spans.record_answer(done)
        outcome = "error" if done["error"] else "stopped" if done["stopped"] else "ok"
        self.answers.labels("built-in" if done["model"] == "recollect" else "model", outcome).inc()
        if done["ms"]["context"] is not None:
            self.context.observe(done["ms"]["context"] / 1000)
        if done["ms"]["first"] is not None:
            self.first.observe(done["ms"]["first"] / 1000)

    def render(self) -> tuple[bytes, str]:
        """Return the metrics and their media type; with several processes, the sum over all of them."""
        registry = self._registry
        if os.environ.get(MULTIPROCESS_VARIABLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST
