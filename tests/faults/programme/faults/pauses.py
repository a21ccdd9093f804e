"""Processes of redisjobs that stand still, whole or in part, and go on later as if nothing had been."""

from __future__ import annotations

import random

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site
from tests.support import seizure


@fault("lost_lease")
async def freeze_worker(site: Site, rng: random.Random) -> None:
    """SIGSTOP to a worker for up to two leases, and SIGCONT."""
    worker = rng.choice(site.workers)
    site.freeze(worker)
    await site.lasts(rng.uniform(1, 7))
    site.thaw(worker)


@fault("lost_lease")
async def freeze_all_workers(site: Site, rng: random.Random) -> None:
    """SIGSTOP to all workers for up to two leases; they go on one by one."""
    for worker in site.workers:
        site.freeze(worker)
    await site.lasts(rng.uniform(2, 7))
    for worker in rng.sample(site.workers, len(site.workers)):
        site.thaw(worker)
        await site.lasts(rng.uniform(0, 0.5))


@fault()
async def freeze_relay(site: Site, rng: random.Random) -> None:
    """SIGSTOP to each relay in turn, for up to two of its leases of 4 s, so that the other takes over."""
    for relay in rng.sample(site.relays, len(site.relays)):
        site.freeze(relay)
        await site.lasts(rng.uniform(1, 8))
        site.thaw(relay)


@fault()
async def freeze_scheduler(site: Site, rng: random.Random) -> None:
    """SIGSTOP to each scheduler in turn, over several occurrences of a schedule."""
    for scheduler in rng.sample(site.schedulers, len(site.schedulers)):
        site.freeze(scheduler)
        await site.lasts(rng.uniform(1, 5))
        site.thaw(scheduler)


@fault()
async def freeze_producer(site: Site, rng: random.Random) -> None:
    """SIGSTOP to a producer, in the middle of whatever transaction it has, for up to 6 s."""
    producer = rng.choice(site.producers)
    site.freeze(producer)
    await site.lasts(rng.uniform(1, 6))
    site.thaw(producer)


@fault()
async def stutter(site: Site, rng: random.Random) -> None:
    """SIGSTOP and SIGCONT to all processes in turn, many times, for less than a third of a lease each time."""
    for _ in range(20):
        part = rng.choice([*site.relays, *site.schedulers, *site.workers])
        site.freeze(part)
        await site.lasts(rng.uniform(0.05, 0.6))
        site.thaw(part)


@fault()
async def loop_blocked(site: Site, rng: random.Random) -> None:
    """The event loops of two workers stand still for up to two leases; their threads, the heartbeat's too, go on."""
    for worker in rng.sample(site.workers, 2):
        seizure.seize(worker.pid, "loop", seconds := rng.uniform(1, 6))
        site.note(f"{worker.name} has its loop blocked for {seconds:.1f} s")
        await site.lasts(seconds)


@fault()
async def loop_of_relay_blocked(site: Site, rng: random.Random) -> None:
    """The event loops of the relays stand still one after the other, for up to two of their leases."""
    for relay in rng.sample(site.relays, len(site.relays)):
        seizure.seize(relay.pid, "loop", seconds := rng.uniform(1, 8))
        site.note(f"{relay.name} has its loop blocked for {seconds:.1f} s")
        await site.lasts(seconds)


@fault("lost_lease")
async def gil_held(site: Site, rng: random.Random) -> None:
    """Native code holds the interpreter's lock of two workers for up to two leases: their heartbeats stop too."""
    for worker in rng.sample(site.workers, 2):
        seizure.seize(worker.pid, "gil", seconds := rng.uniform(1, 6))
        site.note(f"{worker.name} has its interpreter held for {seconds:.1f} s")
        await site.lasts(seconds)
