"""`redisjobs worker` as a process: signals, receipts and exit codes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.support.builders import envelope, publication
from tests.support.eventually import eventually, eventually_now
from tests.support.processes import Processes, Program
from tests.support.proxy import Proxy
from tests.support.queue import QueueByHand
from tests.support.servers import RedisServer

COMMAND = [sys.executable, "-c", "from redisjobs.cli import main; main()"]
SHOP = """
    import asyncio, subprocess, sys, time
    from pathlib import Path
    from redisjobs import App

    app = App()

    def say(text):
        print(text, flush=True)

    @app.job
    async def brief():
        say("brief began")
        await asyncio.sleep(0.5)

    @app.job
    async def lasting():
        say("lasting began")
        while not Path("enough").exists():
            await asyncio.sleep(0.01)

    @app.job
    async def long():
        say("long began")
        await asyncio.sleep(60)

    @app.job
    async def stubborn():
        say("stubborn began")
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass

    @app.job
    def threaded():
        say("threaded began")
        time.sleep(60)

    @app.job
    async def orphan():
        subprocess.run(["sh", "-c", "sleep 0.2 & echo orphan $!"], check=True)

    @app.job
    async def prints_from_below():
        subprocess.run(["sh", "-c", "echo out; echo err >&2; touch printed"], check=True)

    @app.job
    async def shut():
        say("shut began")
        sys.stdout.close()

    @app.job(max_attempts=1)
    async def broken(card):
        raise ValueError("declined")
"""


LETTERS = """
    from redisjobs import App

    app = App()

    @app.job(queue="mail")
    async def letter(): ...

    @app.job(queue="slow")
    async def parcel(): ...

    @app.job
    async def stamp(): ...
