"""What servers and processes have used between two looks: CPU, commands, memory, WAL, rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import redis

from benchmarks.machine import cpu_seconds
from benchmarks.stores import Stores

Counters: TypeAlias = dict[str, float]
"""Counters that only grow, by name, or what was counted between two looks. CPU is in seconds, all else a number."""

SCRIPTS = ("evalsha", "eval")
_TICK = os.sysconf("SC_CLK_TCK")
_WRITTEN = """SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, xact_commit::float8, tup_inserted::float8,
    tup_updated::float8, tup_deleted::float8 FROM pg_stat_database WHERE datname = current_database()"""


class Meter:
    """Looks at both servers and at some processes.

    Args:
        processes: role to the process ids that play it; the servers that were started here are added.
    """

    def __init__(self, stores: Stores, processes: Mapping[str, Iterable[int]] | None = None) -> None:
        servers = {"postgres": stores.servers.postgres_pid, "redis": stores.servers.redis_pid}
        self._pids = {role: [pid] for role, pid in servers.items() if pid is not None}
        self._pids |= {role: list(pids) for role, pids in (processes or {}).items()}
        self._redis = stores.redis
        self._stores = stores

    def look(self) -> Counters:
        """All counters as they are now."""
        wal, transactions, inserted, updated, deleted = self._stores.sql(_WRITTEN)[0]
        found = {f"cpu {role}": sum(map(cpu_seconds, pids)) for role, pids in self._pids.items()}
        found |= {"wal": wal, "transactions": transactions, "rows": inserted + updated + deleted}
        return found | commands(self._redis) | {"seconds": time.monotonic(), "idle": idle_seconds()}


def commands(client: redis.Redis) -> Counters:
    """Calls of scripts, of commands within and without them, and the time in scripts."""
    stats: dict[str, dict[str, Any]] = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): float(each["calls"]) for name, each in stats.items()}
    scripts = sum(calls.get(name, 0.0) for name in SCRIPTS)
    return {"scripts": scripts, "commands": sum(calls.values()) - scripts}


def idle_seconds() -> float:
    """For how long the cores of this machine have had nothing to do, all together."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(words[4]) + int(words[5])) / _TICK


def spent(before: Counters, after: Counters) -> Counters:
    """What was counted in between."""
    return {name: after[name] - value for name, value in before.items()}


def supply(used: Counters) -> float:
    """The cores that these processes could have had: what they used, and what nobody did."""
    ours = sum(value for name, value in used.items() if name.startswith("cpu "))
    return (ours + used["idle"]) / used["seconds"]


def postgres_connections(connection: psycopg.Connection[Any]) -> int:
    """The sessions of redisjobs' own processes."""
    row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'redisjobs'").fetchone()
    return 0 if row is None else int(row[0])


def redis_connections(client: redis.Redis) -> int:
    """The connections to Redis, but for the one that asks."""
    return int(client.info("clients")["connected_clients"]) - 1
