"""Redis forgets what it had acknowledged: all of it, its last second, or what an old copy does not have."""

from __future__ import annotations

import asyncio
import random

from tests.faults.programme.fault import fault
from tests.faults.programme.faults.redis_server import ask, bounded, on_disk
from tests.faults.programme.site import Site
from tests.support.eventually import eventually
from tests.support.redis_data import Snapshot, cut_aof, wipe
from tests.support.servers import RedisServer


@fault("lost_data", "lost_lease", tier="small")
async def redis_flushed(site: Site, rng: random.Random) -> None:
    """FLUSHALL in Redis, twice."""
    for _ in range(2):
        await ask(site, "FLUSHALL")
        await site.lasts(rng.uniform(1, 4))


@fault("lost_data", "lost_lease")
async def redis_restarted_empty(site: Site, rng: random.Random) -> None:
    """SIGKILL to Redis, which comes back after up to 3 s without anything."""
    await asyncio.to_thread(site.redis.kill)
    await site.lasts(rng.uniform(0, 3))
    await asyncio.to_thread(wipe, site.redis)
    await asyncio.to_thread(site.redis.start)


@fault("lost_data", "lost_alone", "lost_lease", prepare=on_disk)
async def redis_log_cut(site: Site, rng: random.Random) -> None:
    """Redis' machine dies: up to the last 64 kB of its log are gone, in the middle of a command; twice."""
    for _ in range(2):
        await asyncio.to_thread(site.redis.kill)
        lost = cut_aof(site.redis, rng.randint(1, 65_536))
        site.note(f"Redis has lost the last {lost} bytes of its log")
        await asyncio.to_thread(site.redis.start)
        await site.lasts(rng.uniform(1, 4))


@fault("lost_data", "lost_alone", "lost_lease", prepare=on_disk)
async def redis_put_back(site: Site, rng: random.Random) -> None:
    """Redis is killed and started with the files that it had up to 6 s before."""
    old = await asyncio.to_thread(Snapshot, site.redis, site.folder / f"old-redis-{rng.getrandbits(32)}")
    await site.lasts(rng.uniform(1, 6))
    await asyncio.to_thread(site.redis.kill)
    await asyncio.to_thread(old.put_back)
    await asyncio.to_thread(site.redis.start)
    site.note("Redis has the files of before")


@fault("lost_data", "lost_alone", "lost_lease")
async def redis_evicts(site: Site, rng: random.Random) -> None:
    """Redis is given a `maxmemory` below what it uses, and drops keys as it likes, whole queues at once."""
    policy = rng.choice(["allkeys-lru", "allkeys-random", "allkeys-lfu"])
    try:
        await ask(site, "CONFIG", "SET", "maxmemory-policy", policy)
        for _ in range(3):
            await bounded(site, rng.uniform(0.93, 1.0), rng.uniform(0.5, 1.5))
            await site.lasts(rng.uniform(0.5, 2))
    finally:
        await ask(site, "CONFIG", "SET", "maxmemory-policy", "noeviction")


@fault("lost_data", "lost_lease", "lost_alone")
async def a_key_lost(site: Site, rng: random.Random) -> None:
    """Somebody deletes keys of redisjobs in Redis, one at a time, of any kind: twelve times."""
    for _ in range(12):
        keys = sorted(await ask(site, "KEYS", "rj:*"))
        if keys:
            key = rng.choice(keys)
            await ask(site, "DEL", key)
            site.note(f"{key!r} was deleted")
        await site.lasts(rng.uniform(0.1, 0.7))


@fault("lost_data", "lost_lease")
async def redis_resynced_from_an_empty_primary(site: Site, rng: random.Random) -> None:
    """Redis becomes a replica of an empty server by mistake, takes over its nothing, and is made the primary again."""
    site.spoil(redis=True)  # what a replica gets it writes to its disk
    other = site.shard.new_redis()
    await asyncio.to_thread(other.start)
    try:
        await ask(site, "REPLICAOF", "127.0.0.1", other.port)
        await site.lasts(rng.uniform(1, 4))
    finally:
        await ask(site, "REPLICAOF", "NO", "ONE")
        await asyncio.to_thread(other.kill)


@fault("lost_data", "lost_alone", "lost_lease")
async def redis_fails_over(site: Site, rng: random.Random) -> None:
    """Redis dies and a replica that was behind by up to 2 s takes its place; the old one comes back as its replica."""
    site.spoil(redis=True)  # what a replica gets it writes to its disk
    first, second = site.redis, site.shard.new_redis(replicaof=f"127.0.0.1 {site.redis.port}")
    await asyncio.to_thread(second.start)
    await eventually(lambda: _follows(second), "the replica follows", 20)
    second.freeze()
    await site.lasts(rng.uniform(0, 2))
    await asyncio.to_thread(first.kill)
    second.thaw()
    await site.lasts(rng.uniform(0, 1))
    _say(second, "REPLICAOF", "NO", "ONE")
    site.redis = second
    site.redirect_redis(second.url)
    site.note("the replica has taken over, without the last writes")
    await site.lasts(rng.uniform(1, 4))
    await _fail_back(site, first, second)


async def _fail_back(site: Site, first: RedisServer, second: RedisServer) -> None:
    """The first becomes a replica, and the primary again in good order: nothing is lost by that."""
    await asyncio.to_thread(first.start)
    _say(first, "REPLICAOF", "127.0.0.1", str(second.port))
    await eventually(lambda: _follows(first), "the old primary follows", 20)
    _say(second, "FAILOVER", "TO", "127.0.0.1", str(first.port))
    await eventually(lambda: not _follows(first), "the old primary has taken over again", 20)
    site.redis = first
    site.redirect_redis(first.url)
    for link in site.links_to("redis"):
        link.reset()
    await asyncio.to_thread(second.kill)


def _follows(server: RedisServer) -> bool:
    """It has all that its primary has."""
    with server.client() as client:
        told = client.info("replication")
    return bool(told["role"] == "slave" and told.get("master_link_status") == "up")


def _say(server: RedisServer, *words: str) -> None:
    with server.client() as client:
        client.execute_command(*words)
