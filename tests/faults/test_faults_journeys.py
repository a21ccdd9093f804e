"""Durable runs through starts, kills and absences (rules T2, T7; cases I01, I04, I06, I08, I10)."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.journeys import AT_WAITS, STATIONS, sleep, take_one, take_two, walk
from tests.faults.road import LEASE_S, Road, last, pause, sized, up
from tests.support.eventually import eventually
from tests.support.processes import Processes, Program

PLACE = "tests.faults.journeys:app"
SLEEP_S = sized(8, 20)


@pytest.fixture
def doomed(processes: Processes, tmp_path: Path) -> Path:
    """A folder; a file in it asks for the end of a process, once."""
    made = tmp_path / "doomed"
    made.mkdir()
    processes.env["BANK_DOOMED"] = str(made)
    return made


def hire(road: Road, slots: int = 10, lease: float = LEASE_S) -> Program:
    return road.worker("--max-losses", "1000", place=PLACE, slots=slots, lease=lease)


def all_have_died(doomed: Path) -> bool:
    """Every end that was asked for has happened."""
    return not any(doomed.iterdir())


def notes(road: Road) -> Counter[tuple[str, str]]:
    """How often each job has noted each thing."""
    return Counter((run.job, run.note) for run in road.journal.runs())


def send(road: Road, key: str, *data: str) -> None:
    """Events of one key, in this order, in one transaction."""
    with road.connect() as conn:
        for each in data:
            conn.execute("SELECT redisjobs.send_event('paid', %s, %s)", [key, json.dumps(each)])


async def all_are_done(road: Road, jobs: list[str], within: float = 60) -> None:
    await eventually(lambda: set(jobs) <= road.done() and not road.states(), "all are done", within)
    assert set(road.ends().values()) == {"done"}


@pytest.mark.timeout(sized(240, 3000))
async def test_i01_a_run_that_begins_as_its_worker_starts_is_begun_once(road: Road, doomed: Path):
    del doomed
    jobs: list[str] = []
    for _ in range(sized(2, 100)):
        (relay,), (worker,) = await road.start(place=PLACE, slots=50)
        began = time.monotonic()
        jobs += road.enqueue(walk.call() for _ in range(500))
        assert time.monotonic() - began < 5, "they did not come right behind the start"
        await all_are_done(road, jobs)
        assert worker.stop() == relay.stop() == 0
    assert notes(road) == dict.fromkeys([(job, each) for job in jobs for each in STATIONS], 1)


@pytest.mark.timeout(240)
async def test_i04_a_run_that_dies_between_two_steps_holds_up_nobody_and_repeats_neither(road: Road, doomed: Path):
    (doomed / "7-between").touch()
    await up(road.relay())
    first = hire(road, slots=1)
    jobs = road.enqueue(walk.call(7), (walk.call() for _ in range(50)))
    await first.ended()
    hire(road, slots=1)
    await all_are_done(road, jobs)
    assert all_have_died(doomed)
    assert notes(road) == dict.fromkeys([(job, each) for job in jobs for each in STATIONS], 1)


async def test_i06_an_event_that_was_sent_before_its_wait_reaches_it(road: Road, doomed: Path):
    del doomed
    await road.start(place=PLACE, slots=20)

    async def once(key: str) -> str:
        await asyncio.to_thread(send, road, key, f"data of {key}")
        await pause(0.0, 0.5)
        (job,) = await asyncio.to_thread(road.enqueue, take_one.call(key))
        return job

    keys = [f"order {number}" for number in range(100)]
    jobs = await asyncio.gather(*map(once, keys))
    await all_are_done(road, jobs)
    assert notes(road) == {(job, f"data of {key}"): 1 for job, key in zip(jobs, keys, strict=True)}


@pytest.mark.timeout(sized(240, 3000))
async def test_i08_an_event_is_taken_once_whichever_point_of_its_delivery_a_process_ends_at(road: Road, doomed: Path):
    """Workers end themselves around the waits, and relays are killed meanwhile."""
    relays, workers = [road.relay(lease=2)], [hire(road), hire(road)]
    await up(*relays, *workers)
    numbers = range(sized(8, 200))
    points: list[Any] = [*AT_WAITS, None]
    for number in numbers:
        if point := points[number % 4]:
            (doomed / f"{number}-{point}").touch()
    jobs = road.enqueue(take_two.call(number) for number in numbers)

    for number in numbers:
        await pause(0.0, 0.2)
        send(road, str(number), "first", "second")
        if number % 4 == 0:
            relays[-1].kill()
            relays.append(road.relay(lease=2))

    def ended() -> bool:
        workers[:] = [each if each.is_running() else hire(road) for each in workers]
        return set(jobs) <= road.done()

    await eventually(ended, "all are done", sized(120, 2500))
    assert all_have_died(doomed)
    # a step may run again where its process ended before the record, and then says the same
    assert notes(road).keys() == {(job, "first, second") for job in jobs}
    taken = road.query("SELECT run::text, step FROM redisjobs.events WHERE run IS NOT NULL")
    assert Counter(taken) == {(job, step): 1 for job in jobs for step in ("first", "second")}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("away", "late"), [(0.1, False), (1.25, True)], ids=["back before its end", "back behind it"])
async def test_i10_a_sleep_counts_from_its_first_start_wherever_its_worker_is(
    road: Road, doomed: Path, away: float, late: bool
):
    """The worker is killed in the middle of the sleep; it is away for 2 of 20 s, and for 25."""
    del doomed
    _, (worker,) = await road.start(place=PLACE)
    (job,) = road.enqueue(sleep.call(SLEEP_S))
    await road.ran(job)
    await last(SLEEP_S / 2)
    worker.kill()
    await last(SLEEP_S * away)
    await up(hire(road))
    back = time.monotonic()
    await all_are_done(road, [job])

    lay, got_up = road.journal.runs(job)
    assert (lay.note, got_up.note) == ("lies down", "gets up")
    slept = got_up.started - lay.started
    assert slept >= SLEEP_S
    tolerance = LEASE_S + sized(1, 0)  # a worker that was killed holds its delivery until its lease is over
    assert (got_up.started - back if late else slept - SLEEP_S) < tolerance


async def test_a_run_that_had_ended_before_redis_gave_it_out_once_more_leaves_redis(road: Road):
    relay = road.relay(lease=3)
    await up(relay)
    (job,) = road.enqueue(walk.call())
    await eventually(lambda: road.states() == {job: "published"}, "it is published")
    relay.kill()
    road.query("DELETE FROM redisjobs.outbox")  # as where Redis went back to a moment before its end

    lease = 20
    worker = hire(road, lease=lease)

    await worker.says("attempt.lost", within=30)
    await eventually(lambda: road.left_in_redis() == {}, "Redis has forgotten it", lease / 2)
    assert worker.log().count("attempt.lost") == 1
    assert not road.journal.started()
