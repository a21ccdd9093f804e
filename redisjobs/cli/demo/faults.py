"""What goes wrong during the demo, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redisjobs.base.durations import many
from redisjobs.broker.client import command, connect
from redisjobs.broker.keys import Keys
from redisjobs.cli.demo.crew import Child, Crew
from redisjobs.cli.demo.ledger import Ledger
from redisjobs.cli.demo.tidy import flush, forget
from redisjobs.settings import Settings

LOOK_S = 0.02
KILL_AT = 0.1
EMPTY_AT = 0.8
"""Late enough that the leases of the killed worker have ended: its jobs come back by themselves, not through this."""
BUSY_LOOKS = 50
"""How often a worker is looked at for a running body before it is killed all the same."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, between two moments of the host's clock.

    Args:
        kind: killed or emptied.
        pid: the process that was killed; 0: it concerns all.
    """

    kind: str
    from_ns: int
    to_ns: int
    pid: int = 0


class Director:
    """Makes the faults happen once the shop is so far.

    Args:
        reached: returns when this share of the orders is committed.
        tell: hears what happens.
        flush: FLUSHALL; else only the demo's own keys are removed.
    """

    def __init__(
        self,
        settings: Settings,
        crew: Crew,
        ledger: Ledger,
        reached: Callable[[float], Awaitable[None]],
        tell: Callable[[str], None],
        *,
        flush: bool,
    ) -> None:
        self._settings = settings
        self._crew = crew
        self._ledger = ledger
        self._reached = reached
        self._tell = tell
        self._flush = flush
        self.faults: list[Fault] = []

    async def direct(self, victim: Child) -> None:
        """Kill this worker, and start another one; then empty Redis."""
        await self._reached(KILL_AT)
        await self._kill(victim)
        await self._reached(EMPTY_AT)
        await self._empty()

    async def _kill(self, victim: Child) -> None:
        running = 0
        for _ in range(BUSY_LOOKS):
            running = await self._ledger.running_in(victim.pid)
            if running:
                break
            await asyncio.sleep(LOOK_S)
        await self._note("killed", self._end(victim), victim.pid)
        self._tell(f"SIGKILL to {victim.name} (pid {victim.pid}) in the middle of {many(running, 'mail')}")
        replacement = self._crew.worker()
        self._tell(f"{replacement.name} (pid {replacement.pid}) takes its place")

    async def _end(self, victim: Child) -> None:
        victim.kill()
        self._crew.dismiss(victim)

    async def _empty(self) -> None:
        redis = connect(self._settings.need_redis_url())
        try:
            await command(redis, "PING")  # the connection is open before the clock is read
            if self._flush:
                await self._note("emptied", flush(redis))
                self._tell("FLUSHALL: all that Redis held is gone")
            else:
                await self._note("emptied", forget(redis, Keys(self._settings.prefix)))
                self._tell("Redis lost all keys of the demo (with --flushall-given: all keys)")
        finally:
            await redis.aclose()

    async def _note(self, kind: str, act: Awaitable[object], pid: int = 0) -> None:
        from_ns = time.time_ns()
        await act
        self.faults.append(Fault(kind, from_ns, time.time_ns(), pid))
