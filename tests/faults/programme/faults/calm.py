"""No fault at all: what may not happen then is the strictest test of the programme."""

from __future__ import annotations

import random

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site


@fault(tier="small")
async def calm(site: Site, rng: random.Random) -> None:
    """Nothing goes wrong, and no job kills its worker."""
    del rng
    site.note("nothing happens")
