"""Carries committed rows to Redis: publish first, mark second; a repeat collapses by the job's id."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.envelope import Envelope
from redisjobs.base.postgres import Database, array, fetch
from redisjobs.broker import Carrier, Publication, Stale, band_of
from redisjobs.errors import StoreRefused, StoreUnavailable
from redisjobs.floor import Snapshot
from redisjobs.leases import Hold
from redisjobs.logs import event

_NAMES = (
    "batch", "snapshot", "mark", "is_held", "defer", "come_due", "deduplicate", "cancels", "end_cancelled", "failing",
)  # fmt: skip
statements.load("publisher").require(*_NAMES)

log = logging.getLogger("redisjobs.publisher")

CANCELS_AT_ONCE = 500


class StagedRow(NamedTuple):
    """A row of the outbox on its way to Redis. Moments are µs since 1970, distances ms from now by Postgres' clock."""

    id: bytes
    seq: int
    job: str
    input: str | None
    payload: bytes | None
    codec: str | None
    idempotency_key: str | None
    key_window: float | None
    priority: int
    max_attempts: int | None
    run_at: int | None
    expires_at: int | None
    run_in: int | None
    expires_in: int | None
    tenant_id: str | None
    traceparent: str | None
    enqueued_by: str | None
    headers: str | None
    staged_at: int
    attempts: int
    publications: int
    redrives: int
    cancel_requested: bool

    def publication(self) -> Publication:
        """The row as Redis gets it; its arguments go along as they are, never decoded."""
        envelope = Envelope(
            job=self.job,
            codec=self.codec or "json",
            payload=self.payload if self.payload is not None else (self.input or "").encode(),
            idempotency_key=self.idempotency_key,
            priority=self.priority,
            max_attempts=self.max_attempts,
            run_at=self.run_at,
            expires_at=self.expires_at,
            tenant_id=self.tenant_id,
            traceparent=self.traceparent,
            enqueued_by=self.enqueued_by,
            headers=self.headers,
            staged_at=self.staged_at,
            key_window=self.key_window,
        )
        return Publication(
            self.id,
            envelope.pack(),
            band=band_of(self.priority),
            life=self.redrives,
            number=self.publications + 1,
            delay_ms=max(0, self.run_in or 0),
            expire_ms=self.expires_in,
            key=(self.idempotency_key or "").encode(),
            window_ms=int((self.key_window or 0) * 1000),
            attempts=self.attempts,
        )


