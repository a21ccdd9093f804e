"""Every way to stop a worker: nothing is lost, no attempt is used up (rules G2, G6; cases G01 to G12)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.faults.road import LEASE_S, STALL_S, Road, up
from tests.faults.shop import order
from tests.support.eventually import always, eventually
from tests.support.processes import Processes, Program

SHOP = """
    import asyncio, os, subprocess
    from redisjobs import App, Context
    from tests.faults.journal import Journal

    app = App("shutdown")
    journal = Journal.of_env()

    @app.job(max_attempts=3)
    async def swap(ctx: Context) -> None:
        "Answers its cancellation with an error of its own."
        with journal.run(ctx):
            try:
                await asyncio.sleep(600 if len(journal.runs(ctx.job_id)) == 1 else 0)
            except asyncio.CancelledError:
                raise ValueError("cleaning up went wrong") from None

    @app.job(max_attempts=3)
    async def long(ctx: Context, stops: int) -> None:
        with journal.run(ctx):
            await asyncio.sleep(600 if len(journal.runs(ctx.job_id)) <= stops else 0)

    @app.job
    async def child(ctx: Context) -> None:
        "Has a process of its own, as a body that calls a tool. Both end when the test opens the gate."
        with journal.run(ctx):
            tool = await asyncio.create_subprocess_exec(
                "sh", "-c", 'until [ -e "$0" ]; do sleep 0.1; done', str(journal.gate), start_new_session=True
            )
            assert await tool.wait() == 0

    @app.job
    async def orphan(ctx: Context) -> None:
        "Leaves a grandchild behind, which ends at once and is to be reaped by process 1."
        with journal.run(ctx):
            subprocess.run(["sh", "-c", "sleep 0.2 & exit 0"], check=True)
            await asyncio.sleep(0.5)
"""


@pytest.fixture
def shop(processes: Processes) -> str:
    return f"{processes.module('shop_shutdown', SHOP)}:app"


def enqueue(road: Road, job: str, arguments: str = "{}") -> str:
    """Enqueue as another language does; the id."""
    ((made,),) = road.query("SELECT redisjobs.enqueue(%s, %s::json)::text", job, arguments)
    road.committed.append(made)
    return str(made)


async def test_g01_what_a_hard_stop_cuts_off_starts_elsewhere_within_one_lease(road: Road):
    _, workers = await road.start(workers=2)
    (job,) = road.enqueue(order.call(seconds=3))
    await road.ran(job)
    victim, other = sorted(workers, key=lambda each: each.pid != road.pid_of(job))
    victim.send(signal.SIGTERM)
    await victim.says("worker.draining")
    victim.kill()
    killed_at = time.monotonic()
    await road.ran(job, 2)
    assert road.journal.runs(job)[1].started - killed_at < LEASE_S * 4 / 3 + STALL_S  # a lease and the pause of looks
    await road.at_rest(extra=[job])
    assert other.is_running()


async def test_g03_a_body_that_fails_because_of_the_stop_is_handed_back_and_not_retried_too(road: Road, shop: str):
    (_,), (worker,) = await road.start(place=shop)
    job = enqueue(road, "swap")
    await road.ran(job)
    worker.send(signal.SIGTERM)
    await worker.says("worker.draining")
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 75
    assert f"handed back  {job}" in worker.log()
    assert "attempt.retrying" not in worker.log()

    await up(road.worker(place=shop))
    await road.at_rest(extra=[job])
    assert [run.attempt for run in road.journal.runs(job)] == [1, 1]


async def test_g04_five_deploys_in_mid_job_use_up_no_attempt(road: Road, shop: str):
    (_,), (worker,) = await road.start(place=shop)
    job = enqueue(road, "long", '{"stops": 5}')
    for stops in range(1, 6):
        await road.ran(job, stops)
        worker.send(signal.SIGTERM)
        await worker.says("worker.draining")
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 75
        worker = road.worker(place=shop)
    await road.at_rest(extra=[job])
    assert [run.attempt for run in road.journal.runs(job)] == [1] * 6
    assert road.query("SELECT attempts FROM redisjobs.finished WHERE id = %s", job) == [(1,)]


async def test_g05_a_draining_worker_keeps_its_lease_beside_a_new_one(road: Road):
    _, (old,) = await road.start()
    (job,) = road.enqueue(order.call(seconds=2.5 * LEASE_S))
    await road.ran(job)
    old.send(signal.SIGTERM)
    await old.says("worker.draining")
    await up(road.worker())
    assert await old.ended() == 0
    await road.at_rest()
    assert road.journal.starts(job) == 1


async def as_process_one(processes: Processes, *command: str) -> Program:
    """The command as process 1 of a namespace of its own."""
    unshare = shutil.which("unshare")
    assert unshare, "unshare (util-linux) is needed to give a process the number 1"
    mine = ["--user", "--map-root-user"] if os.geteuid() else []
    return processes.start(unshare, *mine, "--fork", "--pid", "--kill-child", *command)


def first_of(program: Program) -> int:
    """The process that is number 1 inside."""
    return int(Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()[0])


def children_of(pid: int) -> list[int]:
    """Those that any of its threads started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
