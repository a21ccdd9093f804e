"""Jobs that harm whoever runs them: they end as dead letters, and the rest goes on (cases J01 to J08, O02)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redisjobs.broker import Broker, Finish
from tests.faults.road import Road, sized, up
from tests.faults.shop import order, other
from tests.support.eventually import eventually
from tests.support.processes import Processes

SECRET = "marker-5c1d88"
SHOP = """
    import os, signal
    from pathlib import Path
    from redisjobs import App, Backoff, Context
    from tests.faults.journal import Journal

    app = App("poison")
    journal = Journal.of_env()
    mended = Path(os.environ["MENDED"])

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("not even this")

    class Weird(Exception):
        def __repr__(self):
            return "\\udc7f"
        __str__ = __repr__

    RAISED = {
        "surrogate": lambda: ValueError("a \\udc7f b"),
        "nul": lambda: ValueError("a \\0 b"),
        "bytes": lambda: ValueError(b"\\xff\\x00"),
        "huge": lambda: ValueError("x" * 10_000_000),
        "mute": Mute,
        "weird": Weird,
        "group": lambda: ExceptionGroup("many", [ValueError("\\udc7f")] * 100),
        "exit": SystemExit,
        "interrupt": lambda: KeyError("\\udc7f"),
    }
    ANSWERED = {
        "surrogate": "a \\udc7f b", "bytes in": {"deep": [object()]}, "huge": "x" * 10_000_000, "mute": Mute(),
        "nan": float("nan"),
    }

    @app.job(max_attempts=2, retry=[0])
    async def throw(ctx: Context, what: str) -> None:
        raise RAISED[what]()

    @app.job(max_attempts=2, retry=[0], result_ttl=60)
    async def answer(ctx: Context, what: str):
        return ANSWERED[what]

    @app.job
    async def good(ctx: Context) -> None:
        with journal.run(ctx):
            pass

    @app.job(max_attempts=3)
    async def crash(ctx: Context) -> None:
        with journal.run(ctx):
            if not mended.exists():
                os.kill(os.getpid(), signal.SIGKILL)

    @app.job(max_attempts=1000, retry=Backoff(base=1, factor=5, cap=3600, jitter="none"))
    async def fail(ctx: Context) -> None:
        with journal.run(ctx):
            raise ValueError("no")

    @app.job(max_attempts=3, retry=[0])
    async def older(ctx: Context, a: int) -> None:
        with journal.run(ctx):
            pass

    def fail_fat() -> None:
        locals_of_this_frame = bytearray(100_000_000)
        locals_of_this_frame[::4096] = b"x" * len(locals_of_this_frame[::4096])
        raise ValueError("with a big frame")

    @app.job(max_attempts=1)
    async def fat(ctx: Context) -> None:
        fail_fat()

    @app.job(max_attempts=1)
    def fat_in_a_thread(ctx: Context) -> None:
        fail_fat()

    @app.job(max_attempts=1, process=True)
    def fat_in_a_process() -> None:
        fail_fat()
"""


@pytest.fixture
def shop(road: Road, processes: Processes, tmp_path: Path) -> str:
    processes.env |= road.journal.env | {"MENDED": str(tmp_path / "mended")}
    return f"{processes.module('shop_poison', SHOP)}:app"


def enqueue(road: Road, job: str, arguments: dict[str, Any] | None = None, count: int = 1) -> list[str]:
    """Enqueue as another language does; the ids."""
    rows = road.query(
        "SELECT redisjobs.enqueue(%s, %s::json)::text FROM generate_series(1, %s)",
        job,
        json.dumps(arguments or {}),
        count,
    )
    road.committed += [str(made) for (made,) in rows]
    return [str(made) for (made,) in rows]


def command(road: Road, *words: str) -> Any:
    """The JSON that a command prints."""
    ended = subprocess.run(
        [sys.executable, "-c", "from redisjobs.cli import main; main()", *words, "--json"],
        capture_output=True, check=True, env=road._env() | road.processes.env, timeout=60,
    )  # fmt: skip
    return json.loads(ended.stdout)


def resident(pid: int) -> int:
    """MB of memory that a process occupies, with those that it has started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = [
            int(each)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):  # it ended just now
        return 0
    own = int(status.partition("VmRSS:")[2].split()[0]) // 1024 if "VmRSS:" in status else 0
    return own + sum(resident(each) for each in children)


@pytest.mark.parametrize("attempts", [16, 47, 400, 900])
async def test_j01_a_late_attempt_waits_for_the_cap_and_is_still_there(road: Road, shop: str, attempts: int):
    (job,) = enqueue(road, "fail")
    road.query("UPDATE redisjobs.outbox SET attempts = %s WHERE id = %s", attempts, job)
    await road.start(place=shop)
    await eventually(lambda: road.states() == {job: "retrying"}, "it is to be retried")
    ((wait, counted),) = road.query(
        "SELECT extract(epoch FROM run_at - clock_timestamp())::float8, attempts FROM redisjobs.outbox"
    )
    assert 3500 < wait <= 3600
    assert counted == attempts + 1
    assert road.journal.runs(job)[0].attempt == attempts + 1
    assert road.redis.zcard("rj:{default}:due") == 1