class Publisher:
    """Publishes the rows of queues that this relay holds.

    Args:
        batch_size: rows at most in a pass.
        horizon: seconds; rows due later wait in Postgres, unless a key of theirs must be held.
        retention: seconds for which a duplicate is remembered.
    """

    def __init__(
        self,
        database: Database,
        carrier: Carrier,
        *,
        batch_size: int = 500,
        horizon: float = 3600.0,
        retention: float = 3600.0,
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._database = database
        self._carrier = carrier
        self._batch_size = batch_size
        self._horizon = horizon
        self._retention = retention
        self._clock = clock
        self._sql = statements.load("publisher", schema).require(*_NAMES)
        self._failing: dict[str, str] = {}

    async def publish(self, hold: Hold) -> int:
        """One pass over a queue, under its turn; answers how many rows it took in hand.

        Raises:
            Stale, OtherLife: the hold must be dropped, or the queue recovered.
            StoreUnavailable: a store is away; rows not marked are published again, which changes nothing.
        """
        rows, snapshot = await self._read(hold)
        later = [row for row in rows if self._waits_here(row)]
        ended = [row for row in rows if row.cancel_requested]
        now = [row for row in rows if not row.cancel_requested and not self._waits_here(row)]
        if later:
            await self._change(hold, "defer rows", self._sql.defer, ids=_hex(row.id for row in later))
        if ended:
            await self._end_cancelled(hold, [(row.id, row.redrives) for row in ended])
        done = await self._publish(hold, now)
        complete = done == len(now)
        last = rows[-1].seq if complete and rows else now[done - 1].seq if done else None
        hold.floor.passed(last, complete and len(rows) < self._batch_size, snapshot, self._clock.monotonic())
        return len(rows) if complete else done

    async def come_due(self, hold: Hold) -> int:
        """Rows that waited in Postgres and are within the horizon now join the line."""
        return await self._database.change(
            "stage deferred rows",
            self._sql.come_due,
            {"queue": hold.queue, "horizon": self._horizon, "limit": self._batch_size},
        )

    async def cancel(self, hold: Hold) -> int:
        """Ends jobs whose cancel was asked for: in Redis where it knows them, else here."""
        rows = await self._database.run(
            "look for cancels", self._sql.cancels, {"queue": hold.queue, "limit": CANCELS_AT_ONCE}
        )
        return await self._end_cancelled(hold, rows) if rows else 0

    def _waits_here(self, row: StagedRow) -> bool:
        far = row.run_in is not None and row.run_in > self._horizon * 1000
        return far and row.idempotency_key is None and not row.cancel_requested

    async def _read(self, hold: Hold) -> tuple[list[StagedRow], Snapshot]:
        while True:
            async with self._database.transaction("read staged rows", snapshot=True) as connection:
                seen = Snapshot.read((await fetch(connection, self._sql.snapshot))[0][0])
                if hold.floor.must_read_again(seen):
                    continue
                parameters = {"queue": hold.queue, "floor": hold.floor.seq, "limit": self._batch_size}
                rows = await fetch(connection, self._sql.batch, parameters)
            return [StagedRow._make(row) for row in rows], seen

    async def _publish(self, hold: Hold, rows: Sequence[StagedRow]) -> int:
        """Publish and mark; answers how many rows from the front are done."""
        if not rows:
            return 0
        made: list[Publication] = []
        for row in rows:
            try:
                made.append(row.publication())
            except Exception as error:  # noqa: BLE001 - one row that cannot be read must not hide what it is
                await self._name_failing(hold, row, len(rows) - len(made), error)
                break
        rows = rows[: len(made)]
        if not rows:
            return 0
        try:
            words = await self._carrier.publish(hold.fence, made)
        except StoreRefused as error:
            if len(rows) == 1:
                await self._name_failing(hold, rows[0], 1, error)
                return 0
            half = len(rows) // 2
            done = await self._publish(hold, rows[:half])
            return done if done < half else done + await self._publish(hold, rows[half:])
        except StoreUnavailable:
            hold.unsure = True
            raise
        await self._mark(hold, rows, words)
        if hold.queue in self._failing:
            await self._name_failing(hold, None, 0, None)
        return len(rows)

    async def _mark(self, hold: Hold, rows: Sequence[StagedRow], words: Sequence[tuple[str, bytes | None]]) -> None:
        placed = [row for row, (word, _) in zip(rows, words, strict=True) if word != "dup"]
        duplicates = [(row, owner) for row, (_, owner) in zip(rows, words, strict=True) if owner]
        if placed:
            await self._change(
                hold,
                "mark rows",
                self._sql.mark,
                ids=_hex(row.id for row in placed),
                lives=_numbers(row.redrives for row in placed),
            )
        if duplicates:
            await self._deduplicate(hold, duplicates)

    async def _deduplicate(self, hold: Hold, duplicates: Sequence[tuple[StagedRow, bytes]]) -> None:
        """A duplicate ends; where the job that holds the key has ended itself, Redis forgets that ghost instead."""
        parameters = {
            "ids": _hex(row.id for row, _ in duplicates),
            "lives": _numbers(row.redrives for row, _ in duplicates),
            "owners": _hex(owner for _, owner in duplicates),
            "retention": self._retention,
        } | self._shown(hold)
        ended = {id for (id,) in await self._database.run("end duplicates", self._sql.deduplicate, parameters)}
        ghosts = {owner for row, owner in duplicates if row.id not in ended}
        if ghosts:
            await self._check(hold, 0)
            await self._carrier.forget(hold.fence, sorted(ghosts))

    async def _end_cancelled(self, hold: Hold, rows: Sequence[tuple[bytes, int]]) -> int:
        """Redis is asked first; only what it does not know is ended here."""
        words = await self._carrier.cancel(hold.fence, rows)
        unknown = [row for row, word in zip(rows, words, strict=True) if word == "unknown"]
        known = [row for row, word in zip(rows, words, strict=True) if word != "unknown"]
        if unknown:
            await self._database.run(
                "end cancelled rows",
                self._sql.end_cancelled,
                _pairs(unknown) | {"retention": self._retention} | self._shown(hold),
            )
        if known:  # placed in Redis although never marked: a mark that got lost
            await self._database.change("mark rows", self._sql.mark, _pairs(known) | self._shown(hold))
        return len(unknown) + words.count("ended")

    async def _change(self, hold: Hold, what: str, statement: bytes, **parameters: Any) -> None:
        changed = await self._database.change(what, statement, parameters | self._shown(hold))
        await self._check(hold, changed)

    async def _check(self, hold: Hold, changed: int) -> None:
        """A statement under the lease that changed nothing may have been refused: look."""
        if (
            changed == 0
            and not (await self._database.run("look at the lease", self._sql.is_held, self._shown(hold)))[0][0]
        ):
            raise Stale(f"queue {hold.queue}: the lease under token {hold.token} has ended")

    def _shown(self, hold: Hold) -> dict[str, Any]:
        return {"queue": hold.queue, "token": hold.token, "epoch": hold.epoch}

    async def _name_failing(self, hold: Hold, row: StagedRow | None, remaining: int, error: Exception | None) -> None:
        """Note in Postgres which row stops its queue, or that it moves again."""
        text = f"{type(error).__name__}: {error}" if error else ""
        if row is None:
            self._failing.pop(hold.queue, None)
        else:
            event(
                log, logging.ERROR, "outbox.publish_failed", queue=hold.queue, job=row.job, job_id=UUID(bytes=row.id), remaining=remaining,
                error=text, remedy=f"redisjobs outbox set-aside {UUID(bytes=row.id)} takes it out of the line",
            )  # fmt: skip
            if self._failing.get(hold.queue) == f"{row.id.hex()} {text}":
                return
            self._failing[hold.queue] = f"{row.id.hex()} {text}"
        named = (
            None if row is None else json.dumps({"id": str(UUID(bytes=row.id)), "job": row.job, "error": text[:500]})
        )
        parameters = {"queue": hold.queue, "token": hold.token, "failing": named}
        await self._database.change("name a failing row", self._sql.failing, parameters)


def _hex(ids: Iterable[bytes]) -> str:
    return array(each.hex() for each in ids)


def _numbers(numbers: Iterable[int]) -> str:
    return array(map(str, numbers))


def _pairs(rows: Sequence[tuple[bytes, int]]) -> dict[str, str]:
    return {"ids": _hex(id for id, _ in rows), "lives": _numbers(life for _, life in rows)}