"""


@pytest.fixture
def shop(processes: Processes) -> str:
    return f"{processes.module('shop', SHOP)}:app"


async def put(url: str, job: str, /, queue: str = "default", **arguments: object) -> UUID:
    """Put a job straight into Redis."""
    made = uuid4()
    async with QueueByHand(url, queue) as q:
        await q.broker.enqueue_direct(queue, [publication(envelope(job, **arguments), job_id=made.bytes, direct=True)])
    return made


async def drains(worker: Program, folder: Path) -> int:
    """The exit code of a worker that was told to stop, and whose `lasting` body ends once it drains."""
    await worker.says("worker.draining")
    (folder / "enough").touch()
    return await worker.ended()


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_a_stop_waits_for_what_runs_and_tells_its_end(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path, loop: str
):
    job = await put(redis_url, "lasting")
    worker = processes.redisjobs("worker", "--app", shop, loop)
    await worker.says("lasting began")

    worker.send(signal.SIGTERM)

    assert await drains(worker, tmp_path) == 0
    assert f"finished     {job}  lasting  default\n" in worker.log()
    assert "during the drain: 1 finished, 0 handed back, 0 abandoned" in worker.log()


async def test_a_store_that_is_given_as_an_option_is_the_one_that_is_served(
    processes: Processes, shop: str, redis_url: str
):
    await put(redis_url, "brief")

    nowhere = {"REDISJOBS_REDIS_URL": ""}
    worker = processes.redisjobs("worker", shop, "--redis-url", redis_url, "--burst", env=nowhere)

    assert await worker.ended() == 0
    assert "brief began" in worker.log()


async def test_how_many_lost_leases_make_a_dead_letter_can_be_said(processes: Processes, shop: str, redis_url: str):
    await put(redis_url, "brief")
    async with QueueByHand(redis_url, "default") as q:
        await q.take("killed", lease_ms=1)
        worker = processes.redisjobs("worker", shop, "--max-losses", "1", "--visibility-timeout", "1s")

        await eventually(q.outcomes, "its outcome is there", 30)
        assert [each.word for each in await q.outcomes()] == ["dead"]
    assert worker.stop() == 0
    assert "brief began" not in worker.log()


async def test_what_outlasts_the_grace_is_handed_back_uncounted(processes: Processes, shop: str, redis_url: str):
    job = await put(redis_url, "long")
    worker = processes.redisjobs("worker", shop, "--shutdown-grace", "200ms")
    await worker.says("long began")

    assert worker.stop() == 75
    assert f"handed back  {job}  long  default" in worker.log()
    async with QueueByHand(redis_url, "default") as q:
        (delivery,) = await q.take()
        assert (delivery.job_id, delivery.attempts, delivery.losses) == (job.bytes, 0, 0)


async def test_several_signals_hand_back_at_once(processes: Processes, shop: str, redis_url: str):
    job = await put(redis_url, "long")
    worker = processes.redisjobs("worker", shop)
    await worker.says("long began")

    worker.send(signal.SIGINT)
    await worker.says("worker.draining")
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGTERM)

    assert worker.wait(within=10) == 75
    assert f"handed back  {job}" in worker.log()


@pytest.mark.parametrize("job", ["stubborn", "threaded"])
async def test_a_body_that_does_not_end_does_not_keep_the_process(
    processes: Processes, shop: str, redis_url: str, job: str
):
    await put(redis_url, job)
    worker = processes.redisjobs("worker", shop, "--shutdown-grace", "0")
    await worker.says(f"{job} began")

    assert worker.stop(within=20) == 75
    assert "during the drain: 0 finished, 1 handed back" in worker.log()


async def test_a_receipt_for_machines_has_a_json_line_each(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    job = await put(redis_url, "lasting")
    worker = processes.redisjobs("worker", shop, env={"REDISJOBS_LOG_FORMAT": "json"})
    await worker.says("lasting began")

    worker.send(signal.SIGTERM)

    assert await drains(worker, tmp_path) == 0
    assert f'{{"fate": "finished", "job_id": "{job}", "job": "lasting", "queue": "default"}}' in worker.log()
    assert '"event": "worker.draining"' in worker.log()
    drained = '"drained": {"finished": 1, "handed back": 0, "abandoned": 0}'
    assert f'{{"processed": 1, "failed": 0, {drained}}}' in worker.log()


async def test_a_receipt_that_nobody_can_read_changes_no_exit_code(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    for job in ("lasting", "shut"):
        await put(redis_url, job)
    worker = processes.redisjobs("worker", shop)
    for job in ("lasting", "shut"):
        await worker.says(f"{job} began")

    worker.send(signal.SIGTERM)

    assert await drains(worker, tmp_path) == 0
    assert "Traceback" not in worker.log()
    assert "worker.stopped" in worker.log()


@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
async def test_a_worker_runs_with_streams_that_are_closed(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path, closed: str
):
    await put(redis_url, "prints_from_below")
    command = f"{' '.join(map(shlex.quote, COMMAND))} worker {shop} --burst {closed}"

    worker = processes.start("sh", "-c", command, env={"REDISJOBS_REDIS_URL": redis_url})

    assert await worker.ended() == 0
    assert (tmp_path / "printed").exists()


async def test_a_burst_ends_when_nothing_is_left(processes: Processes, shop: str, redis_url: str):
    for _ in range(3):
        await put(redis_url, "brief")

    worker = processes.redisjobs("worker", shop, "--burst")

    assert await worker.ended() == 0
    assert worker.log().count("brief began") == 3


async def test_the_receipt_says_what_ran_before_the_drain_too(processes: Processes, shop: str, redis_url: str):
    await put(redis_url, "brief")
    await put(redis_url, "brief")
    await put(redis_url, "broken", card="4111")

    worker = processes.redisjobs("worker", shop, "--burst")

    assert await worker.ended() == 0
    drain = "during the drain: 0 finished, 0 handed back, 0 abandoned"
    assert f"processed 3 attempts in its life, 1 of them failed; {drain}" in worker.log()


async def test_queues_of_the_app_that_nobody_chose_or_left_out_are_told_at_the_start(
    processes: Processes, redis_url: str
):
    app = f"{processes.module('letters', LETTERS)}:app"

    unaware = processes.redisjobs("worker", app, "--burst")
    aware = processes.redisjobs("worker", app, "--burst", "--queues", "default")

    assert (await unaware.ended(), await aware.ended()) == (0, 0)
    assert "worker.queues_unserved queues=mail,slow remedy=" in unaware.log()
    assert "--queues default,mail,slow, or a worker of their own" in unaware.log()
    assert "worker.queues_unserved" not in aware.log()


async def test_queues_and_slots_come_from_the_environment(processes: Processes, shop: str, redis_url: str):
    await put(redis_url, "brief", queue="mail.fast")
    worker = processes.redisjobs(
        "worker",
        env={"REDISJOBS_APP": shop, "REDISJOBS_QUEUES": "default,mail.*", "REDISJOBS_CONCURRENCY": "mail.*=2",
             "REDISJOBS_WORKER_WORKER_ID": "crane-7"},
    )  # fmt: skip

    log = await worker.says("brief began")

    assert "worker_id=crane-7 queues=default,mail.*" in log
    assert worker.stop() == 0


def test_a_redis_that_is_away_at_the_start_ends_with_69(processes: Processes, shop: str):
    worker = processes.redisjobs("worker", shop, "--redis-url", "redis://:hush@127.0.0.1:1/0")

    assert worker.wait() == 69
    assert "Error: Redis does not answer" in worker.log()
    assert "Traceback" not in worker.log()
    assert "hush" not in worker.log()


def test_an_app_that_is_not_there_ends_with_78(processes: Processes):
    worker = processes.redisjobs("worker", "--app", "no_such_shop:app")

    assert worker.wait() == 78
    assert "no module 'no_such_shop' was found in" in worker.log()
    assert "Traceback" not in worker.log()


def test_an_option_out_of_range_ends_with_78(processes: Processes, shop: str):
    worker = processes.redisjobs("worker", shop, "--heartbeat-interval", "20s", "--visibility-timeout", "30s")

    assert worker.wait() == 78
    assert "must be below half of visibility_timeout" in worker.log()


async def test_a_worker_that_waits_for_a_silent_redis_can_be_stopped(
    processes: Processes, shop: str, redis_proxy: Proxy
):
    redis_proxy.pause()
    worker = processes.redisjobs("worker", shop, "--redis-url", redis_proxy.url)
    await eventually(lambda: redis_proxy.connections > 0, "the worker has connected")

    assert worker.stop(within=9) == 0


async def test_what_the_app_says_about_its_stores_stands_unless_an_option_says_otherwise(
    processes: Processes, redis_url: str, start_redis: Callable[..., RedisServer]
):
    own = start_redis()
    name = processes.module("own_shop", SHOP.replace("App()", f"App(redis_url={own.url!r})"))
    await put(own.url, "brief")
    await put(redis_url, "long")

    first = processes.redisjobs("worker", name, "--burst")
    assert await first.ended() == 0
    assert "brief began" in first.log()

    second = processes.redisjobs("worker", name, "--redis-url", redis_url, "--shutdown-grace", "0")
    assert "brief began" not in await second.says("long began")


async def test_no_log_line_has_an_argument(processes: Processes, shop: str, redis_url: str):
    await put(redis_url, "broken", card="4111-marker")

    worker = processes.redisjobs("--log-level", "debug", "worker", shop, "--burst")

    assert await worker.ended() == 0
    assert "declined" in worker.log()
    assert "4111-marker" not in worker.log()


async def test_below_a_shell_that_execs_the_worker_drains(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    await put(redis_url, "lasting")
    worker = processes.start("sh", "-c", 'exec "$@"', "sh", *COMMAND, "worker", shop)
    await worker.says("lasting began")

    worker.send(signal.SIGTERM)

    assert await drains(worker, tmp_path) == 0
    assert "during the drain: 1 finished" in worker.log()


async def test_a_signal_to_the_whole_group_drains(processes: Processes, shop: str, redis_url: str, tmp_path: Path):
    await put(redis_url, "lasting")
    worker = processes.redisjobs("worker", shop)
    await worker.says("lasting began")

    os.killpg(worker.pid, signal.SIGTERM)

    assert await drains(worker, tmp_path) == 0
    assert "during the drain: 1 finished" in worker.log()


def start_as_process_one(processes: Processes, *arguments: str) -> tuple[Program, int]:
    """Start a command as process 1 of a new namespace: what started it, and its pid as seen from here."""
    unshare = shutil.which("unshare")
    assert unshare, "this test needs `unshare` of util-linux"
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    outer = processes.start(unshare, *user, "--pid", "--fork", "--kill-child", *COMMAND, *arguments)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    inner = eventually_now(lambda: children.read_text().split(), "process 1 has started")
    return outer, int(inner[0])


def zombies_of(pid: int) -> list[str]:
    found: list[str] = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"PPid:\t{pid}\n" in text and "State:\tZ" in text:
            found.append(text)
    return found


async def test_as_process_one_it_drains_and_reaps_orphans(
    processes: Processes, shop: str, redis_url: str, tmp_path: Path
):
    await put(redis_url, "orphan")
    outer, one = start_as_process_one(processes, "worker", shop)
    await outer.says("orphan ")
    await eventually(lambda: not zombies_of(one), "the orphan has been reaped")
    await put(redis_url, "lasting")
    await outer.says("lasting began")

    os.kill(one, signal.SIGTERM)

    assert await drains(outer, tmp_path) == 0
    assert "during the drain: 1 finished" in outer.log()


async def test_as_process_one_it_hands_back_with_75(processes: Processes, shop: str, redis_url: str):
    await put(redis_url, "long")
    outer, one = start_as_process_one(processes, "worker", shop, "--shutdown-grace", "0")
    await outer.says("long began")

    os.kill(one, signal.SIGTERM)

    assert await outer.ended() == 75
