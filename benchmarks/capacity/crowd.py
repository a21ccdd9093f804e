"""Many of the product's workers in one process, each with an app and connections of its own.

    python -m benchmarks.capacity.crowd WORKERS QUEUES FIRST

Worker n of them serves QUEUES queues of its own, `qN` from `FIRST + n * QUEUES` on. They run until SIGTERM. They are
real workers, down to the heartbeat's thread and each call; only that they share a process is unlike a fleet.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

from redisjobs import App
from redisjobs.settings import Settings
from redisjobs.worker import Worker

AT_ONCE = 50
"""Workers that start side by side."""


async def crowd(workers: int, queues: int, first: int) -> None:
    """As said above."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    made = [_made(number, queues, first) for number in range(workers)]
    for at in range(0, workers, AT_ONCE):
        await asyncio.gather(*(worker.start() for worker in made[at : at + AT_ONCE]))
    await stop.wait()
    await asyncio.gather(*(worker.stop(1.0) for worker in made))


def _made(number: int, queues: int, first: int) -> Worker:
    app = App("crowd")
    app.settings = Settings.load()

    @app.job(name="noop")
    async def noop(body: dict[str, Any]) -> None:
        """Does nothing."""

    at = first + number * queues
    return Worker(app, queues=[f"q{at + each}" for each in range(queues)], drain_on_shutdown=False)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that a loop of hundreds of workers is late is no news
    asyncio.run(crowd(*(int(word) for word in sys.argv[1:])))
