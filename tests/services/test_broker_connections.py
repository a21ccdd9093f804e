"""The short way to Redis behaves like the long one, whatever happens to its connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis as redis_py

from redisjobs.broker import Broker, connection
from redisjobs.errors import BrokerUnavailable, StoreRefused
from tests.support.eventually import eventually
from tests.support.net import Address
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

StartRedis = Callable[..., RedisServer]


@pytest.fixture
async def broker(redis_proxy: Proxy) -> AsyncIterator[Broker]:
    made = Broker.connect(redis_proxy.url)
    yield made
    await made.close()


async def test_calls_one_after_the_other_share_a_connection(broker: Broker, redis_proxy: Proxy) -> None:
    for _ in range(5):
        await broker.holder("mail", "key")

    assert redis_proxy.connections == 1


async def test_calls_side_by_side_have_one_each(broker: Broker, redis_proxy: Proxy) -> None:
    await broker.holder("mail", "key")  # its script is known now
    held = redis_proxy.hold_reply("holder", times=3)
    calls = [asyncio.create_task(broker.holder("mail", "key")) for _ in range(3)]
    await eventually(lambda: held.count == 3, "all three were carried out")
    held.release()

    assert await asyncio.gather(*calls) == [None, None, None]
    assert redis_proxy.connections == 3


async def test_what_calls_side_by_side_needed_is_closed_once_they_are_over(
    broker: Broker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(broker.holder("mail", "key") for _ in range(20)))
    assert _connected(redis) > 10
    monkeypatch.setattr(connection, "IDLE_S", 0.0)

    for _ in range(30):
        await broker.holder("mail", "key")

    await eventually(lambda: _connected(redis) == 1, "one is left")
    assert await asyncio.gather(*(broker.holder("mail", "key") for _ in range(20))) == [None] * 20


def _connected(redis: redis_py.Redis) -> int:
    """The connections of others."""
    return len(redis.client_list()) - 1


async def test_a_connection_that_redis_closed_while_it_was_idle_is_opened_again_unnoticed(
    broker: Broker, redis: redis_py.Redis, redis_proxy: Proxy
) -> None:
    await broker.holder("mail", "key")
    redis.client_kill_filter(_type="normal", skipme=True)
    at_hand: Any = getattr(broker.redis, "_at_hand")  # noqa: B009 - only the client knows what it has heard
    await eventually(at_hand[0].has_ended, "the client has heard of it")

    assert await broker.holder("mail", "key") is None


async def test_a_call_that_is_given_up_does_not_leave_its_reply_to_the_next_one(
    broker: Broker, redis_proxy: Proxy
) -> None:
    await broker.enqueue_direct("mail", [])
    held = redis_proxy.hold_reply("holder")
    call = asyncio.create_task(broker.holder("mail", "key"))
    await eventually(lambda: held.count == 1, "it was carried out")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    held.release()

    assert (await broker.take("mail", "me", 5, lease_ms=1000)).deliveries == []


async def test_a_lost_reply_is_told_and_the_next_call_goes_on(broker: Broker, redis_proxy: Proxy) -> None:
    redis_proxy.lose_reply("holder")

    with pytest.raises(BrokerUnavailable, match="holder"):
        await broker.holder("mail", "key")
    assert await broker.holder("mail", "key") is None


async def test_a_refusal_keeps_the_connection(broker: Broker, redis: redis_py.Redis, redis_proxy: Proxy) -> None:
    redis.set("rj:{mail}:keys", "no hash")

    for _ in range(3):
        with pytest.raises(StoreRefused, match="WRONGTYPE"):
            await broker.holder("mail", "key")
    assert redis_proxy.accepted == 1


async def test_a_server_that_has_become_a_replica_is_left_for_whom_its_name_leads_to_now(
    start_redis: StartRedis, broker: Broker, redis_proxy: Proxy
) -> None:
    old, new = start_redis(), start_redis()
    redis_proxy.redirect(Address.of_redis(old.url))
    await broker.take("mail", "me", 1, lease_ms=1000)  # this way has a connection of its own
    await broker.mark_dirty(["mail"])
    with old.client() as client:
        client.replicaof("127.0.0.1", str(new.port))
    redis_proxy.redirect(Address.of_redis(new.url))

    with pytest.raises(BrokerUnavailable):
        await broker.mark_dirty(["mail"])
    with pytest.raises(BrokerUnavailable):
        await broker.take("mail", "me", 1, lease_ms=1000)
    await broker.mark_dirty(["mail"])
    await broker.take("mail", "me", 1, lease_ms=1000)

    with new.client() as client:
        assert client.exists("rj:dirty", "rj:{mail}:ready:1") == 2
