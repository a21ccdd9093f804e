"""Bodies that fork: what becomes of the copy is no business of the worker's, and the copy does no work of its own."""

from __future__ import annotations

import signal

import pytest

from tests.faults.road import Road
from tests.support.processes import Processes

SHOP = """
    import asyncio, multiprocessing, os, signal, sys
    from redisjobs import App, BatchCall, Context
    from tests.faults.journal import Journal

    app = App("forks")
    journal = Journal.of_env()
    forking = multiprocessing.get_context("fork")

    def end_a_copy(number: int) -> str:
        "As a pool does that is left before its time; how the copy ended."
        copy = forking.Process(target=signal.pause)
        copy.start()
        os.kill(copy.pid, number)
        copy.join(10)
        code = copy.exitcode
        copy.kill()
        return str(code)

    @app.job
    def ends_a_copy(ctx: Context, number: int) -> None:
        with journal.run(ctx, end_a_copy(number)):
            pass

    @app.job
    async def ends_a_copy_in_the_loop(ctx: Context, number: int) -> None:
        with journal.run(ctx, end_a_copy(number)):
            pass

    @app.job(process=True)
    def ends_a_copy_of_a_process(ctx: Context, number: int) -> None:
        with journal.run(ctx, end_a_copy(number)):
            pass

    def comes_back(ctx: Context, how: str) -> None:
        if (copy := os.fork()) != 0:
            code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            with journal.run(ctx, str(code)):
                return
        if how == "fails":
            raise ValueError("in the copy")
        if how == "leaves":
            sys.exit(7)

    @app.job(max_attempts=1)
    def forks(ctx: Context, how: str) -> None:
        comes_back(ctx, how)

    @app.job(max_attempts=1, process=True)
    def forks_in_a_process(ctx: Context, how: str) -> None:
        comes_back(ctx, how)

    @app.batch_job(size=1, max_attempts=1)
    def forks_in_a_batch(calls: list[BatchCall[str]]) -> None:
        comes_back(calls[0].context, calls[0].argument)

    @app.job(max_attempts=1)
    async def forks_in_the_loop(ctx: Context, how: str) -> None:
        comes_back(ctx, how)
"""
JOBS_THAT_FORK = {
    "forks": "how",
    "forks_in_the_loop": "how",
    "forks_in_a_process": "how",
    "forks_in_a_batch": "argument",
}


@pytest.fixture
def shop(processes: Processes) -> str:
    return f"{processes.module('shop_forks', SHOP)}:app"


def enqueue(road: Road, job: str, arguments: str) -> str:
    """Enqueue as another language does; the id."""
    ((made,),) = road.query("SELECT redisjobs.enqueue(%s, %s::json)::text", job, arguments)
    road.committed.append(str(made))
    return str(made)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_a_copy_that_a_body_forked_ends_the_copy_and_not_the_worker(
    road: Road, shop: str, number: int
):
    (_,), (worker,) = await road.start(place=shop)
    jobs = ("ends_a_copy", "ends_a_copy_in_the_loop", "ends_a_copy_of_a_process")
    made = [enqueue(road, job, f'{{"number": {number:d}}}') for job in jobs for _ in range(3)]
    await road.at_rest()
    assert [run.note for each in made for run in road.journal.runs(each)] == [str(-number)] * 9
    assert "worker.draining" not in worker.log()


async def test_a_copy_that_comes_back_from_its_body_ends_there(road: Road, shop: str):
    await road.start(place=shop)
    codes = {"returns": "0", "fails": "1", "leaves": "7"}
    made = {
        enqueue(road, job, f'{{"{argument}": "{how}"}}'): (job, how, code)
        for job, argument in JOBS_THAT_FORK.items()
        for how, code in codes.items()
    }
    await road.at_rest()
    assert {(*made[job][:2], run.note) for job in made for run in road.journal.runs(job)} == set(made.values())
