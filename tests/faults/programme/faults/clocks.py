"""Clocks of machines that are wrong, and that somebody sets while processes run.

Not those of workers: under the library that fakes clocks they run so slowly that they lose leases for that alone.
"""

from __future__ import annotations

import random

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site
from tests.support.wall_clock import WallClock

OFF_S = (-600.0, -60.0, -5.0, -0.1, 0.1, 5.0, 60.0, 600.0)


async def with_clocks(site: Site, rng: random.Random) -> None:
    """Relays and schedulers have a clock each, up to ten minutes off from the start."""
    for part in (*site.relays, *site.schedulers):
        part.env |= WallClock(site.folder / f"clock-of-{part.name}", rng.choice(OFF_S)).env


@fault(prepare=with_clocks)
async def clocks_off(site: Site, rng: random.Random) -> None:
    """The clocks of relays and schedulers are wrong, each by another amount, up to ten minutes."""
    await site.lasts(rng.uniform(4, 8))


@fault(prepare=with_clocks)
async def clocks_jump(site: Site, rng: random.Random) -> None:
    """The clocks of relays and schedulers are set back and forth, by up to twenty minutes, and are right in the end."""
    parts = [*site.relays, *site.schedulers]
    for part in rng.choices(parts, k=30):
        WallClock(site.folder / f"clock-of-{part.name}", seconds := rng.choice(OFF_S))
        site.note(f"the clock of {part.name} is {seconds:+g} s off")
        await site.lasts(rng.uniform(0.05, 0.5))
    for part in parts:
        WallClock(site.folder / f"clock-of-{part.name}")
