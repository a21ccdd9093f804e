"""Batches on the whole road, and workers that are killed while calls gather and while they run (rules L3, W2; C03)."""

from __future__ import annotations

import random

import pytest

from redisjobs import App, BatchCall
from tests.faults.road import Road, last, sized, up
from tests.support.eventually import eventually
from tests.support.processes import Processes, Program

SHOP = """
    import asyncio, os, signal
    from contextlib import ExitStack
    from redisjobs import App, BatchCall
    from tests.faults.journal import Journal

    app = App("batches")
    journal = Journal.of_env()

    async def tally(calls: list[BatchCall[float]]) -> None:
        with ExitStack() as stack:
            for call in calls:
                stack.enter_context(journal.run(call.context, str(len(calls))))
            await asyncio.sleep(calls[0].argument)

    brisk = app.batch_job(name="brisk", size=20, within=0.3)(tally)

    @app.batch_job(size=4, within=60)
    async def crash(calls: list[BatchCall[bool]]) -> None:
        with ExitStack() as stack:
            for call in calls:
                stack.enter_context(journal.run(call.context, str(len(calls))))
            if any(call.argument for call in calls):
                os.kill(os.getpid(), signal.SIGKILL)
"""

app = App("batches")


@app.batch_job()
def brisk(calls: list[BatchCall[float]]) -> None:
    """Stands for the body that workers have."""


@app.batch_job()
def crash(calls: list[BatchCall[bool]]) -> None:
    """Likewise."""


@pytest.fixture
def place(road: Road, processes: Processes) -> str:
    processes.env |= road.journal.env
    return f"{processes.module('shop_batches', SHOP)}:app"


def attempts(road: Road) -> list[tuple[str, int, int]]:
    """How many jobs ended how, and after how many attempts."""
    return road.query("SELECT state, attempts, count(*)::int FROM redisjobs.finished GROUP BY 1, 2 ORDER BY 1, 2")


@pytest.mark.timeout(180)
async def test_a_call_that_kills_its_worker_takes_the_others_of_its_batch_down_once(road: Road, place: str):
    await up(road.relay())
    killer, *others = road.enqueue(crash.call(n == 0) for n in range(4))
    workers: list[Program] = []

    def over() -> bool:
        if not any(each.is_running() for each in workers):
            workers.append(road.worker("--max-losses", "2", place=place, slots=1, lease=2))
        return len(road.ends()) == 4

    await eventually(over, "every job has ended", 100)
    await road.at_rest(extra=road.committed, ends={killer: "dead"})
    assert [[run.note for run in road.journal.runs(job)] for job in [killer, *others]] == [["4", "1"]] * 4
    assert attempts(road) == [("done", 1, 3)]


@pytest.mark.timeout(sized(120, 3600))
async def test_each_call_ends_once_however_often_workers_are_killed(road: Road, place: str):
    options = ("--max-losses", "50")
    await up(road.relay())
    workers = [road.worker(*options, place=place, slots=3) for _ in range(2)]
    await up(*workers)
    jobs: list[str] = []

    for _ in range(sized(2, 30)):
        jobs += road.enqueue(brisk.call(0.1) for _ in range(90))
        await last(random.uniform(0.2, 0.6))
        workers.pop(0).kill()
        workers.append(road.worker(*options, place=place, slots=3))

    await road.at_rest(within=60, extra=jobs)
    assert attempts(road) == [("done", 1, len(jobs))]
    assert max(int(run.note) for run in road.journal.runs()) == 20