async def test_j03_a_job_that_nobody_knows_is_parked_and_shown_and_runs_once_after_the_deploy(road: Road):
    (_,), (worker,) = await road.start()
    (unknown,) = road.enqueue(other.call())
    behind = road.enqueue(order.call() for _ in range(20))
    await eventually(lambda: road.states().get(unknown) == "parked", "it is parked")
    await eventually(lambda: set(behind) <= road.done(), "those behind it are done")
    (line,) = command(road, "status")["queues"]
    assert line["states"]["parked"] == 1
    assert command(road, "jobs", "list", "--state", "parked")["jobs"][0]["id"] == unknown
    assert "job.parked" in worker.log()

    worker.stop()
    await up(road.worker(place="tests.faults.shop:other_app"))
    await road.at_rest()
    assert road.journal.starts(unknown) == 1


async def test_j04_no_error_and_no_result_harms_the_worker(road: Road, shop: str):
    _, (worker,) = await road.start(place=shop)
    each = sized(2, 20)
    kinds = ("surrogate", "nul", "bytes", "huge", "mute", "weird", "group", "exit", "interrupt")
    bad = [job for what in kinds for job in enqueue(road, "throw", {"what": what}, each)]
    bad += [
        job
        for what in ("surrogate", "bytes in", "huge", "mute", "nan")
        for job in enqueue(road, "answer", {"what": what}, each)
    ]
    good = enqueue(road, "good", count=20)
    await eventually(lambda: set(good) <= road.done(), "the good ones are done", 30)
    await road.at_rest(60, ends=dict.fromkeys(bad, "dead"))

    assert worker.is_running()
    assert worker.stop() == 0
    for letter in command(road, "dead", "list", "--limit", "1000")["dead"]:
        shown = command(road, "dead", "show", letter["id"])["dead"]
        assert shown["failures"]
        assert all(len(json.dumps(failure)) < 30_000 for failure in shown["failures"])


async def test_an_outcome_that_its_worker_had_no_time_to_announce_is_settled(road: Road):
    await up(road.relay(lease=3))
    (job,) = road.enqueue(order.call())
    await eventually(lambda: road.states() == {job: "published"}, "it waits")
    broker = Broker.connect(road.redis_url)
    (delivery,) = (await broker.take("default", "w1", 1, lease_ms=3000)).deliveries
    assert await broker.finish("default", "w1", [Finish(delivery, "done", counted=True)]) == ["ok"]
    await broker.close()
    await eventually(lambda: road.ends() == {job: "done"}, "it is settled", 5)


async def test_j06_and_j07_a_job_that_kills_its_process_dies_after_three_starts_and_can_be_redriven(
    road: Road, shop: str, tmp_path: Path
):
    (relay,), workers = await road.start(workers=3, place=shop)
    (killer,) = enqueue(road, "crash")
    good = enqueue(road, "good", count=100)

    async def the_fleet_stands_up_again() -> bool:
        for at, worker in enumerate(workers):
            if not worker.is_running():
                workers[at] = road.worker(place=shop)
        return road.ends().get(killer) == "dead"

    await eventually(the_fleet_stands_up_again, "it is a dead letter", 60)
    await eventually(lambda: set(good) <= road.done(), "the others are done", 30)
    assert road.journal.starts(killer) == 3
    assert f"job_id={killer}" in (await relay.says("job.dead")).partition("job.dead")[2]
    letter = command(road, "dead", "show", killer)["dead"]
    assert "its worker died or hung" in letter["error"]

    (tmp_path / "mended").touch()
    for at, worker in enumerate(workers):
        if not worker.is_running():
            workers[at] = road.worker(place=shop)
    await up(*workers)
    road.query("SELECT redisjobs.redrive(ARRAY[%s]::uuid[])", killer)
    await road.at_rest(extra=[killer, *good])
    assert road.journal.runs(killer)[-1].attempt == 1


async def test_j08_arguments_of_a_newer_release_are_retried_and_shown_by_name_alone(road: Road, shop: str):
    (newer,) = enqueue(road, "older", {"a": 1, "b": SECRET})
    (behind,) = enqueue(road, "older", {"a": 1})
    _, (worker,) = await road.start(place=shop)
    await road.at_rest(ends={newer: "dead"})

    assert road.journal.starts(behind) == 1
    letter = command(road, "dead", "show", newer)["dead"]
    assert [failure["type"] for failure in letter["failures"]] == ["redisjobs.errors.DecodeError"] * 3
    assert "'b'" in json.dumps(letter) or " b" in letter["failures"][0]["message"]
    assert SECRET not in json.dumps(letter) + worker.log()


@pytest.mark.parametrize("job", ["fat", "fat_in_a_thread", "fat_in_a_process"])
async def test_o02_kept_errors_keep_no_memory(road: Road, shop: str, job: str):
    _, (worker,) = await road.start(place=shop, slots=1)
    warm = enqueue(road, job, count=2)
    await eventually(lambda: road.ends().keys() >= set(warm), "it is warm", 30)
    before = resident(worker.pid)
    bad = warm + enqueue(road, job, count=sized(15, 50))
    await road.at_rest(60, ends=dict.fromkeys(bad, "dead"))
    assert resident(worker.pid) - before < 50
