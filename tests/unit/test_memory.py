"""The relay's watch over Redis' memory: when it asks, and what it admits meanwhile."""

from __future__ import annotations

from typing import Any, cast

from redisjobs.broker import Carrier
from redisjobs.memory import CREDIT_BYTES, PAUSE_S, Memory
from tests.support.clock import FakeClock


class Redis:
    """Answers what its memory is, and counts how often it was asked."""

    def __init__(self, used: int = 0) -> None:
        self.used = used
        self.asked = 0

    async def info(self, section: str) -> dict[str, str]:
        assert section == "memory"
        self.asked += 1
        return {"maxmemory": "1000000", "used_memory": str(self.used)}


def watching(redis: Redis, clock: FakeClock) -> Memory:
    return Memory(cast(Carrier, cast(Any, redis)), 0.9, clock)


async def test_a_lone_job_does_not_wait_for_a_look_at_the_memory():
    redis, clock = Redis(), FakeClock()
    memory = watching(redis, clock)
    assert await memory.admits(500)
    await clock.advance(60)

    assert await memory.admits(500)
    assert redis.asked == 1

    await memory.catch_up()
    assert redis.asked == 2


async def test_what_is_admitted_by_an_old_look_is_bounded():
    redis, clock = Redis(), FakeClock()
    memory = watching(redis, clock)
    assert await memory.admits(500)
    redis.used = 950_000
    await clock.advance(PAUSE_S)

    admitted = 0
    while await memory.admits(1000):
        admitted += 1000

    assert admitted <= CREDIT_BYTES
    assert memory.full


async def test_a_full_redis_gives_no_credit():
    redis, clock = Redis(used=950_000), FakeClock()
    memory = watching(redis, clock)
    assert not await memory.admits(1)
    await clock.advance(PAUSE_S)

    assert not await memory.admits(1)
    assert redis.asked == 2


async def test_the_last_of_the_room_is_given_after_a_look():
    redis, clock = Redis(used=890_000), FakeClock()
    memory = watching(redis, clock)
    assert await memory.admits(1000)
    redis.used = 899_500
    await clock.advance(PAUSE_S)

    assert not await memory.admits(6000)
    assert redis.asked == 2


async def test_nothing_is_looked_at_while_nothing_is_published():
    redis, clock = Redis(), FakeClock()
    memory = watching(redis, clock)
    await memory.catch_up()
    await clock.advance(60)
    await memory.catch_up()

    assert redis.asked == 0
