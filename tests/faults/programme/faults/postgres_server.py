"""Postgres itself: restarted, away, frozen, full, behind a pooler that restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import psycopg

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site
from tests.faults.road import sized
from tests.support.pgbouncer import PgBouncer
from tests.support.small_disk import SmallDisk
from tests.support.wall_clock import WallClock


@fault()
async def postgres_restarts(site: Site, rng: random.Random) -> None:
    """Postgres is restarted three times, 1 to 4 s apart; in trials for a release twelve times, 5 to 40 s apart."""
    least, most = sized((1.0, 4.0), (2.0, 8.0), (5.0, 40.0))
    for _ in range(sized(3, 5, 12)):
        await asyncio.to_thread(site.postgres.restart)
        await site.lasts(rng.uniform(least, most))


@fault()
async def postgres_killed(site: Site, rng: random.Random) -> None:
    """SIGKILL to Postgres, which comes back after up to 4 s and recovers; twice."""
    for _ in range(2):
        await asyncio.to_thread(site.postgres.kill)
        await site.lasts(rng.uniform(0, 4))
        await asyncio.to_thread(site.postgres.start)
        await site.lasts(rng.uniform(1, 3))


@fault()
async def postgres_crashes(site: Site, rng: random.Random) -> None:
    """SIGKILL to one of Postgres' sessions: it ends all others, and recovers by itself; twice."""
    for _ in range(2):
        sessions = await _sessions(site)
        if sessions:
            os.kill(rng.choice(sessions), signal.SIGKILL)
        await site.lasts(rng.uniform(1, 4))
    await asyncio.to_thread(site.postgres.start)


@fault()
async def postgres_away(site: Site, rng: random.Random) -> None:
    """Postgres is stopped for 5 to 8 s; in nightly trials for half a minute, in those for a release for 3 minutes."""
    await asyncio.to_thread(site.postgres.stop)
    await site.lasts(sized(rng.uniform(5, 8), 30, 180))
    await asyncio.to_thread(site.postgres.start)


@fault()
async def postgres_stands_still(site: Site, rng: random.Random) -> None:
    """SIGSTOP to Postgres and all its sessions for up to two leases of a relay."""
    assert site.postgres.process is not None
    stopped = [site.postgres.process.pid, *_children(site.postgres.process.pid)]
    for pid in stopped:
        _signal(pid, signal.SIGSTOP)
    await site.lasts(rng.uniform(1, 8))
    for pid in stopped:
        _signal(pid, signal.SIGCONT)


@fault()
async def session_stands_still(site: Site, rng: random.Random) -> None:
    """SIGSTOP to one of Postgres' sessions at a time, with all the locks that it holds; six of them."""
    for _ in range(6):
        sessions = await _sessions(site)
        if sessions:
            pid = rng.choice(sessions)
            _signal(pid, signal.SIGSTOP)
            await site.lasts(rng.uniform(0.3, 2.5))
            _signal(pid, signal.SIGCONT)


@fault()
async def postgres_has_no_free_sessions(site: Site, rng: random.Random) -> None:
    """All sessions are ended and others take all that Postgres allows: too many clients, for up to 6 s."""
    async with contextlib.AsyncExitStack() as stack:
        for link in site.links_to("postgres"):
            link.reset()
        with contextlib.suppress(psycopg.OperationalError):  # there is no room for one more
            while True:
                await stack.enter_async_context(await psycopg.AsyncConnection.connect(site.database_url))
        await site.lasts(rng.uniform(2, 6))


async def behind_pgbouncer(site: Site, rng: random.Random) -> None:
    """All go through PgBouncer in transaction mode."""
    del rng
    _poolers[site] = pooler = PgBouncer(
        site.folder / "pgbouncer", site.database_url, pool=10, users=["postgres", *site.parts]
    )
    site.at_end.callback(pooler.kill)
    await asyncio.to_thread(pooler.start)
    site.redirect_postgres(pooler.url)


_poolers: dict[Site, PgBouncer] = {}


@fault(prepare=behind_pgbouncer)
async def pgbouncer_restarts(site: Site, rng: random.Random) -> None:
    """All go through PgBouncer, which is restarted or killed four times; in the end nobody goes through it any more."""
    pooler = _poolers.pop(site)
    for _ in range(4):
        await asyncio.to_thread(rng.choice([pooler.kill, pooler.stop]))
        await site.lasts(rng.uniform(0, 1))
        await asyncio.to_thread(pooler.start)
        await site.lasts(rng.uniform(1, 2))
    site.redirect_postgres(site.database_url)
    await asyncio.to_thread(pooler.kill)


async def on_small_disk(site: Site, rng: random.Random) -> None:
    """Put Postgres' data on a disk of 400 MB."""
    del rng
    site.spoil(postgres=True)
    await asyncio.to_thread(site.postgres.stop)
    _disks[site] = disk = site.at_end.enter_context(SmallDisk(site.postgres.folder, megabytes=400))
    site.postgres.inside = disk.inside
    await asyncio.to_thread(site.postgres.start)


_disks: dict[Site, SmallDisk] = {}


@fault(prepare=on_small_disk)
async def postgres_disk_full(site: Site, rng: random.Random) -> None:
    """Postgres' disk, a tmpfs of 400 MB, is full for up to 8 s: it may crash; then it gets a new one."""
    with _disks.pop(site) as disk:
        await asyncio.to_thread(disk.fill)
        await site.lasts(rng.uniform(3, 8))
        disk.free()
        await asyncio.to_thread(site.postgres.stop)
        disk.give_back()
    site.postgres.inside = []
    await asyncio.to_thread(site.postgres.start)


async def with_clock(site: Site, rng: random.Random) -> None:
    """Give Postgres a clock that can be set."""
    site.spoil(postgres=True)
    # set back by more than a minute, what has a delay waits for longer than a trial
    clock = WallClock(site.folder / "clock-of-postgres", rng.choice([-600, 0, 60]))
    site.postgres.env = clock.env
    await asyncio.to_thread(site.postgres.restart)


@fault("clock_ahead", prepare=with_clock)
async def clock_of_postgres_jumps(site: Site, rng: random.Random) -> None:
    """The clock of Postgres' machine jumps back and forth, by a second to a minute, and is right in the end."""
    clock = WallClock(site.folder / "clock-of-postgres")
    for _ in range(4):
        clock.set(seconds := rng.choice([-60.0, -5.0, -1.0, 1.0, 5.0, 60.0]))
        site.note(f"the clock of Postgres is {seconds:+g} s off")
        await site.lasts(rng.uniform(1, 3))
    clock.set(0)


async def _sessions(site: Site) -> list[int]:
    """The processes of Postgres that serve somebody of this trial."""
    try:
        async with await psycopg.AsyncConnection.connect(site.database_url) as conn:
            found = await conn.execute(
                "SELECT pid FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY pid"
            )
            return [int(pid) for (pid,) in await found.fetchall()]
    except psycopg.OperationalError:
        return []


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _signal(pid: int, sig: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)
