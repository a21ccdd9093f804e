"""The Postgres and the Redis of a race: of its own, on free ports, safe on disk, emptied before each measurement."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psycopg

from benchmarks.machine import cpu_seconds
from benchmarks.peers.table import Contestant
from redisjobs.embedded.find import Search
from tests.support.net import with_database
from tests.support.servers import PostgresServer, RedisServer

_DATABASE = "race"
_BUSINESS = "CREATE TABLE business (id bigserial PRIMARY KEY, customer bigint, address text)"


class RaceServers:
    """Both servers, with fsync and synchronous_commit on, and an append-only file that is synced every second.

    Args:
        folder: for their data.
    """

    def __init__(self, folder: Path) -> None:
        search = Search()
        postgres, redis = search.postgres(), search.redis(shutil.which("redis-server"))
        search.finish()
        assert postgres is not None
        assert redis is not None
        self.postgres = PostgresServer(folder / "postgres", postgres.path, fsync="on", shared_buffers="256MB")
        self.redis = RedisServer(folder / "redis", redis.path, appendonly="yes", appendfsync="everysec")
        self._templates: set[str] = set()
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._running.enter_context(self.postgres)
        self._running.enter_context(self.redis)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def database_url(self) -> str:
        """The database that is measured with."""
        return with_database(self.postgres.url, _DATABASE)

    def environment(self, database: str = _DATABASE) -> dict[str, str]:
        """The variables by which drivers find both."""
        return {
            "REDISJOBS_DATABASE_URL": with_database(self.postgres.url, database),
            "REDISJOBS_REDIS_URL": self.redis.url,
        }

    def clear(self, contestant: Contestant, prepare: Callable[[str], object]) -> None:
        """An empty Redis, and a database in which a contestant has its tables and nothing else.

        Args:
            prepare: makes its tables in the database of this name; called once for each contestant.
        """
        self.flush()
        if contestant.store != "postgres":
            return
        template = f"{_DATABASE}_{contestant.name}"
        if template not in self._templates:
            self._anew(template, "template1")
            self.sql(_BUSINESS, database=template)
            prepare(template)
            self._templates.add(template)
        self._anew(_DATABASE, template)
        self.sql("CHECKPOINT")

    def flush(self) -> None:
        """Redis loses all that it has."""
        with self.redis.client() as client:
            client.flushall()

    def known(self, contestant: Contestant) -> None:
        """Let Postgres know its tables and have them on disk, as after a while of running."""
        if contestant.store == "postgres":
            self.sql("ANALYZE", database=_DATABASE)
            self.sql("CHECKPOINT")

    def sql(self, text: str, database: str = "postgres") -> list[Any]:
        """One statement by itself: its rows, or none."""
        with psycopg.connect(with_database(self.postgres.url, database), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def sizes(self, contestant: Contestant) -> dict[str, int]:
        """Bytes that are held: in Redis' memory, and in the database's files where the contestant uses it."""
        with self.redis.client() as client:
            info: Any = client.info("memory")
        found = {"redis": int(info["used_memory"])}
        if contestant.store == "postgres":
            found["postgres"] = int(self.sql(f"SELECT pg_database_size('{_DATABASE}')")[0][0])
        return found

    def cpu(self) -> float:
        """Seconds that both have used."""
        running = (each.process for each in (self.postgres, self.redis))
        return sum(cpu_seconds(process.pid) for process in running if process is not None)

    def versions(self) -> dict[str, str]:
        """What they are, and how safe."""
        with self.redis.client() as client:
            info: Any = client.info("server")
        return {
            "postgres": f"{self.sql('SHOW server_version')[0][0]}, fsync on, synchronous_commit on",
            "redis": f"{info.get('server_name', 'redis')} {info['redis_version']}, appendonly, appendfsync everysec",
        }

    def _anew(self, database: str, template: str) -> None:
        self.sql(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        self.sql(f"CREATE DATABASE {database} TEMPLATE {template}")
