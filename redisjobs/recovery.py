"""Opens queues for their holder, and puts Redis right again after it lost its data."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Any

from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import FIRST_ID, Database
from redisjobs.broker import Carrier, Fence, Stale
from redisjobs.leases import Hold
from redisjobs.logs import event
from redisjobs.share_rules import share_rules

_NAMES = ("take_back", "name_life", "open_windows")
statements.load("recovery").require(*_NAMES)

log = logging.getLogger("redisjobs.recovery")

CHUNK = 20_000
WINDOWS_AT_ONCE = 1_000


class Recovery:
    """Opens queues for their holder, and recovers those whose data Redis has lost.

    Args:
        lease: seconds; a long recovery renews it on the way, and ends its turn after a third of it.
    """

    def __init__(
        self,
        database: Database,
        carrier: Carrier,
        lease: float,
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._database = database
        self._carrier = carrier
        self._lease = lease
        self._clock = clock
        self._sql = statements.load("recovery", schema).require(*_NAMES)

    async def open(self, hold: Hold) -> bool:
        """The first act of a holder: its token becomes the fence in Redis. A queue whose data Redis lost is recovered.

        Under the queue's turn. False: the recovery goes on with the next call.

        Raises:
            Stale: Redis has seen a higher token.
        """
        life = await self._carrier.open(hold.queue, hold.token, paused=hold.paused, shares=share_rules(hold.shares))
        if hold.epoch and life.epoch == hold.epoch:
            hold.opened = True
            hold.begin_at(life.settled)
        else:
            hold.opened = await self._recover(hold)
        return hold.opened

    async def _recover(self, hold: Hold) -> bool:
        """Every published row joins the line again, together with the name of the new life; then Redis gets it."""
        first = not hold.epoch
        if not first and hold.taken_back is None:
            event(log, logging.WARNING, "recovery.started", queue=hold.queue, lost_life=hold.epoch)
        if not first and not await self._take_back(hold):
            return False
        asked_at, epoch = self._clock.monotonic(), secrets.token_hex(8)
        named, count = await self._ask(hold, "name the life of Redis", self._sql.name_life, epoch=epoch, first=first)
        self._renewed(hold, named, asked_at)
        hold.epoch, hold.taken_back = epoch, None
        hold.begin_at(b"0-0")
        hold.floor.reset()
        windows = await self._database.run("restore windows", self._sql.open_windows, {"queue": hold.queue})
        await self._adopt(
            hold, [(key.encode(), owner, left if left < 0 else max(1, left)) for key, owner, left in windows]
        )
        await self._carrier.announce([hold.queue])
        if first:
            event(log, logging.INFO, "queue.opened", queue=hold.queue, life=epoch)
        else:
            event(log, logging.WARNING, "recovery.done", queue=hold.queue, life=epoch, last_rows=count)
        return True

    async def _adopt(self, hold: Hold, keys: Sequence[tuple[bytes, bytes, int]]) -> None:
        """The life gets its name last of all: until then, whoever looks recovers again."""
        pieces = [keys[at : at + WINDOWS_AT_ONCE] for at in range(0, len(keys), WINDOWS_AT_ONCE)] or [()]
        for piece in pieces[:-1]:
            await self._carrier.adopt(Fence(hold.queue, hold.token, ""), piece)
        await self._carrier.adopt(hold.fence, pieces[-1])

    async def _take_back(self, hold: Hold) -> bool:
        """Chunk by chunk, each in a transaction of its own; False: the turn is over before the rows are."""
        ends_at = self._clock.monotonic() + self._lease / 3
        while True:
            asked_at = self._clock.monotonic()
            held, count, last = await self._ask(
                hold, "take rows back", self._sql.take_back, after=hold.taken_back or FIRST_ID, limit=CHUNK
            )
            self._renewed(hold, held, asked_at)
            if count < CHUNK:
                return True
            hold.taken_back = str(last)
            if self._clock.monotonic() >= ends_at:
                return False

    async def _ask(self, hold: Hold, what: str, statement: bytes, **parameters: Any) -> tuple[Any, ...]:
        shown = {"queue": hold.queue, "token": hold.token, "lease": self._lease}
        return (await self._database.run(what, statement, shown | parameters))[0]

    def _renewed(self, hold: Hold, held: int, asked_at: float) -> None:
        if not held:
            raise Stale(f"queue {hold.queue}: the lease under token {hold.token} has ended")
        hold.trusted_until = asked_at + self._lease
