"""`redisjobs worker` with bodies in processes of their own: signals to all, and the end of the worker (W10, G10)."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.faults.test_shutdown import children_of
from tests.services.test_cli_worker import drains, put
from tests.support.embedded import is_alive
from tests.support.eventually import eventually
from tests.support.processes import Processes, Program

SHOP = """
    import logging, os, subprocess, time
    from redisjobs import App, Context

    app = App()

    @app.job(process=True)
    def crunch(ctx: Context, seconds: float):
        helper = subprocess.Popen(["sleep", "600"])
        print(f"helper {helper.pid} of crunch in {os.getpid()}", flush=True)
        logging.getLogger("shop").info("crunching")
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not os.path.exists("enough"):
            time.sleep(0.01)
"""


@pytest.fixture
def shop(processes: Processes) -> str:
    return f"{processes.module('shop', SHOP)}:app"


async def pid_of(worker: Program) -> int:
    found = re.search(r"crunch in (\d+)", await worker.says("crunch in", 30))
    assert found
    return int(found[1])


def is_guard(pid: int) -> bool:
    return "guard.py" in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_a_signal_to_the_whole_group_lets_the_body_end(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path, loop: str
):
    job = await put(redis_url, "crunch", seconds=60)
    worker = processes.redisjobs("worker", shop, loop)
    child = await pid_of(worker)

    os.killpg(worker.pid, signal.SIGTERM)

    assert await drains(worker, tmp_path) == 0
    assert f"finished     {job}" in worker.log()
    assert re.search(rf"app +crunching job=crunch job_id={job} queue=default attempt=1", worker.log())
    assert not is_alive(child)


async def test_a_body_beyond_the_grace_is_killed_and_handed_back(processes: Processes, shop: str, redis_url: str):
    job = await put(redis_url, "crunch", seconds=60)
    worker = processes.redisjobs("worker", shop, "--shutdown-grace", "0")
    child = await pid_of(worker)

    assert worker.stop(within=20) == 75
    assert f"handed back  {job}" in worker.log()
    assert not is_alive(child)


async def test_no_body_outlives_a_killed_worker(processes: Processes, shop: str, redis_url: str):
    await put(redis_url, "crunch", seconds=60)
    worker = processes.redisjobs("worker", shop)
    child = await pid_of(worker)
    found = re.search(r"helper (\d+)", worker.log())
    assert found
    helper = int(found[1])
    (guard,) = [pid for pid in children_of(worker.pid) if is_guard(pid)]
    os.kill(guard, signal.SIGTERM)  # as all processes of a unit get it

    os.kill(worker.pid, signal.SIGKILL)

    await eventually(lambda: not is_alive(child), "the body's process has ended")
    await eventually(lambda: not is_alive(helper), "what the body started has ended")
    await eventually(lambda: not is_alive(guard), "the guard has nothing to do any more")


async def test_the_program_that_runs_a_worker_itself_may_declare_such_bodies(processes: Processes, redis_url: str):
    program = (
        SHOP
        + """
    if __name__ == "__main__":
        import asyncio
        from redisjobs.worker import Worker
        asyncio.run(Worker(app, burst=True).run())
    """
    )
    processes.module("program", program)
    await put(redis_url, "crunch", seconds=0)

    worker = processes.python("program.py")

    assert await worker.ended() == 0
    assert await pid_of(worker) != worker.pid
