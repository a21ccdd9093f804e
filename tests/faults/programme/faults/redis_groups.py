"""Several servers that are one Redis: sentinels that make another one the primary, and clusters."""

from __future__ import annotations

import asyncio
import random
import subprocess
import threading
from pathlib import Path
from typing import Any, cast

import redis

from tests.faults.programme.fault import fault
from tests.faults.programme.plan import QUEUES
from tests.faults.programme.site import Site
from tests.support.redis_cluster import RedisCluster
from tests.support.sentinels import Sentinels
from tests.support.servers import RedisServer

_watched: dict[Site, Sentinels] = {}


async def under_sentinels(site: Site, rng: random.Random) -> None:
    """Three sentinels watch a primary and two replicas; whoever asks for Redis is led to the primary."""
    del rng
    _watched[site] = watched = Sentinels(site.folder / "sentinels", Path(site.redis.binary))
    site.at_end.callback(watched.stop)
    await asyncio.to_thread(watched.start)
    site.redis = watched.primary()
    site.redirect_redis(site.redis.url)


@fault("lost_data", "lost_alone", "lost_lease", prepare=under_sentinels)
async def sentinels_fail_over(site: Site, rng: random.Random) -> None:
    """The primary dies with writes of up to 2 s that no replica has; sentinels promote one, and its address follows."""
    watched, behind_s = _watched.pop(site), rng.uniform(0, 2)
    promoted = await asyncio.to_thread(watched.fail_over, losing=lambda: threading.Event().wait(behind_s))
    site.redis = promoted
    site.redirect_redis(promoted.url)
    for link in site.links_to("redis"):
        link.reset()
    site.note("the address leads to the new primary")
    for server in (*watched.sentinels, *watched.servers):
        if server is not promoted:
            await asyncio.to_thread(server.kill)


class AsOne:
    """A cluster, asked by the trial as one Redis. Processes reach it past all links, for its nodes name each other."""

    name = "cluster"

    def __init__(self, cluster: RedisCluster) -> None:
        self.cluster = cluster

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self.cluster.running()[0].process

    @property
    def url(self) -> str:
        """Of a node."""
        return self.cluster.running()[0].url

    def start(self) -> None:
        """It runs; a node that was killed is gone for good."""

    def thaw(self) -> None:
        for node in self.cluster.running():
            node.thaw()

    def client(self) -> _Client:
        return _Client(host="127.0.0.1", port=self.cluster.running()[0].port)


class _Client(redis.RedisCluster):
    def info(self, section: str | None = None, *args: str, **kwargs: Any) -> dict[str, Any]:
        """Of all primaries together. As none of its clients come by a link, it tells of none but this one."""
        del section, args, kwargs
        told = [self.get_redis_connection(node).info("memory") for node in self.get_primaries()]
        used = sum(int(each["used_memory"]) for each in told)
        return {"used_memory": used, "connected_clients": 1}


_clusters: dict[Site, RedisCluster] = {}


async def on_a_cluster(site: Site, rng: random.Random) -> None:
    """Relays and workers have a cluster of three primaries and three replicas for their Redis."""
    del rng
    _clusters[site] = cluster = RedisCluster(site.folder / "cluster", Path(site.redis.binary))
    site.at_end.callback(cluster.stop)
    await asyncio.to_thread(cluster.start)
    site.redis = cast("RedisServer", AsOne(cluster))
    for part in (*site.relays, *site.workers):
        part.env["REDISJOBS_REDIS_URL"] = cluster.url


@fault(prepare=on_a_cluster)
async def cluster_moves_slots(site: Site, rng: random.Random) -> None:
    """On a cluster the slots of four queues, and that of all limits, move to other nodes while they are used."""
    cluster = _clusters.pop(site)
    for name in ["-", *rng.sample(QUEUES, 4)]:
        to = await asyncio.to_thread(cluster.another, name)
        await asyncio.to_thread(cluster.move, name, to)
        site.note(f"the slot of {name} has moved")
        await site.lasts(rng.uniform(0, 1))


@fault("lost_data", "lost_alone", "lost_lease", prepare=on_a_cluster)
async def cluster_loses_a_primary(site: Site, rng: random.Random) -> None:
    """On a cluster a primary dies with writes of up to 2 s that its replica has not, and the replica takes over."""
    cluster, behind_s = _clusters.pop(site), rng.uniform(0, 2)
    name = rng.choice([*QUEUES, "-"])
    await asyncio.to_thread(cluster.fail_over, name, losing=lambda: threading.Event().wait(behind_s))
    site.note(f"a replica has taken over {name}")
