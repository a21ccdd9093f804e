"""Errors that a Redis gives which is there but cannot, or will not, do it now."""

from __future__ import annotations

import random

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site
from tests.support.rules import Match, chance
from tests.support.wire import Request


@fault("lost_lease")
async def loading(site: Site, rng: random.Random) -> None:
    """Redis answers -LOADING to everything, as after a restart, for up to two leases."""
    await _answers(site, rng, "LOADING Redis is loading the dataset in memory")


@fault("lost_lease")
async def readonly(site: Site, rng: random.Random) -> None:
    """Redis answers -READONLY to every script, as where the primary became a replica, for up to two leases."""
    await _answers(site, rng, "READONLY You can't write against a read only replica.", _scripts)


@fault("lost_lease")
async def masterdown(site: Site, rng: random.Random) -> None:
    """Redis answers -MASTERDOWN to everything, as a replica without its primary, for up to two leases."""
    await _answers(site, rng, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")


@fault("lost_lease")
async def moved(site: Site, rng: random.Random) -> None:
    """Redis answers -MOVED to every script, as a node of a cluster that has given its slots away."""
    await _answers(site, rng, "MOVED 3999 127.0.0.1:1", _scripts)


@fault("lost_lease")
async def clusterdown(site: Site, rng: random.Random) -> None:
    """Redis answers -CLUSTERDOWN or -TRYAGAIN to every script, as a cluster that changes."""
    told = rng.choice(["CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing of slot"])
    await _answers(site, rng, told, _scripts)


@fault("lost_lease")
async def busy(site: Site, rng: random.Random) -> None:
    """Redis answers -BUSY to everything, as while somebody's script does not end."""
    await _answers(site, rng, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")


@fault("lost_lease")
async def misconf(site: Site, rng: random.Random) -> None:
    """Redis answers -MISCONF to every script, as where it cannot write its files."""
    await _answers(
        site, rng, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        _scripts,
    )  # fmt: skip


@fault("lost_lease")
async def noreplicas(site: Site, rng: random.Random) -> None:
    """Redis answers -NOREPLICAS to every script, as where `min-replicas-to-write` is not met."""
    await _answers(site, rng, "NOREPLICAS Not enough good replicas to write.", _scripts)


@fault()
async def oom(site: Site, rng: random.Random) -> None:
    """Redis answers -OOM to half of all scripts for as long as it lasts, whatever they begin with."""
    await _answers(site, rng, "OOM command not allowed when used memory > 'maxmemory'.", _scripts, share=0.5)


@fault()
async def noscript(site: Site, rng: random.Random) -> None:
    """Redis knows half of all scripts no more when they are called by their hash, for up to two leases."""
    await _answers(site, rng, "NOSCRIPT No matching script.", _by_hash, share=0.5)


@fault()
async def odd_answers(site: Site, rng: random.Random) -> None:
    """One answer in fifty is an error of some kind, in the server's place."""
    words = [
        "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.", "BUSY Redis is busy running a script.",
        "CLUSTERDOWN The cluster is down", "MASTERDOWN Link with MASTER is down", "ERR max number of clients reached",
        "MISCONF Errors writing to the AOF file: No space left on device", "ERR internal error",
    ]  # fmt: skip
    for link in site.links_to("redis"):
        for word in words:
            odds = chance(0.02 / len(words), random.Random(rng.random()))
            link.answer(word, _scripts, odds=odds)
    await site.lasts(rng.uniform(4, 9))
    for link in site.links_to("redis"):
        link.heal()


async def _answers(
    site: Site, rng: random.Random, error: str, what: Match | None = None, *, share: float = 1.0
) -> None:
    """The same answer on all links to Redis, or on those of half of the processes."""
    links = site.links_to("redis")
    if rng.random() < 0.5:
        links = rng.sample(links, len(links) // 2)
    for link in links:
        link.answer(error, what, odds=chance(share, random.Random(rng.random())))
    await site.lasts(rng.uniform(1, 7))
    for link in links:
        link.heal()


def _scripts(request: Request) -> bool:
    return bool(request.sha)


def _by_hash(request: Request) -> bool:
    return request.command == "EVALSHA"
