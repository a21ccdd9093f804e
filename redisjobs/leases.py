"""Which queues this relay holds: a lease in Postgres for each, under a token that grows at each change of holder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database
from redisjobs.broker import Fence
from redisjobs.errors import BrokerUnavailable
from redisjobs.floor import Floor
from redisjobs.held_up import HeldUp

_NAMES = (
    "meet", "take", "keep", "fresh_token", "let_go", "fall_asleep", "wake_up", "oldest_running", "with_staged",
    "with_side_work",
)  # fmt: skip
statements.load("leases").require(*_NAMES)

WARY_S = 5.0
"""Once somebody held a row of a queue, its rows are looked at before they are waited for: each time costs a second."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}\Z")


@dataclass(slots=True, eq=False)
class Hold:
    """A queue in this relay's hand.

    Publish, settle and recovery of a queue take turns in `in_turn`: what one has read must not be changed by another.

    Args:
        asleep: its producers notified when it was taken.
        trusted_until: monotonic seconds until which the lease is believed in, counted from before it was asked for.
        settled: position of the last outcome that is in Postgres, with all before it. held_up: what is read beyond it.
        wary_until: monotonic seconds; somebody held a row of this queue, and until then rows are not waited for.
        opened: its token is the fence in Redis, and Redis is in the life `epoch`.
        unsure: a call had an unknown end: a new token is needed before the next.
        failing: the row that stops the queue, and why; named in Postgres. said_at: when it was logged.
        share_by: tenant: jobs without a share key are shared out by their tenant. shares: what operators have set, as
            JSON.
        small: the last pass was full of small rows, so that the next one may be larger.
        must_find: Postgres has seen staged rows: a pass that finds none has its floor too high.
        taken_back: id up to which an unfinished recovery has come; None: there is none.
    """

    queue: str
    token: int
    epoch: str
    paused: bool
    asleep: bool
    trusted_until: float
    settled: bytes = b"0-0"
    held_up: HeldUp = field(default_factory=HeldUp)
    wary_until: float = 0.0
    opened: bool = False
    unsure: bool = False
    failing: str = ""
    share_by: str | None = None
    shares: str = "{}"
    said_at: float = 0.0
    small: bool = False
    must_find: bool = False
    taken_back: str | None = None
    floor: Floor = field(default_factory=Floor)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def in_turn(self) -> AsyncGenerator[None, None]:
        """The turn; a call to Redis with an unknown end in it makes the hold unsure."""
        async with self.turn:
            try:
                yield
            except BrokerUnavailable:
                self.unsure = True
                raise

    def begin_at(self, settled: bytes) -> None:
        """Outcomes behind this position are read again."""
        self.settled, self.held_up = settled, HeldUp()

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
        self._met: set[str] = set()

    async def renew(self) -> list[Hold]:
        """Renew what is held and take what is free; answers the holds that are new, or new again.

        A hold whose token changed is not used any more, nor is one that is not trusted. A queue whose row is
        locked just now is left out of the answer and stays held for as long as its lease is trusted.
        """
        taken, seen = await self._take(None)
        for queue in set(self.held) - seen:
            if not self.trusts(self.held[queue]):
                del self.held[queue]
        return taken

    async def take(self, queues: Iterable[str]) -> list[Hold]:
        """Take those of these queues that nobody holds; ones never seen before get their row.

        What can be no queue's name is left out: whoever may connect may notify, and write into Redis.
        """
        names = sorted(queue for queue in queues if _NAME.match(queue))
        if not names:
            return []
        strangers = [queue for queue in names if queue not in self._met]
        if strangers:
            await self._database.change("meet queues", self._sql.meet, {"queues": strangers})
            self._met.update(strangers)
        return (await self._take(names))[0]

    async def _take(self, queues: Sequence[str] | None) -> tuple[list[Hold], set[str]]:
        asked_at = self._clock.monotonic()
        parameters = {"relay": self._relay, "lease": self._lease, "queues": queues}
        rows = await self._database.run("renew leases", self._sql.take, parameters)
        until = asked_at + self._lease
        taken: list[Hold] = []
        for queue, token, epoch, paused, asleep, failing, share_by, shares in rows:
            hold = self.held.get(queue)
            if hold is None or hold.token != token:
                hold = self.held[queue] = Hold(queue, token, epoch or "", paused, asleep, until, failing=failing)
                taken.append(hold)
            else:
                same = (hold.paused, hold.shares) == (paused, shares)
                hold.trusted_until, hold.opened = until, hold.opened and same
                hold.paused = paused
            hold.share_by, hold.shares = share_by, shares
        return taken, {row[0] for row in rows}

    async def keep(self) -> bool:
        """Renew what is held in the midst of a round; False where one was left out, because its row is locked."""
        asked_at = self._clock.monotonic()
        rows = await self._database.run("keep leases", self._sql.keep, {"relay": self._relay, "lease": self._lease})
        for queue, token in rows:
            hold = self.held.get(queue)
            if hold is not None and hold.token == token:
                hold.trusted_until = asked_at + self._lease
        return len(rows) >= len(self.held)

    def trusts(self, hold: Hold) -> bool:
        """Whether the lease still runs, as far as this process can know."""
        return self.held.get(hold.queue) is hold and self._clock.monotonic() < hold.trusted_until

    async def take_fresh_token(self, hold: Hold, above: int = 0) -> bool:
        """After a call with an unknown end: what is still under way is refused from now on. False: the hold is gone.

        Args:
            above: the fence in Redis; it can stand higher than our token when Postgres went back to an older state.
        """
        asked_at = self._clock.monotonic()
        rows = await self._database.run(
            "take a fresh token",
            self._sql.fresh_token,
            {"queue": hold.queue, "relay": self._relay, "token": hold.token, "lease": self._lease, "above": above},
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

    async def with_staged(self) -> set[str]:
        """The queues with staged rows, held or not; holds hear of theirs."""
        queues = {row[0] for row in await self._database.run("look for staged rows", self._sql.with_staged)}
        for queue in queues & set(self.held):
            self.held[queue].must_find = True
        return queues

    async def with_side_work(self, horizon: float) -> dict[str, list[str]]:
        """The queues with work beside the line, held or not, each with its kinds: cancel, move, due."""
        found = dict[str, list[str]]()
        for queue, kind in await self._database.run("look aside", self._sql.with_side_work, {"horizon": horizon}):
            found.setdefault(queue, []).append(kind)
        return found

    async def fall_asleep(self, hold: Hold) -> int | None:
        """Have producers notify from now on. Answers the transaction behind which none can have missed it."""
        rows = await self._database.run(
            "fall asleep", self._sql.fall_asleep, {"queue": hold.queue, "token": hold.token}
        )
        return int(rows[0][0]) if rows else None

    async def wake_up(self, hold: Hold) -> None:
        """Producers of this queue need not notify: it is being polled."""
        await self._database.change("wake up", self._sql.wake_up, {"queue": hold.queue, "token": hold.token})

    async def oldest_running(self) -> int:
        """The oldest transaction that has not ended."""
        return int((await self._database.run("look at transactions", self._sql.oldest_running))[0][0])
