"""`redisjobs worker --processes` and `--reload`: several processes, one command (rule W13)."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.support.builders import envelope, publication
from tests.support.embedded import is_alive
from tests.support.eventually import eventually
from tests.support.processes import Processes, Program
from tests.support.queue import QueueByHand

SHOP = """
    import asyncio, logging, os
    from pathlib import Path
    from redisjobs import App, Context

    app = App()

    @app.job
    async def who():
        print(f"ran in {os.getpid()}", flush=True)
        logging.getLogger("shop").info("a line of a body")
        while not Path("enough").exists():
            await asyncio.sleep(0.01)

    @app.job
    async def long(ctx: Context):
        print(f"VERSION long began, attempt {ctx.attempt}", flush=True)
        await asyncio.sleep(60)
"""


@pytest.fixture
def shop(processes: Processes) -> str:
    return f"{processes.module('shop', SHOP)}:app"


async def put(url: str, job: str, count: int = 1) -> list[UUID]:
    ids = [uuid4() for _ in range(count)]
    async with QueueByHand(url, "default") as q:
        jobs = [publication(envelope(job), job_id=each.bytes, direct=True) for each in ids]
        await q.broker.enqueue_direct("default", jobs)
    return ids


def pids(program: Program) -> set[int]:
    return {int(pid) for pid in re.findall(r"ran in (\d+)", program.log())}


async def started(program: Program, count: int) -> None:
    await eventually(lambda: program.log().count("worker.started") >= count, f"{count} have started", 20)


async def test_several_processes_share_the_work_tell_who_speaks_and_end_with_receipts(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    worker = processes.redisjobs("worker", shop, "--processes", "2", "-c", "1", "--worker-id", "crane")
    await started(worker, 2)
    await put(redis_url, "who", 6)
    await eventually(lambda: len(pids(worker)) == 2, "both have run jobs")
    assert worker.pid not in pids(worker)

    (tmp_path / "enough").touch()
    assert worker.stop() == 0

    log = worker.log()
    assert {"worker_id=crane-1", "worker_id=crane-2"} <= set(log.split())
    assert re.search(r"INFO +app\[[12]\] +a line of a body", log)
    assert log.count("process 1 processed ") == log.count("process 2 processed ") == 1


async def test_a_killed_process_is_replaced_and_a_second_signal_hands_back_at_once(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    worker = processes.redisjobs("worker", shop, "--processes", "2", "-c", "1")
    await started(worker, 2)
    await put(redis_url, "who")
    await worker.says("ran in")
    os.kill(pids(worker).pop(), signal.SIGKILL)
    (tmp_path / "enough").touch()
    await worker.says("fleet.process_restarts")
    await started(worker, 3)

    await put(redis_url, "long", 2)
    await eventually(lambda: worker.log().count("long began") == 2, "both run a long one")
    os.killpg(worker.pid, signal.SIGINT)
    await eventually(lambda: worker.log().count("worker.draining") == 2, "both drain")
    worker.send(signal.SIGTERM)

    assert worker.wait(within=15) == 75
    assert worker.log().count("1 handed back") == 2


async def test_no_process_outlives_its_parent(processes: Processes, shop: str, redis_url: str, tmp_path: Path):
    worker = processes.redisjobs("worker", shop, "--processes", "2", "-c", "1")
    await started(worker, 2)
    await put(redis_url, "who", 4)
    await eventually(lambda: len(pids(worker)) == 2, "both have run jobs")

    os.kill(worker.pid, signal.SIGKILL)
    (tmp_path / "enough").touch()

    await eventually(lambda: not any(map(is_alive, pids(worker))), "both have ended", 20)
    assert worker.log().count("during the drain: ") == 2


async def test_an_app_that_is_not_there_ends_all_with_78(processes: Processes):
    worker = processes.redisjobs("worker", "--app", "no_such_shop:app", "--processes", "2")

    assert await worker.ended() == 78
    assert "no module 'no_such_shop' was found in" in worker.log()
    assert "fleet.gave_up" in worker.log()
    assert "Traceback" not in worker.log()


async def test_a_quiet_worker_takes_nothing_more_and_ends_what_it_has(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    worker = processes.redisjobs("worker", shop, "-c", "1")
    await put(redis_url, "who")
    await worker.says("ran in")

    worker.send(signal.SIGTSTP)
    await worker.says("worker.quiet")
    (waits,) = await put(redis_url, "who")
    (tmp_path / "enough").touch()

    assert worker.stop() == 0
    assert worker.log().count("ran in") == 1
    async with QueueByHand(redis_url, "default") as q:
        delivery = await q.take_one()
        assert (delivery.job_id, delivery.start) == (waits.bytes, 1)


async def test_dev_starts_anew_too_when_a_file_is_saved(processes: Processes, redis_url: str):
    processes.module("shop", SHOP.replace("VERSION", "first"))
    dev = processes.redisjobs("dev", "shop:app", "--reload")
    await put(redis_url, "long")
    await dev.says("first long began, attempt 1", 30)

    processes.module("shop", SHOP.replace("VERSION", "second"))

    await dev.says("second long began, attempt 1", 30)
    assert dev.stop() == 75
    assert dev.log().count("Redis of the URL given") == 1
    assert "export REDISJOBS_REDIS_URL" not in dev.log(), "a given URL may have a password"


async def test_a_saved_file_is_run_at_once_and_a_broken_one_waits_for_the_next_save(
    processes: Processes, redis_url: str
):
    def save(source: str) -> None:
        processes.module("shop", source)

    save(SHOP.replace("VERSION", "first"))
    worker = processes.redisjobs("worker", "shop:app", "--reload")
    await put(redis_url, "long")
    await worker.says("first long began, attempt 1", 30)

    save(SHOP.replace("VERSION", "second"))
    await worker.says("second long began, attempt 1", 30)

    save(SHOP.replace("VERSION", "third").replace("async def who():", "async def who("))
    await worker.says("fleet.waiting_for_change", 30)
    assert "importing 'shop' raised SyntaxError" in worker.log()

    save(SHOP.replace("VERSION", "fourth"))
    await worker.says("fourth long began, attempt 1", 30)
    assert worker.stop() == 75
    assert "Traceback" not in worker.log()
