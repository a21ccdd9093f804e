"""OpenTelemetry as a program sets it up, for one test: what its spans came to, with short names for their ids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Traces:
    """The spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def add(self, processor: SpanProcessor) -> None:
        self.provider.add_span_processor(processor)

    def ended(self, name: str | None = None) -> list[ReadableSpan]:
        """In the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if name in (None, span.name)]

    def document(self) -> list[dict[str, Any]]:
        """All of them in full, save for times: ids are numbered in the order in which they appear."""
        numbers: dict[tuple[str, int], str] = {}

        def place(context: Any) -> str | None:
            if context is None:
                return None
            traced = numbers.setdefault(("trace", context.trace_id), f"t{sum(k == 'trace' for k, _ in numbers) + 1}")
            span = numbers.setdefault(("span", context.span_id), f"s{sum(k == 'span' for k, _ in numbers) + 1}")
            return f"{traced}/{span}"

        return [
            {
                "name": span.name,
                "kind": span.kind.name,
                "is": place(span.context),
                "child_of": place(span.parent),
                "links": [place(link.context) for link in span.links],
                "attributes": dict(span.attributes or {}),
                "events": [(each.name, dict(each.attributes or {})) for each in span.events],
                "status": (span.status.status_code.name, span.status.description),
            }
            for span in sorted(self.ended(), key=lambda each: each.start_time or 0)
        ]


@contextlib.contextmanager
def tracing() -> Iterator[Traces]:
    """Inside the block the program's tracer provider is this one; outside it has none."""
    made = Traces()
    _set(made.provider)
    try:
        yield made
    finally:
        _set(None)
        made.provider.shutdown()


def _set(provider: TracerProvider | None) -> None:
    module: Any = trace  # a program can set it once; a test takes it back
    module._TRACER_PROVIDER = provider
