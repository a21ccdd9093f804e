"""The fault plan: which calls to Redis shall go wrong, and how."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from redisjobs.base import scripts
from redisjobs.errors import OptionError

Kind = Literal["lose_reply", "lose_request", "crash_before", "crash_after", "flush_before", "flush_after"]

WORKERS = ("take", "begin", "recall", "reclaim", "promote", "overtake", "admit", "finish", "release", "wake")
"""The calls that a worker makes: it can crash around each of them."""
HEARTS = ("renew", "present", "progress", "hold")
"""The calls of the heartbeat's thread, which no plan meets: it goes by the time of the machine."""


@dataclass(slots=True, eq=False)
class Fault:
    """One planned fault.

    Args:
        nth: the first call that it meets, from 1, counted from when it was planned.
        times: how many calls in a row it meets.
    """

    kind: Kind
    call: str
    nth: int = 1
    times: int = 1
    seen: int = 0
    happened: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.call!r}, nth={self.nth}, times={self.times})"

    def meets(self) -> bool:
        """Count a call; whether it is met."""
        self.seen += 1
        met = self.nth <= self.seen < self.nth + self.times
        self.happened += met
        return met


class Faults:
    """What shall go wrong in a world: plan it, then let the world run.

    A call is named like its script in `lua/`: `publish`, `take`, `finish`, `settled`, `enqueue`, …

    Args:
        flush: empties Redis.
    """

    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        self._flush = flush
        self.planned: list[Fault] = []
        self.crashed = asyncio.Event()
        """The worker has died in a call; whoever drives it sees to the rest."""

    def lose_reply(self, call: str, *, nth: int = 1, times: int = 1) -> Fault:
        """Redis does what the call asks for, and the caller never hears of it.

        Raises:
            OptionError: there is no such call.
        """
        return self._plan("lose_reply", call, nth, times)

    def lose_request(self, call: str, *, nth: int = 1, times: int = 1) -> Fault:
        """The call never reaches Redis, and the caller cannot know that."""
        return self._plan("lose_request", call, nth, times)

    def crash_worker(self, *, before: str | None = None, after: str | None = None, nth: int = 1) -> Fault:
        """The worker dies with all that it holds, and another one takes its place.

        Before `finish`, which is the default, its bodies have run and nobody knows; after `take` none has begun.
        What it held comes back when its lease has lapsed: turn the clock.

        Raises:
            OptionError: not one of the worker's calls, or both given.
        """
        _check_one(before, after)
        call = after if after is not None else before or "finish"
        if call not in WORKERS:
            raise OptionError("call", call, f"is none of a worker: pass one of {', '.join(WORKERS)}")
        return self._plan("crash_after" if after is not None else "crash_before", call, nth, 1)

    def flushall(self, *, before: str | None = None, after: str | None = None, nth: int = 1) -> Fault:
        """Redis loses all it has, just then: after `finish`, which is the default, outcomes are lost with it.

        `world.flushall()` empties it here and now.

        Raises:
            OptionError: there is no such call, or both were given.
        """
        _check_one(before, after)
        if before is not None:
            return self._plan("flush_before", before, nth, 1)
        return self._plan("flush_after", after or "finish", nth, 1)

    @property
    def pending(self) -> list[Fault]:
        """The faults that have not happened as often as was planned."""
        return [fault for fault in self.planned if fault.happened < fault.times]

    async def through(self, call: str, do: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call as the plan has it.

        Raises:
            ConnectionResetError: its request or its reply was lost.
        """
        met = [fault for fault in self.planned if fault.call == call and fault.meets()]
        kinds = {fault.kind for fault in met}
        if "flush_before" in kinds:
            await self._flush()
        if "crash_before" in kinds:
            await self._crash()
        if "lose_request" in kinds:
            raise ConnectionResetError(f"the request of {call} was lost, as the fault plan has it")
        answer = await do()
        if "flush_after" in kinds:
            await self._flush()
        if "crash_after" in kinds:
            await self._crash()
        if "lose_reply" in kinds:
            raise ConnectionResetError(f"the reply of {call} was lost, as the fault plan has it")
        return answer

    async def _crash(self) -> None:
        self.crashed.set()
        await asyncio.get_running_loop().create_future()  # a dead process waits for nothing, and never goes on

    def _plan(self, kind: Kind, call: str, nth: int, times: int) -> Fault:
        known = [name for name in scripts.names() if name not in HEARTS]
        if call not in known:
            raise OptionError("call", call, f"is no call to Redis: pass one of {', '.join(known)}")
        if nth < 1 or times < 1:
            raise OptionError("times" if nth >= 1 else "nth", min(nth, times), "must be 1 or more")
        fault = Fault(kind, call, nth, times)
        self.planned.append(fault)
        return fault


def _check_one(before: str | None, after: str | None) -> None:
    if before is not None and after is not None:
        raise OptionError("after", after, "says when it happens, and so does before: pass one of them")
