"""Which queues this relay holds: a lease in Postgres for each, under a token that grows at each change of holder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database
from redisjobs.broker import Fence
from redisjobs.floor import Floor

_NAMES = ("meet", "take", "fresh_token", "let_go", "fall_asleep", "wake_up", "oldest_running", "with_work")
statements.load("leases").require(*_NAMES)


@dataclass(slots=True, eq=False)
class Hold:
    """A queue in this relay's hand.

    Publish, settle, recovery and audit take turns under `turn`: what one has read must not be changed by another.

    Args:
        trusted_until: monotonic seconds until which the lease is believed in, counted from before it was asked for.
        settled: position of the last outcome that is in Postgres.
        opened: its token is the fence in Redis, and Redis is in the life `epoch`.
        unsure: a call had an unknown end: a new token is needed before the next.
    """

    queue: str
    token: int
    epoch: str
    paused: bool
    trusted_until: float
    settled: bytes = b"0-0"
    opened: bool = False
    unsure: bool = False
    floor: Floor = field(default_factory=Floor)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def fence(self) -> Fence:
        """What Redis is shown with every call."""
        return Fence(self.queue, self.token, self.epoch)


class Leases:
    """The leases of one relay.

    Args:
        relay: its name, unlike any other's.
        lease: seconds from one renewal to the end.
    """

    def __init__(
        self, database: Database, relay: str, lease: float, schema: str = "redisjobs", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.held: dict[str, Hold] = {}
        self._database = database
        self._relay = relay
        self._lease = lease
        self._clock = clock
        self._sql = statements.load("leases", schema).require(*_NAMES)

    async def meet(self, queues: Sequence[str]) -> None:
        """Queues never seen before get their row."""
        await self._database.change("meet queues", self._sql.meet, {"queues": list(queues)})

    async def renew(self) -> list[Hold]:
        """Renew what is held and take what is free; answers the holds that are new, or new again.

        A hold whose token changed, or that somebody else has now, is not used any more.
        """
        asked_at = self._clock.monotonic()
        rows = await self._database.run("renew leases", self._sql.take, {"relay": self._relay, "lease": self._lease})
        until = asked_at + self._lease
        taken: list[Hold] = []
        seen: set[str] = set()
        for queue, token, epoch, paused, _ in rows:
            seen.add(queue)
            hold = self.held.get(queue)
            if hold is None or hold.token != token:
                hold = self.held[queue] = Hold(queue, token, epoch or "", paused, until)
                taken.append(hold)
            else:
                hold.trusted_until, hold.opened = until, hold.opened and hold.paused == paused
                hold.paused = paused
        for queue in set(self.held) - seen:
            del self.held[queue]
        return taken

    def trusts(self, hold: Hold) -> bool:
        """Whether the lease still runs, as far as this process can know."""
        return self.held.get(hold.queue) is hold and self._clock.monotonic() < hold.trusted_until

    async def take_fresh_token(self, hold: Hold) -> bool:
        """After a call with an unknown end: what is still under way is refused from now on. False: the hold is gone."""
        asked_at = self._clock.monotonic()
        rows = await self._database.run(
            "take a fresh token",
            self._sql.fresh_token,
            {"queue": hold.queue, "relay": self._relay, "token": hold.token, "lease": self._lease},
        )
        if not rows:
            self.drop(hold)
            return False
        hold.token, hold.trusted_until = rows[0][0], asked_at + self._lease
        hold.opened = hold.unsure = False
        return True

    def drop(self, hold: Hold) -> None:
        """Use a hold no more: its lease, token or life was refused."""
        if self.held.get(hold.queue) is hold:
            del self.held[hold.queue]

    async def let_go(self) -> None:
        """Give every queue back, so that another relay takes it at once."""
        self.held.clear()
        await self._database.change("let go of queues", self._sql.let_go, {"relay": self._relay})

    async def with_work(self, horizon: float) -> list[str]:
        """The queues in which Postgres has something to do, held or not."""
        rows = await self._database.ask("look for work", self._sql.with_work, {"horizon": horizon})
        return [queue for (queue,) in rows]

    async def fall_asleep(self, hold: Hold) -> int | None:
        """Have producers of this queue notify from now on. Answers the transaction behind which none can have missed it."""
        rows = await self._database.run(
            "fall asleep", self._sql.fall_asleep, {"queue": hold.queue, "token": hold.token}
        )
        return int(rows[0][0]) if rows else None

    async def wake_up(self, hold: Hold) -> None:
        """Producers of this queue need not notify: it is being polled."""
        await self._database.change("wake up", self._sql.wake_up, {"queue": hold.queue, "token": hold.token})

    async def oldest_running(self) -> int:
        """The oldest transaction that has not ended."""
        return int((await self._database.ask("look at transactions", self._sql.oldest_running))[0][0])
