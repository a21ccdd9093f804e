"""What trials share that run one after the other: two servers and the nursery, which are slow to start."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from redisjobs.migrations import migrate
from tests.faults.programme.starter import Starter
from tests.support.binaries import postgres_binaries, valkey_9
from tests.support.net import with_database
from tests.support.servers import PostgresServer, RedisServer

TEMPLATE = "programme"
MOST = 8
USERS = [f"{role}{number}" for role in ("relay", "scheduler", "worker", "producer") for number in range(1, MOST + 1)]
"""A role in Postgres for each part there may be, so that the database can tell them apart."""


def as_user(url: str, name: str) -> str:
    """The URL with another user."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))


class Shard:
    """Servers for trials, made anew where a fault spoiled them.

    Args:
        folder: for the servers' data and all logs.
        redis: the server program; Valkey 9 by default.
    """

    def __init__(self, folder: Path, redis: Path | None = None) -> None:
        self.folder = folder
        self._redis_program = redis or valkey_9()
        self._numbers = itertools.count(1)
        self._postgres: PostgresServer | None = None
        self._redis: RedisServer | None = None
        self._starter: Starter | None = None

    @property
    def starter(self) -> Starter:
        if self._starter is None:
            self._starter = Starter(self.folder)
        return self._starter

    def servers(self) -> tuple[PostgresServer, RedisServer, str]:
        """Both servers, running, Redis without any key, and the URL of a new database with redisjobs' tables."""
        if self._postgres is None:
            self._postgres = self.new_postgres()
            with psycopg.connect(self._postgres.start().url, autocommit=True) as conn:
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
                for name in USERS:
                    conn.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN").format(sql.Identifier(name)))
            migrate(with_database(self._postgres.url, TEMPLATE))
        if self._redis is None:
            self._redis = self.new_redis().start()
        with self._redis.client() as client:
            client.flushall()
            client.script_flush()
        return self._postgres, self._redis, self._new_database(self._postgres)

    def new_postgres(self, **options: str) -> PostgresServer:
        """Another Postgres, not started; for a shard's own, or for a fault that needs one."""
        options = {"max_connections": "200", "max_wal_senders": "4", **options}
        return PostgresServer(self.folder / f"postgres{next(self._numbers)}", postgres_binaries(), **options)

    def new_redis(self, **options: str) -> RedisServer:
        """Another Redis, not started; for a shard's own, or for a fault that needs one."""
        return RedisServer(self.folder / f"redis{next(self._numbers)}", self._redis_program, **options)

    def spoil(self, *, postgres: bool = False, redis: bool = False) -> None:
        """End servers that a fault has changed: the next trial gets new ones."""
        if postgres and self._postgres is not None:
            self._postgres.stop()
            self._postgres = None
        if redis and self._redis is not None:
            self._redis.kill()
            self._redis = None

    def drop(self, url: str) -> None:
        """Drop a trial's database, with all connections to it."""
        if self._postgres is not None:
            with psycopg.connect(url) as conn:
                name = conn.info.dbname
            with psycopg.connect(self._postgres.url, autocommit=True) as conn:
                conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _new_database(self, postgres: PostgresServer) -> str:
        name = f"trial{next(self._numbers)}"
        with psycopg.connect(postgres.url, autocommit=True) as conn:
            copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            conn.execute(copy.format(sql.Identifier(name), sql.Identifier(TEMPLATE)))
        return with_database(postgres.url, name)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.spoil, postgres=True, redis=True)
            if self._starter is not None:
                stack.callback(self._starter.close)

    def tidy(self) -> None:
        """Remove the servers' data, and the whole folder where no trial has left anything."""
        for path in self.folder.iterdir():
            if path.name.startswith(("postgres", "redis")):
                shutil.rmtree(path, ignore_errors=True)
        (self.folder / "nursery.log").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty
            self.folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
