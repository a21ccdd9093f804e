"""The fixtures for stores keep tests apart."""

from __future__ import annotations

import psycopg
import pytest
import redis as redis_py

from tests.conftest import AsyncConn, Conn
from tests.support.stores import Databases, Stores, emptied_redis


def test_every_database_is_a_fresh_copy(databases: Databases) -> None:
    first, second = databases.migrated(), databases.migrated()

    with psycopg.connect(first) as conn:
        conn.execute("CREATE TABLE only_here ()")

    with psycopg.connect(second) as conn:
        assert conn.execute("SELECT to_regclass('only_here')").fetchone() == (None,)
    databases.drop(first)
    databases.drop(second)


def test_a_database_goes_although_somebody_is_still_connected(databases: Databases) -> None:
    url = databases.migrated()

    with psycopg.connect(url) as held:
        databases.drop(url)

        with pytest.raises(psycopg.OperationalError):
            held.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_key_outside_of_the_prefix_is_a_leak(stores: Stores) -> None:
    with pytest.raises(AssertionError, match="stray"), emptied_redis(stores.redis_url, "rj") as client:
        client.set("rj:{mail}:jobs", "fine")
        client.set("stray", "not fine")


def test_redis_is_empty_at_the_start_of_a_test(redis: redis_py.Redis, redis_url: str) -> None:
    assert redis.dbsize() == 0
    with redis_py.Redis.from_url(redis_url) as other:
        assert other.ping()


async def test_both_kinds_of_connection_reach_the_same_database(conn: Conn, aconn: AsyncConn) -> None:
    here = conn.execute("SELECT current_database()").fetchone()
    there = await (await aconn.execute("SELECT current_database()")).fetchone()

    assert here == there
