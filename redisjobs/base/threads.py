"""Threads for sync bodies: made when they are needed, and never in the way of the process's end."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeAlias

from redisjobs.base import copies

Answer: TypeAlias = tuple[object, BaseException | None]
_Work: TypeAlias = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Answer]", Callable[[], object]]


class Threads:
    """Runs calls in daemon threads, each call at once: the caller limits how many there are.

    A `ThreadPoolExecutor` would be joined when the interpreter ends, and a body that hangs would keep a drained
    worker alive for ever.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    async def call(self, function: Callable[[], object]) -> object:
        """What `function` returned, or raised, in a thread. Cancelling the caller does not end the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._submit((loop, future, function))
        value, error = await future
        if error is not None:
            try:
                raise error
            finally:
                del error  # the frame of this coroutine and the error must not hold each other
        return value

    async def call_here(self, function: Callable[..., object], *args: object) -> object:
        """Likewise, with the caller's context variables; what it answers is awaited where it can be."""
        variables = copy_context()
        value = await self.call(lambda: variables.run(function, *args))
        return await value if inspect.isawaitable(value) else value

    def close(self) -> None:
        """Let every thread end that has nothing to do; those in a call end after it."""
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)
            self._threads = self._idle = 0

    def _submit(self, work: _Work) -> None:
        with self._lock:
            self._work.put(work)
            if self._idle > 0:
                self._idle -= 1
                return
            self._threads += 1
            number = self._threads
        threading.Thread(target=self._serve, name=f"{self._name}-{number}", daemon=True).start()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            loop, future, function = work
            process = os.getpid()
            answer = _answer(function)
            if os.getpid() != process:
                copies.end(answer[1])
            with self._lock:
                self._idle += 1
            with contextlib.suppress(RuntimeError):  # the loop has gone, and nobody waits for this any more
                loop.call_soon_threadsafe(_resolve, future, answer)
            del work, future, function, answer


def _answer(function: Callable[[], object]) -> Answer:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
        return None, error


def _resolve(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)
