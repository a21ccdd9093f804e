"""The product's relay by itself, with nothing else running, until it has carried so much.

python -m benchmarks.carrier publish N | settle N
"""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.prototypes import Answer, run
from redisjobs.cli.relay import relaying
from redisjobs.settings import RelaySettings, Settings


async def carry(what: str, count: int) -> Answer:
    """Run a relay until it has published or settled so many; the time until its first ones is not counted."""
    async with relaying(Settings.load(), RelaySettings()) as relay:

        def carried() -> int:
            return relay.published if what == "publish" else relay.settled

        while not (first := carried()):  # noqa: ASYNC110  # the product has no signal for a benchmark
            await asyncio.sleep(0.001)
        began, used = time.perf_counter(), time.process_time()
        while carried() < count:  # noqa: ASYNC110  # likewise
            await asyncio.sleep(0.005)
        took, cpu = time.perf_counter() - began, time.process_time() - used
    return {"rate": (count - first) / took, "cpu_us": cpu / (count - first) * 1e6}


if __name__ == "__main__":
    run(carry(sys.argv[1], int(sys.argv[2])))
