"""Leases: who runs a job keeps it for as long as it lives and can say so, and not for longer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from tests.faults.road import LEASE_S, STALL_S, Road, last, sized, up
from tests.faults.shop import block, order, other_app, wait, who
from tests.faults.shop import other as unknown_here
from tests.support.eventually import always, eventually
from tests.support.processes import Program, other_clock
from tests.support.proxy import Proxy

RECLAIM_S = LEASE_S / 3


def of_pid(workers: list[Program], pid: int) -> Program:
    return next(worker for worker in workers if worker.pid == pid)


def left_of_leases(road: Road) -> list[float]:
    """What remains of each lease now, as a share of the whole."""
    pending = road.redis.xpending_range("rj:{default}:ready:1", "workers", "-", "+", 1000)
    return [1 - each["time_since_delivered"] / (LEASE_S * 1000) for each in pending]


async def lows_of_lease(road: Road, while_: Callable[[], object]) -> list[float]:
    """How low the one lease that there is fell before each of its renewals, the lowest first."""
    lows, before = list[float](), 1.0
    while while_():
        for left in left_of_leases(road):
            if left > before:
                lows.append(before)
            before = left
        await last(0.02)
    return sorted(lows)


async def test_a_job_due_later_than_a_lease_starts_once_and_not_before_its_time(road: Road):
    await road.start(workers=3)
    began = time.monotonic()
    (job,) = road.enqueue(order.using(delay=sized(2 * LEASE_S, 15)).call())

    await road.at_rest()

    assert road.journal.runs(job)[0].started - began >= sized(2 * LEASE_S, 15) - 0.05


async def test_a_job_longer_than_its_lease_runs_once_and_its_lease_never_runs_low(road: Road):
    await road.start(workers=3)
    (job,) = road.enqueue(order.call(seconds=sized(2.5 * LEASE_S, 12)))
    await road.ran(job)

    lows = await lows_of_lease(road, road.journal.running)

    assert len(lows) > 3
    assert lows[1] > 1 / 3, f"so much of a lease was left: {lows}"  # all but one, which is the machine's
    await road.at_rest()


async def test_a_worker_stopped_past_its_lease_is_refused_and_told(road: Road):
    _, workers = await road.start(workers=2)
    (job,) = road.enqueue(who.call(seconds=2))
    await road.ran(job)
    slow = of_pid(workers, road.pid_of(job))

    slow.freeze()
    await road.ran(job, times=2)
    await eventually(lambda: job in road.done(), "the second holder's completion is settled")
    slow.thaw()

    await slow.says("attempt.lost")
    await road.at_rest(extra=[job])
    (result,) = road.query("SELECT convert_from(result, 'utf8') FROM redisjobs.finished WHERE id = %s", job)
    assert result == (str(road.pid_of(job)),)


async def test_a_body_that_blocks_the_loop_keeps_its_lease_and_is_named(road: Road):
    _, workers = await road.start(workers=2)
    (job,) = road.enqueue(block.call(seconds=sized(2.5 * LEASE_S, 12)))

    await road.at_rest()

    log = of_pid(workers, road.pid_of(job)).log()
    assert f"loop.blocked job=block job_id={job}" in log
    assert "attempt.lost" not in log


async def test_an_orphan_starts_elsewhere_within_a_lease_and_a_look(road: Road):
    _, workers = await road.start(workers=2)
    (job,) = road.enqueue(wait.call())
    await road.ran(job)

    of_pid(workers, road.pid_of(job)).kill()
    killed_at = time.monotonic()
    await road.ran(job, times=2)

    assert road.journal.runs(job)[1].started - killed_at < LEASE_S + RECLAIM_S + STALL_S
    road.journal.open_gate()
    await road.at_rest(extra=[job])


@pytest.mark.timeout(sized(120, 3600))
async def test_every_orphan_of_a_steady_load_comes_back_however_often_workers_are_killed(road: Road):
    often = ("--max-losses", "1000")  # chance may kill every worker that takes one job up
    await road.start(workers=0)
    workers = [road.worker(*often) for _ in range(4)]
    await up(*workers)
    load = asyncio.create_task(_steady_load(road))
    orphaned: dict[str, float] = {}

    for _ in range(sized(4, 30, 100)):
        await last(0.7)
        victim = workers.pop(random.randrange(4))
        victim.kill()
        orphaned |= dict.fromkeys(cut_off_with(victim, road), time.monotonic())
        workers.append(road.worker(*often))
        await up(workers[-1])
    load.cancel()

    await road.at_rest(extra=orphaned)
    for job, killed_at in orphaned.items():
        after = [run.started - killed_at for run in road.journal.runs(job) if run.started > killed_at]
        finished = job in road.done() and not after  # its finish had arrived, only the journal's last line had not
        assert finished or after[0] < LEASE_S + RECLAIM_S + STALL_S, f"{job} came back after {after[0]:.1f} s"


def cut_off_with(worker: Program, road: Road) -> set[str]:
    """The jobs that a worker had when it was killed: those that ran, and those whose end Redis was not told."""
    return {run.job for run in road.journal.running() if run.pid == worker.pid} | road.held_by(worker)


async def _steady_load(road: Road) -> None:
    while True:
        road.enqueue(order.call(seconds=0.5) for _ in range(2))
        await last(0.1)


@pytest.mark.timeout(sized(120, 3600))
@pytest.mark.parametrize("repeat", range(sized(1, 5, 20)))
async def test_many_workers_that_start_at_once_give_each_orphan_one_second_attempt(road: Road, repeat: int):
    _, (first,) = await road.start(workers=1, slots=500)
    jobs = road.enqueue(wait.call() for _ in range(500))
    await eventually(lambda: road.journal.started() == set(jobs), "all have started")

    first.kill()
    road.journal.open_gate()
    await up(*(road.worker(slots=20) for _ in range(sized(5, 8))))

    await road.at_rest(60, extra=jobs)
    assert road.journal.extra_starts() == dict.fromkeys(jobs, 1)


async def test_what_a_killed_worker_never_touched_does_not_fail(road: Road):
    _, workers = await road.start(workers=2)
    jobs = road.enqueue(order.call(seconds=0.05) for _ in range(400))
    await eventually(lambda: len(road.journal.runs()) >= 100, "a hundred have started")

    workers[0].kill()
    ran = {run.job for run in road.journal.running() if run.pid == workers[0].pid}

    await road.at_rest(extra=cut_off_with(workers[0], road))
    assert set(jobs) == road.done()
    assert len(ran) <= 10, "a worker ran more than its slots"


async def test_a_worker_that_does_not_know_an_orphans_job_parks_it_for_one_that_does(road: Road):
    _, (knows_not,) = await road.start()
    knows = road.worker(place="tests.faults.shop:other_app")
    await up(knows)
    with road.connect() as conn:
        road.committed += [handle.id for handle in other_app.enqueue(conn, unknown_here.call(seconds=2))]
    (job,) = road.committed
    await road.ran(job)

    knows.kill()
    await eventually(lambda: road.states().get(job) == "parked", "the other worker has parked it", 15)
    await always(lambda: job not in road.ends(), "it is kept", lasting=sized(1, 30))
    knows_not.stop()  # else it may well park the job again, for longer each time
    await up(road.worker(place="tests.faults.shop:other_app"))

    await road.at_rest(extra=[job])
    assert road.journal.starts(job) == 2
    assert "job.parked" in knows_not.log()


async def test_slow_replies_cost_no_lease_and_silence_costs_it_with_the_holder_told(road: Road, redis_proxy: Proxy):
    slow = road.worker(redis=redis_proxy.url)
    await up(road.relay(), slow)
    (job,) = road.enqueue(wait.call())
    await road.ran(job)
    redis_proxy.replies.delay(0.2 * LEASE_S)
    ends = time.monotonic() + 3 * LEASE_S
    lows = await lows_of_lease(road, lambda: time.monotonic() < ends)
    assert lows[1] > 0.2, f"the lease stays well alive: {lows}"  # all but one, which is the machine's

    await up(road.worker())
    redis_proxy.replies.delay(3 * LEASE_S)
    await road.ran(job, times=2)
    redis_proxy.replies.delay(0)

    await slow.says("attempt.lost")
    road.journal.open_gate()
    await road.at_rest(extra=[job])
    assert [run.how for run in road.journal.runs(job)] == ["CancelledError", "returned"]


async def test_heartbeats_resume_after_all_connections_were_reset(road: Road, redis_proxy: Proxy):
    lease = 5
    workers = [road.worker(redis=redis_proxy.url, lease=lease) for _ in range(2)]
    await up(road.relay(), *workers)
    (job,) = road.enqueue(order.call(seconds=1.5 * lease))
    await road.ran(job)

    redis_proxy.down()
    await last(1)  # a third of a lease is over before it, and a third comes until the next try: the rest is to spare
    redis_proxy.heal()

    await road.at_rest()
    assert road.journal.runs(job)[0].attempt == 1


async def test_nothing_waits_in_a_workers_memory_while_its_lease_runs(road: Road):
    await road.start(workers=2, slots=1)
    road.enqueue(order.call(seconds=sized(0.8, 2)) for _ in range(sized(12, 20)))

    while len(road.done()) < len(road.committed):
        assert len(left_of_leases(road)) <= 2, "a worker took more than it has slots"
        await last(0.05)

    await road.at_rest()


async def test_no_clock_of_a_worker_or_relay_decides_on_a_lease(road: Road):
    ahead, behind = other_clock(600), other_clock(-600)
    workers = [road.worker(env=ahead), road.worker(env=behind)]
    await up(road.relay(env=behind), *workers)
    (job,) = road.enqueue(order.call(seconds=2.5 * LEASE_S))
    await road.ran(job)
    await last(1.5 * LEASE_S)
    assert road.journal.starts(job) == 1, "the lease of a living worker was taken away"

    of_pid(workers, road.pid_of(job)).kill()
    killed_at = time.monotonic()
    await road.ran(job, times=2)

    taken_after = road.journal.runs(job)[1].started - killed_at
    assert LEASE_S / 6 < taken_after < LEASE_S + RECLAIM_S + STALL_S
    await road.at_rest(extra=[job])


async def test_a_clock_that_is_a_little_late_loses_no_lease(road: Road):
    late = road.worker(env=other_clock(-0.1), slots=20)
    await up(road.relay(), late)
    road.enqueue(order.call(seconds=1.5 * LEASE_S) for _ in range(sized(20, 200)))

    await road.at_rest(sized(30, 120))

    assert {run.attempt for run in road.journal.runs()} == {1}
    assert "lost" not in late.log()
