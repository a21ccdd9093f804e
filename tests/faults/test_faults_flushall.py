"""Redis loses everything: what had not settled runs to its end, what had settled stays ended (R7, B03)."""

from __future__ import annotations

import time

from tests.faults.road import Road, sized
from tests.faults.shop import order, stumble
from tests.support.eventually import eventually

ROWS = sized(10_000, 10_000, 100_000)


def handed_to_redis(road: Road) -> bool:
    """Every row was published since the wipe, or has ended."""
    return not any(state == "staged" for state in road.states().values()) and road.redis.exists("rj:{default}:jobs")


def attempts(road: Road, job: str) -> object:
    """How many attempts Postgres has counted for a job that goes on."""
    return road.query("SELECT attempts FROM redisjobs.outbox WHERE id = %s", job)[0][0]


async def test_after_flushall_under_load_every_job_ends_and_no_settled_one_runs_again(road: Road):
    road.enqueue(order.call() for _ in range(ROWS))
    await road.start(workers=2, slots=50)
    await eventually(lambda: len(road.done()) > ROWS // 5, "a part of the jobs is settled", 60)

    settled, wiped_at = road.done(), time.monotonic()
    road.redis.flushall()
    await eventually(lambda: handed_to_redis(road), "every live row is back in Redis", 15)

    back_after = time.monotonic() - wiped_at
    assert back_after < 15, f"R7 promises 15 s, it took {back_after:.1f} s"
    again = {run.job for run in road.journal.runs() if run.started > wiped_at}
    assert not again & settled, "jobs ran again that had settled before the wipe"
    await road.at_rest(60, extra=set(road.committed) - settled)
    again = {run.job for run in road.journal.runs() if run.started > wiped_at}
    assert not again & settled, "jobs ran again that had settled before the wipe"


async def test_two_wipes_within_two_seconds_lose_nothing(road: Road):
    road.enqueue(order.call(seconds=0.05) for _ in range(1000))
    await road.start(workers=2)
    await eventually(lambda: len(road.journal.started()) > 100, "work is under way")

    road.redis.flushall()
    await eventually(lambda: road.redis.exists("rj:{default}:jobs"), "the recovery has begun")
    road.redis.flushall()

    await road.at_rest(60, extra=road.committed)


async def test_delayed_retrying_and_keyed_jobs_survive_a_wipe_and_start_no_earlier(road: Road):
    await road.start()
    began = time.monotonic()
    (delayed,) = road.enqueue(order.using(delay=5).call())
    (keyed,) = road.enqueue(order.using(idempotency_key="k", delay=4).call())
    (retrying,) = road.enqueue(stumble.call(failures=3))  # its last wait takes 3 s
    await eventually(lambda: attempts(road, retrying) == 3, "its third failure is settled")
    failed_at = road.journal.runs(retrying)[-1].started

    road.redis.flushall()
    (duplicate,) = road.enqueue(order.using(idempotency_key="k").call())

    await road.at_rest(ends={duplicate: "deduplicated"}, extra=[retrying])
    assert road.journal.runs(delayed)[0].started - began > 4.9
    assert road.journal.runs(keyed)[0].started - began > 3.9
    assert road.journal.starts(retrying) == 4
    assert road.journal.runs(retrying)[-1].started - failed_at > 2.9
