"""Durable runs without a body: a test claims them, waits for them and lets go of them, as an engine does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from redisjobs import App
from redisjobs.broker import Delivery
from redisjobs.record import pack
from redisjobs.steps import StepRecord, Token
from redisjobs.steps.postgres import PostgresSteps
from tests.support.builders import finish
from tests.support.relays import Hand, job_of

app = App("sleepers")


@app.job(name="child")
async def child() -> None:
    pass


@dataclass
class Sleeper:
    """An attempt of a run in a worker's hand, which it has claimed."""

    store: PostgresSteps
    worker: Hand
    held: Delivery
    token: Token

    @property
    def id(self) -> UUID:
        return self.token.run

    async def wait(self, event: str = "paid", key: str = "7", *, due_in: float | None = None) -> StepRecord:
        """Wait for an event, or come back to the wait."""
        record = StepRecord(self.id, event, "event", "waiting", awaited=True, event=event, key=key, due_in=due_in)
        return await self.store.wait(self.token, record)

    async def put(self, name: str = "charge", **columns: Any) -> None:
        """Record a step."""
        await self.store.put(self.token, StepRecord(self.id, name, codec="json", value=b"1", **columns))

    async def call(self, name: str = "child", *, queue: str = "default", awaited: bool = True, **options: Any) -> UUID:
        """Start a child; its id."""
        call = child.using(queue=queue, **options).call()
        record = StepRecord(self.id, name, "child", "waiting", awaited=awaited, child=call.id)
        await self.store.put(self.token, record, call)
        return call.id

    async def suspend(self, *, delay_ms: int = -1, waits: bool = True) -> list[str]:
        """Let go of the worker."""
        return await self.end("suspended", delay_ms=delay_ms, record=pack(waits=waits))

    async def end(self, word: Any = "done", **given: Any) -> list[str]:
        return await self.worker.end(finish(self.held, word, **given))


@dataclass
class Sleepers:
    """Runs that a worker takes one by one."""

    store: PostgresSteps
    worker: Hand

    async def take(self, queue: str = "default") -> Sleeper:
        """The next run that waits in Redis, claimed."""
        return await self.claim(await self.worker.one(queue))

    async def claim(self, held: Delivery) -> Sleeper:
        """A delivery that a worker holds, claimed."""
        token = Token(job_of(held), held.life, held.number, held.start, self.worker.consumer, "add")
        claim = await self.store.claim(token)
        assert claim.word == "ok", claim
        return Sleeper(self.store, self.worker, held, token)


@asynccontextmanager
async def sleepers(database_url: str, worker: Hand) -> AsyncIterator[Sleepers]:
    store = PostgresSteps(database_url)
    try:
        yield Sleepers(store, worker)
    finally:
        await store.close()
