"""In one queue, what was committed before is published before, and nothing is passed over."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
import redis as redis_py

from redisjobs.errors import StoreUnavailable
from tests.support.builders import stage, states
from tests.support.eventually import eventually
from tests.support.relays import RelayByHand, in_line, relay_by_hand

Conn = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def other(database_url: str) -> Iterator[Conn]:
    with psycopg.connect(database_url) as opened:
        yield opened
        opened.rollback()


async def grows(redis: redis_py.Redis, by: int) -> None:
    wanted = len(in_line(redis)) + by
    await eventually(lambda: len(in_line(redis)) >= wanted, f"{by} more rows are published")


async def test_a_row_that_commits_late_is_published_all_the_same(
    conn: Conn, other: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    late = stage(conn)
    first = stage(other)
    other.commit()
    await relay.rounds()
    assert in_line(redis) == [first]
    more = [stage(other) for _ in range(3)]
    other.commit()
    await relay.rounds()

    conn.commit()
    await relay.rounds()

    assert in_line(redis) == [first, *more, late]


async def test_a_young_transaction_between_the_rows_of_an_older_one_is_not_passed_over(
    conn: Conn, other: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    # the snapshot that sees both rows of `conn` does not name `other`, which is younger than all that has ended
    first = stage(conn)
    between = stage(other)
    last = stage(conn)
    conn.commit()
    await relay.rounds()
    assert in_line(redis) == [first, last]
    for _ in range(3):
        await relay.round()

    other.commit()
    await relay.rounds()

    assert in_line(redis) == [first, last, between]
    assert set(states(conn).values()) == {"published"}


async def test_a_row_that_somebody_has_locked_is_overtaken_by_none(
    conn: Conn, other: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    """As by a cancel in a transaction that stays open: what stands behind it waits, or goes after it."""
    staged = [stage(conn) for _ in range(5)]
    conn.commit()
    other.execute("SELECT FROM redisjobs.outbox WHERE id = %s FOR UPDATE", [staged[1]])
    with contextlib.suppress(StoreUnavailable):  # the mark waits for the lock, and not for ever
        await relay.rounds()
    assert in_line(redis) == staged[: len(in_line(redis))]
    other.rollback()

    await relay.rounds()

    assert in_line(redis) == staged
    assert set(states(conn).values()) == {"published"}


async def test_rows_of_a_rolled_back_transaction_and_savepoint_never_appear(
    conn: Conn, other: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    stage(other)
    kept = stage(conn)
    with contextlib.suppress(ZeroDivisionError), conn.transaction():
        stage(conn)
        raise ZeroDivisionError
    conn.commit()
    other.rollback()

    await relay.rounds()

    assert in_line(redis) == [kept]


async def test_writers_that_commit_in_any_order_lose_nothing(
    database_url: str, conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    def write(seed: int) -> None:
        choose = random.Random(seed)
        with psycopg.connect(database_url) as writer:
            for _ in range(40):
                for _ in range(choose.randint(1, 5)):
                    stage(writer)
                writer.execute("SELECT pg_sleep(%s)", [choose.choice([0, 0, 0.001, 0.03])])
                (writer.commit if choose.random() < 0.8 else writer.rollback)()

    writers = [asyncio.to_thread(write, seed) for seed in range(12)]
    await relay.relay.start()
    await asyncio.gather(*writers)
    await eventually(lambda: set(states(conn).values()) == {"published"}, "every row is marked", within=30)

    published = in_line(redis)
    assert len(published) == len(set(published))
    assert set(published) == set(states(conn))


async def test_four_relays_keep_the_order_of_one_producer(
    database_url: str, redis_url: str, conn: Conn, redis: redis_py.Redis
):
    async with contextlib.AsyncExitStack() as stack:
        relays = [await stack.enter_async_context(relay_by_hand(database_url, redis_url)) for _ in range(4)]
        for each in relays:
            await each.relay.start()

        def produce() -> list[UUID]:
            with psycopg.connect(database_url, autocommit=True) as producer:
                return [stage(producer) for _ in range(2_000)]

        staged = await asyncio.to_thread(produce)
        await eventually(lambda: len(in_line(redis)) == 2_000, "all rows are in the stream", within=30)

    assert in_line(redis) == staged


async def test_the_order_holds_while_relays_come_and_go(
    database_url: str, redis_url: str, conn: Conn, redis: redis_py.Redis
):
    staged: list[UUID] = []
    ended = threading.Event()

    def produce() -> None:
        with psycopg.connect(database_url, autocommit=True) as producer:
            while not ended.is_set():
                staged.append(stage(producer))

    producing = asyncio.create_task(asyncio.to_thread(produce))
    for _ in range(5):
        async with relay_by_hand(database_url, redis_url, batch_size=7) as each:
            await each.relay.start()
            await grows(redis, by=100)
            await each.relay.stop()
    ended.set()
    await producing
    async with relay_by_hand(database_url, redis_url) as each:
        await each.rounds()

    assert in_line(redis) == staged


async def test_a_sequence_with_a_cache_for_each_session_loses_nothing(
    conn: Conn, other: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    conn.execute("ALTER SEQUENCE redisjobs.outbox_seq_seq CACHE 50")
    conn.commit()
    staged = set[UUID]()
    for _ in range(100):
        staged.add(stage(conn))
        conn.commit()
        staged.add(stage(other))
        other.commit()
        await relay.rounds()

    assert set(in_line(redis)) == staged


async def test_an_old_snapshot_does_not_make_passes_longer_and_longer(conn: Conn, other: Conn, relay: RelayByHand):
    other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT count(*) FROM redisjobs.outbox")
    for _ in range(5):
        conn.execute("INSERT INTO redisjobs.outbox (job, input) SELECT 'a', '{}' FROM generate_series(1, 1000)")
        conn.commit()
        await relay.rounds()

    newest = conn.execute("SELECT max(seq) FROM redisjobs.outbox").fetchone()
    assert newest is not None
    assert relay.hold().floor.seq > int(str(newest[0])) - 1000


async def test_the_rows_of_one_transaction_keep_their_order_over_many_batches(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis
):
    staged = [stage(conn) for _ in range(50)]
    conn.commit()

    async with relay_by_hand(database_url, redis_url, batch_size=7) as relay:
        await relay.rounds()

    assert in_line(redis) == staged


async def test_bands_are_streams_of_their_own(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    low, normal, high = (stage(conn, priority=priority) for priority in (-1, 0, 5))
    conn.commit()

    await relay.rounds()

    assert [in_line(redis, band=band) for band in (0, 1, 2)] == [[high], [normal], [low]]
