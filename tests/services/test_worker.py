"""A worker on a real Redis (rules W1 to W8; cases A01, A12, C01, C03, J03)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest
import redis as redis_py

from redisjobs.app import App
from redisjobs.context import Context
from redisjobs.errors import OptionError, RedisjobsError, Retry, Snooze
from redisjobs.worker import Worker
from tests.support.crew import Crew
from tests.support.eventually import always, eventually


async def test_it_runs_what_waits_and_what_comes_later(crew: Crew) -> None:
    @crew.app.job(name="note")
    async def note(ctx: Context, n: int) -> None:
        crew.starts[n] += 1

    await crew.put("note", 30, arguments={"n": 1})
    worker = await crew.start(concurrency=4)
    await eventually(lambda: crew.starts[1] == 30, "what waited has run")
    await crew.put("note", 5, arguments={"n": 2})
    await eventually(lambda: crew.starts[2] == 5, "what came later has run")
    await eventually(lambda: worker.stats()["processed"] == 35, "every end was accepted")
    assert await crew.left() == 0


async def test_an_idle_worker_starts_a_job_within_milliseconds(crew: Crew) -> None:
    started: list[float] = []

    @crew.app.job(name="note")
    async def note() -> None:
        started.append(time.monotonic())

    await crew.start()
    await crew.put("note")
    await eventually(lambda: started, "the first has run: everything is warm")
    delays = []
    for n in range(20):
        asked = time.monotonic()
        await crew.put("note")
        await eventually(lambda n=n: len(started) == n + 2, "it has run")  # type: ignore[misc]
        delays.append(started[-1] - asked)
    assert sorted(delays)[5] < 0.05, "the quickest quarter tells of the worker, the rest of who else uses the machine"


async def test_a_failed_attempt_is_tried_again_when_its_delay_is_over(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisjobs.upkeep.LOOK_S", 60.0)  # no look that comes by chance finds it
    attempts: list[tuple[int, float]] = []

    @crew.app.job(name="flaky", retry=[0.1, 0.2])
    async def flaky(ctx: Context) -> None:
        attempts.append((ctx.attempt, time.monotonic()))
        if ctx.attempt < 3:
            raise ConnectionError("not yet")

    await crew.put("flaky")
    worker = await crew.start()
    await eventually(lambda: worker.stats()["processed"] == 3, "the third attempt was accepted")
    assert [attempt for attempt, _ in attempts] == [1, 2, 3]
    assert attempts[1][1] - attempts[0][1] >= 0.1
    assert attempts[2][1] - attempts[1][1] >= 0.2
    assert (worker.stats()["failed"], await crew.left()) == (2, 0)


async def test_snoozes_do_not_count_and_retries_end_as_dead_letters(crew: Crew) -> None:
    seen: list[int] = []

    @crew.app.job(name="patient", max_attempts=2)
    async def patient(ctx: Context) -> None:
        seen.append(ctx.attempt)
        if len(seen) <= 3:
            raise Snooze(0.01)
        raise Retry(after=0.01)

    await crew.put("patient")
    worker = await crew.start()
    await eventually(lambda: worker.stats()["dead_lettered"] == 1, "it is a dead letter")
    assert seen == [1, 1, 1, 1, 2]


async def test_a_job_that_only_the_next_release_knows_waits_for_it_and_runs_once(crew: Crew) -> None:
    await crew.put("of_tomorrow")
    old = await crew.start()
    await eventually(lambda: old.stats()["parked"] == 1, "it is parked")
    assert await crew.left() == 1
    new = App(redis_url=crew.redis_url)

    @new.job(name="of_tomorrow")
    async def of_tomorrow(ctx: Context) -> None:
        crew.starts[ctx.attempt] += 1

    await old.stop()
    await crew.start(app=new)
    await eventually(lambda: crew.starts == {1: 1}, "it ran, as its first attempt")


async def test_a_delayed_job_starts_at_its_time_on_one_of_many_workers(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisjobs.upkeep.LOOK_S", 60.0)  # no look that comes by chance finds it
    late: list[float] = []

    @crew.app.job(name="note")
    async def note(due: float) -> None:
        late.append(time.monotonic() - due)

    for delay_s in (0.5, 1.0, 1.5, 2.0):
        await crew.put("note", arguments={"due": time.monotonic() + delay_s}, delay_ms=round(1000 * delay_s))
    for _ in range(3):
        await crew.start(visibility_timeout=2)
    await eventually(lambda: len(late) == 4, "all have run")
    assert min(late) > -0.01
    assert min(late) < 0.1, "of four one at least comes while the machine has nothing else to do"
    await always(lambda: len(late) == 4, "each ran once", lasting=0.5)


async def test_jobs_wait_in_redis_and_not_in_a_worker(crew: Crew) -> None:
    attempts: list[int] = []
    enough = asyncio.Event()
    stream = crew.broker.keys.key("default", "ready1")

    @crew.app.job(name="wait")
    async def wait(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        await enough.wait()

    async def taken() -> int:
        return int((await crew.broker.redis.xpending(stream, "workers"))["pending"])

    async def only_what_runs_is_taken() -> bool:
        return await taken() == 2

    await crew.put("wait", 8)
    workers = [await crew.start(concurrency=1) for _ in range(2)]
    await eventually(lambda: len(attempts) == 2, "each runs one")
    await always(only_what_runs_is_taken, "the others wait in Redis", lasting=0.5)
    enough.set()
    await eventually(lambda: sum(each.stats()["processed"] for each in workers) == 8, "all are done")
    assert attempts == [1] * 8


async def test_the_result_of_a_job_reaches_whoever_waits_for_it(crew: Crew) -> None:
    @crew.app.job(name="total", result_ttl=60)
    def total(a: int, b: int) -> int:
        return a + b

    await crew.start()
    handle = await total.enqueue_direct(a=2, b=3)
    assert await handle.result(timeout=5) == 5


async def test_workers_before_the_first_job_ever_complain_of_nothing(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1

    for _ in range(3):
        await crew.start(visibility_timeout=0.3)
    await always(
        lambda: not [each for each in caplog.records if each.levelno > logging.INFO], "no complaint", lasting=1
    )
    await crew.put("note")
    await eventually(lambda: crew.starts["note"] == 1, "the first job runs")


async def test_after_redis_was_emptied_it_takes_new_jobs_by_itself(crew: Crew, redis: redis_py.Redis) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1

    await crew.start()
    await crew.put("note")
    await eventually(lambda: crew.starts["note"] == 1, "it works")
    redis.flushall()
    await crew.put("note", 20)
    await eventually(lambda: crew.starts["note"] == 21, "all that came afterwards has run")


async def test_it_serves_the_queues_that_a_glob_names_with_slots_of_their_own(crew: Crew) -> None:
    most: dict[str, int] = {"mail.in": 0, "mail.out": 0}
    running: dict[str, int] = {"mail.in": 0, "mail.out": 0}

    @crew.app.job(name="note")
    async def note(ctx: Context) -> None:
        running[ctx.queue] += 1
        most[ctx.queue] = max(most[ctx.queue], running[ctx.queue])
        await asyncio.sleep(0.05)
        running[ctx.queue] -= 1

    for queue in ("mail.in", "mail.out", "other"):
        await crew.put("note", 12, queue=queue)
    worker = await crew.start(queues=["mail.*"], concurrency={"mail.in": 1, "mail.*": 4})
    await eventually(lambda: worker.stats()["processed"] == 24, "both queues are done")
    assert most == {"mail.in": 1, "mail.out": 4}
    assert await crew.left("other") == 12


async def test_a_burst_runs_what_is_there_and_ends_without_waiting_for_what_is_far(crew: Crew) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1
        await asyncio.sleep(0.01)

    await crew.put("note", 50)
    await crew.put("note", delay_ms=3_600_000)
    receipt = await crew.worker(burst=True, concurrency=5).run()
    assert (crew.starts["note"], receipt.exit_code) == (50, 0)
    assert await crew.left() == 1


async def test_a_tick_is_one_bounded_round_for_tests_of_ones_own(crew: Crew) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1

    await crew.put("note", 15)
    worker = crew.worker(concurrency=10)
    assert [await worker.tick() for _ in range(3)] == [10, 5, 0]
    await worker.stop()
    assert worker.state == "stopped"


async def test_a_tick_of_a_worker_that_serves_globs_finds_the_queues_that_came_since(crew: Crew) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1

    worker = crew.worker(queues=["mail.*"])
    assert await worker.tick() == 0
    threads = set(threading.enumerate())
    for queue in ("mail.in", "mail.out"):
        await crew.put("note", queue=queue)
        assert await worker.tick() == 1

    assert set(threading.enumerate()) <= threads
    await worker.stop()


async def test_it_can_be_stopped_and_started_again_any_number_of_times(crew: Crew) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1

    worker = crew.worker()
    tasks = asyncio.all_tasks()
    for n in range(3):
        await worker.start()
        await worker.start()
        await crew.put("note")
        await eventually(lambda n=n: crew.starts["note"] == n + 1, "it ran")  # type: ignore[misc]
        await asyncio.gather(worker.stop(), worker.stop())
    assert worker.stats()["processed"] == 3
    await eventually(lambda: asyncio.all_tasks() == tasks, "nothing is left behind")


async def test_an_idle_worker_hardly_speaks_to_redis(crew: Crew, redis: redis_py.Redis) -> None:
    await crew.start()
    await eventually(lambda: "xreadgroup" in {each["cmd"] for each in redis.client_list()}, "it waits for jobs")
    before, began = redis.info("commandstats"), time.monotonic()
    await always(lambda: True, "time passes", lasting=2)
    after = redis.info("commandstats")
    evals = after["cmdstat_evalsha"]["calls"] - before.get("cmdstat_evalsha", {"calls": 0})["calls"]
    assert evals / (time.monotonic() - began) < 5


@pytest.mark.parametrize(
    "options",
    [{"concurrency": 0}, {"concurrency": True}, {"visibility_timeout": float("nan")}, {"queues": "default"},
     {"heartbeat_interval": 20, "visibility_timeout": 30}, {"max_losses": 0}, {"drain_grace": -1}],
)  # fmt: skip
def test_an_option_out_of_range_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Worker(App(), **options)  # type: ignore[arg-type]


async def test_it_is_refused_to_start_while_it_drains(crew: Crew) -> None:
    enough = asyncio.Event()

    @crew.app.job(name="wait")
    async def wait() -> None:
        await enough.wait()

    await crew.put("wait")
    worker = await crew.start()
    await eventually(lambda: worker.stats()["in_flight"] == 1, "it runs")
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.state == "draining", "it drains")
    with pytest.raises(RedisjobsError, match="draining"):
        await worker.start()
    enough.set()
    await stopping
