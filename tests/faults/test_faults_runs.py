"""A run that calls a child and waits for an event, while statements, replies and whole relays are lost on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import psycopg
import psycopg.conninfo
import pytest

from redisjobs.errors import BrokerUnavailable, RedisjobsError, StoreUnavailable
from redisjobs.record import pack
from redisjobs.steps import StepRecord
from tests.support.builders import finish, stage, states
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, hand, job_of, relay_by_hand
from tests.support.sleepers import Sleeper, Sleepers, sleepers

Conn = psycopg.Connection[tuple[Any, ...]]
CHILDS = "childs"
STATEMENTS = (
    "settled = t.number",  # suspend
    "looked_at = NULL",
    "deliver_events",
    "tell_parents",
    "DELETE FROM redisjobs.steps",
    "state = 'published', published_at",
)
SCRIPTS = ("publish", "settled", "finish", "take")


class Life:
    """The life of one run and its child, whatever gets lost on the way."""

    def __init__(self, conn: Conn, worker: Hand, runs: Sleepers, relay: RelayByHand) -> None:
        self.conn, self.worker, self.runs, self.relay = conn, worker, runs, relay

    async def carried(self) -> None:
        """Rounds until nothing is left to do; one in which something got lost is followed by another."""
        for _ in range(50):
            try:
                if not await self.relay.renewed() and not self.relay.relay._named:
                    return
            except StoreUnavailable:
                await asyncio.sleep(0)
        raise AssertionError("the relay finds no rest")

    async def insist(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """A call of a worker, repeated where its end is unknown, as workers repeat it."""
        for _ in range(5):
            with contextlib.suppress(BrokerUnavailable):
                return await call()
        raise AssertionError("Redis does not answer")

    async def take(self, queue: str = "default") -> Sleeper:
        async def one() -> Sleeper | None:
            await self.carried()
            held = await self.insist(lambda: self.worker.broker.recall(queue, "hand", lease_ms=30_000))
            held = held or await self.insist(lambda: self.worker.take(1, queue))
            return await self.runs.claim(held[0]) if held else None

        found = await eventually(one, f"a run waits in {queue}")
        assert found is not None
        return found

    async def live(self) -> UUID:
        """From its commit to its end."""
        stage(self.conn)
        self.conn.commit()
        run = await self.take()
        child = await run.call(queue=CHILDS)
        await run.wait()
        await self.insist(run.suspend)
        inner = await self.take(CHILDS)
        assert inner.id == child
        await self.insist(lambda: inner.end(record=pack(result=("json", b"42"))))
        await self.carried()
        self.conn.execute("SELECT redisjobs.send_event('paid', '7')")
        self.conn.commit()
        again = await self.take()
        assert again.id == run.id
        assert (await again.wait()).state == "done"
        record = await again.store.get(run.id, "child")
        assert record is not None
        assert record.value == b"42"
        await self.insist(again.end)
        await self.carried()
        return run.id

    def check(self, run: UUID) -> None:
        """Both have ended once, the event was taken once, and nothing is left of them."""
        assert set(states(self.conn).values()) == {"done"}
        assert len(states(self.conn)) == 2
        assert self.conn.execute("SELECT run FROM redisjobs.events").fetchall() == [(run,)]
        assert self.conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)
        self.conn.rollback()


@contextlib.asynccontextmanager
async def life(conn: Conn, database_url: str, redis_url: str) -> AsyncIterator[Life]:
    """The relay goes over these URLs; steps are recorded over a way of their own, on which nothing gets lost."""
    direct = psycopg.conninfo.make_conninfo(**conn.info.get_parameters())
    async with (
        hand(redis_url) as worker,
        sleepers(direct, worker) as runs,
        relay_by_hand(database_url, redis_url, horizon=60) as relay,
    ):
        yield Life(conn, worker, runs, relay)


@pytest.mark.parametrize("how", ["request", "reply"])
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_lost_statement_of_a_relay_loses_and_doubles_nothing(
    conn: Conn, postgres_proxy: Proxy, redis_url: str, statement: str, how: str
):
    lost = postgres_proxy.lose_request(statement) if how == "request" else postgres_proxy.lose_reply(statement)
    async with life(conn, postgres_proxy.url, redis_url) as made:
        made.check(await made.live())
    lost.wait(1)


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_lost_reply_of_a_script_loses_and_doubles_nothing(
    conn: Conn, database_url: str, redis_proxy: Proxy, script: str
):
    lost = redis_proxy.lose_reply(script, times=2)
    async with life(conn, database_url, redis_proxy.url) as made:
        made.check(await made.live())
    lost.wait(1)


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_relay_that_is_killed_between_two_statements_leaves_it_to_the_next(
    conn: Conn, database_url: str, postgres_proxy: Proxy, redis_url: str, statement: str
):
    """It is cut off from Postgres for good in the midst of a pass; another one holds the queues from then on."""
    async with life(conn, postgres_proxy.url, redis_url) as made, relay_by_hand(database_url, redis_url) as second:
        first, held = made.relay, postgres_proxy.hold_request(statement)

        async def carried() -> None:
            if made.relay is first:
                passing = asyncio.create_task(_rounds(first))
                meeting = asyncio.create_task(held.happened(60))
                await asyncio.wait({passing, meeting}, return_when=asyncio.FIRST_COMPLETED)
                for task in (meeting, passing) if held.count else (meeting,):
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError, RedisjobsError):
                    await passing
                if not held.count:
                    return
                conn.execute("UPDATE redisjobs.queues SET holder = NULL, lease_until = '-infinity'")
                conn.commit()
                made.relay = second
            await _rounds(second)

        made.carried = carried  # type: ignore[method-assign]
        run = await made.live()
        made.check(run)
        assert held.count == 1
        held.release()
        await _rounds(second)
        made.check(run)


async def _rounds(relay: RelayByHand) -> None:
    for _ in range(50):
        with contextlib.suppress(StoreUnavailable):
            if not await relay.renewed() and not relay.relay._named:
                return
    raise AssertionError("the relay finds no rest")


@pytest.mark.parametrize("script", ["cancel", "free"])
@pytest.mark.parametrize("how", ["request", "reply"])
async def test_a_suspended_run_is_cancelled_once_although_a_call_is_lost(
    conn: Conn, database_url: str, redis_proxy: Proxy, script: str, how: str
):
    async with life(conn, database_url, redis_proxy.url) as made:
        stage(conn, idempotency_key="k")
        conn.commit()
        run = await made.take()
        await run.wait()
        await run.suspend()
        await made.carried()
        lost = redis_proxy.lose_request(script) if how == "request" else redis_proxy.lose_reply(script)
        conn.execute("SELECT redisjobs.cancel(%s)", [run.id])
        conn.commit()
        await made.carried()
        second = stage(conn, idempotency_key="k")
        conn.commit()
        await made.carried()

        assert states(conn) == {run.id: "cancelled", second: "published"}
        lost.wait(1)


async def test_what_is_lost_of_a_wait_is_waited_for_again(conn: Conn, database_url: str, redis_url: str):
    """A worker that dies after it has recorded its wait, and before it lets go."""
    async with life(conn, database_url, redis_url) as made:
        stage(conn)
        conn.commit()
        run = await made.take()
        await run.wait()
        conn.execute("SELECT redisjobs.send_event('paid', '7')")
        conn.commit()
        await made.carried()
        record = await run.store.get(run.id, "paid")
        assert isinstance(record, StepRecord)
        assert record.state == "done"
        await run.end("retry", counted=True)
        await made.carried()
        await made.worker.promote()
        again = await made.take()
        assert (await again.wait()).state == "done"
        assert job_of(again.held) == run.id
        await made.worker.end(finish(again.held))
        await made.carried()
        assert states(conn) == {run.id: "done"}
