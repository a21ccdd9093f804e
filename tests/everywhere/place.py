"""The servers that the stories are told on, each started when it is first asked for."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests.support.binaries import redis_6_2, redis_7_0, redis_8, valkey_9, version
from tests.support.certificates import certificate
from tests.support.cli import CommandLine
from tests.support.net import free_port
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres_versions import VERSIONS, postgres
from tests.support.redis_cluster import RedisCluster
from tests.support.sentinels import Sentinels
from tests.support.servers import PostgresServer, RedisServer
from tests.support.stores import Databases, Stores

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
RIGHTS = [block.split() for block in re.findall(r"```acl\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)]
"""The documented user, and what it needs on a cluster beside."""
LOGIN = "redisjobs:change-me@"

REDIS: dict[str, Callable[[], Path]] = {
    "redis-6.2": redis_6_2, "redis-7.0": redis_7_0, "redis-8": redis_8, "valkey-9": valkey_9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where one story is told.

    Attributes:
        server: which servers, with their versions, in words.
        flushall: empties every Redis of it.
        redisjobs: the command line, on these stores.
    """

    name: str
    server: str
    database_url: str
    redis_url: str
    flushall: Callable[[], None]

    @property
    def redisjobs(self) -> CommandLine:
        return CommandLine({"REDISJOBS_DATABASE_URL": self.database_url, "REDISJOBS_REDIS_URL": self.redis_url})


@dataclass(frozen=True, slots=True)
class _Redis:
    server: str
    url: str
    flushall: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Postgres:
    server: str
    databases: Databases


class Places:
    """All of them, by name; servers run on until `close`.

    Args:
        stores: the shared servers of the run, for what a place says nothing of.
    """

    def __init__(self, folder: Path, stores: Stores) -> None:
        self._folder, self._stores = folder, stores
        self._stack = contextlib.ExitStack()
        self._redis: dict[str, _Redis] = {}
        self._postgres: dict[str, _Postgres] = {}

    @contextlib.contextmanager
    def at(self, name: str) -> Iterator[Place]:
        """This place, with an empty Redis and a database of its own.

        Raises:
            MissingBinary: a server cannot be had here; tells what to install.
        """
        redis_side = self._redis_at(name if name in REDIS_PLACES else SHARED)
        postgres_side = self._postgres_at(name if name in POSTGRES_PLACES else SHARED)
        redis_side.flushall()
        url = postgres_side.databases.migrated()
        server = postgres_side.server if name in POSTGRES_PLACES else redis_side.server
        try:
            with self._pooled(url) if name == "pgbouncer" else contextlib.nullcontext(url) as database_url:
                yield Place(name, server, database_url, redis_side.url, redis_side.flushall)
        finally:
            postgres_side.databases.drop(url)

    def close(self) -> None:
        for each in self._postgres.values():
            each.databases.close()
        self._stack.close()

    def _redis_at(self, name: str) -> _Redis:
        if name not in self._redis:
            self._redis[name] = self._shared_redis() if name == SHARED else self._start_redis(name)
        return self._redis[name]

    def _shared_redis(self) -> _Redis:
        url = self._stores.redis_url
        with redis.Redis.from_url(url) as client:
            told = client.info("server")
        known = f"Valkey {told['valkey_version']}" if "valkey_version" in told else f"Redis {told['redis_version']}"
        return _Redis(f"{known}, {'a unix socket' if url.startswith('unix:') else 'given'}", url, lambda: _flush(url))

    def _start_redis(self, name: str) -> _Redis:
        program = next(each for each in REDIS if name.endswith(each))
        binary, folder = REDIS[program](), self._folder / name
        kind = name.removesuffix(program).rstrip("-")
        words = f"{'Valkey' if 'valkey' in name else 'Redis'} {version(binary)}"
        if kind == "sentinel":
            watched = self._stack.enter_context(Sentinels(folder, binary))
            return _Redis(f"{words}, Sentinel", watched.url, lambda: _ask(watched.primary(), "FLUSHALL"))
        if kind.startswith("cluster"):
            tls = certificate(folder, "own") if "tls" in kind else None
            cluster = self._stack.enter_context(RedisCluster(folder, binary, tls=tls))
            url = cluster.url
            if "acl" in kind:
                for words_of_right in RIGHTS:
                    cluster.each(*words_of_right)
                url = url.replace("://", f"://{LOGIN}")
            return _Redis(f"{words}, Cluster{_more(kind)}", url, cluster.flushall)
        return self._one(binary, folder, kind, words)

    def _one(self, binary: Path, folder: Path, kind: str, words: str) -> _Redis:
        port, options = free_port(), dict[str, str]()
        if "tls" in kind:
            own = certificate(folder, "own")
            options = own.redis_options(port)
        server = self._stack.enter_context(RedisServer(folder, binary, **options))
        url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={folder}/own.pem" if "tls" in kind else server.url
        if "acl" in kind:
            _ask(server, *RIGHTS[0])
            url = url.replace("://", f"://{LOGIN}")
        return _Redis(f"{words}{_more(kind)}", url, lambda: _ask(server, "FLUSHALL"))

    def _postgres_at(self, name: str) -> _Postgres:
        if name not in self._postgres:
            url, own = self._stores.database_url, name in POSTGRES_PLACES and name != "pgbouncer"
            if own:
                binaries = postgres(int(name.removeprefix("postgres-")))
                url = self._stack.enter_context(PostgresServer(self._folder / name, binaries)).url
            with psycopg.connect(url) as connection:
                known = f"Postgres {connection.info.parameter_status('server_version')}"
            words = f"{known}, PgBouncer in transaction mode" if name == "pgbouncer" else known
            self._postgres[name] = _Postgres(words, Databases(url))
        return self._postgres[name]

    @contextlib.contextmanager
    def _pooled(self, url: str) -> Iterator[str]:
        with PgBouncer(self._folder / f"pgbouncer-{free_port()}", url) as pooler:
            yield pooler.url


SHARED = "unix-valkey-9"
REDIS_PLACES = (
    *REDIS, SHARED, *(f"cluster-{name}" for name in REDIS), "sentinel-redis-7.0", "sentinel-valkey-9",
    "tls-acl-redis-7.0", "cluster-tls-acl-redis-7.0",
)  # fmt: skip
POSTGRES_PLACES = (*(f"postgres-{major}" for major in VERSIONS), "pgbouncer")
PLACES = (*REDIS_PLACES, *POSTGRES_PLACES)
EVERYWHERE = os.environ.get("REDISJOBS_EVERYWHERE") == "all"
IN_EVERY_RUN = ("cluster-valkey-9", "tls-acl-redis-7.0")
"""The places of the default run; the others are those of `make everywhere`."""


def _more(kind: str) -> str:
    return ", TLS, a user with the least rights" if "tls" in kind else ""


def _ask(server: RedisServer, *words: str) -> None:
    with server.client() as client:
        client.execute_command(*words)


def _flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushdb()
