"""Sends OpenTelemetry spans of requests and answers, if it is installed and configured. Never content or keys."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from recollect.core.models import JsonObject

ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SERVICE_NAME: Final = "recollect"


def set_up() -> bool:
    """Send spans to the endpoint that the environment names. Return whether there is one; else nothing is sent."""
    if not any(os.environ.get(name) for name in ENDPOINT_VARIABLES):
        return False
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return False
    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE_NAME}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


@contextmanager
def request_span(method: str) -> Iterator[Any]:
    """Open a span around a request. Yields None if OpenTelemetry is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        yield None
        return
    with trace.get_tracer(SERVICE_NAME).start_as_current_span(
        method,
        kind=trace.SpanKind.SERVER,
        record_exception=False,  # the text of an error may quote a message
        set_status_on_exception=False,
    ) as span:
        yield span


def record_request(span: Any, method: str, route: str, status: int) -> None:
    """Name the span after the route, and set the attributes of an HTTP request."""
    if span is not None and span.is_recording():
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": status})


def record_answer(done: JsonObject) -> None:
    """Send the span of an answer that has just ended, with OpenTelemetry's names for generative models."""
    try:
        from opentelemetry import trace
    except ImportError:
        return
    ended = time.time_ns()
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": done["model"],
        "gen_ai.response.finish_reasons": [str(done["finish_reason"])],
        "recollect.context_ms": done["ms"]["context"] or 0.0,
        "recollect.first_ms": done["ms"]["first"] or 0.0,
    }
    if done["error"]:
        attributes["error.type"] = done["error"]
    started = ended - int(done["ms"]["total"] * 1_000_000)
    tracer = trace.get_tracer(SERVICE_NAME)
    span = tracer.start_span(f"chat {done['model']}", start_time=started, attributes=attributes)
    span.end(end_time=ended)
