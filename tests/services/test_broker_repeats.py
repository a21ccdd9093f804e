"""Every script call may be repeated with the same arguments: its reply may have been lost. Nothing changes then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redisjobs.base import scripts
from tests.support.builders import publication
from tests.support.queue import QueueByHand
from tests.support.script_calls import CALLS, Stage

Call = Callable[[], Awaitable[object]]


def test_every_script_is_in_the_table():
    covered = {name.split()[0].rstrip(",") for name in CALLS}

    assert covered == set(scripts.names())


@pytest.mark.parametrize("name", CALLS)
async def test_a_repeated_call_changes_nothing(q: QueueByHand, name: str):
    stage = Stage(q)
    await stage.set()
    script, arguments = CALLS[name](stage)

    first = q.script(script, *arguments)
    before = q.dump(without=["swept"])
    second = q.script(script, *arguments)
    third = q.script(script, *arguments)

    assert q.dump(without=["swept"]) == before
    assert _timeless(script, second) == _timeless(script, third)
    if script in (
        "begin",
        "recall",
        "renew",
        "audit",
        "open",
        "adopt",
        "settled",
        "holder",
        "cancel",
        "hold",
        "adjust",
    ):
        assert second == _as_repeated(name, first)


def _timeless(script: str, reply: Any) -> Any:
    """Without the milliseconds that remain."""
    if script == "admit":
        return [value for at, value in enumerate(reply) if at % 3 != 1]
    if script == "ease":
        return reply > 0
    return [reply[0], *reply[2:]] if script == "promote" else reply


def _as_repeated(name: str, first: Any) -> Any:
    """What a repeat answers: the same, but for jobs that had ended by the first call."""
    if name == "cancel in lanes":
        return [b"ok", b"over", b"over"]
    if name == "cancel":
        return [b"ok", b"over", b"over", b"running", b"unknown"]
    if name == "begin without room":
        return [b"ok"]
    return first


async def test_every_reply_lost_on_the_way_of_a_job_it_still_ends_once(q: QueueByHand):
    """Each call is made twice and only the second answer is heard."""
    job = publication(key=b"k")
    await _twice(lambda: q.publish(job))
    await q.take()
    (delivery,) = await q.broker.recall("q", "w1", lease_ms=1000)
    assert await _twice(lambda: q.finish(delivery, "retry")) == "repeat"
    await _twice(lambda: q.broker.promote("q"))
    await q.take()
    (delivery,) = await q.broker.recall("q", "w1", lease_ms=1000)
    assert (delivery.start, delivery.attempts) == (2, 1)
    assert await _twice(lambda: q.finish(delivery)) == "repeat"

    assert [outcome.word for outcome in await q.outcomes()] == ["retry", "done"]
    await _twice(q.settle)
    q.bury()
    assert q.left() == {}


async def _twice(call: Call) -> object:
    await call()
    return await call()


async def test_an_emptied_script_cache_is_not_noticed(q: QueueByHand):
    ran: list[bytes] = []

    async def storm() -> None:
        while len(ran) < 300:
            await q.broker.redis.script_flush()

    flushing = asyncio.create_task(storm())
    while len(ran) < 300:
        assert await q.publish(*[publication() for _ in range(10)]) == [("new", None)] * 10
        for delivery in await q.take():
            lease = (delivery.job_id, delivery.entry, delivery.start, delivery.band)
            assert await asyncio.to_thread(q.heart.renew, "q", "w1", [lease]) == {}
            assert await q.finish(delivery) == "ok"
            ran.append(delivery.job_id)
    await flushing

    assert len(ran) == len(set(ran)) == len(await q.settle())
