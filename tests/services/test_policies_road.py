"""Policies of keys on real stores: commits in another order, lost replies, a Redis that lost everything (L3, M09)."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis as redis_py

from redisjobs import App, Call, Debounce, Handle, Throttle
from redisjobs.broker import Carrier
from redisjobs.errors import BrokerUnavailable
from tests.support.builders import finish
from tests.support.eventually import eventually
from tests.support.relays import Hand, RelayByHand, hand, job_of, relay_by_hand

app = App("shop")


@app.job(debounce=Debounce(wait=600, longest=3600))
async def index(n: int) -> None:
    del n


@app.job(singleton="replace")
async def build(n: int) -> None:
    del n


@app.job(throttle=Throttle(period=600))
async def sync(n: int) -> None:
    del n


@app.job(singleton="skip")
async def report(n: int) -> None:
    del n


@dataclass
class Road:
    """A relay whose rounds a test asks for, a worker's hand, and both stores."""

    url: str
    redis: Any
    relay: RelayByHand
    hand: Hand

    async def commit(self, *calls: Call[Any]) -> list[str]:
        with psycopg.connect(self.url) as connection:
            handles: list[Handle[Any]] = app.enqueue(connection, *calls)
        await self.relay.rounds()
        return [each.id for each in handles]

    def row(self, job_id: str) -> tuple[Any, ...] | None:
        """State, whether its cancel was asked for, and of which job it is a duplicate."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(
                "SELECT state, cancel_requested, NULL FROM redisjobs.outbox WHERE id = %(id)s"
                " UNION ALL SELECT state, false, duplicate_of::text FROM redisjobs.finished WHERE id = %(id)s",
                {"id": job_id},
            ).fetchone()

    def let_pass(self) -> None:
        """All waits and periods in Redis are over."""
        for name in ("due", "windows"):
            key = f"rj:{{default}}:{name}"
            for member in self.redis.zrange(key, 0, -1):
                self.redis.zincrby(key, -3_700_000, member)

    async def run_all(self) -> list[str]:
        self.let_pass()
        await self.hand.promote()
        ran = [str(each) for each in await self.hand.run()]
        await self.relay.rounds()
        return ran


@pytest.fixture
async def road(database_url: str, redis_url: str) -> AsyncIterator[Road]:
    async with relay_by_hand(database_url, redis_url) as relay, hand(redis_url) as worker:
        await relay.relay.start()
        client = redis_py.Redis.from_url(redis_url)
        yield Road(database_url, client, relay, worker)
        client.close()


async def test_a_call_that_commits_late_does_not_take_the_place_of_a_later_one(road: Road):
    with psycopg.connect(road.url) as slow:
        early = index.enqueue(slow, 1)
        [later] = await road.commit(index.call(2))
        slow.commit()
    await road.relay.rounds()

    assert road.row(early.id) == ("deduplicated", False, later)
    assert await road.run_all() == [later]


async def test_a_publish_whose_reply_is_lost_changes_nothing_when_it_is_repeated(
    road: Road, monkeypatch: pytest.MonkeyPatch
):
    [old] = await road.commit(build.call(0))
    held = await road.hand.one()
    publish, lost = Carrier.publish, [True] * 3

    async def loses_its_reply(self: Carrier, *given: Any) -> Any:
        answer = await publish(self, *given)
        if lost:
            lost.pop()
            raise BrokerUnavailable("the reply is lost")
        return answer

    monkeypatch.setattr(Carrier, "publish", loses_its_reply)
    with psycopg.connect(road.url) as connection:
        handles = app.enqueue(connection, *(index.call(n) for n in range(3)), sync.call(1), sync.call(2), build.call(1))
    for _ in range(20):
        with contextlib.suppress(BrokerUnavailable):
            await road.relay.round()
    assert not lost

    rows = [road.row(each.id) for each in handles]
    ids = [each.id for each in handles]
    assert [row and (row[0], row[2]) for row in rows] == [
        ("deduplicated", ids[1]), ("deduplicated", ids[2]), ("published", None),
        ("published", None), ("deduplicated", ids[3]), ("published", None),
    ]  # fmt: skip
    assert road.row(old) == ("published", True, None)
    await road.hand.end(finish(held, "cancelled"))
    assert sorted(await road.run_all()) == sorted([ids[2], ids[3], ids[5]])


async def test_after_redis_lost_everything_policies_come_to_the_same_end(road: Road):
    [replaced] = await road.commit(build.call(1))
    assert job_of(await road.hand.one()).hex == replaced.replace("-", "")
    [building] = await road.commit(build.call(2))
    assert road.row(replaced) == ("published", True, None)
    burst = await road.commit(index.call(1), index.call(2))
    first, second = await road.commit(sync.call(1), sync.call(2))

    road.redis.flushall()
    await road.relay.renewed()
    await road.relay.rounds()

    assert road.row(replaced) == ("cancelled", False, None)
    [last] = await road.commit(index.call(3))
    [third] = await road.commit(sync.call(3))
    assert [road.row(each) for each in burst] == [("deduplicated", False, burst[1]), ("deduplicated", False, last)]
    assert [road.row(each) for each in (second, third)] == [("deduplicated", False, first)] * 2
    assert sorted(await road.run_all()) == sorted([building, last, first])


async def test_a_period_is_restored_from_how_its_first_call_ended(road: Road):
    [first] = await road.commit(sync.call(1))
    await road.hand.run("dead")
    await road.relay.rounds()

    road.redis.flushall()
    await road.relay.renewed()
    await road.relay.rounds()

    [second] = await road.commit(sync.call(2))
    assert road.row(second) == ("deduplicated", False, first)
    road.let_pass()
    [third] = await road.commit(sync.call(3))
    assert await road.run_all() == [third]


async def test_a_dead_letter_of_a_burst_that_is_redriven_yields_to_a_later_call(road: Road):
    [dead] = await road.commit(index.call(1))
    road.let_pass()
    await road.hand.promote()
    await road.hand.run("dead")
    await road.relay.rounds()
    [later] = await road.commit(index.call(2))

    with psycopg.connect(road.url) as connection:
        connection.execute("SELECT redisjobs.redrive(ARRAY[%s]::uuid[])", [dead])
    await road.relay.rounds()

    assert road.row(dead) == ("deduplicated", False, later)
    assert await road.run_all() == [later]


async def test_m09_producers_that_are_killed_and_a_redis_that_restarts_leave_no_key_behind(road: Road):
    chance = random.Random(9)
    for _ in range(4):
        for _ in range(50):
            killed_while_it_enqueues(road.url, chance.random() * 0.01)
        await eventually(lambda: not sessions_of_the_killed(road.url), "Postgres has heard of every end")
        await road.relay.rounds()
        ran = await road.run_all()
        assert len(ran) <= 1, "two of a key lived at once"
    road.redis.flushall()
    await road.relay.renewed()

    [after] = await road.commit(report.call(1))

    assert await road.run_all() == [after]


KILLED = "killed"


def sessions_of_the_killed(url: str) -> int:
    """Those that still carry out what their program had sent."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = %s", [KILLED]
        ).fetchone()
    assert row is not None
    return int(row[0])


def killed_while_it_enqueues(url: str, after: float) -> None:
    """A program that enqueues with a key, and is killed at about the time of its commit."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with psycopg.connect(url, application_name=KILLED) as connection:
                os.write(told, b"!")
                report.enqueue(connection, 0)
                connection.commit()
                time.sleep(5)
        finally:
            os._exit(0)
    os.close(told)
    os.read(ready, 1)
    os.close(ready)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
