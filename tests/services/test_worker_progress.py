"""Bodies tell how far they are, and whoever looks sees it (rule W9)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import UUID

import pytest

from redisjobs import App, Context, Handle, Progress, SyncClient
from redisjobs.broker import Heart
from tests.support.cli import CommandLine
from tests.support.crew import Crew
from tests.support.eventually import eventually


def ask_in_a_thread(app: App, handle: Handle[Any]) -> Progress | None:
    with SyncClient(app) as client:
        return client.progress(handle)


async def test_async_and_sync_bodies_are_seen_on_their_way_and_all_told_in_one_call_a_second(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, calls = threading.Event(), list[int]()
    tell = Heart.progress

    def counted(self: Heart, queue: str, consumer: str, reports: Any) -> None:
        calls.append(len(reports))
        tell(self, queue, consumer, reports)

    monkeypatch.setattr(Heart, "progress", counted)

    @crew.app.job(name="awaits")
    async def awaits(ctx: Context) -> None:
        done = 0
        while not over.is_set():
            ctx.progress(done := done + 1, None, "in the loop")
            await asyncio.sleep(0.001)

    @crew.app.job(name="computes")
    def computes(ctx: Context) -> None:
        done = 0
        while not over.wait(0.001):
            ctx.progress(done := done + 1, 1_000_000, "in a thread")

    first, second = [*await crew.put("awaits"), *await crew.put("computes")]
    await crew.start()
    handles: list[Handle[Any]] = [crew.app.handle(first, awaits), crew.app.handle(second, computes)]

    async def both_are_told() -> bool:
        told = [await each.progress() for each in handles]
        return [each and each.note for each in told] == ["in the loop", "in a thread"]

    await eventually(both_are_told, "both are told")
    seen = await asyncio.to_thread(ask_in_a_thread, crew.app, handles[1])
    assert seen is not None
    assert (seen.note, seen.total, seen.start) == ("in a thread", 1_000_000, 1)
    over.set()
    await eventually(crew.nothing_left, "both have ended")
    assert [await handle.progress() for handle in handles] == [None, None]
    assert max(calls) == 2
    assert len(calls) <= 10


async def test_the_last_report_before_a_hand_back_is_kept_and_shown(crew: Crew, database_url: str) -> None:
    @crew.app.job(name="stopped")
    async def stopped(ctx: Context) -> None:
        crew.starts["stopped"] += 1
        try:
            await asyncio.Event().wait()
        finally:
            ctx.progress(57, 100, "rows\x1b[31m")

    (job,) = await crew.put("stopped")
    worker = await crew.start()
    await eventually(lambda: crew.starts["stopped"], "it runs")
    await worker.stop(0)

    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": crew.redis_url})
    shown = redisjobs("jobs", "show", UUID(job)).stdout
    assert "57 of 100 (57 %), rows\\x1b[31m; told " in shown
    assert redisjobs.json("jobs", "show", UUID(job))["redis"]["progress"]["done"] == 57
