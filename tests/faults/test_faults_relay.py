"""Relays that are killed and paused: nothing is published twice, by nobody without the right to, nor out of order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.faults.road import Road, sized, up
from tests.faults.shop import look_up, order
from tests.support.eventually import eventually
from tests.support.proxy import Proxy, in_front_of_postgres
from tests.support.wire import Request

MARK = "SET state = 'published', published_at"


@pytest.fixture
def second_proxy(database_url: str) -> Iterator[Proxy]:
    """Another way to the same database."""
    with in_front_of_postgres(database_url) as proxy:
        yield proxy


def published(road: Road) -> int:
    """How many rows are marked."""
    return sum(state != "staged" for state in road.states().values())


@pytest.mark.timeout(sized(120, 3000))
async def test_a_relay_that_wakes_up_after_its_lease_marks_and_publishes_nothing(
    road: Road, postgres_proxy: Proxy, second_proxy: Proxy
):
    first = road.relay(lease=2, database=postgres_proxy.url)
    await up(first)
    road.enqueue(order.call())
    await eventually(lambda: published(road) == 1, "the first relay holds the queue")
    second = road.relay(lease=2, database=second_proxy.url)
    await up(second)
    ways = {first.pid: (first, postgres_proxy), second.pid: (second, second_proxy)}

    for _ in range(sized(2, 30, 100)):
        holder, its_proxy = ways[(await road.held([first, second])).pid]
        other_proxy = next(proxy for relay, proxy in ways.values() if relay is not holder)
        before = published(road)
        stale, younger = its_proxy.hold_request(MARK), other_proxy.hold_request(MARK)
        road.enqueue(order.call(note=str(n)) for n in range(20))
        await stale.happened()  # published, and not marked
        holder.freeze()
        await younger.happened(15)  # the other one has taken the queue, and published as well
        stale.release()
        road.enqueue(order.call(note=str(n)) for n in range(20))
        holder.thaw()
        await holder.says("relay.queue_lost")
        assert published(road) == before, "a row was marked by a relay that had lost its lease"
        younger.release()
        await eventually(lambda: published(road) == len(road.committed), "all rows are marked")
        for rule in (stale, younger):
            rule.remove()

    assert road.line() == road.staged_order() == road.committed
    assert road.query("SELECT DISTINCT publications FROM redisjobs.outbox") == [(1,)]
    await up(road.worker())
    await road.at_rest()


@pytest.mark.timeout(sized(150, 3000))
async def test_a_relay_killed_between_publish_and_mark_leaves_one_entry_for_each_job(road: Road, postgres_proxy: Proxy):
    queues = ("default", "mail", "print")
    relays = [road.relay(lease=0.6, database=postgres_proxy.url) for _ in range(3)]
    await up(*relays)
    for kill in range(sized(20, 60, 200)):
        rule = postgres_proxy.hold_request(MARK)
        road.enqueue(order.using(queue=queues[n % 3]).call() for n in range(kill % 7 * 3 + 3))
        queue = _queue_of(await rule.happened(20), queues)
        victim = await road.held(relays, queue)
        victim.kill()
        rule.release()
        relays = [relay for relay in relays if relay is not victim] + [
            road.relay(lease=0.6, database=postgres_proxy.url)
        ]

    await eventually(lambda: published(road) == len(road.committed), "all rows are marked", 20)
    for queue in queues:
        assert road.line(queue) == road.staged_order(queue)
    await up(road.worker("-q", ",".join(queues)))
    await road.at_rest()


def _queue_of(mark: Request, queues: tuple[str, ...]) -> str:
    return next(queue for queue in queues if queue.encode() in mark.raw)


@pytest.mark.parametrize("relays", [2, 4])
async def test_the_order_of_commits_is_the_order_in_the_stream_with_many_relays(road: Road, relays: int):
    await up(*(road.relay(lease=1) for _ in range(relays)))

    with road.connect() as conn:
        for n in range(sized(1000, 10_000)):
            road.committed.append(order.enqueue(conn, note=str(n)).id)
            conn.commit()

    await eventually(lambda: published(road) == len(road.committed), "all rows are published", 30)
    assert road.line() == road.committed


async def test_serializable_sessions_do_not_stop_the_relays(road: Road):
    name = road.query("SELECT current_database()")[0][0]
    road.query(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    relays = [road.relay(lease=2) for _ in range(4)]
    await up(*relays, road.worker())

    for _ in range(sized(50, 500)):
        road.enqueue(order.call())

    await road.at_rest()
    assert not [relay for relay in relays if "40001" in relay.log() or "Traceback" in relay.log()]


async def test_exactly_the_jobs_of_committed_transactions_run_and_find_their_row(road: Road):
    road.query("CREATE TABLE sale (row integer PRIMARY KEY)")
    await road.start()

    share = sized(300, 1000) // 10
    await asyncio.gather(*(asyncio.to_thread(_sell, road, range(n * share, (n + 1) * share)) for n in range(10)))

    await road.at_rest()
    assert {run.note for run in road.journal.runs()} == {"there"}
    assert road.rolled_back


def _sell(road: Road, rows: range) -> None:
    """Transactions that end in all ways."""
    with road.connect() as conn:
        for row in rows:
            how = random.choice(["commit", "roll back", "raise", "roll back to a savepoint"])
            commits = how in ("commit", "roll back to a savepoint")
            with contextlib.suppress(psycopg.errors.DivisionByZero), conn.transaction(force_rollback=not commits):
                conn.execute("INSERT INTO sale VALUES (%s)", [row])
                (road.committed if commits else road.rolled_back).append(look_up.enqueue(conn, row).id)
                if how == "roll back to a savepoint":
                    with conn.transaction(force_rollback=True):
                        road.rolled_back.append(look_up.enqueue(conn, -1).id)
                conn.execute("SELECT pg_sleep(%s)", [random.uniform(0, sized(0.05, 0.2))])
                if how == "raise":
                    conn.execute("SELECT 1 / 0")


async def test_a_producer_killed_as_its_commit_returns_has_enqueued(road: Road):
    await road.start()
    producer = road.processes.python("-c", PRODUCER, str(sized(20, 200)), road.database_url)
    assert await producer.ended() == 0
    road.committed += producer.log().split()

    assert len(road.committed) == sized(20, 200)
    await road.at_rest()


PRODUCER = """
import os, signal, sys
import psycopg
from tests.faults.shop import order
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        conn = psycopg.connect(sys.argv[2])
        job = order.enqueue(conn).id
        os.write(1, f"{job}\\n".encode())
        conn.commit()
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""
