"""Processes of redisjobs that end and come back: asked to, or for want of memory."""

from __future__ import annotations

import random
import resource
from collections.abc import Sequence
from pathlib import Path

from tests.faults.programme.fault import fault
from tests.faults.programme.part import Part
from tests.faults.programme.site import Site


@fault()
async def kill_scheduler(site: Site, rng: random.Random) -> None:
    """SIGKILL to each scheduler in turn; it comes back after up to 3 s."""
    await _killed(site, rng, rng.sample(site.schedulers, len(site.schedulers)), 3)


@fault()
async def kill_producer(site: Site, rng: random.Random) -> None:
    """SIGKILL to two producers, in the middle of a transaction or between two; they come back after up to 2 s."""
    await _killed(site, rng, rng.sample(site.producers, 2), 2)


@fault()
async def kill_all_workers(site: Site, rng: random.Random) -> None:
    """SIGKILL to all workers at once; all jobs that ran are orphans. They come back after up to two leases."""
    for worker in site.workers:
        await site.kill(worker)
    await site.lasts(rng.uniform(0, 6))
    await site.start(*site.workers)


@fault()
async def kill_all(site: Site, rng: random.Random) -> None:
    """SIGKILL to relays, schedulers and workers at once, as where a machine loses power; back after up to 5 s."""
    parts = [*site.relays, *site.schedulers, *site.workers]
    for part in rng.sample(parts, len(parts)):
        await site.kill(part)
    await site.lasts(rng.uniform(0, 5))
    await site.start(*parts)


@fault()
async def rolling_restart(site: Site, rng: random.Random) -> None:
    """SIGTERM to one process after the other, each started again, as in a deploy."""
    parts = [*site.relays, *site.schedulers, *site.workers]
    for part in rng.sample(parts, len(parts)):
        await site.stop(part)
        await site.start(part)


@fault()
async def hasty_restart(site: Site, rng: random.Random) -> None:
    """SIGTERM to two workers, and SIGKILL before they have drained, as where a grace period is too short."""
    for worker in rng.sample(site.workers, 2):
        try:
            await site.stop(worker, within=rng.uniform(0, 0.5))
        except AssertionError:  # it still drains
            await site.kill(worker)
        await site.start(worker)


@fault()
async def out_of_memory(site: Site, rng: random.Random) -> None:
    """Two workers may take no more memory for up to 3 s; then SIGKILL, as the kernel does in the end."""
    for worker in rng.sample(site.workers, 2):
        _, most = resource.prlimit(worker.pid, resource.RLIMIT_AS)
        resource.prlimit(worker.pid, resource.RLIMIT_AS, (_address_space(worker) + rng.randint(0, 2**21), most))
        site.note(f"{worker.name} gets no more memory")
        await site.lasts(rng.uniform(1, 3))
        await site.kill(worker)
        await site.start(worker)


@fault("lost_lease")
async def memory_is_short(site: Site, rng: random.Random) -> None:
    """Two workers may take no more memory for up to 3 s, and then live on."""
    for worker in rng.sample(site.workers, 2):
        was = resource.prlimit(worker.pid, resource.RLIMIT_AS)
        resource.prlimit(worker.pid, resource.RLIMIT_AS, (_address_space(worker) + rng.randint(0, 2**21), was[1]))
        pid = worker.pid
        site.note(f"{worker.name} gets no more memory")
        await site.lasts(rng.uniform(1, 3))
        if worker.is_running() and worker.pid == pid:  # it may have ended, and was started again
            resource.prlimit(pid, resource.RLIMIT_AS, was)


async def _killed(site: Site, rng: random.Random, parts: Sequence[Part], most: float) -> None:
    """Kill and start parts one after the other, each down for up to so many seconds."""
    for part in parts:
        await site.kill(part)
        await site.lasts(rng.uniform(0, most))
        await site.start(part)
        await site.lasts(rng.uniform(0, 1))


def _address_space(part: Part) -> int:
    """Bytes that its process has mapped."""
    pages = int(Path(f"/proc/{part.pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()
