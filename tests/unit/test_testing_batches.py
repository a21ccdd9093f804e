"""Batch jobs in the test kit: inline, in memory, captured; and what metrics and spans tell of them (rules L3, P4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from redisjobs import App, BatchCall, BatchContext, Limit, Snooze
from redisjobs.base.envelope import Envelope
from redisjobs.lane import Observers
from redisjobs.monitoring.attempts import Attempts
from redisjobs.monitoring.worker_figures import _of_attempts
from redisjobs.spans import Spans
from redisjobs.testing import Died, Inline, Retried, Snoozed, Succeeded, capture, in_memory, run, run_batch
from tests.support.metrics import told
from tests.support.stage import Stage, delivery
from tests.support.tracing import Traces, tracing


@dataclass(frozen=True)
class Doc:
    id: int


app = App("search")
seen: list[list[int]] = []


@app.batch_job(size=3, within=60, result_ttl=60, retry=[5], max_attempts=2)
async def index(ctx: BatchContext, calls: list[BatchCall[Doc]]) -> list[int]:
    seen.append([each.argument.id for each in calls])
    if 9 in seen[-1]:
        raise ValueError("poison")
    for each in calls:
        if each.argument.id < 0:
            each.fail(KeyError(each.argument.id))
    return [10 * each.argument.id for each in calls]


@app.batch_job(key=lambda doc: doc.id)
def nap(calls: list[BatchCall[Doc]]) -> None:
    raise Snooze(len(calls))


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


async def test_one_call_runs_inline_as_a_batch_of_its_own_without_waiting() -> None:
    assert await run(index, Doc(1)) == Succeeded(10)
    assert await run(nap, Doc(1)) == Snoozed(1)
    assert seen == [[1]]


async def test_calls_run_inline_in_batches_of_their_size_and_each_has_its_outcome() -> None:
    found = await run_batch(index, [Doc(1), Doc(-2), Doc(3), Doc(4)])
    assert found == [Succeeded(10), Retried(5), Succeeded(30), Succeeded(40)]
    assert isinstance(found[1], Retried)
    assert repr(found[1].error) == "KeyError(-2)"
    assert seen == [[1, -2, 3], [4]]
    assert await run_batch(index, []) == []


async def test_a_poison_call_fails_alone_inline_too() -> None:
    found = await Inline(attempt=2).run_batch(index, [Doc(8), Doc(9), Doc(10)])
    assert found == [Succeeded(80), Died(), Succeeded(100)]
    assert seen == [[8, 9, 10], [8, 9], [10], [8], [9]]


async def test_the_error_of_a_call_can_be_raised_as_it_was() -> None:
    with pytest.raises(ValueError, match="poison") as raised:
        await Inline(raises=True).run_batch(index, [Doc(9)])
    assert raised.traceback[-1].name == "index"


async def test_what_is_captured_names_the_argument() -> None:
    with capture(app) as enqueued:
        await index.enqueue_direct(Doc(7))
        enqueued.assert_enqueued(index, argument=Doc(7))
        assert [each.outcomes for each in await enqueued.run()] == [[Succeeded(70)]]


async def test_a_world_fills_batches_without_waiting_for_their_time() -> None:
    async with in_memory(app) as world:
        async with world.connect() as connection:
            handles = await app.enqueue(connection, [index.call(Doc(n)) for n in (1, 2, -3, 4, 5, 6, 7)])
        await world.settle()
        assert seen == [[1, 2, -3], [4, 5, 6], [7]]
        assert Counter(world.state(each).state for each in handles) == {"done": 6, "retrying": 1}
        await world.advance(6)
        assert world.state(handles[2]).state == "dead"
        assert seen[3:] == [[-3]]


async def test_a_world_lets_calls_of_a_limited_queue_wait_for_their_limit_and_for_nothing_else() -> None:
    limited = App("limited", queue_limits={"narrow": Limit(2)})
    ran: list[int] = []

    @limited.batch_job(queue="narrow", size=100, within=600)
    async def narrow(calls: list[BatchCall[int]]) -> None:
        ran.append(len(calls))

    async with in_memory(limited) as world:
        async with world.connect() as connection:
            handles = await limited.enqueue(connection, [narrow.call(n) for n in range(5)])
        await world.settle()
        assert {world.state(each).state for each in handles} == {"done"}
    assert sum(ran) == 5
    assert max(ran) <= 2


@pytest.mark.parametrize(("after", "before"), [("take", None), (None, "finish")])
async def test_calls_of_a_worker_that_dies_while_they_gather_or_run_end_once_and_uncounted(
    after: str | None, before: str | None
) -> None:
    async with in_memory(app, concurrency=2, visibility_timeout=10) as world:
        async with world.connect() as connection:
            handles = await app.enqueue(connection, [index.call(Doc(n)) for n in (1, 2, 3, 4)])
        world.faults.crash_worker(after=after, before=before)
        await world.settle()
        await world.advance(60)
        assert [(world.state(each).state, world.state(each).attempts) for each in handles] == [("done", 1)] * 4


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    made.lane.send = lambda attempt: made.lane.forget(attempt, "ok")

    @made.app.batch_job(name="index", size=2, within=60)
    async def index(calls: list[BatchCall[int]]) -> None: ...

    yield made
    made.runner.close()


async def batch(stage: Stage, job: str = "index", **fields: str) -> None:
    packed = Envelope(job, "json", b'{"argument": 1}', **fields)  # type: ignore[arg-type]
    for attempt in [stage.begin(delivery(packed)) for _ in range(2)]:
        await stage.end(attempt)


async def test_attempts_are_counted_by_call_and_batches_by_their_size(stage: Stage) -> None:
    counted = stage.lane.observer = Attempts(stage.app.jobs)
    for _ in range(3):
        await batch(stage)
    found = told(_of_attempts(counted))
    assert found.value("redisjobs_attempts_started_total", job_name="index") == 6
    assert found.counts("redisjobs_attempts_ended_total", "outcome", job_name="index") == {"succeeded": 6}
    assert found.value("redisjobs_process_duration_seconds_count", job_name="index") == 6
    assert found.value("redisjobs_batch_calls_count", job_name="index") == 3
    assert found.value("redisjobs_batch_calls_sum", job_name="index") == 6


async def test_jobs_without_batches_have_no_figure_of_them(stage: Stage) -> None:
    counted = stage.lane.observer = Attempts(stage.app.jobs)

    @stage.app.job(name="plain")
    async def plain() -> None: ...

    await stage.run("plain")
    assert [each.name for each in _of_attempts(counted) if "batch" in each.name] == []


@pytest.fixture
def traces() -> Iterator[Traces]:
    with tracing() as made:
        yield made


async def test_each_call_has_its_span_and_the_body_one_that_is_linked_to_them(stage: Stage, traces: Traces) -> None:
    tracer = traces.provider.get_tracer("test")
    counted = Attempts(stage.app.jobs)
    stage.lane.observer = Observers(counted, Spans(tracer, "w1"))

    @stage.app.batch_job(name="traced", size=2, within=60)
    async def traced(calls: list[BatchCall[int]]) -> None:
        with tracer.start_as_current_span("inside"):
            pass

    await batch(stage, "traced", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    calls = [each for each in traces.document() if each["name"] == "process default"]
    [body] = [each for each in traces.document() if each["name"] == "batch default"]
    [inside] = [each for each in traces.document() if each["name"] == "inside"]
    assert len(calls) == 2
    assert {each.parent.span_id for each in traces.ended("process default") if each.parent} == {0xB7AD6B7169203331}
    assert sorted(body["links"]) == sorted(each["is"] for each in calls)
    assert body["attributes"]["messaging.batch.message_count"] == 2
    assert inside["child_of"] == body["is"]
    assert told(_of_attempts(counted)).value("redisjobs_batch_calls_sum", job_name="traced") == 2
