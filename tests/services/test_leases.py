"""Each queue is held by one relay, and a holder that was replaced writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

import psycopg
import pytest
import redis as redis_py

from redisjobs import staged
from redisjobs.base.postgres import Database
from redisjobs.broker import Fence, Publication, Stale
from redisjobs.errors import BrokerUnavailable
from redisjobs.leases import Hold, Leases
from tests.support.builders import finish, stage, states
from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, in_line, job_of, relay_by_hand
from tests.support.rules import Rule

Conn = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url)
    await made.open()
    yield made
    await made.close()


def expire(conn: Conn, queue: str = "default") -> None:
    conn.execute("UPDATE redisjobs.queues SET lease_until = '-infinity' WHERE queue = %s", [queue])
    conn.commit()


async def test_a_queue_goes_to_the_first_and_to_another_when_its_lease_has_ended(conn: Conn, database: Database):
    first, second = Leases(database, "first", 30), Leases(database, "second", 30)
    [held] = await first.take(["q"])
    assert await second.take(["q"]) == []
    assert await second.renew() == []

    expire(conn, "q")
    [taken] = await second.renew()

    assert taken.token == held.token + 1
    await first.renew()
    assert first.held == {"q": held}, "it stays, for as long as its lease is trusted; every write of it is refused"
    assert await first.take_fresh_token(held) is False
    assert first.held == {}


async def test_the_same_relay_keeps_its_token_through_renewals_and_a_late_one(conn: Conn, database: Database):
    leases = Leases(database, "first", 30)
    [held] = await leases.take(["q"])
    expire(conn, "q")

    assert await leases.renew() == []

    assert leases.held == {"q": held}


async def test_trust_counts_from_before_the_renewal_was_asked_for(database: Database):
    clock = FakeClock()
    leases = Leases(database, "first", 30, clock=clock)
    [held] = await leases.take(["q"])
    assert leases.trusts(held)

    await clock.advance(30)

    assert not leases.trusts(held)


async def test_a_row_that_somebody_has_locked_does_not_cost_the_lease(conn: Conn, database: Database):
    leases = Leases(database, "first", 30)
    [held] = await leases.take(["q"])
    conn.execute("SELECT redisjobs.pause('q')")

    await leases.renew()

    assert leases.held == {"q": held}


async def test_what_can_be_no_queues_name_is_not_taken(conn: Conn, database: Database):
    leases = Leases(database, "first", 30)

    taken = await leases.take(["", "a b", "{x}", "x" * 129, "ä", "good"])

    assert [hold.queue for hold in taken] == ["good"]
    assert conn.execute("SELECT queue FROM redisjobs.queues").fetchall() == [("good",)]


async def test_a_relay_that_stops_leaves_its_queues_at_once(conn: Conn, database_url: str, redis_url: str):
    async with relay_by_hand(database_url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        await first.relay.start()
        stage(conn, queue="q")
        conn.commit()
        await eventually(lambda: first.holds("q"), "the first holds the queue")
        await first.relay.stop()

        await second.renewed()

        assert second.holds("q")


async def test_relays_share_queues_without_taking_them_from_each_other(conn: Conn, database_url: str, redis_url: str):
    async with relay_by_hand(database_url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        stage(conn, queue="a")
        conn.commit()
        await first.rounds()
        stage(conn, queue="b")
        conn.commit()
        await second.rounds()
        for _ in range(3):
            stage(conn, queue="a")
            stage(conn, queue="b")
            conn.commit()
            await second.renewed()
            await first.renewed()

        assert (list(first.relay.leases.held), list(second.relay.leases.held)) == (["a"], ["b"])
        assert set(states(conn).values()) == {"published"}


async def test_outcomes_of_a_queue_that_another_relay_holds_are_left_to_it(
    conn: Conn, database_url: str, redis_url: str, worker: Hand
):
    async with relay_by_hand(database_url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        job = stage(conn)
        conn.commit()
        await first.rounds()
        await worker.run()
        await second.rounds()
        assert states(conn) == {job: "published"}

        await first.rounds()

        assert states(conn) == {job: "done"}


# a round that takes long


async def test_a_long_round_renews_the_leases_on_its_way(conn: Conn, database_url: str, redis_url: str):
    clock = FakeClock()
    queues = ["a", "b", "c", "d", "e", "f"]
    for queue in queues:
        stage(conn, queue=queue)
    conn.commit()
    async with relay_by_hand(database_url, redis_url, clock=clock, lease=15) as relay:
        publish = relay.relay.publisher.publish

        async def slowly(hold: Hold) -> int:
            await clock.advance(6)
            return await publish(hold)

        relay.relay.publisher.publish = slowly  # type: ignore[method-assign]
        await relay.round()

        assert set(states(conn).values()) == {"published"}
        assert all(relay.relay.leases.trusts(relay.hold(queue)) for queue in queues)


async def test_a_long_pass_renews_the_lease_between_its_calls(
    conn: Conn, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(staged, "PIECE_ROWS", 1)
    clock = FakeClock()
    for _ in range(30):
        stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_url, clock=clock, lease=15) as relay:
        publish = relay.relay.carrier.publish

        async def slowly(fence: Fence, jobs: Sequence[Publication]) -> list[tuple[str, bytes | None]]:
            await clock.advance(0.7)  # a try to renew is made with each; a mark in flight may be in its way
            return await publish(fence, jobs)

        relay.relay.carrier.publish = slowly  # type: ignore[method-assign]
        await relay.round()

        assert set(states(conn).values()) == {"published"}
        assert relay.relay.leases.trusts(relay.hold())


async def test_keeping_takes_no_queue_and_revives_none(conn: Conn, database: Database):
    clock = FakeClock()
    leases = Leases(database, "first", 30, clock=clock)
    [lapsed, lives] = sorted(await leases.take(["a", "b"]), key=lambda hold: hold.queue)
    await leases.take(["c"])
    expire(conn, "a")
    conn.execute("UPDATE redisjobs.queues SET holder = 'second', token = token + 1 WHERE queue = 'c'")
    conn.commit()
    await clock.advance(29)

    assert await leases.keep() is False

    await clock.advance(2)
    assert leases.trusts(lives)
    assert not leases.trusts(lapsed)
    assert not leases.trusts(leases.held["c"])


# a holder that was paused


class Paused:
    """A relay that stands between two of its calls, while another takes its queue over."""

    def __init__(self, first: RelayByHand, second: RelayByHand, task: asyncio.Task[int]) -> None:
        self.first, self.second, self._task = first, second, task

    async def ends(self) -> None:
        with contextlib.suppress(Exception):
            await self._task


async def nothing() -> None:
    """Nothing happens between."""


@contextlib.asynccontextmanager
async def paused_at(
    call: str, conn: Conn, redis_url: str, redis_proxy: Proxy, then: Callable[[], Awaitable[object]] = nothing
) -> AsyncGenerator[tuple[Paused, Rule], None]:
    """The first relay has done one round, and stands before this call; the second holds its queue."""
    database_url = conn.info.dsn
    async with relay_by_hand(database_url, redis_proxy.url) as first, relay_by_hand(database_url, redis_url) as second:
        first.relay.publisher._batch_size = second.relay.publisher._batch_size = 1
        await first.round()
        await then()
        held = redis_proxy.hold_request(call)
        task = asyncio.create_task(first.rounds())
        await held.happened()
        expire(conn)
        await second.renewed()
        assert second.holds()
        try:
            yield Paused(first, second, task), held
        finally:
            held.release()
            held.remove()
            await task


async def test_a_publish_that_comes_too_late_is_refused(
    conn: Conn, redis_url: str, redis_proxy: Proxy, redis: redis_py.Redis, worker: Hand
):
    before, job = stage(conn), stage(conn)
    conn.commit()
    async with paused_at("publish", conn, redis_url, redis_proxy) as (pair, held):
        await pair.second.rounds()
        await worker.run()
        await pair.second.rounds()
        assert states(conn) == {before: "done", job: "done"}
        redis.delete("rj:{default}:jobs")  # not even a tombstone stands in the way

        held.release()
        await pair.ends()

        assert in_line(redis) == []
        assert not pair.first.holds()


async def test_a_mark_that_comes_too_late_is_refused(
    conn: Conn, database_url: str, redis_url: str, postgres_proxy: Proxy, redis: redis_py.Redis
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(postgres_proxy.url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        held = postgres_proxy.hold_request("state = 'published', published_at")
        task = asyncio.create_task(first.rounds())
        await held.happened()
        expire(conn)
        await second.renewed()
        conn.execute("UPDATE redisjobs.outbox SET state = 'staged'")
        conn.execute("SELECT redisjobs.set_aside(ARRAY[%s])", [job])
        conn.execute("SELECT redisjobs.set_aside(ARRAY[%s], false)", [job])
        conn.commit()

        held.release()
        await task

        assert states(conn) == {job: "staged"}
        assert not first.holds()


async def test_a_settled_that_comes_too_late_is_refused(
    conn: Conn, redis_url: str, redis_proxy: Proxy, worker: Hand, redis: redis_py.Redis
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(conn.info.dsn, redis_url) as before:
        await before.rounds()
        await before.relay.leases.let_go()
    ending = worker.run
    async with paused_at("settled", conn, redis_url, redis_proxy, ending) as (pair, held):
        before_it = redis.hget("rj:{default}:life", "settled")
        held.release()
        await pair.ends()

        assert redis.hget("rj:{default}:life", "settled") == before_it
        await pair.second.rounds()

    assert states(conn) == {job: "done"}


async def test_the_first_act_of_a_new_holder_is_to_raise_the_fence(
    conn: Conn, redis_url: str, redis_proxy: Proxy, redis: redis_py.Redis
):
    before, job = stage(conn), stage(conn)
    conn.commit()
    async with paused_at("publish", conn, redis_url, redis_proxy) as (pair, held):
        fence = redis.hget("rj:{default}:life", "fence")
        assert fence == str(pair.second.hold().token).encode()
        assert pair.second.hold().token > pair.first.hold().token
        assert {before, job} == set(states(conn))
        held.release()


# calls with an unknown end


async def test_after_a_publish_with_an_unknown_end_nothing_goes_under_the_old_token(
    conn: Conn, database_url: str, redis_proxy: Proxy, redis: redis_py.Redis, worker: Hand
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url, timeout=3) as relay:
        await relay.rounds()
        late = stage(conn)
        conn.commit()
        held = redis_proxy.hold_request("publish")
        with pytest.raises(BrokerUnavailable):
            await relay.rounds()
        token = relay.hold().token
        assert relay.hold().unsure

        await relay.rounds()
        assert relay.hold().token == token + 1
        assert states(conn) == {job: "published", late: "published"}
        await worker.run()
        await relay.rounds()
        redis.delete("rj:{default}:jobs")
        held.release()  # the first request arrives now
        await eventually(lambda: held.count == 1, "it was sent on")
        await relay.renewed()

    assert await worker.take() == []
    assert states(conn) == {job: "done", late: "done"}


@pytest.mark.parametrize("script", ["open", "publish", "settled", "cancel"])
async def test_a_call_whose_reply_was_lost_is_made_under_a_fresh_token(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand, script: str
):
    first, gone = stage(conn), stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        if script != "open":
            await relay.rounds()
            [one, _] = await worker.take()
            late = stage(conn)
            await worker.end(finish(one))
            conn.execute("SELECT redisjobs.cancel(%s)", [late])
            stage(conn)
            conn.commit()
        lost = redis_proxy.lose_reply(script)
        with pytest.raises(BrokerUnavailable):
            await relay.rounds()
        await lost.happened()
        token = relay.hold().token

        await relay.rounds()

        assert relay.hold().token == token + 1
        assert states(conn)[first] == ("published" if script == "open" else "done")
        assert states(conn)[gone] == "published"


async def test_a_fence_above_our_token_is_climbed_over_when_postgres_says_that_the_queue_is_ours(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis, worker: Hand
):
    async with relay_by_hand(database_url, redis_url) as relay:
        stage(conn)
        conn.commit()
        await relay.rounds()
        conn.execute("UPDATE redisjobs.queues SET token = 1")  # Postgres was put back to an older state
        redis.hset("rj:{default}:life", "fence", "40")
        job = stage(conn)
        conn.commit()

        await relay.renewed()
        await relay.rounds()

        assert relay.hold().token == 41
        assert job in [job_of(each) for each in await worker.take()]


async def test_a_younger_holder_is_never_climbed_over(conn: Conn, database_url: str, redis_url: str):
    async with relay_by_hand(database_url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        stage(conn)
        conn.commit()
        await first.rounds()
        hold = first.hold()
        expire(conn)
        await second.renewed()
        hold.opened = False

        with pytest.raises(Stale):
            await first.relay.recovery.open(hold)
        await first.rounds()

        assert not first.holds()
        assert second.holds()
