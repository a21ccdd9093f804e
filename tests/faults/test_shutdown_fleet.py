"""Stop signals that reach a parent and its processes at once: one stop is one stop (rules G2, W10, W13; case G10)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.faults.road import Road, up
from tests.faults.test_shutdown import as_process_one, children_of, enqueue, first_of, stays_at_work
from tests.support.eventually import always, eventually
from tests.support.processes import Processes, Program
from tests.support.terminal import Terminal

SHOP = """
    import asyncio, time
    from redisjobs import App, Context
    from tests.faults.journal import Journal

    app = App("shutdown")
    journal = Journal.of_env()

    @app.job
    async def waits(ctx: Context) -> None:
        with journal.run(ctx):
            while journal.starts(ctx.job_id) == 1 and not journal.gate_is_open():
                await asyncio.sleep(0.05)

    @app.job(process=True)
    def crunches(ctx: Context) -> None:
        with journal.run(ctx):
            while journal.starts(ctx.job_id) == 1 and not journal.gate_is_open():
                time.sleep(0.05)
"""
UNIT = ("--processes", "2", "--shutdown-grace", "20s")


@pytest.fixture
def shop(processes: Processes) -> str:
    return f"{processes.module('shop_fleet', SHOP)}:app"


async def running(road: Road) -> list[str]:
    """A body in the loop and one in a process of its own, at work until the gate is open."""
    jobs = [enqueue(road, job) for job in ("crunches", "waits")]
    for job in jobs:
        await road.ran(job, within=30)
    return jobs


def unit_of(pid: int) -> Iterator[int]:
    """A process and all below it, as a supervisor's group of control holds them."""
    yield pid
    for child in children_of(pid):
        yield from unit_of(child)


def signal_all(pids: list[int], sig: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a helper of the interpreter that has ended meanwhile
            os.kill(pid, sig)


def assert_all_returned(road: Road, jobs: list[str]) -> None:
    assert [run.how for job in jobs for run in road.journal.runs(job)] == ["returned", "returned"]


async def started(road: Road, shop: str) -> Program:
    if not road.processes.started:
        await road.start(workers=0)
    worker = road.worker(*UNIT, place=shop)
    await eventually(lambda: worker.log().count("worker.started") == 2, "both processes have started", 30)
    return worker


@pytest.mark.parametrize("parent", ["first", "last"])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
async def test_g10_a_signal_to_every_process_of_a_unit_is_one_stop_and_has_its_grace(
    road: Road, shop: str, sig: signal.Signals, parent: str
):
    worker = await started(road, shop)
    jobs = await running(road)
    unit = list(unit_of(worker.pid))
    assert len(unit) >= 4, "the parent, two processes, and that of a body"

    signal_all(unit if parent == "first" else unit[::-1], sig)

    await stays_at_work(worker, road)
    assert await worker.ended() == 0
    assert all(f"finished     {job}" in worker.log() for job in jobs)
    await road.at_rest()
    assert_all_returned(road, jobs)


async def test_process_one_and_its_child_take_a_signal_to_both_for_one(road: Road, shop: str, processes: Processes):
    processes.env |= road.journal.env
    await up(road.relay())
    main = "from redisjobs.cli import main; main()"
    program = await as_process_one(processes, sys.executable, "-c", main, "worker", shop, *UNIT)
    await eventually(lambda: program.log().count("worker.started") == 2, "both processes have started", 30)
    jobs = await running(road)

    signal_all(list(unit_of(first_of(program))), signal.SIGTERM)

    await stays_at_work(program, road)
    assert await program.ended() == 0
    await road.at_rest()
    assert_all_returned(road, jobs)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_to_every_process_of_a_unit_hands_back_at_once(
    road: Road, shop: str, sig: signal.Signals
):
    worker = await started(road, shop)
    jobs = await running(road)
    unit = list(unit_of(worker.pid))

    signal_all(unit, sig)
    await eventually(lambda: worker.log().count("worker.draining") == 2, "both drain")
    signal_all(unit, sig)

    assert await worker.ended(15) == 75
    assert all(f"handed back  {job}" in worker.log() for job in jobs)
    await road.start(relays=0, place=shop)
    await road.at_rest(extra=jobs)
    assert {run.attempt for job in jobs for run in road.journal.runs(job)} == {1}


async def test_the_parent_alone_passes_a_stop_on_and_a_second_one_too(road: Road, shop: str):
    worker = await started(road, shop)
    jobs = await running(road)
    worker.send(signal.SIGTERM)
    await stays_at_work(worker, road)
    assert await worker.ended() == 0
    await road.at_rest()
    assert_all_returned(road, jobs)
    road.journal.close_gate()

    worker = await started(road, shop)
    jobs = await running(road)
    worker.send(signal.SIGTERM)
    await eventually(lambda: worker.log().count("worker.draining") == 2, "both drain")
    worker.send(signal.SIGTERM)
    assert await worker.ended(15) == 75
    assert all(f"handed back  {job}" in worker.log() for job in jobs)
    await road.start(relays=0, place=shop)
    await road.at_rest(extra=jobs)


async def test_two_ctrl_c_in_a_terminal_hand_back_at_once_and_one_lets_bodies_end(road: Road, shop: str):
    await road.start(workers=0)
    env = road.processes.env | road.journal.env
    for presses, fate in ((1, "finished     "), (2, "handed back  ")):
        with Terminal("worker", shop, *UNIT, env=env, size=(300, 50)) as terminal:
            await eventually(lambda: terminal.text().count("worker.started") == 2, "both have started", 30)
            jobs = await running(road)
            for press in range(presses):
                terminal.press("\x03")
                await eventually(lambda: terminal.text().count("worker.draining") == 2, f"drain after press {press}")
            if presses == 1:
                await always(road.journal.running, "bodies go on", lasting=0.5)
                road.journal.open_gate()
            assert terminal.code() == (0 if presses == 1 else 75)
            assert all(f"{fate}{job}" in terminal.text() for job in jobs)
        road.journal.close_gate()
    await road.start(relays=0, place=shop)
    await road.at_rest(extra=jobs)
