"""What a worker makes of a bad connection and of bad bodies (cases A05, A06, A10, A11, A16, B06, B13, C04)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import redis as redis_py

from redisjobs import drain
from redisjobs.context import Context
from tests.support.crew import Crew
from tests.support.eventually import always, eventually
from tests.support.loaded import load_scripts
from tests.support.proxy import Proxy


@pytest.fixture
async def crew(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Crew]:
    monkeypatch.setattr(drain, "HARD_S", 0.2)  # what a worker without Redis still holds at the end of a test
    made = Crew(redis_url)
    yield made
    await made.close()


@pytest.mark.parametrize("call", ["take", "begin", "finish", "reclaim", "promote", "recall", "XREADGROUP"])
async def test_a_lost_reply_to_any_call_neither_loses_nor_doubles_a_job(
    crew: Crew, redis: redis_py.Redis, redis_proxy: Proxy, call: str
) -> None:
    load_scripts(redis)

    @crew.app.job(name="note", retry=[0.01])
    async def note(ctx: Context) -> None:
        crew.starts[ctx.job_id, ctx.attempt] += 1
        if ctx.attempt == 1:
            raise ConnectionError("once")

    lost = redis_proxy.lose_reply(call, times=3)
    if call == "recall":
        redis_proxy.lose_reply("take")
    worker = await crew.start(url=redis_proxy.url, concurrency=3, visibility_timeout=2)
    ids = []
    for n in range(1, 11):
        ids += await crew.put("note", 3)
        await eventually(lambda n=n: len(crew.starts) == 6 * n, "all have run twice")  # type: ignore[misc]
    await eventually(lambda: worker.stats()["in_flight"] == 0, "nothing runs")
    assert set(crew.starts.values()) == {1}
    assert {job for job, _ in crew.starts} == set(ids)
    assert lost.count > 0
    await eventually(crew.nothing_left, "Redis has heard of every end")


async def test_a_body_that_blocks_the_loop_keeps_its_lease(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    @crew.app.job(name="block")
    async def block() -> None:
        crew.starts["block"] += 1
        time.sleep(3.5)  # noqa: ASYNC251 - the mistake that must not cost the lease

    await crew.put("block")
    worker = await crew.start(visibility_timeout=2)
    await eventually(lambda: worker.stats()["processed"] == 1, "it is done", within=15)
    assert crew.starts["block"] == 1
    assert worker.stats()["lost"] == 0
    assert "loop.blocked job=block" in caplog.text


async def test_the_heartbeat_outlives_a_reset_and_a_second_of_refusal(crew: Crew, redis_proxy: Proxy) -> None:
    attempts: list[int] = []

    @crew.app.job(name="slow")
    async def slow(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        await asyncio.sleep(5)

    await crew.put("slow")
    worker = await crew.start(url=redis_proxy.url, visibility_timeout=4, heartbeat_interval=0.5)
    await crew.start(visibility_timeout=4)
    await eventually(lambda: attempts, "it runs")
    if attempts and crew.workers[1].stats()["in_flight"]:
        worker = crew.workers[1]
    redis_proxy.down()
    await always(lambda: True, "Redis is away for a second", lasting=1)
    redis_proxy.accept()
    await eventually(lambda: worker.stats()["processed"] == 1, "it is done", within=15)
    assert attempts == [1]


async def test_a_holder_that_was_cut_off_past_its_lease_is_ended_and_its_outcome_refused(
    crew: Crew, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[str] = []

    @crew.app.job(name="slow")
    async def slow() -> None:
        attempts.append("begun")
        if len(attempts) == 1:
            await asyncio.sleep(60)

    await crew.put("slow")
    cut_off = await crew.start(url=redis_proxy.url, visibility_timeout=2)
    await eventually(lambda: attempts, "it runs")
    redis_proxy.pause()
    second = await crew.start(visibility_timeout=2)
    await eventually(lambda: second.stats()["processed"] == 1, "the second has done it", within=15)
    redis_proxy.resume()
    redis_proxy.reset()
    await eventually(lambda: cut_off.stats()["lost"] == 1, "the first has learnt of its loss", within=15)
    assert cut_off.stats()["in_flight"] == 0
    assert "attempt.lost" in caplog.text
    await eventually(crew.nothing_left, "Redis has heard of every end")


async def test_what_a_dead_worker_held_starts_elsewhere_within_a_lease(crew: Crew, redis_proxy: Proxy) -> None:
    lease = 2

    @crew.app.job(name="slow", timeout=3600)
    async def slow() -> None:
        crew.starts["slow"] += 1
        if crew.starts["slow"] == 1:
            await asyncio.sleep(60)

    await crew.put("slow")
    await crew.start(url=redis_proxy.url, visibility_timeout=lease)
    await eventually(lambda: crew.starts["slow"] == 1, "it runs")
    redis_proxy.refuse()
    redis_proxy.reset()
    began = time.monotonic()
    await crew.start(visibility_timeout=lease)
    await eventually(lambda: crew.starts["slow"] == 2, "it has started elsewhere")
    assert time.monotonic() - began < 2.5 * lease


async def test_a_redis_that_refuses_for_a_while_is_asked_seldom_and_then_works_again(
    crew: Crew, redis_proxy: Proxy
) -> None:
    @crew.app.job(name="note")
    async def note() -> None:
        crew.starts["note"] += 1

    worker = await crew.start(url=redis_proxy.url)
    await crew.put("note")
    await eventually(lambda: crew.starts["note"] == 1, "it works")
    readonly = redis_proxy.answer("READONLY You can't write against a read only replica.")
    redis_proxy.reset()
    await eventually(lambda: readonly.count > 3, "it was refused")
    before = readonly.count
    await always(lambda: True, "it goes on being refused", lasting=2)
    assert (readonly.count - before) / 2 < 20
    readonly.remove()
    await crew.put("note")
    await eventually(lambda: crew.starts["note"] == 2, "it works again")
    assert worker.state == "running"


async def test_entries_whose_stream_was_trimmed_crash_nobody(
    crew: Crew, redis: redis_py.Redis, redis_proxy: Proxy
) -> None:
    @crew.app.job(name="slow")
    async def slow() -> None:
        crew.starts["slow"] += 1
        if crew.starts["slow"] <= 3:
            await asyncio.sleep(60)

    await crew.put("slow", 3)
    await crew.start(url=redis_proxy.url, visibility_timeout=2)
    await eventually(lambda: crew.starts["slow"] == 3, "all run")
    redis_proxy.refuse()
    redis_proxy.reset()
    redis.xtrim("rj:{default}:ready:1", maxlen=0)
    await crew.start(visibility_timeout=2)
    await eventually(lambda: redis.xpending("rj:{default}:ready:1", "workers")["pending"] == 0, "it met the entries")
    await crew.put("slow")
    await eventually(lambda: crew.starts["slow"] == 4, "a new job runs")


async def test_results_belong_to_their_jobs_though_hundreds_are_timed_out_meanwhile(
    crew: Crew, redis_proxy: Proxy
) -> None:
    wrong: list[str] = []

    @crew.app.job(name="hang", timeout=0.01, max_attempts=1)
    async def hang() -> None:
        await asyncio.sleep(60)

    @crew.app.job(name="check")
    async def check(ctx: Context, n: int) -> None:
        if ctx.job != "check":
            wrong.append(ctx.job)
        crew.starts[n] += 1

    redis_proxy.requests.delay(0.002)
    worker = await crew.start(url=redis_proxy.url, concurrency=50)
    for n in range(100):
        await crew.put("hang", 3)
        await crew.put("check", arguments={"n": n})
    await eventually(lambda: worker.stats()["processed"] == 400, "all have ended", within=30)
    assert wrong == []
    assert crew.starts == dict.fromkeys(range(100), 1)
    assert worker.stats()["dead_lettered"] == 300
