"""The proxy in front of a real Postgres does what it says, and nothing else."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.conftest import Conn
from tests.support.eventually import always, eventually
from tests.support.proxy import Proxy


@pytest.fixture(autouse=True)
def table(conn: Conn):
    conn.execute("CREATE TABLE orders (number int)")
    conn.commit()


def numbers(conn: Conn) -> list[object]:
    rows = conn.execute("SELECT number FROM orders ORDER BY number").fetchall()
    conn.commit()
    return [number for (number,) in rows]


def test_everything_passes_when_nothing_is_disturbed(postgres_proxy: Proxy):
    with psycopg.connect(postgres_proxy.url) as through:
        for number in range(20):  # from the sixth on it is a prepared statement
            through.execute("INSERT INTO orders VALUES (%s)", [number])
        with through.cursor().copy("COPY orders FROM STDIN") as copy:
            for number in range(20, 5000):
                copy.write_row([number])
        with through.pipeline():
            for number in range(5000, 5010):
                through.execute("INSERT INTO orders VALUES (%s)", [number])

        assert through.execute("SELECT array_agg(number ORDER BY number) FROM orders").fetchone() == (
            list(range(5010)),
        )


def test_a_lost_commit_was_carried_out(postgres_proxy: Proxy, conn: Conn):
    through = psycopg.connect(postgres_proxy.url)
    through.execute("INSERT INTO orders VALUES (1)")
    lost = postgres_proxy.lose_reply("COMMIT")

    with pytest.raises(psycopg.OperationalError):
        through.commit()

    assert lost.wait().command == "COMMIT"
    assert numbers(conn) == [1]
    through.close()


def test_a_lost_request_was_not_carried_out(postgres_proxy: Proxy, conn: Conn):
    through = psycopg.connect(postgres_proxy.url)
    through.execute("INSERT INTO orders VALUES (1)")
    postgres_proxy.lose_request("COMMIT")

    with pytest.raises(psycopg.OperationalError):
        through.commit()

    assert numbers(conn) == []
    through.close()


def test_a_prepared_statement_is_met_by_its_text(postgres_proxy: Proxy, conn: Conn):
    lost = postgres_proxy.lose_reply("INSERT INTO orders", nth=9)

    with psycopg.connect(postgres_proxy.url, autocommit=True) as through, pytest.raises(psycopg.OperationalError):
        for number in range(20):
            through.execute("INSERT INTO orders VALUES (%s)", [number], prepare=True)

    assert lost.count == 1
    assert numbers(conn) == list(range(9))


def test_words_are_met_whole(postgres_proxy: Proxy):
    lost = postgres_proxy.lose_reply("commit")

    with psycopg.connect(postgres_proxy.url, autocommit=True) as through:
        through.execute("SHOW synchronous_commit")

    assert lost.count == 0


async def test_a_commit_can_be_held_after_it_was_carried_out(postgres_proxy: Proxy, conn: Conn):
    async with await psycopg.AsyncConnection.connect(postgres_proxy.url) as through:
        await through.execute("INSERT INTO orders VALUES (1)")
        held = postgres_proxy.hold_reply("COMMIT")
        committing = asyncio.create_task(through.commit())

        await held.happened()
        assert numbers(conn) == [1]
        await always(lambda: not committing.done(), "its answer is held", lasting=0.1)
        held.release()

        await committing


async def test_notifications_pass(postgres_proxy: Proxy, conn: Conn):
    async with await psycopg.AsyncConnection.connect(postgres_proxy.url, autocommit=True) as through:
        await through.execute("LISTEN news")
        conn.execute("NOTIFY news, 'here'")
        conn.commit()

        async for notice in through.notifies(timeout=5, stop_after=1):
            assert notice.payload == "here"


async def test_a_reset_and_a_pause(postgres_proxy: Proxy, conn: Conn):
    through = await psycopg.AsyncConnection.connect(postgres_proxy.url, autocommit=True)
    postgres_proxy.pause()
    asking = asyncio.create_task(through.execute("INSERT INTO orders VALUES (1)"))
    await always(lambda: not asking.done(), "nothing passes", lasting=0.1)
    postgres_proxy.resume()
    await asking

    postgres_proxy.down()
    with pytest.raises(psycopg.OperationalError):
        await through.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="refused"):
        await psycopg.AsyncConnection.connect(postgres_proxy.url)
    postgres_proxy.heal()

    async with await psycopg.AsyncConnection.connect(postgres_proxy.url):
        assert numbers(conn) == [1]
    await through.close()
    await eventually(lambda: postgres_proxy.connections == 0, "all connections are gone")


def test_a_running_statement_can_be_cancelled_through_it(postgres_proxy: Proxy):
    with psycopg.connect(postgres_proxy.url, autocommit=True) as through:
        through.execute("SET statement_timeout = 0")
        through.cancel_safe(timeout=5)

        assert through.execute("SELECT 1").fetchone() == (1,)