@pytest.mark.parametrize("through_a_shell", [False, True])
async def test_g09_as_process_one_and_below_a_shell_with_exec_it_drains(
    road: Road, shop: str, tmp_path: Path, through_a_shell: bool, options: tuple[str, ...]
):
    processes = road.processes
    processes.env |= road.journal.env
    await up(road.relay())
    script = tmp_path / "worker.sh"
    script.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        exec {sys.executable} -c 'from redisjobs.cli import main; main()' worker {shop} -c 5 {" ".join(options)}
        """)
    )
    script.chmod(0o755)
    direct = [sys.executable, "-c", "from redisjobs.cli import main; main()", "worker", shop, "-c", "5", *options]
    program = await as_process_one(processes, *(["/bin/sh", str(script)] if through_a_shell else direct))
    await program.says("worker.started")
    orphaned, job = enqueue(road, "orphan"), enqueue(road, "child")
    await road.ran(orphaned)
    await road.ran(job)
    init = first_of(program)
    await eventually(lambda: orphaned in road.done(), "the body that leaves an orphan has ended")
    await eventually(lambda: not [pid for pid in children_of(init) if state_of(pid) == "Z"], "zombies are reaped")

    os.kill(init, signal.SIGTERM)
    await stays_at_work(program, road)
    assert await program.ended() == 0
    assert f"finished     {job}" in program.log()
    await road.at_rest()


async def stays_at_work(program: Program, road: Road) -> None:
    """What runs is drained, and for a while nothing of it is cut off; then it may end."""

    def drained() -> int:
        return sum(map(int, re.findall(r"worker\.draining running=(\d+)", program.log())))

    await eventually(lambda: drained() == len(road.journal.running()), "it drains")
    await always(lambda: program.is_running() and road.journal.running(), "the body goes on", lasting=0.5)
    road.journal.open_gate()


def below(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *below(child))]


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
async def test_g10_a_signal_to_the_whole_group_ends_no_body(
    road: Road, shop: str, sig: signal.Signals, options: tuple[str, ...]
):
    worker = road.worker(*options, place=shop)
    await up(road.relay(), worker)
    job = enqueue(road, "child")
    await road.ran(job)
    await eventually(
        lambda: any(os.getsid(pid) == pid for pid in below(worker.pid)), "the body's tool runs in a session of its own"
    )
    os.killpg(worker.pid, sig)
    await stays_at_work(worker, road)
    assert await worker.ended() == 0
    assert f"finished     {job}" in worker.log()
    await road.at_rest()
    assert [run.how for run in road.journal.runs(job)] == ["returned"]


async def test_g11_three_signals_in_a_row_hand_back_and_lose_nothing(road: Road):
    _, (worker,) = await road.start()
    (job,) = road.enqueue(order.call(seconds=5))
    await road.ran(job)
    for _ in range(3):
        worker.send(signal.SIGTERM)
    assert await worker.ended(15) in (0, 75)
    assert "abandoned    " not in worker.log()
    await up(road.worker())
    await road.at_rest(extra=[job])
    assert {run.attempt for run in road.journal.runs(job)} == {1}


async def test_g12_what_was_handed_back_waits_for_another_worker_and_starts_there_at_once(road: Road, shop: str):
    lease = 20
    (_,), (worker,) = await road.start(place=shop, lease=lease)
    job = enqueue(road, "long", '{"stops": 1}')
    await road.ran(job)
    worker.send(signal.SIGTERM)
    await worker.says("worker.draining")  # of two signals that are pending at once a process gets one
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 75
    await always(lambda: road.journal.starts(job) == 1 and road.states() == {job: "published"}, "it waits", lasting=2)

    await up(road.worker(place=shop, lease=lease))
    await road.ran(job, 2, within=lease / 2)  # no lease is waited for
    await road.at_rest(extra=[job])


async def test_a_signal_before_the_start_ends_the_worker_with_nothing_taken(road: Road):
    (job,) = road.enqueue(order.call())
    await up(road.relay())
    worker = road.worker()
    worker.send(signal.SIGTERM)
    assert worker.wait(20) in (0, -signal.SIGTERM)
    assert road.journal.starts(job) == 0
    await up(road.worker())
    await road.at_rest()
