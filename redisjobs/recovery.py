"""Puts Redis right again: after it lost its data, and slowly all the time."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field
from typing import Any

from redisjobs.base import statements
from redisjobs.base.postgres import Database, array
from redisjobs.broker import Carrier, Stale
from redisjobs.errors import StoreUnavailable
from redisjobs.leases import Hold
from redisjobs.logs import event

_NAMES = ("take_back", "name_life", "open_windows", "published", "publish_again", "rowless")
statements.load("recovery").require(*_NAMES)

log = logging.getLogger("redisjobs.recovery")

CHUNK = 20_000
SLICE = 500
FIRST_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(slots=True)
class Walk:
    """How far the audit of a queue has come, in Postgres and in Redis."""

    row: str = FIRST_ID
    cursor: int = 0
    rows_through: bool = False
    jobs_through: bool = False

    @property
    def through(self) -> bool:
        """Both sides were looked at, from end to end."""
        return self.rows_through and self.jobs_through


@dataclass(slots=True)
class Recovery:
    """Opens queues for their holder, recovers them from lost data, and audits both stores against each other.

    Args:
        lease: seconds; a long recovery renews it on the way.
    """

    database: Database
    carrier: Carrier
    lease: float
    schema: str = "redisjobs"
    sql: statements.Statements = field(init=False)

    def __post_init__(self) -> None:
        self.sql = statements.load("recovery", self.schema).require(*_NAMES)

    async def open(self, hold: Hold) -> None:
        """The first act of a holder: its token becomes the fence in Redis. Where Redis lost the queue's data, it is recovered.

        Raises:
            Stale: somebody younger holds the queue.
        """
        try:
            life = await self.carrier.open(hold.queue, hold.token, paused=hold.paused)
            if not hold.epoch or life.epoch != hold.epoch:
                await self._recover(hold)
            else:
                hold.settled = life.settled
        except StoreUnavailable:
            hold.unsure = True
            raise
        hold.opened = True

    async def look(self, hold: Hold) -> None:
        """Is Redis still in the life that we know? Recovers the queue where it is not."""
        await self.open(hold)

    async def audit(self, hold: Hold, walk: Walk, *, age_s: float = 30.0) -> int:
        """One slice of the audit, both ways; answers how many jobs it put right.

        Args:
            age_s: rows published later than this are left alone: they are on their way.
        """
        mended = 0
        if not walk.rows_through:
            mended += await self._audit_rows(hold, walk, age_s)
        if not walk.jobs_through:
            mended += await self._audit_jobs(hold, walk)
        return mended

    async def _recover(self, hold: Hold) -> None:
        """Every published row joins the line again, together with the name of the new life; then Redis gets it."""
        event(log, logging.WARNING, "recovery.started", queue=hold.queue, lost_life=hold.epoch or "(none)")
        after, total = FIRST_ID, 0
        while True:
            parameters = self._shown(hold) | {"after": after, "limit": CHUNK}
            held, count, last = (await self.database.run("take rows back", self.sql.take_back, parameters))[0]
            if not held:
                raise Stale(f"queue {hold.queue}: the lease under token {hold.token} has ended")
            total += count
            if count < CHUNK:
                break
            after = str(last)
        epoch = secrets.token_hex(8)
        parameters = self._shown(hold) | {"epoch": epoch, "lease": self.lease}
        if not (await self.database.run("name the life of Redis", self.sql.name_life, parameters))[0][0]:
            raise Stale(f"queue {hold.queue}: the lease under token {hold.token} has ended")
        hold.epoch, hold.settled = epoch, b"0-0"
        hold.floor.reset()
        windows = await self.database.run("restore windows", self.sql.open_windows, self._shown(hold))
        await self.carrier.adopt(hold.fence, [(key.encode(), id, max(1, left)) for key, id, left in windows])
        event(log, logging.WARNING, "recovery.done", queue=hold.queue, rows=total, life=epoch)

    async def _audit_rows(self, hold: Hold, walk: Walk, age_s: float) -> int:
        parameters = self._shown(hold) | {"after": walk.row, "limit": SLICE, "age": age_s}
        rows: list[tuple[bytes, int]] = await self.database.run("audit rows", self.sql.published, parameters)
        walk.rows_through = len(rows) < SLICE
        if not rows:
            return 0
        walk.row = rows[-1][0].hex()
        missing = set(await self.carrier.audit(hold.fence, rows))
        if not missing:
            return 0
        lost = [row for row in rows if row[0] in missing]
        event(
            log, logging.WARNING, "audit.missing_in_redis", queue=hold.queue, rows=len(lost), remedy="published again"
        )
        parameters = self._shown(hold) | {
            "ids": array(id.hex() for id, _ in lost),
            "lives": array(str(life) for _, life in lost),
        }
        await self.database.change("publish rows again", self.sql.publish_again, parameters)
        hold.floor.reset()
        return len(lost)

    async def _audit_jobs(self, hold: Hold, walk: Walk) -> int:
        walk.cursor, ids = await self.carrier.some_jobs(hold.queue, walk.cursor, SLICE)
        walk.jobs_through = walk.cursor == 0
        if not ids:
            return 0
        parameters = {"ids": array(id.hex() for id in ids)}
        rowless = [id for (id,) in await self.database.run("audit jobs", self.sql.rowless, parameters)]
        return await self.carrier.forget(hold.fence, rowless) if rowless else 0

    def _shown(self, hold: Hold) -> dict[str, Any]:
        return {"queue": hold.queue, "token": hold.token, "epoch": hold.epoch}
