"""Limits over the fleet while workers are killed and paused: never more than the limit, and no permit is lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable

import pytest

from tests.faults.journal import Run
from tests.faults.limited import one, ten, three, two
from tests.faults.road import LEASE_S, Road, last, pause, sized, up
from tests.support.eventually import eventually
from tests.support.processes import Program

PLACE = "tests.faults.limited:app"
SWEEP_S = 1.0
SLACK_S = 2.0


def accepted(road: Road, note: str) -> list[Run]:
    """The runs whose finish was accepted: of each job the last one, for after it no other was begun."""
    ended = {run.job: run for run in road.journal.runs() if run.note == note and run.ended is not None}
    return list(ended.values())


def most_at_once(runs: Iterable[Run]) -> int:
    steps = [(at, step) for run in runs for at, step in ((run.started, 1), (run.ended or run.started, -1))]
    now = most = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


def busy(runs: Iterable[Run], since: float, until: float) -> float:
    """Seconds of bodies within this time, those that still run included."""
    return sum(max(0.0, min(run.ended or until, until) - max(run.started, since)) for run in runs)


async def workers_of(road: Road, count: int, slots: int = 10) -> list[Program]:
    _, workers = await road.start(workers=count, place=PLACE, slots=slots)
    return workers


def another(road: Road) -> Program:
    return road.worker("--max-losses", "100", place=PLACE)


@pytest.mark.timeout(sized(180, 600))
async def test_kills_and_pauses_never_let_more_run_than_the_limit_and_it_is_used_up(road: Road):
    """L1, M01, M02: any of the workers at any moment."""
    workers = await workers_of(road, sized(4, 8))
    length = 4.0
    road.enqueue(three.call(seconds=0.4) for _ in range(round(3 * length / 0.4) + 6))
    await eventually(lambda: len(road.journal.running()) == 3, "three run")

    calm = time.monotonic()
    await last(length)
    runs = road.journal.runs()
    used = sorted(busy(runs, calm + second, calm + second + 1) / 3 for second in range(round(length)))
    assert used[1] >= 0.85, f"while all lived, so much of the limit was used in each second: {used}"

    road.enqueue(three.call(seconds=random.uniform(0.02, 0.3)) for _ in range(sized(60, 500)))
    ends = time.monotonic() + sized(10, 60)
    while time.monotonic() < ends:
        await pause(0.1, 0.8)
        place = random.randrange(len(workers))
        if random.random() < 0.5:
            workers[place].kill()
            workers[place] = another(road)
        else:
            workers[place].freeze()
            await pause(0.2, 1.7 * LEASE_S)
            workers[place].thaw()

    await road.at_rest(sized(60, 240), extra=road.committed)
    assert most_at_once(accepted(road, "three")) <= 3


@pytest.mark.timeout(sized(120, 900))
async def test_a_holder_that_was_paused_gives_nothing_back_twice(road: Road):
    """M01."""
    workers = await workers_of(road, 3)
    jobs = road.enqueue(one.call(name="a", seconds=0.5) for _ in range(sized(8, 100)))

    for _ in range(sized(2, 50)):
        await eventually(road.journal.running, "one runs", 20)
        pid = road.journal.running()[-1].pid
        holder = next(worker for worker in workers if worker.pid == pid)
        holder.freeze()
        await last(1.6 * LEASE_S)
        holder.thaw()
        await pause(0.1, 0.6)

    await road.at_rest(sized(60, 300), extra=jobs)
    assert most_at_once(accepted(road, "a")) == 1


async def test_killed_holders_keep_no_permit_longer_than_a_lease(road: Road):
    """M02."""
    workers = await workers_of(road, 2, slots=1)
    first = road.enqueue(two.call(seconds=60) for _ in range(2))
    await eventually(lambda: len(road.journal.running()) == 2, "both run")
    await up(another(road))
    waiting = road.enqueue(two.call(seconds=0.1) for _ in range(2))
    await last(0.5)
    assert road.journal.started() == set(first)

    for worker in workers:
        worker.kill()
    killed_at = time.monotonic()

    await eventually(lambda: road.journal.started() >= set(waiting), "both permits are free", 20)
    assert time.monotonic() - killed_at < LEASE_S + SWEEP_S + SLACK_S
    await road.at_rest(extra=first)


@pytest.mark.timeout(sized(180, 1800, 3600))
async def test_a_limit_does_not_decay_however_many_holders_crash(road: Road):
    """M07."""
    count = sized(250, 10_000)
    workers = await workers_of(road, 2)
    jobs = road.enqueue(ten.call(crashes=sized(0.015, 0.005, 0.02), surely=n in (50, 150)) for n in range(count))

    crashes = 0
    while len(road.done()) < count:
        for place, worker in enumerate(workers):
            if not worker.is_running():
                crashes += 1
                workers[place] = another(road)
        await asyncio.sleep(0.2)

    await road.at_rest(30, extra=jobs)
    assert crashes >= 2
    assert most_at_once(accepted(road, "ten")) <= 10
    for worker in workers:
        worker.kill()
    await up(*[another(road) for _ in range(2)])
    again = road.enqueue(ten.call(crashes=0) for _ in range(sized(120, 1000)))
    samples: list[int] = []
    while not set(again) <= road.done():
        samples.append(int(road.redis.hget("rj:{-}:used", "ten") or 0))
        await asyncio.sleep(0.005)
    full = [sample for sample in samples if sample]
    assert sorted(full)[len(full) // 2] >= 8, f"in use: {samples}"
