"""Nothing grows that should not, and what is stuck is seen (cases O01, O03, O05)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.road import LEASE_S, Road, sized, up
from tests.faults.shop import order, other, wait
from tests.support.eventually import always, eventually
from tests.support.processes import Processes, Program

FAR_OFF = sized(20_000, 200_000)


def resident_mb(program: Program) -> float:
    """The memory that a process occupies."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def status(road: Road) -> dict[str, Any]:
    """The one queue of `redisjobs status --json`."""
    ended = subprocess.run(
        [sys.executable, "-c", "from redisjobs.cli import main; main()", "status", "--json"],
        capture_output=True, check=True, env=road._env() | road.processes.env, timeout=60,
    )  # fmt: skip
    (queue,) = json.loads(ended.stdout)["queues"]
    found: dict[str, Any] = queue
    return found


async def test_o01_far_off_jobs_occupy_no_worker_and_no_relay(road: Road):
    (relay,), workers = await road.start(workers=sized(2, 4))
    road.enqueue(order.call() for _ in range(200))
    await eventually(lambda: len(road.done()) == 200, "everybody is warm", 30)
    before = [resident_mb(each) for each in (relay, *workers)]

    with psycopg.connect(road.database_url) as connection:
        connection.execute(
            """INSERT INTO redisjobs.outbox (job, input, run_at)
               SELECT 'order', '{}', now() + make_interval(mins => 30) + make_interval(secs => n / 100.0)
               FROM generate_series(1, %s) n""",
            [FAR_OFF],
        )
    await eventually(lambda: road.redis.zcard("rj:{default}:due") == FAR_OFF, "Redis holds all of them", 120)
    await always(lambda: road.redis.zcard("rj:{default}:due") == FAR_OFF, "none is early", lasting=sized(3, 60))

    grown = [resident_mb(each) - was for each, was in zip((relay, *workers), before, strict=True)]
    assert max(grown) < 20, f"MB grown, the relay first: {grown}"
    assert status(road)["due"] == FAR_OFF


async def test_an_idle_worker_is_small_and_stays_so(road: Road, processes: Processes):
    source = "from redisjobs import App\napp = App('small')\n@app.job\nasync def work(): ...\n"
    module = processes.module("shop_small", source)
    _, (worker,) = await road.start(place=f"{module}:app")
    road.query("SELECT redisjobs.enqueue('work') FROM generate_series(1, 500)")
    await eventually(lambda: len(road.done()) == 500, "it has worked", 30)
    assert resident_mb(worker) <= 60


async def test_o03_the_stop_of_one_worker_takes_nothing_from_the_others(road: Road):
    _, workers = await road.start(workers=3)
    (first,) = road.enqueue(order.call())
    await eventually(lambda: first in road.done(), "the queue is known")
    await eventually(lambda: len(status(road)["consumers"]) == 3, "all three are seen")
    workers[0].send(signal.SIGTERM)
    assert await workers[0].ended() == 0
    await eventually(lambda: len(status(road)["consumers"]) == 2, "the one that left is gone, the others are there")
    assert all(each["idle_s"] < 10 for each in status(road)["consumers"])
    road.enqueue(order.call() for _ in range(20))
    await road.at_rest()


async def test_o05_whatever_is_stuck_is_shown_with_its_age(road: Road):
    (relay,), (worker,) = await road.start()
    (running,) = road.enqueue(wait.call())
    (parked,) = road.enqueue(other.call())
    await road.ran(running)
    await eventually(lambda: road.states().get(parked) == "parked", "one is parked")
    road.query(
        "INSERT INTO redisjobs.dead (id, job, queue, input, reason)"
        " VALUES (redisjobs.new_id(), 'x', 'default', '{}', 'broken')"
    )
    worker.kill()
    assert relay.stop() == 0
    (unpublished,) = road.enqueue(order.call())
    road.query("UPDATE redisjobs.outbox SET staged_at = now() - interval '5 min' WHERE id = %s", unpublished)

    def lapsed() -> bool:
        (consumer,) = status(road)["consumers"]
        return bool(consumer["idle_s"] > LEASE_S)

    await eventually(lapsed, "the lease of a worker that is gone has lapsed", 20)
    seen = status(road)
    assert seen["relay"]["holder"] is None
    assert seen["publish_lag_s"] >= 300
    assert seen["oldest_s"] >= 300
    assert 0 < seen["oldest_parked_s"] < 300
    assert 0 < seen["oldest_dead_s"] < 300
    assert seen["states"]["parked"] == seen["states"]["staged"] == seen["dead"] == seen["running"] == 1

    road.journal.open_gate()
    await up(road.relay(), road.worker(), road.worker(place="tests.faults.shop:other_app"))
    await eventually(lambda: {running, parked, unpublished} <= road.done(), "all of it ends", 60)
