"""What OpenTelemetry shows of a job on its road (rules P4, O2, W3, W11)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace

from redisjobs.context import Context
from tests.stories.road import Road
from tests.support.eventually import eventually
from tests.support.tracing import Traces, tracing


@pytest.fixture
def traces() -> Iterator[Traces]:
    """OpenTelemetry is set up, as a program does it before its worker starts."""
    with tracing() as made:
        yield made


async def test_a_job_with_one_retry_is_a_trace_of_its_first_attempt_and_a_linked_one(road: Road, traces: Traces):
    tracer = trace.get_tracer("shop")

    @road.app.job(name="charge", queue="pay", retry=[0.01], max_attempts=3)
    async def charge(ctx: Context, amount: int) -> None:
        with tracer.start_as_current_span("ask the bank"):
            if ctx.attempt == 1:
                raise ConnectionError("the bank does not answer")

    worker = await road.work(queues=["pay"], worker_id="crane-7")
    with tracer.start_as_current_span("place the order"), road.connect() as connection:
        job = charge.using(tenant="acme").enqueue(connection, amount=5)
    await road.reaches("done", job)
    await eventually(lambda: len(traces.ended()) == 6, "every span has ended")
    del worker

    document = traces.document()
    (failed,) = [each for each in document if each["status"][0] == "ERROR" and each["kind"] == "CONSUMER"]
    stack = failed["events"][0][1].pop("exception.stacktrace")
    assert stack.endswith("ConnectionError: the bank does not answer")
    for inner in document:
        if inner["kind"] == "INTERNAL":
            inner["events"], inner["status"] = [], ("", "")  # the program's own

    def attempt(number: int) -> dict[str, object]:
        return {
            "messaging.system": "redisjobs", "messaging.operation.name": "process",
            "messaging.operation.type": "process", "messaging.destination.name": "pay", "messaging.message.id": job.id,
            "messaging.client.id": "crane-7", "redisjobs.job": "charge", "redisjobs.attempt": number,
            "redisjobs.tenant_id": "acme",
        }  # fmt: skip

    def own(name: str, at: str, child_of: str | None) -> dict[str, object]:
        return {
            "name": name, "kind": "INTERNAL", "is": at, "child_of": child_of, "links": [], "attributes": {},
            "events": [], "status": ("", ""),
        }  # fmt: skip

    assert document == [
        own("place the order", "t1/s1", None),
        {
            "name": "send pay", "kind": "PRODUCER", "is": "t1/s2", "child_of": "t1/s1", "links": [],
            "attributes": {
                "messaging.system": "redisjobs", "messaging.operation.name": "send", "messaging.operation.type": "send",
                "messaging.destination.name": "pay", "messaging.message.id": job.id,
                "messaging.message.body.size": len('{"amount":5}'), "redisjobs.job": "charge",
            },
            "events": [], "status": ("UNSET", None),
        },
        {
            "name": "process pay", "kind": "CONSUMER", "is": "t1/s3", "child_of": "t1/s2", "links": [],
            "attributes": attempt(1) | {"redisjobs.outcome": "retried", "error.type": "ConnectionError"},
            "events": [
                ("exception", {"exception.type": "ConnectionError", "exception.message": "the bank does not answer"})
            ],
            "status": ("ERROR", "the bank does not answer"),
        },
        own("ask the bank", "t1/s4", "t1/s3"),
        {
            "name": "process pay", "kind": "CONSUMER", "is": "t2/s5", "child_of": None, "links": ["t1/s2"],
            "attributes": attempt(2) | {"redisjobs.outcome": "succeeded"}, "events": [], "status": ("UNSET", None),
        },
        own("ask the bank", "t2/s6", "t2/s5"),
    ]  # fmt: skip


async def test_what_a_body_enqueues_is_a_child_of_its_attempt(road: Road, traces: Traces):
    @road.app.job(name="child")
    def child() -> None:
        road.seen.append(trace.get_current_span().get_span_context().trace_id)

    @road.app.job(name="parent")
    async def parent() -> None:
        road.commit(child.call(), child.call())

    await road.work()
    road.commit(parent.call())
    await eventually(lambda: len(traces.ended("process default")) == 3, "all three have run")

    first, second = traces.ended("send default")
    assert (first.attributes or {})["redisjobs.job"] == "parent"
    assert (second.attributes or {})["messaging.batch.message_count"] == 2
    assert first.context is not None
    assert {span.context.trace_id for span in traces.ended() if span.context} == {first.context.trace_id}
    assert road.seen == [first.context.trace_id] * 2, "a thread has the span too"
    (ran,) = [span for span in traces.ended("process default") if (span.attributes or {})["redisjobs.job"] == "parent"]
    assert second.parent is not None
    assert ran.context is not None
    assert second.parent.span_id == ran.context.span_id
