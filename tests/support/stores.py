"""The Postgres and the Redis that most tests share, and a clean piece of each for every test.

They are started for the run, or those of REDISJOBS_DATABASE_URL and REDISJOBS_REDIS_URL. A given
Postgres gets databases with names of their own, dropped afterwards; a given Redis must be empty,
and is emptied at each test.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import redis
from psycopg import sql

from redisjobs.embedded import Embedded
from redisjobs.migrations import migrate
from tests.support.net import with_database


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the shared servers are.

    Attributes:
        database_url: the server's maintenance database; no test writes there.
        prefix: what every key of the system under test begins with, without the colon.
    """

    database_url: str
    redis_url: str
    prefix: str = "rj"


@contextlib.contextmanager
def open_stores() -> Iterator[Stores]:
    """The shared servers, started where no URL is given."""
    with Embedded() as servers:
        if servers.redis_pid is None:
            _must_be_empty(servers.redis_url)
        yield Stores(servers.database_url, servers.redis_url)


class Databases:
    """Databases of one run: a migrated template, and copies of it in some 20 ms each."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._template = ""

    def migrated(self) -> str:
        """The URL of a new database with the schema in it."""
        if not self._template:
            self._template = f"rj_{self._run}_template"
            self._create(self._template, "template0")
            migrate(with_database(self._server_url, self._template))
        return self._create(f"rj_{self._run}_{next(self._numbers)}", self._template)

    def empty(self) -> str:
        """The URL of a new database without the schema."""
        return self._create(f"rj_{self._run}_{next(self._numbers)}", "template0")

    def drop(self, url: str) -> None:
        """Ends its connections too."""
        with psycopg.connect(url) as conn:
            name = conn.info.dbname
        self._drop(name)

    def close(self) -> None:
        if self._template:
            self._drop(self._template)

    def _create(self, name: str, template: str) -> str:
        with psycopg.connect(self._server_url, autocommit=True) as conn:
            fast = sql.SQL("STRATEGY file_copy" if conn.info.server_version >= 150000 else "")
            query = sql.SQL("CREATE DATABASE {} TEMPLATE {} {}")
            conn.execute(query.format(sql.Identifier(name), sql.Identifier(template), fast))
        return with_database(self._server_url, name)

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def emptied_redis(url: str, prefix: str) -> Iterator[redis.Redis]:
    """A client on a Redis without keys; afterwards, no key may stand outside of the prefix.

    Raises:
        AssertionError: at the end, with the leaked keys.
    """
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        client.flushdb()
        yield client
        leaked = leaked_keys(client, prefix)
        client.flushdb()
        assert not leaked, f"keys outside of {prefix}: were left behind: {leaked[:20]}"


def leaked_keys(client: redis.Redis, prefix: str) -> list[bytes]:
    """The keys that do not begin with the prefix."""
    scanned: Iterator[bytes] = client.scan_iter(count=1000)
    return sorted(key for key in scanned if not key.startswith(f"{prefix}:".encode()))


def _must_be_empty(url: str) -> None:
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        size = client.dbsize()
    if size:
        raise RuntimeError(
            f"REDISJOBS_REDIS_URL: this database holds {size} keys, and the tests empty it: "
            "name an empty one, such as redis://127.0.0.1:6379/9"
        )
