"""What a worker process opens before it takes its first job and closes after its last: the app's lifespan."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from redisjobs.errors import ConfigurationError
from redisjobs.logs import event

log = logging.getLogger("redisjobs.worker")


class Lifespan:
    """Enters and leaves a context manager in one task, as cancel scopes demand, whoever starts and stops it.

    Args:
        make: the context manager; None: there is none, and nothing happens.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._entered = False
        self.state: Any = None
        """What it yielded, while it is open."""

    async def start(self) -> bool:
        """Open it; False: `stop` was called meanwhile. A second call changes nothing.

        Raises:
            ConfigurationError: it raised before it yielded.
        """
        if self._make is None or self._task is not None:
            return True
        self._over.clear()
        self._entered = False
        entered = asyncio.Event()
        task = self._task = asyncio.create_task(self._hold(self._make, entered), name="lifespan")
        waiting = asyncio.create_task(entered.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if entered.is_set():
            return True
        self._task = None
        if task.cancelled():
            return False
        if (error := task.exception()) is not None:
            raise ConfigurationError(_told(error)) from error
        raise ConfigurationError("the app's lifespan ended without a yield: `yield` the state, or None")

    async def stop(self, within: float) -> None:
        """Close it, and wait for that so many seconds at most; what goes wrong is logged."""
        task, self._task = self._task, None
        if task is None:
            return
        if not self._entered:
            task.cancel()
        self._over.set()
        _, late = await asyncio.wait({task}, timeout=within)
        if late:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
            event(log, logging.ERROR, "lifespan.stop_failed", error=f"it did not end within {within:g} s")
        elif not task.cancelled() and (error := task.exception()) is not None:
            what = f"{type(error).__name__}: {error}"
            event(log, logging.ERROR, "lifespan.stop_failed", error=what, exc_info=error)

    async def _hold(self, make: Callable[[], AbstractAsyncContextManager[Any]], entered: asyncio.Event) -> None:
        try:
            async with make() as self.state:
                self._entered = True
                entered.set()
                await self._over.wait()
        finally:
            self.state = None


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    at = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"the app's lifespan could not start: {type(error).__name__}: {error}{at}"
