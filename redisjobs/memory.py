"""Watches Redis' memory: publishing stops before Redis refuses writes, and producers go on committing."""

from __future__ import annotations

import logging

from redisjobs.broker import Carrier
from redisjobs.errors import StoreRefused
from redisjobs.logs import event

log = logging.getLogger("redisjobs.relay")


PAUSE_S = 1.0


class Memory:
    """What Redis says of itself, as far as its user may ask.

    Args:
        budget: the share of `maxmemory` past which nothing more is published.
    """

    def __init__(self, carrier: Carrier, budget: float) -> None:
        self.full = False
        self.restarted = False
        self._carrier = carrier
        self._budget = budget
        self._identity: tuple[str, ...] | None = None
        self._allowed = True
        self._next = 0.0

    async def look(self, now: float) -> None:
        """Look anew, at most once a second; sets `full`, and `restarted` where Redis is another process, or another node's data, than before."""
        if not self._allowed or now < self._next:
            return
        self._next = now + PAUSE_S
        try:
            info = await self._carrier.info()
        except StoreRefused as error:
            self._allowed = False
            event(log, logging.WARNING, "relay.info_forbidden", error=error,
                  effect="memory is not watched and a failover is found by the slow audit alone")  # fmt: skip
            return
        identity = (info.get("run_id", ""), info.get("master_replid", ""))
        self.restarted = self._identity is not None and identity != self._identity
        self._identity = identity
        limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
        full = limit > 0 and used > limit * self._budget
        if full != self.full:
            level, name = (logging.WARNING, "relay.redis_full") if full else (logging.INFO, "relay.redis_has_room")
            event(log, level, name, used=used, maxmemory=limit, budget=self._budget,
                  remedy="raise maxmemory, or add workers" if full else None)  # fmt: skip
        self.full = full
