"""The product's relay, which says how many turns on queues it took: `python -m benchmarks.capacity.relayed ROWS…`.

For each number of rows it waits until so many were published since its start and nothing is looked at any more, and
then prints a line of JSON: CPU seconds and turns since its start.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from redisjobs.cli.relay import relaying
from redisjobs.settings import RelaySettings, Settings

LOOK_S = 0.05


async def carry(milestones: list[int]) -> None:
    """As said above."""
    async with relaying(Settings.load(), RelaySettings()) as relay:
        turns = 0
        work: Callable[[Any], Awaitable[int]] = relay._work  # noqa: SLF001 - the product counts no turns

        async def counted(hold: Any) -> int:
            nonlocal turns
            turns += 1
            return await work(hold)

        relay._work = counted  # type: ignore[method-assign]  # noqa: SLF001

        def is_quiet() -> bool:
            now = relay.clock.monotonic()
            return not any(active.asks(now) for active in relay.activity.values())

        for rows in milestones:
            while relay.published < rows or not is_quiet():  # noqa: ASYNC110 - the product has no signal for it
                await asyncio.sleep(LOOK_S)
            print(json.dumps({"cpu": time.process_time(), "turns": turns}), flush=True)


if __name__ == "__main__":
    asyncio.run(carry([int(word) for word in sys.argv[1:]]))
