"""Every call of worker and relay is carried out with its reply lost: nothing is doubled, nothing left lying."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from redisjobs.broker import Broker
from redisjobs.settings import Settings
from redisjobs.worker import Worker
from tests.faults.road import Road, sized
from tests.faults.shop import app, echo, order, stumble
from tests.support.eventually import eventually
from tests.support.loaded import load_scripts
from tests.support.proxy import Proxy
from tests.support.relays import relay_by_hand

OF_WORKERS = ["take", "XREADGROUP", "begin", "recall", "finish", "renew", "reclaim", "promote", "SADD", "leave"]
OF_RELAYS = ["open", "adopt", "publish", "XRANGE", "settled", "cancel", "audit", "HSCAN", "forget", "SMEMBERS", "SREM"]


@contextlib.asynccontextmanager
async def relay(road: Road, redis_url: str) -> AsyncIterator[None]:
    """A relay inside of the test, for as long as the block lasts."""
    async with relay_by_hand(road.database_url, redis_url, interval=0.1, lease=4) as made:
        await made.relay.start()
        yield


@contextlib.asynccontextmanager
async def worker(lease: float) -> AsyncIterator[None]:
    """Likewise a worker."""
    made = Worker(app, visibility_timeout=lease, drain_on_shutdown=False)
    await made.start()
    try:
        yield
    finally:
        await made.stop(10)


async def left_behind(road: Road, *, orphan: bool, due_in: float) -> None:
    """A ghost in Redis without a row, rows that are old enough for the audit, and a job that a lost worker holds."""
    async with relay(road, road.redis_url):
        first, _, ghost = road.enqueue(order.call(), order.using(delay=due_in).call(), order.using(delay=60).call())
        await eventually(lambda: "staged" not in road.states().values(), "they are published")
    road.query("DELETE FROM redisjobs.outbox WHERE id = %s", ghost)
    road.query("UPDATE redisjobs.outbox SET published_at = published_at - interval '1 hour'")
    road.committed.remove(ghost)
    if orphan:
        broker = Broker.connect(road.redis_url)
        (held,) = (await broker.take("default", "gone", 1, lease_ms=100)).deliveries
        assert held.job_id == UUID(first).bytes
        await broker.close()


@pytest.mark.parametrize("times", range(1, sized(2, 4, 10)))
@pytest.mark.parametrize("call", [*OF_WORKERS, *OF_RELAYS])
async def test_a_call_whose_reply_is_lost_doubles_nothing(
    call: str, times: int, road: Road, redis_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(app, "settings", Settings(redis_url=redis_proxy.url))
    load_scripts(road.redis)
    short = call in ("renew", "reclaim")  # the others show that nobody has to wait for the end of a lease
    await left_behind(road, orphan=short, due_in=4 if call == "audit" else 0.1)
    if call == "adopt":  # called when Redis has lost its data
        road.redis.flushall()
    if call == "recall":  # called when another reply was lost
        redis_proxy.lose_reply("take", nth=2)
    lost = redis_proxy.lose_reply(call, times=times)  # so often in a row

    async with relay(road, redis_proxy.url), worker(lease=2 if short else 60):
        road.enqueue(order.call(seconds=0.02) for _ in range(30))
        road.enqueue(stumble.call(failures=1), order.using(delay=0.2).call(), order.call(seconds=2.4 if short else 0.1))
        kept = road.enqueue(echo.call(value) for value in range(3))
        (cancelled,) = road.enqueue(order.using(delay=60).call())
        with road.connect() as conn:
            app.cancel(conn, cancelled)
        await road.at_rest(15, ends={cancelled: "cancelled"})

    lost.wait(1)
    for job in kept:
        assert road.redis.xlen(f"rj:{{default}}:result:{UUID(job).hex}") == 1, "its result is kept twice"
