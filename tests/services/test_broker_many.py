"""Thousands of items: no call and no state is too large for Lua's stack, and a waiting job stays small."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Broker, Finish, Publication
from redisjobs.broker import broker as broker_module
from tests.support.binaries import redis_7_0, valkey_9
from tests.support.builders import publication
from tests.support.queue import QueueByHand
from tests.support.servers import RedisServer


async def fill(q: QueueByHand, count: int, **given: object) -> list[Publication]:
    jobs = [publication(**given) for _ in range(count)]
    for first in range(0, count, 2000):
        await q.publish(*jobs[first : first + 2000])
    return jobs


async def test_ten_thousand_are_published_in_one_call_and_repeated(q: QueueByHand):
    jobs = [publication(key=str(n).encode()) for n in range(10_000)]

    assert set(await q.publish(*jobs)) == {("new", None)}
    assert set(await q.publish(*jobs)) == {("repeat", None)}
    rivals = [publication(key=job.key) for job in jobs]
    assert await q.publish(*rivals) == [("dup", job.job_id) for job in jobs]


async def test_ten_thousand_due_at_once_all_start(q: QueueByHand):
    jobs = await fill(q, 10_000, delay_ms=60_000)
    q.redis.zadd(q.key("due"), dict.fromkeys([job.job_id for job in jobs], 1))

    assert (await q.broker.promote("q", 10_000)).moved == 10_000

    assert sorted(await q.run_all()) == sorted(job.job_id for job in jobs)


async def test_ten_thousand_orphans_of_one_dead_worker_all_run_again_or_die(q: QueueByHand):
    jobs = await fill(q, 10_000)
    while await q.take("dead", 500, lease_ms=1):
        pass
    entries = [entry for entry, _ in q.redis.xrange(q.key("ready1"))]
    q.redis.xclaim(q.key("ready1"), "workers", "dead", 0, entries, idle=99_999, justid=True)

    ran: list[bytes] = []
    for _ in range(10):
        taken = await q.reclaim("w2", 500, lease_ms=60_000)
        answers = await q.broker.finish("q", "w2", [Finish(each, "done") for each in taken])
        assert answers == ["ok"] * len(taken) == ["ok"] * 500
        ran += [each.job_id for each in taken]
    for _ in range(20):  # the others were lost once too often
        q.redis.hdel(q.key("life"), "swept")
        assert await q.reclaim("w2", 500, lease_ms=60_000, losses=1) == []

    outcomes = await q.settle()
    assert {outcome.job_id for outcome in outcomes} == {job.job_id for job in jobs}
    assert [outcome.word for outcome in outcomes].count("dead") == 5000
    assert len(outcomes) == 10_000
    q.bury()
    assert q.left() == {}


async def test_ten_thousand_end_in_one_call(q: QueueByHand):
    await fill(q, 5_000)
    arguments: list[bytes | str | int] = ["w1"]
    while taken := await q.take(count=500):
        for each in taken:
            arguments += [each.job_id, each.entry, each.start, "done", 0, 1, b"", ""]

    assert q.script("finish", *arguments) == []
    repeated = q.script("finish", *arguments)
    assert repeated[1::2] == [b"repeat"] * 5000

    assert len(await q.settle()) == 5000
    q.bury()
    assert q.left() == {}


async def test_thousands_are_begun_and_recalled(q: QueueByHand):
    await fill(q, 3000)
    await q.take(count=1)
    read = q.redis.xreadgroup("workers", "w1", {q.key("ready1"): ">"}, count=3000)[0][1]
    flat = [value for entry, fields in read for value in (1, entry, fields[b"j"])]

    begun = q.script("begin", "w1", 60_000, 3000, *flat)

    assert len(begun) == 1 + 8 * 2999
    assert len(q.script("recall", "w1", 60_000, 3000)) == 1 + 8 * 3000
    assert len(q.script("begin", "w1", 60_000, 0, *flat)) == len(begun)  # what is begun stays so


@pytest.mark.parametrize("binary", [redis_7_0, valkey_9])
async def test_a_waiting_job_takes_at_most_450_bytes(start_redis, binary: Callable[[], object]):
    server: RedisServer = start_redis(binary())
    payload = json.dumps({"text": "x" * 188}).encode()
    assert len(payload) == 200
    packed = Envelope("mail.send", "json", payload).pack()
    async with QueueByHand(server.url) as q:
        before = q.redis.info("memory")["used_memory"]
        for _ in range(20):
            await q.publish(*[Publication(uuid4().bytes, packed) for _ in range(1000)])
        each = (q.redis.info("memory")["used_memory"] - before) / 20_000

    print(f"{each:.0f} bytes a waiting job on {server.binary}")  # noqa: T201 - a figure to read with -s
    assert each <= 450


async def test_calls_for_more_queues_than_there_are_connections_take_turns(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(broker_module, "CALLS_AT_ONCE", 5)
    monkeypatch.setattr(broker_module, "WAITS_AT_ONCE", 5)
    broker = Broker.connect(redis_url)
    pools: list[Any] = [broker.redis.connection_pool, broker._blocking.connection_pool]
    for pool in pools:
        pool.max_connections = 5
    queues = [f"q{number}" for number in range(50)]
    try:
        await asyncio.gather(*(broker.take(queue, "w1", 1, lease_ms=1000) for queue in queues))
        waited = await asyncio.gather(*(broker.wait(queue, "w1", 20) for queue in queues))
    finally:
        await broker.close()

    assert waited == [[]] * len(queues)
