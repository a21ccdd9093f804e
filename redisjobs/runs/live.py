"""The engine of a body in a worker: what it asks for is handed to its run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, TypeVar

from redisjobs.base.envelope import Envelope
from redisjobs.call import Call
from redisjobs.durable import Engine, Event, StepOptions, SyncTransaction, Transaction, Wait, Work
from redisjobs.errors import ConfigurationError
from redisjobs.runs import family, waits
from redisjobs.runs.hands import Hands
from redisjobs.runs.run import Run
from redisjobs.runs.steps import run_step
from redisjobs.runs.sync_transactions import SyncBlock, transact_sync
from redisjobs.runs.transactions import Block, OneTry, transact
from redisjobs.runs.values import Values

T = TypeVar("T")


class Live(Engine):
    """Of one attempt.

    Args:
        loop: the worker's.

    Attributes:
        held: the transaction of a transactional job.
        is_committed: that one is committed, and the job has ended in Postgres.
    """

    def __init__(self, run: Run, envelope: Envelope, loop: asyncio.AbstractEventLoop) -> None:
        self.run = run
        self.envelope = envelope
        self.held: Any = None
        self.is_committed = False
        self._loop = loop

    async def step(self, name: str, work: Work, options: StepOptions) -> Any:
        return await run_step(self.run, name, work, options)

    async def sleep(self, name: str, seconds: float) -> None:
        await waits.sleep(self.run, name, seconds=seconds)

    async def sleep_until(self, name: str, moment: datetime) -> None:
        await waits.sleep(self.run, name, moment=moment)

    async def wait_for_event(self, wait: Wait) -> Event[Any] | None:
        return await waits.wait_for_event(self.run, wait)

    async def start(self, call: Call[Any], name: str, *, awaited: bool) -> str:
        return await family.start(self.run, call, name, awaited=awaited)

    async def result(self, call: Call[Any], name: str) -> Any:
        return await family.result(self.run, call, name)

    async def gather(self, branches: Sequence[Awaitable[Any]], *, return_exceptions: bool) -> list[Any]:
        return await self.run.strands.gather(branches, return_exceptions=return_exceptions)

    def transaction(self, name: str) -> Transaction:
        return Block(self._one(name))

    async def transact(self, name: str, work: Work) -> Any:
        return await transact(self.run, name, work)

    def perform(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self.run.attempt.in_thread:
            raise ConfigurationError("ctx.sync is for plain functions, which run in a thread: await ctx.step(…) here")
        return Hands(self._loop).perform(make)

    def sync_transaction(self, name: str) -> SyncTransaction:
        return SyncBlock(self._one(name), self.perform)

    def sync_transact(self, name: str, work: Work) -> Any:
        return transact_sync(self.run, name, work, self.perform)

    @property
    def tx(self) -> Any:
        if self.held is None:
            job = self.run.job.name
            raise ConfigurationError(f"ctx.tx: job {job!r} has no transaction: declare it with transactional=True")
        return self.held

    def _one(self, name: str) -> OneTry:
        return OneTry(self.run, name, Values(self.run.job.door.codecs))
