"""Looks slowly, all the time, whether both stores know of the same jobs, and mends what they do not."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from redisjobs.base import statements
from redisjobs.base.postgres import FIRST_ID, Database, array
from redisjobs.broker import Carrier
from redisjobs.leases import Hold
from redisjobs.logs import event

_NAMES = ("published", "publish_again", "rowless")
statements.load("audit").require(*_NAMES)

log = logging.getLogger("redisjobs.audit")

ROWS_AT_ONCE = 500
JOBS_AT_ONCE = 100
QUEUES_AT_ONCE = 20
YOUNGEST_S = 30.0
"""Rows published later than this are left alone: they are on their way."""


class Audit:
    """A walk through all published rows, then through all jobs in Redis, in small steps; it asks for both ways.

    Each step takes the turn of every queue that it touches.
    """

    def __init__(self, database: Database, carrier: Carrier, schema: str = "redisjobs") -> None:
        self._database = database
        self._carrier = carrier
        self._sql = statements.load("audit", schema).require(*_NAMES)
        self.begin()

    def begin(self) -> None:
        """Start from the beginning."""
        self.through = False
        self._row = FIRST_ID
        self._rows_through = False
        self._waiting: list[str] | None = None
        self._cursor = 0

    async def step(self, held: Mapping[str, Hold], *, age_s: float = YOUNGEST_S) -> int:
        """One slice; answers how many jobs it put right, and sets `through` at the end of the walk."""
        holds = {queue: hold for queue, hold in held.items() if hold.opened and not hold.unsure}
        if not self._rows_through:
            return await self._rows(holds, age_s)
        if self._waiting is None:
            self._waiting = sorted(holds)
        mended = 0
        for _ in range(QUEUES_AT_ONCE):
            if not self._waiting:
                self.through = True
                break
            hold = holds.get(self._waiting[-1])
            if hold is not None:
                mended += await self._jobs(hold)
            if hold is None or self._cursor == 0:
                self._cursor = 0
                self._waiting.pop()
        return mended

    async def _rows(self, holds: Mapping[str, Hold], age_s: float) -> int:
        parameters = {"after": self._row, "queues": sorted(holds), "limit": ROWS_AT_ONCE, "age": age_s}
        rows = await self._database.run("audit rows", self._sql.published, parameters)
        self._rows_through = len(rows) < ROWS_AT_ONCE
        if rows:
            self._row = rows[-1][0].hex()
        of_queue: dict[str, list[tuple[bytes, int]]] = {}
        for job, life, queue in rows:
            of_queue.setdefault(queue, []).append((job, life))
        mended = 0
        for queue, published in of_queue.items():
            mended += await self._missing(holds[queue], published)
        return mended

    async def _missing(self, hold: Hold, rows: list[tuple[bytes, int]]) -> int:
        async with hold.in_turn():
            missing = set(await self._carrier.audit(hold.fence, rows))
            lost = [row for row in rows if row[0] in missing]
            if not lost:
                return 0
            parameters = {
                "queue": hold.queue,
                "token": hold.token,
                "epoch": hold.epoch,
                "ids": array(job.hex() for job, _ in lost),
                "lives": array(str(life) for _, life in lost),
            }
            count = await self._database.change("publish rows again", self._sql.publish_again, parameters)
            hold.floor.reset()
        if count:
            event(log, logging.WARNING, "audit.missing_in_redis", queue=hold.queue, rows=count,
                  remedy="they are published again")  # fmt: skip
        return count

    async def _jobs(self, hold: Hold) -> int:
        async with hold.in_turn():
            self._cursor, ids = await self._carrier.some_jobs(hold.queue, self._cursor, JOBS_AT_ONCE)
            if not ids:
                return 0
            parameters = {"ids": array(job.hex() for job in ids)}
            rowless = [job for (job,) in await self._database.run("audit jobs", self._sql.rowless, parameters)]
            gone = await self._carrier.forget(hold.fence, rowless) if rowless else 0
        if gone:
            event(log, logging.WARNING, "audit.unknown_to_postgres", queue=hold.queue, jobs=gone,
                  remedy="Redis has forgotten them")  # fmt: skip
        return gone
