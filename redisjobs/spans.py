"""OpenTelemetry on the worker's side: a span for each body that runs. Needs opentelemetry-api."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags, Tracer

from redisjobs.context import Context
from redisjobs.lane import Attempt
from redisjobs.logs import event
from redisjobs.outcome import TOLD, Outcome
from redisjobs.record import describe
from redisjobs.tracing import SYSTEM, parts_of

log = logging.getLogger("redisjobs.attempt")


class Spans:
    """An observer that makes a span for each body, current while it runs, in threads too.

    The first start of a job is a child of the span that enqueued it. Every later one, a retry or after a fault,
    has a trace of its own, linked to that span: it may come days later, and be sampled by itself.

    Args:
        worker_id: names the worker in each span.
    """

    def __init__(self, tracer: Tracer, worker_id: str) -> None:
        self._tracer = tracer
        self._worker_id = worker_id
        self._open: dict[Attempt, Span] = {}

    def began(self, attempt: Attempt, context: Context) -> None:
        """Begin a span in the body's own context variables."""
        self._safely(lambda: self._begin(attempt, context))

    def ended(self, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
        """End it, with the outcome and the error that it came of."""
        span = self._open.pop(attempt, None)
        if span is not None:
            self._safely(lambda: _end(span, attempt, outcome, error))

    def answered(self, attempt: Attempt, word: str) -> None:
        """End that of a body which was given up before it ended."""
        if attempt in self._open:
            self.ended(attempt, Outcome("released" if word == "released" else "lost"), None)

    @contextmanager
    def batch(self, attempts: Sequence[Attempt]) -> Generator[None]:
        """A span that is current in the body of a batch, linked to those of its calls."""
        spans: list[Span] = []
        self._safely(lambda: spans.append(self._begin_batch(attempts)))
        try:
            yield
        finally:
            for span in spans:
                self._safely(span.end)

    def _begin_batch(self, attempts: Sequence[Attempt]) -> Span:
        queue = attempts[0].delivery.queue
        links = [Link(self._open[each].get_span_context()) for each in attempts if each in self._open]
        attributes = self._attributes_of(queue, attempts[0].job) | {"messaging.batch.message_count": len(attempts)}
        span = self._tracer.start_span(f"batch {queue}", contexts.Context(), SpanKind.INTERNAL, attributes, links)
        contexts.attach(trace.set_span_in_context(span))  # it goes with the task of this run
        return span

    def _begin(self, attempt: Attempt, context: Context) -> None:
        delivery, sent = attempt.delivery, _sent(context.traceparent)
        fresh = contexts.Context()
        parent, links = fresh, [] if sent is None else [Link(sent)]
        if sent is not None and delivery.start == 1 and delivery.number == 1:
            parent, links = trace.set_span_in_context(NonRecordingSpan(sent), fresh), []
        span = self._tracer.start_span(
            f"process {delivery.queue}", parent, SpanKind.CONSUMER, self._attributes(attempt, context), links
        )
        self._open[attempt] = span
        contexts.attach(trace.set_span_in_context(span))  # it goes with the task, whose variables are its own

    def _attributes(self, attempt: Attempt, context: Context) -> dict[str, Any]:
        made: dict[str, Any] = self._attributes_of(attempt.delivery.queue, attempt.job) | {
            "messaging.message.id": attempt.job_id,
            "redisjobs.attempt": context.attempt,
        }
        if context.tenant_id is not None:
            made["redisjobs.tenant_id"] = str(context.tenant_id)
        return made

    def _attributes_of(self, queue: str, job: str) -> dict[str, Any]:
        return {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": queue,
            "messaging.client.id": self._worker_id,
            "redisjobs.job": job,
        }

    def _safely(self, do: Callable[[], None]) -> None:
        """A processor or sampler of the program's own may raise; no job may suffer from that."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - see above
            event(log, logging.ERROR, "attempt.untraced", error=f"{type(error).__name__}: {error}")


def _end(span: Span, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
    span.set_attribute("redisjobs.outcome", TOLD[outcome.word])
    if outcome.word == "lost":
        span.set_attribute("error.type", "lease_lost")
        span.set_status(StatusCode.ERROR, "its lease was lost")
    elif error is not None and outcome.word in ("retry", "dead"):
        told = describe(error, attempt.delivery.attempts + 1, datetime.now(UTC))
        span.set_attribute("error.type", told["type"])
        span.add_event(
            "exception",
            {
                "exception.type": told["type"],
                "exception.message": told["message"],
                "exception.stacktrace": told["traceback"],
            },
        )
        span.set_status(StatusCode.ERROR, told["message"][:200])
    span.end()


def _sent(traceparent: str | None) -> SpanContext | None:
    """The span that enqueued a job, as its row names it."""
    parts = parts_of(traceparent)
    if parts is None:
        return None
    context = SpanContext(parts[0], parts[1], is_remote=True, trace_flags=TraceFlags(parts[2]))
    return context if context.is_valid else None
