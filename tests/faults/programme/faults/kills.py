"""Processes of redisjobs that end by SIGKILL."""

from __future__ import annotations

import random

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site


@fault(tier="small")
async def kill_worker(site: Site, rng: random.Random) -> None:
    """SIGKILL to a worker, which comes back after up to 3 s; twice."""
    for _ in range(2):
        worker = rng.choice(site.workers)
        await site.kill(worker)
        await site.lasts(rng.uniform(0, 3))
        await site.start(worker)
        await site.lasts(rng.uniform(0.5, 2))


@fault(tier="small")
async def kill_relay(site: Site, rng: random.Random) -> None:
    """SIGKILL to a relay, the one that holds most queues or the other; it comes back after up to 6 s."""
    relay = rng.choice(site.relays)
    await site.kill(relay)
    await site.lasts(rng.uniform(0, 6))
    await site.start(relay)
