"""The brokers of an app: one for each event loop, and none shared over a fork."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable

from redisjobs.broker import Broker


class Clients:
    """Finds the broker of the event loop that runs here, and makes it where there is none.

    A connection belongs to the loop that opened it, and a forked child that used its parent's would read the
    parent's answers.
    """

    def __init__(self, connect: Callable[[], Broker]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._brokers: dict[asyncio.AbstractEventLoop, Broker] = {}
        self._parents: list[Broker] = []
        _ALL.add(self)

    def here(self) -> Broker:
        """The broker of the running event loop.

        Raises:
            RuntimeError: no loop runs here.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            broker = self._brokers.get(loop)
            if broker is None:
                self._forget_closed_loops()
                broker = self._brokers[loop] = self._connect()
        return broker

    async def close(self) -> None:
        """Give back the connections of the running event loop."""
        with self._lock:
            broker = self._brokers.pop(asyncio.get_running_loop(), None)
        if broker is not None:
            await broker.close()

    def _forget_closed_loops(self) -> None:
        for loop in [each for each in self._brokers if each.is_closed()]:
            del self._brokers[loop]

    def forked(self) -> None:
        """Begin anew in a child."""
        # Kept, not closed: closing would end the parent's connections too.
        self._lock = threading.Lock()
        self._parents.extend(self._brokers.values())
        self._brokers = {}


_ALL: weakref.WeakSet[Clients] = weakref.WeakSet()


def _forked() -> None:
    for clients in list(_ALL):
        clients.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
