"""What processes and servers have when a trial begins, and what has grown when it is at rest again."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.faults.programme.site import Site

CONNECTIONS = {"relay": 8, "scheduler": 3, "worker": 64, "producer": 1}
"""The most that a process may have open to one store at rest: pools keep what was opened under load for a while."""
GROWTH_MIB = 64
"""The most that a process may grow by from its start; it imports and compiles as it goes."""
REDIS_MIB = 16
"""The most that Redis may grow by: tombstones of the trial's jobs stay for a minute, scripts for good."""


@dataclass(slots=True)
class Baseline:
    """At the start of a trial: MiB by pid, and MiB of Redis."""

    processes: dict[int, float] = field(default_factory=dict[int, float])
    redis: float = 0.0


def measure(site: Site) -> Baseline:
    """Now."""
    pids = [part.pid for part in site.parts.values() if part.is_running()]
    return Baseline({pid: mib for pid in pids if (mib := _resident(pid))}, _redis_mib(site))


def grown(site: Site, before: Baseline) -> list[str]:
    """What is more than it may be, in words."""
    now = measure(site)
    odd = [
        f"process {pid} grew from {before.processes[pid]:.0f} to {mib:.0f} MiB"
        for pid, mib in now.processes.items()
        if pid in before.processes and mib > before.processes[pid] + GROWTH_MIB
    ]
    if now.redis > before.redis + REDIS_MIB:
        odd.append(f"Redis grew from {before.redis:.0f} to {now.redis:.0f} MiB")
    for name, link in site.links.items():
        most = CONNECTIONS[site.parts[name.partition(".")[0]].role]
        if link.connections > most:
            odd.append(f"{name} has {link.connections} connections open, not at most {most}")
    return odd + _sessions(site)


def _sessions(site: Site) -> list[str]:
    """Transactions that somebody has left open, and connections to servers behind which no link stands."""
    query = """
        SELECT coalesce(usename, '?'), left(query, 100) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND xact_start < clock_timestamp() - interval '10 s'
    """
    with psycopg.connect(site.database_url) as conn:
        open_ones = [f"{who} has a transaction open: {what}" for who, what in conn.execute(query)]
    with site.redis.client() as client:
        clients = int(client.info("clients")["connected_clients"]) - 1
    links = sum(link.connections for link in site.links_to("redis"))
    orphans = [f"Redis has {clients} clients, and {links} come by a link"] if clients > links + 2 else []
    return open_ones + orphans


def _redis_mib(site: Site) -> float:
    with site.redis.client() as client:
        return float(client.info("memory")["used_memory"]) / 2**20


def _resident(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    return 0.0
