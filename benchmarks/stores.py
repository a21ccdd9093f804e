"""The servers that are measured with, emptied before each measurement."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import redis

from benchmarks.machine import cpu_seconds
from redisjobs.embedded import Embedded
from redisjobs.migrations import migrate


class Stores:
    """A Postgres that syncs its commits and a Redis, on this machine; all that is in them is deleted again and again.

    Args:
        folder: for the servers' data where they are started here.
    """

    def __init__(self, folder: Path, database_url: str | None = None, redis_url: str | None = None) -> None:
        self._embedded = Embedded(folder / "data", database_url=database_url, redis_url=redis_url, durable=True)
        self.servers = self._embedded.start()
        self.redis = redis.Redis.from_url(self.servers.redis_url)
        if self.servers.redis_pid is not None:  # what Redis holds may be lost: nobody needs it on a disk
            self.redis.config_set("appendonly", "no")
        os.environ["REDISJOBS_DATABASE_URL"] = self.servers.database_url
        os.environ["REDISJOBS_REDIS_URL"] = self.servers.redis_url

    def close(self) -> None:
        """Stop what was started."""
        self.redis.close()
        self._embedded.stop()

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection to Postgres."""
        return psycopg.connect(self.servers.database_url, **options)

    def sql(self, text: str, *parameters: Any) -> list[Any]:
        """One statement by itself: its rows, or none."""
        with self.connect(autocommit=True) as connection:
            cursor = connection.execute(text.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        """An empty Redis and fresh tables, and no write left over from what was measured before."""
        self.redis.flushall()
        self.sql("DROP SCHEMA IF EXISTS redisjobs CASCADE")
        self.sql("DROP TABLE IF EXISTS business, proto_outbox")
        self.sql("CREATE TABLE business (id bigserial PRIMARY KEY, customer bigint, address text)")
        migrate(self.servers.database_url)
        self.sql("CHECKPOINT")

    def cpu(self) -> dict[str, float]:
        """Seconds used so far, of the servers that were started here."""
        found = {"postgres": self.servers.postgres_pid, "redis": self.servers.redis_pid}
        return {name: cpu_seconds(pid) for name, pid in found.items() if pid is not None}

    def used_memory(self) -> int:
        """The bytes that Redis holds."""
        info: dict[str, Any] = self.redis.info("memory")
        return int(info["used_memory"])

    def versions(self) -> dict[str, str]:
        """What the servers are, and how they keep what they acknowledged."""
        info: dict[str, Any] = self.redis.info()
        name = info.get("server_name", "redis")
        shown = ("fsync", "synchronous_commit", "shared_buffers")
        settings = ", ".join(f"{each} {self.sql(f'SHOW {each}')[0][0]}" for each in shown)
        kept = "appendonly" if info.get("aof_enabled") else "nothing kept on disk"
        version = info.get("valkey_version") or info["redis_version"]
        return {
            "postgres": f"{self.sql('SHOW server_version')[0][0]}, {settings}",
            "redis": f"{name} {version}, {kept}",
        }

    def pgbench(self) -> Path | None:
        """The program pgbench that belongs to the server."""
        if self.servers.postgres_pid is None:
            return None
        path = Path(f"/proc/{self.servers.postgres_pid}/exe").resolve().with_name("pgbench")
        return path if path.exists() else None

    def commands(self, seconds: float) -> dict[str, float]:
        """Commands a second that Redis is sent, and those that its scripts call, while nothing else uses it."""
        sent = called = 0
        pool = self.redis.connection_pool
        watch: Any = pool.get_connection()
        watch.send_command("MONITOR")
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            if not watch.can_read(timeout=0.1):
                continue
            of_script = b" lua]" in bytes(watch.read_response())
            called, sent = called + of_script, sent + (not of_script)
        watch.disconnect()
        pool.release(watch)
        return {"sent": sent / seconds, "by scripts": called / seconds}


@contextmanager
def old_snapshot(stores: Stores, *, writes: bool) -> Iterator[None]:
    """A transaction that stays open and keeps vacuum from everything younger: a report, or a writer that hangs."""
    with stores.connect() as connection:
        if writes:
            connection.execute("INSERT INTO business (customer, address) VALUES (1, 'nobody')")
        else:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SELECT count(*) FROM business")
        yield
        connection.rollback()


def pgbench_rate(text: str) -> float:
    """The transactions a second in what pgbench printed."""
    found = re.search(r"tps = ([\d.]+)", text)
    if found is None:
        raise RuntimeError(f"pgbench did not say how fast it was: {text[-500:]}")
    return float(found[1])
