"""Cancelled calls, several loops and threads, forks, hung connects: no answer goes to the wrong question."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from typing import Any

import psycopg
import pytest

from redisjobs import App, Job
from redisjobs.drain import HARD_S
from tests.faults.road import Road, sized, up
from tests.faults.shop import ask, echo, order, serve, serve_in_thread
from tests.support.eventually import eventually
from tests.support.proxy import Proxy


@pytest.mark.timeout(sized(120, 600))
async def test_timeouts_with_calls_in_flight_mix_up_no_replies(road: Road, redis_proxy: Proxy):
    redis_proxy.replies.delay(0.005)
    worker = road.worker(redis=redis_proxy.url, slots=20)
    await up(road.relay(), worker)
    hurried = road.enqueue(ask.call() for _ in range(sized(200, 1000)))
    with road.connect() as conn:
        kept = [echo.enqueue(conn, value) for value in range(100)]
    road.committed += [handle.id for handle in kept]

    await road.at_rest(60, ends=dict.fromkeys(hurried, "dead"))

    results = road.query("SELECT id, convert_from(result, 'utf8') FROM redisjobs.finished WHERE result IS NOT NULL")
    assert {str(job): int(value) for job, value in results} == {handle.id: n for n, handle in enumerate(kept)}
    assert {run.note for run in road.journal.runs()} == {""}
    assert "Traceback" not in worker.log()


@pytest.mark.parametrize("part", ["worker", "relay on Redis", "relay on Postgres"])
async def test_a_stop_while_connecting_hangs_ends_the_process(
    part: str, road: Road, redis_proxy: Proxy, postgres_proxy: Proxy
):
    proxy = postgres_proxy if part == "relay on Postgres" else redis_proxy
    proxy.ignore()
    start = road.worker if part == "worker" else road.relay
    program = start(redis=redis_proxy.url, database=postgres_proxy.url)
    await eventually(lambda: proxy.accepted > 0, "it connects")

    program.send(signal.SIGTERM)

    assert await program.ended(within=10) == 0


async def test_a_stop_while_a_store_is_silent_ends_the_process_within_its_grace(
    road: Road, redis_proxy: Proxy, postgres_proxy: Proxy
):
    worker = road.worker("--shutdown-grace", "1s", redis=redis_proxy.url)
    relays = [road.relay(redis=redis_proxy.url), road.relay(database=postgres_proxy.url)]
    await up(worker, *relays)
    (job,) = road.enqueue(order.call(seconds=0.5))
    await road.ran(job)

    for proxy in (redis_proxy, postgres_proxy):
        proxy.swallow_open()
        proxy.ignore()
    stopped_at = time.monotonic()
    for program in (worker, *relays):
        program.send(signal.SIGTERM)

    assert await worker.ended() == 75, "its receipt says that the job was not finished"
    assert time.monotonic() - stopped_at < 1 + 3 * HARD_S
    assert [await relay.ended() for relay in relays] == [0, 0]
    assert time.monotonic() - stopped_at < 20
    assert not [program for program in (worker, *relays) if "Traceback" in program.log()]
    await road.start()
    await road.at_rest(extra=[job])


async def test_calls_that_are_cancelled_at_random_points_leak_no_connection(road: Road, redis_proxy: Proxy):
    client = App(redis_url=redis_proxy.url)
    redis_proxy.replies.delay(0.002)
    for _ in range(sized(20, 200)):
        questions = [asyncio.create_task(client.holder("default", str(n))) for n in range(25)]
        for question in questions:
            asyncio.get_running_loop().call_later(random.uniform(0, 0.01), question.cancel)
        await asyncio.wait(questions)
    redis_proxy.replies.delay(0)

    answers = await asyncio.gather(*(client.holder("default", str(n)) for n in range(100)))

    assert answers == [None] * 100
    redis: Any = client.broker().redis
    assert redis.connection_pool._in_use_connections == set(redis._at_hand), "none is with a call that has ended"
    assert len(redis._at_hand) <= 100
    await client.close()
    await eventually(lambda: redis_proxy.connections == 0, "every connection was given back")


async def test_many_loops_and_threads_enqueue_with_one_app(road: Road):
    await road.start()
    client = App(redis_url=road.redis_url)
    client.declare(order.function, {"name": "order"})
    jobs: list[str] = []

    async def in_a_loop() -> None:
        async with await psycopg.AsyncConnection.connect(road.database_url) as conn:
            for n in range(50):
                jobs.append((await order.enqueue(conn, note=str(n))).id)
                await conn.commit()
        direct = await client.enqueue_direct(client.find("order").call(note="direct") for _ in range(50))
        jobs.extend(handle.id for handle in direct)
        await client.close()

    def in_a_thread() -> None:
        with road.connect() as conn:
            for n in range(100):
                jobs.append(order.enqueue(conn, note=str(n)).id)
                conn.commit()

    loops = [asyncio.to_thread(asyncio.run, in_a_loop()) for _ in range(8)]
    await asyncio.gather(*loops, asyncio.to_thread(in_a_thread))

    await eventually(lambda: road.journal.started() == set(jobs), "all 900 have run", 30)
    assert len(jobs) == 900
    await road.at_rest()


async def test_forked_children_share_no_connection_with_their_parent(road: Road):
    await road.start()
    producer = road.processes.python("-c", FORKING, env={"REDISJOBS_REDIS_URL": road.redis_url})
    assert await producer.ended() == 0, producer.log()
    jobs = producer.log().split()

    assert len(jobs) == 801
    await eventually(lambda: road.journal.started() == set(jobs), "all have run", 30)
    await road.at_rest()


FORKING = """
import asyncio, os, sys
from tests.faults.shop import app, order

async def enqueue(count):
    handles = await app.enqueue_direct(order.call() for _ in range(count))
    os.write(1, "".join(f"{handle.id}\\n" for handle in handles).encode())

with asyncio.Runner() as runner:
    runner.run(enqueue(1))
    children = []
    for _ in range(4):
        if (child := os.fork()) == 0:
            asyncio.run(enqueue(200))
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.mark.parametrize("job", [serve, serve_in_thread])
async def test_no_context_variable_of_one_job_is_seen_by_another(road: Road, job: Job[..., None]):
    await road.start()
    road.enqueue(job.call(name=random.choice("ab")) for _ in range(200))

    await road.at_rest()

    assert {run.note for run in road.journal.runs()} == {"nobody"}
