"""Redis itself: stopped, killed, frozen, full, demoted."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site
from tests.support.net import free_port
from tests.support.redis_data import wipe
from tests.support.servers import RedisServer
from tests.support.small_disk import SmallDisk
from tests.support.wall_clock import WallClock

AOF = {"appendonly": "yes", "appendfsync": "everysec"}


async def on_disk(site: Site, rng: random.Random) -> None:
    """Let this trial's Redis write a log, as the manual asks for."""
    del rng
    site.spoil(redis=True)
    site.redis.options |= AOF
    await asyncio.to_thread(_begin_anew, site.redis)


def _begin_anew(server: RedisServer) -> None:
    """Start it again without anything; an earlier trial may have left a file."""
    server.stop()
    wipe(server)
    server.start()


async def ask(site: Site, *words: str | int) -> Any:
    """One command to the server itself, past all links."""

    def run() -> Any:
        with site.redis.client() as client:
            return cast("Any", client).execute_command(*words)

    return await asyncio.to_thread(run)


async def bounded(site: Site, share: float, seconds: float) -> None:
    """Let Redis have no more memory than this share of what it uses now, for a while."""
    used = (await ask(site, "INFO", "memory"))["used_memory"]
    try:
        await ask(site, "CONFIG", "SET", "maxmemory", int(used * share))
        await site.lasts(seconds)
    finally:
        await ask(site, "CONFIG", "SET", "maxmemory", 0)


@fault("lost_lease", prepare=on_disk)
async def redis_killed(site: Site, rng: random.Random) -> None:
    """SIGKILL to a Redis with a log on disk, which comes back after up to 4 s with all that it had acknowledged."""
    await asyncio.to_thread(site.redis.kill)
    await site.lasts(rng.uniform(0, 4))
    await asyncio.to_thread(site.redis.start)


@fault("lost_lease", prepare=on_disk)
async def redis_restarts(site: Site, rng: random.Random) -> None:
    """A Redis with a log on disk is restarted or killed three times, a second or two apart."""
    for _ in range(3):
        await asyncio.to_thread(rng.choice([site.redis.kill, site.redis.stop]))
        await asyncio.to_thread(site.redis.start)
        await site.lasts(rng.uniform(0.5, 2))


@fault("lost_lease")
async def redis_stands_still(site: Site, rng: random.Random) -> None:
    """SIGSTOP to Redis for up to three leases."""
    site.redis.freeze()
    await site.lasts(rng.uniform(1, 9))
    site.redis.thaw()


@fault("lost_lease")
async def redis_sleeps(site: Site, rng: random.Random) -> None:
    """DEBUG SLEEP in Redis for half a lease to two leases, as some command that takes long; three times."""
    for _ in range(3):
        seconds = rng.uniform(1, 4)
        asleep = asyncio.create_task(ask(site, "DEBUG", "SLEEP", f"{seconds:.2f}"))
        await site.lasts(seconds + rng.uniform(0, 1))
        await asleep


@fault()
async def scripts_flushed(site: Site, rng: random.Random) -> None:
    """SCRIPT FLUSH in Redis, a hundred times."""
    for _ in range(100):
        await ask(site, "SCRIPT", "FLUSH")
        await site.lasts(rng.uniform(0.01, 0.1))


@fault()
async def clients_ended(site: Site, rng: random.Random) -> None:
    """CLIENT KILL in Redis to all connections, thirty times."""
    for _ in range(30):
        await ask(site, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await site.lasts(rng.uniform(0.05, 0.3))


@fault()
async def redis_out_of_memory(site: Site, rng: random.Random) -> None:
    """Redis is at its `maxmemory` and evicts nothing: it refuses new jobs, three times for a while."""
    for _ in range(3):
        await bounded(site, rng.uniform(0.9, 1.01), rng.uniform(1, 3))
        await site.lasts(rng.uniform(0, 1))


@fault("lost_lease")
async def redis_demoted(site: Site, rng: random.Random) -> None:
    """Redis becomes a replica in place, of a primary that is not there, and the primary again after up to 7 s."""
    await ask(site, "REPLICAOF", "127.0.0.1", free_port())
    await site.lasts(rng.uniform(1, 7))
    await ask(site, "REPLICAOF", "NO", "ONE")


_disks: dict[Site, SmallDisk] = {}


async def on_small_disk(site: Site, rng: random.Random) -> None:
    """Put Redis' log on a disk of 48 MB."""
    del rng
    site.spoil(redis=True)
    await asyncio.to_thread(site.redis.stop)
    wipe(site.redis)
    site.redis.options |= AOF
    _disks[site] = disk = site.at_end.enter_context(SmallDisk(site.redis.folder, megabytes=48))
    site.redis.inside = disk.inside
    await asyncio.to_thread(site.redis.start)


@fault("lost_lease", prepare=on_small_disk)
async def redis_disk_full(site: Site, rng: random.Random) -> None:
    """The disk of Redis' log, a tmpfs of 48 MB, is full for up to 7 s: it refuses writes; then it gets a new disk."""
    with _disks.pop(site) as disk:
        await asyncio.to_thread(disk.fill)
        await site.lasts(rng.uniform(2, 7))
        disk.free()
        await site.lasts(rng.uniform(1, 3))
        await asyncio.to_thread(site.redis.stop)
        disk.give_back()
    site.redis.inside = []
    await asyncio.to_thread(site.redis.start)


async def with_clock(site: Site, rng: random.Random) -> None:
    """Give Redis a clock that can be set."""
    site.spoil(redis=True)
    clock = WallClock(site.folder / "clock-of-redis", rng.choice([-600, -60, -5]))
    site.redis.env = clock.env
    await asyncio.to_thread(_begin_anew, site.redis)


@fault("lost_lease", "clock_ahead", prepare=with_clock)
async def clock_of_redis_jumps(site: Site, rng: random.Random) -> None:
    """The clock of Redis' machine is up to ten minutes slow; it is set ahead by and by, and back by 2 s at most."""
    clock, seconds = WallClock(site.folder / "clock-of-redis", _slow(site)), _slow(site)
    for _ in range(4):
        seconds = min(0.0, seconds + rng.choice([-2.0, 1.0, 5.0, 60.0, 600.0]))
        clock.set(seconds)
        site.note(f"the clock of Redis is {seconds:+g} s off")
        await site.lasts(rng.uniform(1, 3))
    clock.set(0)


def _slow(site: Site) -> float:
    """How far its clock is off now."""
    return float((site.folder / "clock-of-redis").read_text())
