"""Looks slowly, all the time, whether both stores know of the same jobs, and mends what they do not."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from redisjobs.base import statements
from redisjobs.base.postgres import FIRST_ID, Database, array, id_array
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
"""Rows published later than this are left alone, unless Redis may have gone back: they are seldom the lost ones."""


class Audit:
    """A walk through all published rows, then through jobs, lanes and keys in Redis, in small steps: it asks both ways.

    Each step takes the turn of every queue that it touches.
    """

    def __init__(self, database: Database, carrier: Carrier, schema: str = "redisjobs") -> None:
        self._database = database
        self._carrier = carrier
        self._sql = statements.load("audit", schema).require(*_NAMES)
        self.begin()

    def begin(self, *, age_s: float = YOUNGEST_S) -> None:
        """Start from the beginning.

        Args:
            age_s: rows published later than so long ago are left out. 0 where Redis may have lost its last writes.
        """
        self.through = False
        self._age_s = age_s
        self._row = FIRST_ID
        self._rows_through = False
        self._waiting: list[str] | None = None
        self._cursor = 0
        self._asks = 0

    async def step(self, held: Mapping[str, Hold]) -> int:
        """One slice; answers how many jobs it put right, and sets `through` at the end of the walk."""
        holds = {queue: hold for queue, hold in held.items() if hold.opened and not hold.unsure}
        if not self._rows_through:
            return await self._rows(holds)
        if self._waiting is None:
            self._waiting = sorted(holds)
        walks, mended = (self._jobs, self._lanes, self._keys), 0
        for _ in range(QUEUES_AT_ONCE):
            if not self._waiting:
                self.through = True
                break
            hold = holds.get(self._waiting[-1])
            if hold is not None:
                mended += await walks[self._asks](hold)
            if hold is None or self._cursor == 0:
                self._cursor = 0
                self._asks = 0 if hold is None else (self._asks + 1) % len(walks)
                if self._asks == 0:
                    self._waiting.pop()
        return mended

    async def _rows(self, holds: Mapping[str, Hold]) -> int:
        parameters = {"after": self._row, "queues": sorted(holds), "limit": ROWS_AT_ONCE, "age": self._age_s}
        rows = await self._database.run("audit rows", self._sql.published, parameters)
        self._rows_through = len(rows) < ROWS_AT_ONCE
        if rows:
            self._row = rows[-1][0].hex()
        of_queue: dict[str, list[tuple[bytes, int, int]]] = {}
        for job, life, settled, queue in rows:
            of_queue.setdefault(queue, []).append((job, life, settled))
        mended = 0
        for queue, published in of_queue.items():
            mended += await self._missing(holds[queue], published)
        return mended

    async def _missing(self, hold: Hold, rows: list[tuple[bytes, int, int]]) -> int:
        async with hold.in_turn():
            missing = set(await self._carrier.audit(hold.fence, rows))
            lost = [row for row in rows if row[0] in missing]
            if not lost:
                return 0
            parameters = {
                "queue": hold.queue,
                "token": hold.token,
                "epoch": hold.epoch,
                "ids": id_array(job for job, _, _ in lost),
                "lives": array(str(life) for _, life, _ in lost),
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
            parameters = {"ids": id_array(ids)}
            rowless = [job for (job,) in await self._database.run("audit jobs", self._sql.rowless, parameters)]
            gone = await self._carrier.forget(hold.fence, rowless) if rowless else 0
        if gone:
            event(log, logging.WARNING, "audit.unknown_to_postgres", queue=hold.queue, jobs=gone,
                  remedy="Redis has forgotten them")  # fmt: skip
        return gone

    async def _lanes(self, hold: Hold) -> int:
        """A lane whose head ended while Redis held nothing of it goes on, should Redis not have been told."""
        async with hold.in_turn():
            self._cursor, lanes = await self._carrier.some_lanes(hold.queue, self._cursor, JOBS_AT_ONCE)
            if not lanes:
                return 0
            rowless = await self._rowless("audit lanes", lanes)
            gone = [each for each in lanes if each[1] in rowless]
            count = await self._carrier.vacate(hold.fence, gone) if gone else 0
        if count:
            event(log, logging.WARNING, "audit.lanes_stood_still", queue=hold.queue, lanes=count,
                  remedy="they go on with their next jobs")  # fmt: skip
        return count

    async def _keys(self, hold: Hold) -> int:
        """A key whose job has ended is free, should Redis not know that: it may have gone back to before that end."""
        async with hold.in_turn():
            self._cursor, keys = await self._carrier.some_keys(hold.queue, self._cursor, JOBS_AT_ONCE)
            if not keys:
                return 0
            rowless = await self._rowless("audit keys", keys)
            gone = [(key, job, 0) for key, job in keys if job in rowless]
            count = await self._carrier.free(hold.fence, gone) if gone else 0
        if count:
            event(log, logging.WARNING, "audit.keys_of_ended_jobs", queue=hold.queue, keys=count,
                  remedy="they are free")  # fmt: skip
        return count

    async def _rowless(self, what: str, held: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
        """Of what jobs hold in Redis: the jobs that have no row."""
        parameters = {"ids": id_array(job for _, job in held)}
        return {job for (job,) in await self._database.run(what, self._sql.rowless, parameters)}
