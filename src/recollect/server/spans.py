"""Spans for OpenTelemetry, where it is installed and its usual variables say where they go. Never content or keys."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from recollect.core.models import JsonObject

WANTED: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
NAME: Final = "recollect"


def set_up() -> bool:
    """Send spans where the operator says. Without a word of his nothing is sent anywhere."""
    if not any(os.environ.get(name) for name in WANTED):
        return False
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return False
    provider = TracerProvider(resource=Resource.create({"service.name": NAME}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


@contextmanager
def request_span(method: str) -> Iterator[Any]:
    """Around a request; None where nobody listens."""
    try:
        from opentelemetry import trace
    except ImportError:
        yield None
        return
    with trace.get_tracer(NAME).start_as_current_span(
        method,
        kind=trace.SpanKind.SERVER,
        record_exception=False,  # what an error says may be somebody's words
        set_status_on_exception=False,
    ) as span:
        yield span


def note_request(span: Any, method: str, route: str, status: int) -> None:
    if span is not None and span.is_recording():
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": status})


def note_answer(done: JsonObject) -> None:
    """An answer that has ended, in the words of the conventions for generative models."""
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
    began = ended - int(done["ms"]["total"] * 1_000_000)
    span = trace.get_tracer(NAME).start_span(f"chat {done['model']}", start_time=began, attributes=attributes)
    span.end(end_time=ended)
