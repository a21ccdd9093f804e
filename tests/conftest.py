"""Fixtures of all tests. What they give is described in `tests/support`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import redis as redis_py

from tests.support.proxy import Proxy, in_front_of_postgres, in_front_of_redis
from tests.support.stores import Databases, Stores, emptied_redis, open_stores

Conn = psycopg.Connection[tuple[object, ...]]
AsyncConn = psycopg.AsyncConnection[tuple[object, ...]]


@pytest.fixture(scope="session")
def stores() -> Iterator[Stores]:
    """The shared servers; a test wants `database_url` and `redis_url` instead."""
    with open_stores() as opened:
        yield opened


@pytest.fixture(scope="session")
def databases(stores: Stores) -> Iterator[Databases]:
    """Makes databases, for a test that needs more than one."""
    made = Databases(stores.database_url)
    yield made
    made.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A database of this test's own, with the schema."""
    url = databases.migrated()
    yield url
    databases.drop(url)


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A database of this test's own, without the schema."""
    url = databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def conn(database_url: str) -> Iterator[Conn]:
    """A connection to this test's database."""
    with psycopg.connect(database_url) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
async def aconn(database_url: str) -> AsyncIterator[AsyncConn]:
    """An async connection to this test's database."""
    async with await psycopg.AsyncConnection.connect(database_url) as opened:
        yield opened
        await opened.rollback()


@pytest.fixture
def redis(stores: Stores) -> Iterator[redis_py.Redis]:
    """A client on the shared Redis, which is empty now and may hold only `rj:` keys at the end."""
    with emptied_redis(stores.redis_url, stores.prefix) as client:
        yield client


@pytest.fixture
def redis_url(stores: Stores, redis: redis_py.Redis) -> str:
    """The shared Redis, emptied."""
    del redis  # empties it, and looks for leaked keys afterwards
    return stores.redis_url


@pytest.fixture
def redis_proxy(redis_url: str) -> Iterator[Proxy]:
    """A proxy in front of the shared Redis; give `redis_proxy.url` to what is to suffer."""
    with in_front_of_redis(redis_url) as proxy:
        yield proxy


@pytest.fixture
def postgres_proxy(database_url: str) -> Iterator[Proxy]:
    """A proxy in front of this test's database; give `postgres_proxy.url` to what is to suffer."""
    with in_front_of_postgres(database_url) as proxy:
        yield proxy
