"""Ordered lanes while workers are killed and Redis is emptied: one at a time, in the order of publishing, in each."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import pytest

from tests.faults.journal import Run
from tests.faults.laned import skip, stop
from tests.faults.road import Road, pause, sized, up
from tests.support.eventually import eventually

PLACE = "tests.faults.laned:app"
KEYS = sized(40, 1000)
EACH = sized(10, 50)


def by_lane(road: Road) -> dict[str, list[tuple[int, Run]]]:
    """The runs of each lane, in the order of their starts, with the numbers of their jobs."""
    lanes: dict[str, list[tuple[int, Run]]] = defaultdict(list)
    for run in road.journal.runs():
        key, number = run.note.split(" ")
        lanes[key].append((int(number), run))
    return lanes


def overlaps(runs: list[tuple[int, Run]]) -> list[tuple[Run, Run]]:
    """Runs of a lane that began before another job's run had ended; what was killed has no end."""
    return [
        (before, after)
        for (n, before), (m, after) in itertools.pairwise(runs)
        if n != m and before.ended is not None and after.started < before.ended
    ]


def enqueue(road: Road, job: object, failing: float) -> None:
    """One transaction for each place in the lanes: the first of all lanes, then the second, …"""
    for number in range(EACH):
        road.enqueue(
            job.call(key=f"k{key}", number=number, failures=random.randrange(1, 3) * (random.random() < failing))  # type: ignore[attr-defined]
            for key in range(KEYS)
        )


@pytest.mark.timeout(sized(180, 1800))
async def test_order_holds_in_every_lane_across_retries_and_kills(road: Road):
    _, workers = await road.start(workers=3, place=PLACE, slots=20)
    enqueue(road, stop, failing=0.1)

    for _ in range(sized(3, 20)):
        await pause(0.2, sized(0.8, 4.0))
        place = random.randrange(len(workers))
        workers[place].kill()
        workers[place] = road.worker("--max-losses", "100", place=PLACE, slots=20)
        await up(workers[place])

    await road.at_rest(sized(90, 1500), extra=road.committed)
    lanes = by_lane(road)
    assert len(lanes) == KEYS
    for key, runs in lanes.items():
        numbers = [number for number, _ in runs]
        assert numbers == sorted(numbers), f"lane {key} ran out of order"
        assert set(numbers) == set(range(EACH))
        assert overlaps(runs) == []


@pytest.mark.timeout(180)
async def test_where_failures_are_skipped_still_one_runs_at_a_time_and_first_starts_are_in_order(road: Road):
    await road.start(workers=2, place=PLACE, slots=20)
    enqueue(road, skip, failing=0.2)

    await road.at_rest(90)
    for key, runs in by_lane(road).items():
        firsts = [number for number, run in runs if run.attempt == 1]
        assert firsts == sorted(firsts), f"lane {key} began out of order"
        assert overlaps(runs) == []
    late = [run for runs in by_lane(road).values() for _, run in runs if run.attempt > 1]
    assert late, "some failed"


@pytest.mark.timeout(180)
async def test_order_holds_though_redis_is_emptied(road: Road):
    _, workers = await road.start(workers=2, place=PLACE, slots=20)
    enqueue(road, stop, failing=0.3)
    await eventually(lambda: len(road.journal.started()) > KEYS, "lanes go on", 30)
    for worker in workers:
        worker.kill()  # what runs while its lease is lost ends a moment later: that is another test's matter
    road.redis.flushall()
    workers = [road.worker(place=PLACE, slots=20) for _ in range(2)]
    await up(*workers)

    await road.at_rest(90, extra=road.committed)
    for key, runs in by_lane(road).items():
        after = [number for number, run in runs if run.pid in {worker.pid for worker in workers}]
        assert after == sorted(after), f"lane {key} ran out of order"
