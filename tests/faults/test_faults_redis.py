"""Redis is killed, away, unwilling, forgetful or silent: everybody stays up, and all is done once it is well."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from redisjobs.base.service import LONGEST_BACKOFF_S
from tests.faults.road import LEASE_S, STALL_S, Road, last, sized, up
from tests.faults.shop import order
from tests.support.eventually import always, eventually
from tests.support.processes import Program
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

MakeRoad = Callable[..., Road]
StartRedis = Callable[..., RedisServer]


@contextlib.asynccontextmanager
async def load(road: Road, *, at_once: int = 5, every: float = 0.1) -> AsyncIterator[None]:
    """Commits go on inside the block."""

    async def go_on() -> None:
        while True:
            road.enqueue(order.call() for _ in range(at_once))
            await asyncio.sleep(every)

    running = asyncio.create_task(go_on())
    try:
        yield
    finally:
        running.cancel()


def all_up(*programs: Program) -> bool:
    return all(program.is_running() for program in programs)


@pytest.mark.timeout(sized(120, 1200))
async def test_work_resumes_after_each_restart_of_redis(make_road: MakeRoad, start_redis: StartRedis):
    server = start_redis(appendonly="yes", appendfsync="everysec")
    road = make_road(redis=server.url)
    relays, workers = await road.start(workers=2)

    for restart in range(sized(4, 20)):
        async with load(road):
            await last(0.5)
            server.kill() if restart % 2 else server.stop()
            server.start()
            back_at = time.monotonic()
            await road.works_within(5 + STALL_S)
            assert time.monotonic() - back_at < 5 + STALL_S

    assert all_up(*relays, *workers)
    await road.at_rest(extra=road.journal.extra_starts())


async def test_delayed_jobs_start_in_time_after_redis_was_killed(make_road: MakeRoad, start_redis: StartRedis):
    server = start_redis(appendonly="yes", appendfsync="everysec")
    road = make_road(redis=server.url)
    await road.start()
    began = time.monotonic()
    road.enqueue(order.using(delay=5).call() for _ in range(20))

    await last(2)
    server.kill()
    await last(1)
    server.start()

    await road.at_rest()
    delays = [run.started - began for run in road.journal.runs()]
    assert 4.9 < min(delays) <= max(delays) < 5 + LEASE_S


async def test_everybody_outlives_an_outage_and_nothing_is_marked_meanwhile(road: Road, redis_proxy: Proxy):
    programs = [road.relay(redis=redis_proxy.url), *(road.worker(redis=redis_proxy.url) for _ in range(2))]
    await up(*programs)
    road.enqueue(order.call(seconds=1) for _ in range(30))
    await eventually(lambda: len(road.journal.started()) >= 20, "work is under way")

    redis_proxy.down()
    cut_off = set(road.committed) - road.done()
    waiting = road.enqueue(order.call() for _ in range(30))
    await always(lambda: all(road.states()[job] == "staged" for job in waiting), "they wait", lasting=sized(3, 10))
    redis_proxy.heal()

    await road.works_within(5 + STALL_S)
    assert all_up(*programs)
    await road.at_rest(extra=cut_off)


async def test_a_primary_that_became_a_replica_is_waited_for_in_peace(road: Road, redis_proxy: Proxy):
    programs = [road.relay(redis=redis_proxy.url), road.worker(redis=redis_proxy.url)]
    await up(*programs)
    await road.works_within(5)
    seconds = sized(3, 30)

    before = redis_proxy.commands.total()
    with redis_proxy.answer("READONLY You can't write against a read only replica.", lambda request: bool(request.sha)):
        waiting = road.enqueue(order.call() for _ in range(20))
        async with load(road, at_once=1, every=0.01):
            await always(lambda: road.states()[waiting[0]] == "staged", "they wait", lasting=seconds)
    tries = (redis_proxy.commands.total() - before) / seconds / len(programs)

    await road.works_within(5 + STALL_S)
    assert tries < 20, f"{tries:.0f} commands a second from each process, although commits go on"
    assert all_up(*programs)
    await road.at_rest()


async def test_a_redis_that_loads_is_waited_for(road: Road, redis_proxy: Proxy):
    programs = [road.relay(redis=redis_proxy.url), *(road.worker(redis=redis_proxy.url) for _ in range(2))]
    await up(*programs)
    await road.works_within(5)

    loading = redis_proxy.answer("LOADING Redis is loading the dataset in memory")
    (job,) = road.enqueue(order.call())
    await always(lambda: all_up(*programs) and not road.journal.starts(job), "all wait", lasting=sized(3, 20))
    loading.remove()

    await road.ran(job, within=LONGEST_BACKOFF_S + STALL_S)
    await road.at_rest()


async def test_a_script_cache_that_is_emptied_all_the_time_fails_nobody(road: Road):
    relays, workers = await road.start(workers=2)

    async with load(road, at_once=10):
        ends_at = time.monotonic() + sized(3, 30)
        while time.monotonic() < ends_at:
            road.redis.script_flush()
            await last(sized(0.02, 0.2))

    await road.at_rest()
    assert not [program for program in (*relays, *workers) if "NOSCRIPT" in program.log() or "ERROR" in program.log()]


async def test_a_connection_that_went_silent_is_noticed(road: Road, redis_proxy: Proxy):
    await up(road.relay(redis=redis_proxy.url), road.worker(redis=redis_proxy.url))
    await road.works_within(5)

    redis_proxy.swallow_open()

    await road.works_within(30)
    await road.works_within(5)  # half of what is waited for a silent one
    await road.at_rest()


async def test_an_idle_fleet_is_quiet_and_ready(road: Road, redis_proxy: Proxy):
    programs = [road.relay(redis=redis_proxy.url), *(road.worker(redis=redis_proxy.url) for _ in range(2))]
    await up(*programs)
    await road.works_within(5)
    await eventually(lambda: not road.states(), "it is settled")
    opened = redis_proxy.accepted

    await last(sized(7, 120))  # more than the longest wait of a blocking read

    assert redis_proxy.accepted == opened, "somebody connected anew"
    assert not [line for program in programs for line in program.log().splitlines() if "ERROR" in line]
    await road.works_within(5)
    await road.at_rest()


async def test_a_blip_before_a_due_time_does_not_move_it(road: Road, redis_proxy: Proxy):
    await up(road.relay(redis=redis_proxy.url), road.worker(redis=redis_proxy.url))
    began, due = time.monotonic(), sized(5, 30)
    (job,) = road.enqueue(order.using(delay=due).call())

    await last(due * 0.4)
    redis_proxy.down()
    await last(due * 0.35)
    redis_proxy.heal()

    await road.at_rest(due)
    assert due - 0.05 <= road.journal.runs(job)[0].started - began < due + 2


async def test_memory_does_not_grow_while_redis_is_away(road: Road, redis_proxy: Proxy):
    programs = [road.relay(redis=redis_proxy.url), road.worker(redis=redis_proxy.url)]
    await up(*programs)
    await road.works_within(5)
    before = [resident_mb(program) for program in programs]

    redis_proxy.down()
    async with load(road, at_once=sized(100, 10)):
        await last(sized(4, 600))
    grown = [resident_mb(program) - was for program, was in zip(programs, before, strict=True)]
    redis_proxy.heal()

    assert max(grown) < 20, f"MB more: {grown}"
    await road.works_within(60)  # behind all that the load left, on a machine that has other things to do
    await road.at_rest(60)


def resident_mb(program: Program) -> float:
    lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
