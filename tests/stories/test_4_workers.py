"""What a fleet of workers does: deploys, drains, bursts, tenants (rules W1, W2, W4, W5, W10, W11; cases A20, J03)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time

import pytest

from redisjobs import Context, current
from redisjobs.worker import Worker
from tests.stories.road import Road
from tests.support.eventually import always, eventually

customer: contextvars.ContextVar[str] = contextvars.ContextVar("customer", default="nobody")


async def test_a_job_that_no_worker_knows_is_parked_until_a_release_knows_it(road: Road):
    new = road.another_app()

    @new.job
    async def invent() -> None:
        road.seen.append("ran")

    old_worker = await road.work()
    (job,) = road.commit(invent.call())
    await road.reaches("parked", job)
    assert old_worker.stats()["parked"] >= 1
    assert road.query("SELECT attempts, last_error FROM redisjobs.outbox") == [
        (0, "no job of this name is registered here")
    ]
    await road.work(new)
    await old_worker.stop(0)
    await road.reaches("done", job)
    assert road.seen == ["ran"]


async def test_a_stopped_worker_finishes_what_runs_and_takes_nothing_more(road: Road):
    go_on = asyncio.Event()

    @road.app.job
    async def work(ctx: Context, name: str) -> None:
        road.seen.append(f"{name} began")
        await ctx.draining.wait()
        await go_on.wait()
        road.seen.append(f"{name} ended")

    worker = await road.work(concurrency=1, visibility_timeout=30)
    first, second = road.commit(work.call(name="first"), work.call(name="second"))
    await eventually(lambda: road.seen == ["first began"], "the first runs")
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.state == "draining", "it drains")
    go_on.set()
    await stopping

    await road.reaches("done", first)
    assert [(line.job_id, line.fate) for line in worker.receipt.lines] == [(first, "finished")]
    assert road.seen == ["first began", "first ended"]
    await road.work(visibility_timeout=30)
    await eventually(lambda: road.seen[-1] == "second began", "another worker takes the second at once")
    assert road.state(second) == "published"


async def test_what_outlasts_the_grace_is_handed_back_uncounted_and_at_once(road: Road):
    @road.app.job(max_attempts=1)
    async def slow(ctx: Context) -> None:
        road.seen.append((ctx.attempt, time.monotonic()))
        if len(road.seen) < 3:
            await asyncio.sleep(600)

    lease = 30
    worker, stopped_at = await road.work(visibility_timeout=lease), 0.0
    (job,) = road.commit(slow.call())
    for starts in (1, 2):
        await eventually(lambda starts=starts: len(road.seen) == starts, "it runs")  # type: ignore[misc]
        stopped_at = time.monotonic()
        await worker.stop(0)
        assert [line.fate for line in worker.receipt.lines] == ["handed back"]
        assert worker.receipt.exit_code == 75
        worker = await road.work(visibility_timeout=lease)
    await road.reaches("done", job)

    assert [attempt for attempt, _ in road.seen] == [1, 1, 1]
    assert road.seen[2][1] - stopped_at < lease / 3, "no lease was waited for"


async def test_a_burst_runs_what_there_is_and_ends(road: Road):
    @road.app.job
    async def note(n: int) -> None:
        road.seen.append(n)
        if n == 1:
            road.commit(note.using(delay=0.3).call(n=2))

    road.commit(note.call(n=0), note.call(n=1))
    await eventually(lambda: not road.query("SELECT 1 FROM redisjobs.outbox WHERE state = 'staged'"), "both wait")
    burst = Worker(road.app, burst=True, drain_on_shutdown=False)
    receipt = await asyncio.wait_for(burst.run(), 20)
    assert receipt.exit_code == 0
    assert road.seen[:2] == [0, 1]
    assert burst.state == "stopped"


async def test_a_tenant_is_with_its_body_and_in_its_log_lines_and_nowhere_else(
    road: Road, caplog: pytest.LogCaptureFixture
):
    @road.app.job
    async def in_loop() -> None:
        note("loop")

    @road.app.job
    def in_thread() -> None:
        note("thread")

    def note(where: str) -> None:
        context = current()
        assert context is not None
        road.seen.append(
            (where, context.tenant_id, customer.get(), threading.current_thread() is threading.main_thread())
        )
        customer.set(str(context.tenant_id))
        logging.getLogger("shop").warning("noted for %s", context.tenant_id)

    await road.work(concurrency=1)
    calls = [job.using(tenant=tenant) for tenant in ("a", "b") for job in (in_loop, in_thread)]
    jobs = road.commit(*[job.call() for _ in range(5) for job in (*calls, in_loop, in_thread)])
    await road.reaches("done", *jobs)

    assert len(road.seen) == 30
    assert {(where, before, main) for where, _, before, main in road.seen} == {
        ("loop", "nobody", True), ("thread", "nobody", False),
    }  # fmt: skip
    assert {tenant for _, tenant, _, _ in road.seen} == {"a", "b", None}
    assert current() is None
    assert sum(record.name == "shop" for record in caplog.records) == 30


async def test_a_timeout_cancels_the_attempt_and_counts_as_a_failure(road: Road):
    @road.app.job(timeout=0.2, max_attempts=2, retry=[0])
    async def hang(ctx: Context) -> None:
        road.seen.append((ctx.attempt, ctx.remaining() is not None))
        await asyncio.sleep(600)

    await road.work()
    (job,) = road.commit(hang.call())
    await road.reaches("dead", job)
    assert road.seen == [(1, True), (2, True)]
    ((failures,),) = road.query("SELECT failures FROM redisjobs.dead")
    assert [each["type"] for each in failures] == ["redisjobs.errors.JobTimeoutError"] * 2
    assert "ran past its timeout (0.2 s)" in failures[0]["message"]


async def test_a_worker_serves_globs_of_queues_with_slots_of_their_own(road: Road):
    running: dict[str, int] = {}
    most: dict[str, int] = {}

    @road.app.job
    async def work(ctx: Context) -> None:
        running[ctx.queue] = running.get(ctx.queue, 0) + 1
        most[ctx.queue] = max(most.get(ctx.queue, 0), running[ctx.queue])
        await asyncio.sleep(0.05)
        running[ctx.queue] -= 1

    calls = [work.using(queue=queue).call() for queue in ("mail.a", "mail.b", "bulk") for _ in range(20)]
    jobs = road.commit(*calls, work.using(queue="other").call())
    await road.work(queues=["mail.*", "bulk"], concurrency={"mail.*": 2, "bulk": 5})
    await road.reaches("done", *jobs[:-1], within=30)
    assert most == {"mail.a": 2, "mail.b": 2, "bulk": 5}
    assert road.state(jobs[-1]) == "published"


async def test_a_paused_queue_starts_nothing_and_producers_go_on(road: Road):
    @road.app.job
    async def note() -> None:
        road.seen.append("ran")

    await road.work()
    road.query("SELECT redisjobs.pause('default')")

    async def is_paused() -> bool:
        return await road.app.broker().redis.hget("rj:{default}:life", "paused") == b"1"

    await eventually(is_paused, "Redis knows that it is paused")
    jobs = road.commit(note.call(), note.call())
    await always(lambda: not road.seen, "nothing starts", lasting=1)
    road.query("SELECT redisjobs.pause('default', false)")
    await road.reaches("done", *jobs)


async def test_a_direct_job_runs_without_a_row_and_dies_with_a_letter(road: Road):
    @road.app.job(result_ttl=60, max_attempts=1)
    async def note(well: bool) -> str:
        road.seen.append(well)
        if not well:
            raise ValueError("no")
        return "well"

    await road.work()
    good = await note.enqueue_direct(well=True)
    bad = await note.using(tenant="t1").enqueue_direct(well=False)
    assert await good.result(timeout=10) == "well"
    await road.reaches("dead", bad)
    assert road.state(good) is None
    assert road.query("SELECT tenant_id, reason FROM redisjobs.dead") == [("t1", "attempt 1 of 1 failed")]

    road.query("SELECT redisjobs.redrive(ARRAY[%(id)s]::uuid[])", id=bad.id)
    await eventually(lambda: len(road.seen) == 3, "it lives again, with a row now")
    await road.reaches("dead", bad)
