"""Two faults at the same time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from tests.faults.programme.fault import FAULTS, Excuse, Fault, fault
from tests.faults.programme.site import Site


@fault()
async def two_at_once(site: Site, rng: random.Random) -> None:
    """Two other faults at once, of those that lose no data; each excuses what it excuses alone."""
    await _two(site, rng, lambda excuses: "lost_data" not in excuses)


@fault()
async def two_with_a_loss(site: Site, rng: random.Random) -> None:
    """Two other faults at once, one of which loses data of Redis."""
    await _two(site, rng, lambda excuses: "lost_data" in excuses)


async def _two(site: Site, rng: random.Random, wanted: Callable[[frozenset[Excuse]], bool]) -> None:
    """Strike one that is wanted, and another that loses no data, elsewhere: neither needs what the other takes."""
    plain = [each for each in FAULTS.values() if each.prepare is FAULTS["calm"].prepare and _place(each)]
    first = rng.choice([each for each in plain if wanted(each.excuses)])
    second = rng.choice([
        each for each in plain if "lost_data" not in each.excuses and _place(each) != _place(first)
    ])  # fmt: skip
    await asyncio.gather(*(_struck(site, each, random.Random(rng.random())) for each in (first, second)))


_PLACES = {
    "kills": "processes", "ends": "processes", "pauses": "processes", "links": "links", "answers": "links",
    "redis_server": "redis", "redis_losses": "redis", "postgres_server": "postgres", "postgres_sessions": "postgres",
}  # fmt: skip


def _place(each: Fault) -> str:
    """Where it strikes; empty where it is none to be paired."""
    return _PLACES.get(each.strike.__module__.rpartition(".")[2], "")


async def _struck(site: Site, each: Fault, rng: random.Random) -> None:
    with site.strike(each):
        await each.strike(site, rng)
