"""Watches Redis' memory: publishing stops before Redis refuses writes, and producers go on committing."""

from __future__ import annotations

import logging
import math

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.broker import Carrier
from redisjobs.errors import StoreRefused
from redisjobs.logs import event

log = logging.getLogger("redisjobs.relay")

PAUSE_S = 1.0
"""Between two looks, while something is published."""
CREDIT_BYTES = 65_536
"""So much is admitted by what was last seen, however long ago that was; the look comes behind it."""


class Memory:
    """What Redis says of itself, as far as its user may ask.

    Args:
        budget: the share of `maxmemory` past which nothing more is published.
    """

    def __init__(self, carrier: Carrier, budget: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.full = False
        self._carrier = carrier
        self._budget = budget
        self._clock = clock
        self._identity: tuple[str, ...] | None = None
        self._allowed = True
        self._next = 0.0
        self._has_looked = False
        self._room = math.inf
        self._spent = self._limit = self._wanted = 0

    async def admits(self, size: int) -> bool:
        """Whether so many bytes more may be published; they count as published then.

        Redis is asked once a second, and earlier when half of what was free then has been used up. A lone job does not
        wait for that: `catch_up` asks behind it.
        """
        if not self._gives_credit(size) and (self._is_stale or self._spent + size > self._room / 2):
            await self._look()
        fits = self._spent + size <= self._room
        self._wanted = size
        self._say(full=not fits)
        if fits:
            self._spent += size
        return fits

    async def catch_up(self) -> None:
        """Look, where something was admitted by an old look."""
        if self._spent and self._is_stale:
            await self._look()

    async def has_room(self) -> bool:
        """Whether it is worth a try: what was last turned away may fit by now."""
        if self.full and self._is_stale:
            await self._look()
        return not self.full or self._wanted <= self._room

    async def has_restarted(self) -> bool:
        """Whether Redis is another process, or has another node's data, than when this was last asked."""
        server, replication = await self._info("server"), await self._info("replication")
        identity = (server.get("run_id", ""), replication.get("master_replid", ""))
        restarted = self._identity is not None and identity != self._identity
        self._identity = identity
        return restarted

    @property
    def _is_stale(self) -> bool:
        return self._clock.monotonic() >= self._next

    def _gives_credit(self, size: int) -> bool:
        spent = self._spent + size
        return self._has_looked and not self.full and spent <= CREDIT_BYTES and spent <= self._room / 2

    async def _look(self) -> None:
        info = await self._info("memory")
        self._next = self._clock.monotonic() + PAUSE_S
        self._limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
        self._room = self._limit * self._budget - used if self._limit else math.inf
        self._spent, self._has_looked = 0, True

    def _say(self, *, full: bool) -> None:
        if full != self.full:
            level, name = (logging.WARNING, "relay.redis_full") if full else (logging.INFO, "relay.redis_has_room")
            event(log, level, name, budget=self._budget, maxmemory=self._limit,
                  remedy="raise maxmemory, or add workers" if full else None)  # fmt: skip
        self.full = full

    async def _info(self, section: str) -> dict[str, str]:
        if not self._allowed:
            return {}
        try:
            return await self._carrier.info(section)
        except StoreRefused as error:
            self._allowed = False
            event(log, logging.WARNING, "relay.info_forbidden", error=error,
                  effect="memory is not watched and a failover is found by the slow audit alone")  # fmt: skip
            return {}
