"""The worker's calls to Redis, scripted: what they answer, and what they were asked. Knows no rules of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from redisjobs.broker import Answer, Delivery, Entry, Finish, Promoted, Taken


class ScriptedBroker:
    """Gives out `waiting` to takes, and says ok to every finish.

    Attributes:
        fail: the errors of the next calls, by the call's name.
        hold: calls of these names wait for the event.
        answers: the word for a job's finish, where it is not ok.
        mine: what a recall answers.
    """

    def __init__(self, *waiting: Delivery) -> None:
        self.waiting = deque(waiting)
        self.mine: list[Delivery] = []
        self.orphans: list[Delivery] = []
        self.entries: list[Entry] = []
        self.promotions: list[Promoted] = []
        self.paused = False
        self.fail: dict[str, list[Exception]] = {}
        self.hold: dict[str, asyncio.Event] = {}
        self.answers: dict[bytes, Answer] = {}
        self.calls: list[tuple[str, Any]] = []
        self.finished: list[Finish] = []
        self.arrived = asyncio.Event()

    def asked(self, name: str) -> list[Any]:
        """What the calls of this name were asked."""
        return [what for call, what in self.calls if call == name]

    async def _call(self, name: str, what: Any) -> None:
        self.calls.append((name, what))
        await asyncio.sleep(0)
        if name in self.hold:
            await self.hold[name].wait()
        if self.fail.get(name):
            raise self.fail[name].pop(0)

    async def take(self, queue: str, consumer: str, count: int, *, lease_ms: int, low_first: bool = False) -> Taken:
        await self._call("take", (count, low_first))
        return Taken([self.waiting.popleft() for _ in range(min(count, len(self.waiting)))], self.paused)

    async def wait(self, queue: str, consumer: str, block_ms: int) -> list[Entry]:
        await self._call("wait", block_ms)
        self.arrived.clear()
        await self.arrived.wait()
        entries, self.entries = self.entries, []
        return entries

    async def begin(
        self, queue: str, consumer: str, entries: Sequence[Entry], *, lease_ms: int, room: int | None = None
    ) -> Taken:
        await self._call("begin", (list(entries), room))
        return Taken([self.waiting.popleft() for _ in entries][:room])

    async def recall(self, queue: str, consumer: str, *, lease_ms: int) -> list[Delivery]:
        await self._call("recall", None)
        return self.mine

    async def reclaim(self, queue: str, consumer: str, count: int, *, lease_ms: int, max_losses: int) -> list[Delivery]:
        await self._call("reclaim", count)
        taken, self.orphans = self.orphans[:count], self.orphans[count:]
        return taken

    async def promote(self, queue: str, limit: int = 1000) -> Promoted:
        await self._call("promote", limit)
        return self.promotions.pop(0) if self.promotions else Promoted(0, None, [])

    async def finish(self, queue: str, consumer: str, finishes: Sequence[Finish]) -> list[Answer]:
        await self._call("finish", [each.word for each in finishes])
        self.finished += finishes
        return [self.answers.get(each.delivery.job_id, "ok") for each in finishes]

    async def mark_dirty(self, queues: Sequence[str]) -> None:
        await self._call("mark_dirty", list(queues))

    async def queues(self) -> set[str]:
        await self._call("queues", None)
        return {"default"}
