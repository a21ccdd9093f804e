"""Durable runs under SIGKILL and SIGSTOP (rules T2, T5, T9; cases I04, I08, I09, I10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from redisjobs import Call
from tests.faults import bank
from tests.faults.bank import pay, slow, three_steps, transfer, trip
from tests.faults.road import Road, sized
from tests.support.eventually import eventually
from tests.support.processes import Program

PLACE = "tests.faults.bank:app"


def stage(road: Road, calls: Sequence[Call[Any]]) -> list[str]:
    """Enqueue them in one transaction."""
    road.query(bank.SCHEMA)
    with road.connect() as connection:
        return [handle.id for handle in bank.app.enqueue(connection, *calls)]


async def until_all_have_ended(road: Road, jobs: list[str]) -> None:
    """Start a worker whenever the last one has died, until each job has died where it shall, and nothing is held."""
    workers: list[Program] = [road.worker(place=PLACE, slots=1)]

    def ended() -> bool:
        if not workers[-1].is_running():
            workers.append(road.worker(place=PLACE, slots=1))
        if set(road.ends()) != set(jobs) or road.query("SELECT count(*) FROM points") != [(len(jobs),)]:
            return False
        stream = "rj:{default}:ready:1"
        return not road.redis.exists(stream) or not road.redis.xpending(stream, "workers")["pending"]

    await eventually(ended, "all jobs have ended", max(120, 8 * len(jobs)))


def effects(road: Road, job: str) -> dict[str, int]:
    """How often each effect of a job happened, in the order in which they began."""
    return Counter(row[0] for row in road.query("SELECT what FROM effects WHERE job = %s", job))


@pytest.mark.timeout(sized(240, 6000))
async def test_a_step_runs_again_only_if_its_worker_died_before_the_record(road: Road):
    points = [f"{what}:{where}" for what in ("one", "two", "three") for where in ("before", "after", "recorded")]
    points *= sized(1, 20, 67)  # three steps each: 200 ends of workers at each point before the release
    jobs = stage(road, [three_steps.call(each) for each in points])
    road.relay()

    await until_all_have_ended(road, jobs)

    for job, point in zip(jobs, points, strict=True):
        what, where = point.split(":")
        assert effects(road, job) == {"one": 1, "two": 1, "three": 1} | ({what: 2} if where == "after" else {}), point
    assert set(road.ends().values()) == {"done"}


async def test_a_transfer_is_made_once_wherever_its_worker_dies(road: Road):
    calls = [transfer.call(each) for each in ("begun", "moved", "committed")] + [
        pay.call(each) for each in ("moved", "ended")
    ]
    jobs = stage(road, calls)
    road.relay()

    await until_all_have_ended(road, jobs)

    assert road.query("SELECT name, amount FROM accounts ORDER BY name") == [("a", 1000 - 5), ("b", 5)]
    assert set(road.ends().values()) == {"done"}


async def test_what_was_done_is_undone_wherever_the_worker_dies(road: Road):
    points = [f"undo {what}:{where}" for what in ("hotel", "flight") for where in ("before", "after")]
    jobs = stage(road, [trip.call(each) for each in points])
    road.relay()

    await until_all_have_ended(road, jobs)

    for job, point in zip(jobs, points, strict=True):
        what, where = point.split(":")
        once = {"flight": 1, "hotel": 1, "undo hotel": 1, "undo flight": 1}
        assert effects(road, job) == once | ({what: 2} if where == "after" else {}), point
    assert set(road.ends().values()) == {"dead"}
    reasons = {row[0] for row in road.query("SELECT reason FROM redisjobs.dead")}
    assert reasons == {"attempt 1 of 1 failed"}


async def test_a_worker_stopped_past_its_lease_records_no_step(road: Road):
    (job,) = stage(road, [slow.call()])
    road.relay()
    first = road.worker(place=PLACE)
    await eventually(lambda: effects(road, job).get("began") == 1, "it has begun")
    first.freeze()
    second = road.worker(place=PLACE)
    await eventually(lambda: road.ends() == {job: "done"}, "another worker has done it", 30)
    first.thaw()

    await first.says("attempt.lost")
    assert effects(road, job) == {"began": 2, "ended": 1}
    assert road.query("SELECT pid FROM effects WHERE what = 'ended'") == [(second.pid,)]
    assert road.query("SELECT count(*) FROM redisjobs.steps") == [(0,)]
