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

LAST_CHANCE_S = 1.0
"""How long it may take to answer its cancellation."""

log = logging.getLogger("redisjobs.worker")


class Lifespan:
    """Enters and leaves a context manager in one task, as cancel scopes demand, whoever starts and stops it.

    Args:
        make: the context manager; None: there is none, and nothing happens.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
        self._make = make
        self._task: asyncio.Task[BaseException | None] | None = None
        self._over = asyncio.Event()
        self._entered = False
        self.state: Any = None
        """What it yielded, while it is open."""

    async def start(self) -> bool:
        """Open it; False: `stop` was called meanwhile. A second call changes nothing.

        Raises:
            ConfigurationError: it raised before it yielded, whatever that was, or did not yield.
        """
        if self._make is None or self._task is not None:
            return True
        self._over.clear()
        self._entered = False
        entered = asyncio.Event()
        task = self._task = asyncio.create_task(self._hold(self._make, entered), name="lifespan")
        waiting = asyncio.create_task(entered.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.stop(LAST_CHANCE_S)
            raise
        finally:
            waiting.cancel()
        if entered.is_set():
            return True
        if self._task is not task:
            return False
        self._task = None
        error = _answer(task)
        raise ConfigurationError(_told(error)) from error

    async def stop(self, within: float) -> None:
        """Close it, and wait for that so many seconds at most; what goes wrong is logged."""
        task, self._task = self._task, None
        if task is None:
            return
        cancelled = not self._entered
        if cancelled:
            task.cancel()
        self._over.set()
        _, late = await asyncio.wait({task}, timeout=within)
        if late:
            task.cancel()
            await asyncio.wait({task}, timeout=LAST_CHANCE_S)
            event(log, logging.ERROR, "lifespan.stop_failed", error=f"it did not end within {within:g} s")
        elif (error := _answer(task)) is not None and not (cancelled and isinstance(error, asyncio.CancelledError)):
            what = f"{type(error).__name__}: {error}"
            event(log, logging.ERROR, "lifespan.stop_failed", error=what, exc_info=error)

    async def _hold(
        self, make: Callable[[], AbstractAsyncContextManager[Any]], entered: asyncio.Event
    ) -> BaseException | None:
        """What it raised. It is answered and not raised: SystemExit in a task would end the event loop at once."""
        try:
            async with make() as self.state:
                self._entered = True
                entered.set()
                await self._over.wait()
        except BaseException as error:  # noqa: BLE001 - told by whoever started or stops it
            return error
        finally:
            self.state = None
        return None


def _answer(task: asyncio.Task[BaseException | None]) -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.result()  # cancelled before it began


def _told(error: BaseException | None) -> str:
    if error is None:
        return "the app's lifespan ended without a yield: `yield` the state, or None"
    frames = traceback.extract_tb(error.__traceback__)
    at = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"the app's lifespan could not start: {what}{at}"
