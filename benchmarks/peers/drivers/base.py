"""What a driver must do. Its calls for producers are async; those of sync peers simply block."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import ClassVar, TypeVar

from benchmarks.peers.job import Body

T = TypeVar("T")

LEASE_S = float(os.environ.get("REDISJOBS_PEERS_LEASE_S", "10"))
"""How long a job of a dead worker is left alone, wherever that can be set: so that recoveries can be compared."""
REDIS_URL = os.environ.get("REDISJOBS_REDIS_URL", "")
DATABASE_URL = os.environ.get("REDISJOBS_DATABASE_URL", "")
BUSINESS = "INSERT INTO business (customer, address) VALUES (%s, %s)"
"""What a producer with a transaction writes beside its job."""


class Driver(ABC):
    """One job queue: its producer, its worker, and how it was set up."""

    SETTINGS: ClassVar[str]
    """What was set, and why that is its safest mode; for the table."""
    SOURCE: ClassVar[str]
    """Where its documentation says so."""
    DEFAULT: ClassVar[str]
    """How long a dead worker's job is left alone by default; for the table."""
    BESIDE: ClassVar[bool] = False
    """Whether a process runs beside the worker, see `beside`."""

    async def prepare(self) -> None:  # most need nothing
        """Make what must be there before producers and workers come: tables."""

    @abstractmethod
    async def open(self) -> None:
        """Connect a producer."""

    @abstractmethod
    async def one(self, body: Body) -> None:
        """Enqueue one job and wait until it is accepted; in a transaction with a business row where the peer can."""

    @abstractmethod
    async def many(self, bodies: list[Body]) -> None:
        """Enqueue these as fast as the peer can."""

    async def runs(self, bodies: list[Body]) -> None:
        """Enqueue durable runs of five steps."""
        raise NotImplementedError

    @abstractmethod
    def work(self, slots: int) -> None:
        """Run one worker until it is killed; jobs call `job.run` or `job.run_sync`."""

    def beside(self) -> None:
        """Run the process beside the worker until it is killed."""
        raise NotImplementedError

    async def close(self) -> None:
        """Disconnect the producer."""


def run(work: Coroutine[object, object, T]) -> T:
    """Run this on uvloop, which every asyncio peer is given."""
    import uvloop  # noqa: PLC0415  # only where the environment has it

    return uvloop.run(work)


async def gathered(bodies: Iterable[Body], one: Callable[[Body], Awaitable[object]], at_once: int = 20) -> None:
    """Enqueue one by one, so many side by side: for peers without a call for many."""
    rest = iter(bodies)

    async def lane() -> None:
        for body in rest:
            await one(body)

    await asyncio.gather(*(lane() for _ in range(at_once)))
