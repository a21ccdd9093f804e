"""Spans at the edges: nothing set up, nothing sampled, errors, odd trace contexts, processors that raise (rule P4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from redisjobs import App
from redisjobs.base.envelope import Envelope
from redisjobs.errors import Retry, Snooze
from redisjobs.spans import Spans
from redisjobs.tracing import sending, tracer
from redisjobs.worker import Worker
from tests.support import tracing as support
from tests.support.eventually import eventually
from tests.support.stage import Stage, delivery
from tests.support.tracing import Traces, tracing

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def traces() -> Iterator[Traces]:
    with tracing() as made:
        yield made


@pytest.fixture
async def stage(traces: Traces) -> AsyncIterator[Stage]:
    made = Stage()
    made.lane.observer = Spans(tracer(), "w1")
    made.lane.send = lambda attempt: made.lane.forget(attempt, "ok")
    yield made
    made.runner.close()


def call_of(app: App):
    @app.job(name="mail", queue="post")
    async def mail(to: str) -> None: ...

    return mail.call(to="a@b.c")


def test_where_nothing_is_set_up_calls_go_as_they_are_and_workers_have_no_observer():
    call = call_of(App())
    assert tracer() is None
    with sending([call]) as sent:
        assert sent == [call]
    assert Worker(App())._observing() is None


def test_a_span_that_is_not_sampled_tells_the_job_so():
    support._set(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    try:
        with sending([call_of(App())]) as (sent,):
            assert sent.traceparent is not None
            assert int(sent.traceparent.rpartition("-")[2], 16) & 1 == 0
    finally:
        support._set(None)


def test_calls_of_several_queues_have_one_span_without_a_destination(traces: Traces):
    call = call_of(App())
    with sending([call, replace(call, queue="other")]) as sent:
        assert len({each.traceparent for each in sent}) == 1
    (span,) = traces.ended()
    assert span.name == "send"
    assert "messaging.destination.name" not in (span.attributes or {})


def test_an_error_is_told_by_its_kind_and_never_by_its_text(traces: Traces):
    with pytest.raises(ValueError, match="4111"), sending([call_of(App())]):
        raise ValueError("Failing row contains (4111-marker)")

    (span,) = traces.ended()
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert (span.status.status_code.name, span.status.description, span.events) == ("ERROR", "ValueError", ())


@pytest.mark.parametrize("given", [None, "", "00-xyz", f"00-{'0' * 32}-{'0' * 16}-01", SENT + "x", 7, b"x"])
async def test_an_attempt_without_a_readable_trace_context_begins_its_own(stage: Stage, traces: Traces, given: Any):
    @stage.app.job(name="add")
    async def add() -> None:
        raise Retry

    odd = Envelope("add", "json", b"{}", traceparent=given, tenant_id=given)
    assert (await stage.run(delivery(odd))).word == "retry"

    (span,) = traces.ended()
    assert (span.parent, list(span.links)) == (None, [])


@pytest.mark.parametrize("again", [{"start": 2, "attempts": 1}, {"start": 2, "losses": 1}, {"number": 2}])
async def test_every_start_but_the_first_has_a_trace_of_its_own_with_a_link(
    stage: Stage, traces: Traces, again: dict[str, Any]
):
    @stage.app.job(name="add")
    async def add() -> None: ...

    envelope = Envelope("add", "json", b"{}", traceparent=SENT)
    await stage.run(delivery(envelope))
    await stage.run(delivery(envelope, **again))

    first, second = traces.ended()
    assert first.parent is not None
    assert f"{first.parent.trace_id:032x}" == SENT.split("-")[1]
    assert second.parent is None
    assert [f"{link.context.span_id:016x}" for link in second.links] == [SENT.split("-")[2]]


async def test_ends_that_are_no_errors_have_no_error(stage: Stage, traces: Traces):
    @stage.app.job(name="later")
    async def later() -> None:
        raise Snooze(60)

    await stage.run("later")
    await stage.run("nobody")

    (span,) = traces.ended()
    assert ((span.attributes or {})["redisjobs.outcome"], span.status.is_unset) == ("snoozed", True)


async def test_a_span_of_one_attempt_is_not_current_in_another(stage: Stage, traces: Traces):
    seen: list[int] = []

    @stage.app.job(name="look")
    async def look() -> None:
        await asyncio.sleep(0)
        seen.append(trace.get_current_span().get_span_context().span_id)

    await asyncio.gather(*(stage.run("look") for _ in range(3)))

    assert len(set(seen)) == 3
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_body_given_up_before_it_ended_has_its_span_all_the_same(stage: Stage, traces: Traces):
    enough = asyncio.Event()

    @stage.app.job(name="stuck")
    async def stuck() -> None:
        await enough.wait()

    attempt = stage.begin("stuck")
    await eventually(lambda: attempt.began_at, "it runs")
    stage.lane.end(attempt, None)
    enough.set()
    await eventually(lambda: attempt.task is None, "it has ended")

    (span,) = traces.ended()
    assert (span.attributes or {})["error.type"] == "lease_lost"


async def test_a_processor_that_raises_costs_no_job(stage: Stage, traces: Traces, caplog: pytest.LogCaptureFixture):
    class Broken(SpanProcessor):
        def on_start(self, span: object, parent_context: object = None) -> None:
            raise RuntimeError("no room for a span")

    traces.add(Broken())

    @stage.app.job(name="add")
    async def add() -> None: ...

    assert (await stage.run("add")).word == "done"
    assert "attempt.untraced" in caplog.text
