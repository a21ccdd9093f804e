"""OpenTelemetry on the producer's side. Where the program has not set it up, all of it is one look at a table."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeVar

from redisjobs.call import Call
from redisjobs.context import running

R = TypeVar("R")

SYSTEM = "redisjobs"
"""The `messaging.system` of every span."""

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")

_made: tuple[Any, Any] = (None, None)
"""The provider that a tracer was made by last, and the tracer."""


def tracer() -> Any:
    """The tracer of the provider that the program has set; None: it has set none, or has not imported OpenTelemetry."""
    global _made  # noqa: PLW0603 - a tracer is made once for each provider, of which a program has one
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    if _made[0] is not provider:
        _made = (provider, provider.get_tracer(SYSTEM, version("redisjobs-pg")))
    return _made[1]


def traceparent() -> str | None:
    """The W3C trace context of the current OpenTelemetry span, else that of the job that runs here."""
    trace = sys.modules.get("opentelemetry.trace")  # whoever has a span has imported it
    if trace is not None and (written := written_of(trace.get_current_span())) is not None:
        return written
    context = running.get()
    return None if context is None else context.traceparent


def trace_id(sent: object) -> str | None:
    """The trace that a log line belongs to: that of the current span, else that of the trace context sent along."""
    trace = sys.modules.get("opentelemetry.trace")
    written = None if trace is None else written_of(trace.get_current_span())
    found = _TRACEPARENT.match(written or (sent if isinstance(sent, str) else ""))
    return found[1] if found else None


def parts_of(sent: object) -> tuple[int, int, int] | None:
    """Trace, span and flags of a trace context as it travels with a job; None: it is none, whatever it is."""
    found = _TRACEPARENT.match(sent) if isinstance(sent, str) else None
    return None if found is None else (int(found[1], 16), int(found[2], 16), int(found[3], 16))


def written_of(span: Any) -> str | None:
    """The W3C trace context of a span; None: it has none."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def sending(calls: list[Call[R]]) -> AbstractContextManager[list[Call[R]]]:
    """Around what enqueues these calls, one at least: a span, and the calls with its trace context in them.

    One span for all of them. It tells that they were handed in, not that the transaction was committed.
    """
    found = tracer()
    return nullcontext(calls) if found is None else _sending(found, calls)


@contextmanager
def _sending(found: Any, calls: list[Call[R]]) -> Generator[list[Call[R]]]:
    trace = sys.modules["opentelemetry.trace"]
    queues = {call.queue for call in calls}
    name = f"send {calls[0].queue}" if len(queues) == 1 else "send"
    with found.start_as_current_span(
        name, kind=trace.SpanKind.PRODUCER, attributes=_attributes(calls, queues), record_exception=False,
        set_status_on_exception=False,
    ) as span:  # fmt: skip
        written = written_of(span)
        try:
            yield calls if written is None else [replace(call, traceparent=written) for call in calls]
        except BaseException as error:
            kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
            span.set_attribute("error.type", kind)
            span.set_status(trace.StatusCode.ERROR, kind)  # the text of a store's error may show the row
            raise


def _attributes(calls: Sequence[Call[Any]], queues: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    }
    if len(queues) == 1:
        made["messaging.destination.name"] = calls[0].queue
    if len({call.job for call in calls}) == 1:
        made["redisjobs.job"] = calls[0].job
    if len(calls) > 1:
        made["messaging.batch.message_count"] = len(calls)
    else:
        made["messaging.message.id"] = str(calls[0].id)
        made["messaging.message.body.size"] = len(calls[0].payload)
    return made
