"""How a worker ends (rules G5, G6, W2; cases D03, G01, G03, G04, G05, G11, G12)."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from redisjobs import drain as drain_module
from redisjobs.context import Context
from tests.support.crew import Crew
from tests.support.eventually import always, eventually
from tests.support.proxy import Proxy


def slow_job(crew: Crew, seconds: float = 60, until: asyncio.Event | None = None) -> list[int]:
    """A job `slow` that notes its attempts and sleeps, or waits for an event."""
    attempts: list[int] = []

    @crew.app.job(name="slow")
    async def slow(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        await (asyncio.sleep(seconds) if until is None else until.wait())

    return attempts


async def test_stop_waits_for_what_runs_and_cancels_nothing(crew: Crew) -> None:
    enough = asyncio.Event()
    attempts = slow_job(crew, until=enough)
    await crew.put("slow", 3)
    worker = await crew.start(concurrency=2)
    await eventually(lambda: len(attempts) == 2, "two run")
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.state == "draining", "it drains")
    await always(lambda: not stopping.done(), "it waits", lasting=0.1)
    enough.set()
    await stopping
    assert [line.fate for line in worker.receipt.lines] == ["finished", "finished"]
    assert worker.receipt.exit_code == 0
    assert (len(attempts), await crew.left()) == (2, 1)


async def test_a_deadline_that_passes_hands_back_what_still_runs_uncounted_and_at_once(crew: Crew) -> None:
    attempts = slow_job(crew)
    [job_id] = await crew.put("slow")
    worker = await crew.start()
    await eventually(lambda: attempts, "it runs")
    began = time.monotonic()
    await worker.stop(deadline=0.1)
    assert time.monotonic() - began < drain_module.HARD_S
    assert [(line.job_id, line.job, line.queue, line.fate) for line in worker.receipt.lines] == [
        (job_id, "slow", "default", "handed back")
    ]
    assert worker.receipt.exit_code == 75
    await crew.start()
    await eventually(lambda: len(attempts) == 2, "it runs again at once")
    assert attempts == [1, 1]


async def test_a_drained_worker_takes_nothing_back(crew: Crew) -> None:
    attempts = slow_job(crew)
    await crew.put("slow")
    worker = await crew.start()
    await eventually(lambda: attempts, "it runs")
    await worker.stop(deadline=0)
    assert await crew.left() == 1
    await always(lambda: len(attempts) == 1, "the only worker, which has drained, leaves it alone", lasting=0.3)


async def test_a_running_body_hears_of_the_drain_at_once(crew: Crew) -> None:
    heard = asyncio.Event()

    @crew.app.job(name="listen")
    async def listen(ctx: Context) -> None:
        await ctx.draining.wait()
        heard.set()

    await crew.put("listen")
    worker = await crew.start()
    await eventually(lambda: worker.stats()["in_flight"] == 1, "it runs")
    await worker.stop()
    assert heard.is_set()
    assert worker.receipt.exit_code == 0


async def test_a_draining_worker_keeps_its_leases(crew: Crew) -> None:
    enough = asyncio.Event()
    attempts = slow_job(crew, until=enough)
    await crew.put("slow")
    worker = await crew.start(visibility_timeout=6)
    await eventually(lambda: attempts, "it runs")
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.state == "draining", "it drains")
    await crew.start(visibility_timeout=6)
    (held,) = worker.lanes()[0].held
    before = held.trusted_until
    await eventually(lambda: held.trusted_until > before, "its lease is renewed")
    enough.set()
    await stopping
    assert worker.receipt.count("finished") == 1
    assert len(attempts) == 1


async def test_a_body_that_answers_the_drain_with_an_error_has_exactly_one_future_attempt(crew: Crew) -> None:
    attempts: list[int] = []

    @crew.app.job(name="stubborn")
    async def stubborn(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("cleanup failed") from None

    await crew.put("stubborn")
    worker = await crew.start()
    await eventually(lambda: attempts, "it runs")
    await worker.stop(deadline=0)
    assert await crew.left() == 1
    second = await crew.start()
    await eventually(lambda: second.stats()["processed"] == 1, "it is done")
    assert (attempts, await crew.left()) == ([1, 1], 0)


async def test_five_rolling_restarts_use_up_no_attempt(crew: Crew) -> None:
    attempts = slow_job(crew)
    await crew.put("slow")
    for n in range(5):
        worker = await crew.start()
        await eventually(lambda n=n: len(attempts) == n + 1, "it runs")  # type: ignore[misc]
        await worker.stop(deadline=0)
    assert attempts == [1] * 5


async def test_a_body_that_cannot_be_ended_is_abandoned_to_its_lease_and_named(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drain_module, "HARD_S", 0.1)
    enough = threading.Event()
    starts: list[int] = []

    @crew.app.job(name="deaf")
    def deaf() -> None:
        starts.append(1)
        enough.wait(10)

    await crew.put("deaf")
    worker = await crew.start(visibility_timeout=2)
    await eventually(lambda: starts, "it runs")
    await worker.stop(deadline=0)
    assert worker.state == "stopped"
    assert ([line.fate for line in worker.receipt.lines], worker.receipt.stuck) == (["abandoned"], 1)
    [told] = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "drain-abandoned"]
    assert "jobs=deaf" in told
    assert "longer grace" in told
    await crew.start(visibility_timeout=2)
    await eventually(lambda: len(starts) == 2, "its lease has lapsed and it starts elsewhere")
    enough.set()


async def run_until(crew: Crew, attempts: list[int], drain_grace: float = 25) -> asyncio.Task[int]:
    """A worker that runs as a process does, its job begun; the exit code."""
    worker = crew.worker(drain_on_shutdown=True, drain_grace=drain_grace)

    async def life() -> int:
        return (await worker.run()).exit_code

    running = asyncio.create_task(life())
    await eventually(lambda: attempts, "its job runs")
    return running


async def test_the_first_signal_lets_bodies_end_within_the_grace(crew: Crew) -> None:
    attempts = slow_job(crew, 0.3)
    await crew.put("slow")
    before = signal.getsignal(signal.SIGTERM)
    running = await run_until(crew, attempts)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert signal.getsignal(signal.SIGTERM) is before
    assert await crew.left() == 0


async def test_signals_are_left_to_a_caller_who_wants_them(crew: Crew) -> None:
    attempts, heard = slow_job(crew), asyncio.Event()
    await crew.put("slow")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.set)
    worker = crew.worker(drain_on_shutdown=False)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: attempts, "its job runs")
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(heard.wait(), 5)
    assert worker.state == "running"
    await worker.stop(0)
    assert (await running).exit_code == 75
    assert asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM), "it is still the caller's"


async def test_past_the_grace_it_is_handed_back_with_exit_code_75(crew: Crew) -> None:
    attempts = slow_job(crew)
    await crew.put("slow")
    running = await run_until(crew, attempts, drain_grace=0.2)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 75
    assert await crew.left() == 1


@pytest.mark.parametrize("more", [1, 2])
async def test_the_second_signal_hands_back_at_once_and_further_ones_change_nothing(crew: Crew, more: int) -> None:
    attempts = slow_job(crew)
    await crew.put("slow")
    running = await run_until(crew, attempts, drain_grace=60)
    os.kill(os.getpid(), signal.SIGINT)
    await eventually(lambda: crew.workers[0].state == "draining", "the first has arrived")
    for _ in range(more):
        os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 75
    assert await crew.left() == 1


async def test_a_process_that_ends_hands_back_even_a_body_in_a_thread(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "HARD_S", 0.1)
    enough = threading.Event()
    attempts: list[int] = []

    @crew.app.job(name="deaf")
    def deaf(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            enough.wait(10)

    await crew.put("deaf")
    running = await run_until(crew, attempts, drain_grace=0)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 75
    second = await crew.start()
    await eventually(lambda: second.stats()["processed"] == 1, "it is done elsewhere, as the same attempt")
    assert attempts == [1, 1]
    enough.set()


async def test_a_redis_that_accepts_and_never_answers_does_not_keep_it_from_ending(
    crew: Crew, redis_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisjobs.serving.ACCEPT_S", 0.3)
    monkeypatch.setattr("redisjobs.broker.client.CONNECT_TIMEOUT_S", 30.0)
    redis_proxy.ignore()
    worker = crew.worker(url=redis_proxy.url, drain_on_shutdown=True, drain_grace=1)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: redis_proxy.accepted > 1, "it tries to connect")
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert time.monotonic() - began < 10, "it waited for a connection"


async def test_without_redis_a_drain_gives_its_finishes_up_and_ends(
    crew: Crew, redis_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drain_module, "HARD_S", 0.3)
    attempts = slow_job(crew)
    await crew.put("slow")
    worker = await crew.start(url=redis_proxy.url)
    await eventually(lambda: attempts, "it runs")
    redis_proxy.down()
    began = time.monotonic()
    await worker.stop(deadline=0.1)
    assert time.monotonic() - began < 5
    assert [line.fate for line in worker.receipt.lines] == ["abandoned"]
    assert "Redis does not answer" in caplog.text
