"""Fixtures of all tests. What they give is described in `tests/support`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis as redis_py
from hypothesis import settings

from tests.support.binaries import postgres_binaries, valkey_9
from tests.support.ledger import Ledger
from tests.support.net import free_port
from tests.support.pgbouncer import PgBouncer
from tests.support.processes import Processes
from tests.support.proxy import Proxy, in_front_of_postgres, in_front_of_redis
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_versions import any_real_redis, any_redis, redis_farm
from tests.support.sentinels import Sentinels
from tests.support.servers import PostgresServer, RedisServer
from tests.support.stores import Databases, Stores, emptied_redis, open_stores

__all__ = ["any_real_redis", "any_redis", "redis_farm"]  # fixtures, found here by their name

SIDE_BY_SIDE = 3
"""Processes that run tests at the same time."""

settings.register_profile("small", derandomize=True)
if os.environ.get("REDISJOBS_FAULTS", "small") == "small":
    # the same examples each time, so that a verdict is about the change; the longer tiers try others
    settings.load_profile("small")

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


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    """Where bodies write down that they ran; in this test's database, in a schema of its own."""
    with Ledger(database_url) as opened:
        yield opened


@pytest.fixture
def processes(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Processes]:
    """Starts programs that know the stores of this test, and ends them."""
    env = {"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url}
    with Processes(tmp_path, env) as started:
        yield started


@pytest.fixture
def start_redis(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Starts a Redis of this test's own: `start_redis(maxmemory="8mb")`; `binary=` for another version."""
    with contextlib.ExitStack() as stack:

        def start(binary: Path | None = None, **options: str) -> RedisServer:
            server = RedisServer(tmp_path / f"redis-{free_port()}", binary or valkey_9(), **options)
            return stack.enter_context(server)

        yield start


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[Callable[..., RedisCluster]]:
    """Starts a Redis Cluster of this test's own: `start_cluster()`; `binary=`, `primaries=`, … as `RedisCluster`."""
    with contextlib.ExitStack() as stack:

        def start(binary: Path | None = None, **options: Any) -> RedisCluster:
            return stack.enter_context(
                RedisCluster(tmp_path / f"cluster-{free_port()}", binary or valkey_9(), **options)
            )

        yield start


@pytest.fixture
def start_sentinels(tmp_path: Path) -> Iterator[Callable[..., Sentinels]]:
    """Starts a primary, its replicas and sentinels: `start_sentinels()`; `binary=`, … as `Sentinels`."""
    with contextlib.ExitStack() as stack:

        def start(binary: Path | None = None, **options: Any) -> Sentinels:
            return stack.enter_context(Sentinels(tmp_path / f"watched-{free_port()}", binary or valkey_9(), **options))

        yield start


@pytest.fixture
def start_postgres(tmp_path: Path) -> Iterator[Callable[..., PostgresServer]]:
    """Starts a Postgres of this test's own: `start_postgres(max_connections="10")`."""
    with contextlib.ExitStack() as stack:

        def start(**options: str) -> PostgresServer:
            server = PostgresServer(tmp_path / f"postgres-{free_port()}", postgres_binaries(), **options)
            return stack.enter_context(server)

        yield start


@pytest.fixture
def pgbouncer(tmp_path: Path, database_url: str) -> Iterator[PgBouncer]:
    """PgBouncer in transaction mode before this test's database; use `pgbouncer.url`."""
    with PgBouncer(tmp_path / "pgbouncer", database_url) as pooler:
        yield pooler


def pytest_xdist_auto_num_workers() -> int:
    """So many processes run the tests; stores that are given can be emptied by one only."""
    given = os.environ.get("REDISJOBS_DATABASE_URL") or os.environ.get("REDISJOBS_REDIS_URL")
    return 0 if given else SIDE_BY_SIDE


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fakeredis: runs on fakeredis, not on a real server")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the logs of the programs that it started."""
    report = yield
    started = getattr(item, "funcargs", {}).get("processes")
    if report.failed and isinstance(started, Processes) and started.started:
        report.sections.append(("programs", started.report()))
    return report
