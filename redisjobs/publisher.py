"""Carries committed rows to Redis: publish first, mark second; a repeat collapses by the job's id."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from redisjobs.aftermath import Aftermath, End, Told
from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database, array, fetch, id_array, was_locked
from redisjobs.broker import Carrier, Publication, Stale
from redisjobs.errors import StoreRefused, StoreUnavailable
from redisjobs.floor import Snapshot
from redisjobs.leases import WARY_S, Hold
from redisjobs.logs import event
from redisjobs.staged import StagedRow, pieces, publications

_NAMES = (
    "batch", "mark", "is_held", "defer", "come_due", "deduplicate", "replaced", "cancels", "end_cancelled",
    "failing",
)  # fmt: skip
statements.load("publisher").require(*_NAMES)

log = logging.getLogger("redisjobs.publisher")

CANCELS_AT_ONCE = 500
CANCELLED = "it was cancelled"
SMALL_BYTES = 2_000
"""A busy queue whose rows are below this on average is read in passes twice as large."""
WALK_S = 60.0
"""Between two reads from the beginning: should a floor ever be too high, nothing stays below it for longer."""
SAY_AGAIN_S = 30.0
"""Between two log lines on one and the same failing row."""

DUPLICATE = ("dup", "kept")
"""Words for a row whose key is another job's."""

R = TypeVar("R", "Asked", StagedRow)
Admits: TypeAlias = Callable[[int], Awaitable[bool]]


class Asked(NamedTuple):
    """A row whose end was asked for: its life, the publication whose end has settled, and the next one."""

    id: bytes
    life: int
    settled: int
    number: int

    @classmethod
    def of(cls, row: StagedRow) -> Asked:
        """One that waits in line."""
        return cls(row.id, row.redrives, row.settled, row.publications + 1)


@dataclass(slots=True)
class Pass:
    """What a pass over a queue has come to.

    Args:
        wrote: it changed rows, in a transaction that began after the read.
        left: places that it read and that stay in line.
        freed: keys that were taken from a job that has ended, so that the next pass comes further.
        mark: of the piece published last, while it is under way.
    """

    wrote: bool = False
    left: list[int] = field(default_factory=list[int])
    freed: int = 0
    failing: bool = False
    mark: asyncio.Task[None] | None = None

    async def marked(self) -> None:
        """Return when everything published before is marked."""
        mark, self.mark = self.mark, None
        if mark is not None:
            await mark


async def everything(size: int) -> bool:
    """Admits without a limit."""
    return size >= 0


class Publisher:
    """Publishes the rows of queues that this relay holds.

    Args:
        batch_size: rows at most in a pass; twice as many where a queue is busy and its rows are small.
        horizon: seconds; rows due later wait in Postgres, unless a key of theirs must be held.
        retention: seconds for which a duplicate is remembered.
        admits: asked before so many bytes go to Redis.
    """

    def __init__(
        self,
        database: Database,
        carrier: Carrier,
        *,
        batch_size: int = 500,
        horizon: float = 3600.0,
        retention: float = 3600.0,
        admits: Admits = everything,
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._database = database
        self._carrier = carrier
        self._batch_size = batch_size
        self._horizon = horizon
        self._retention = retention
        self._admits = admits
        self._clock = clock
        self._aftermath = Aftermath(schema)
        self._sql = statements.load("publisher", schema).require(*_NAMES)

    async def publish(self, hold: Hold) -> int:
        """One pass over a queue, under its turn; answers how many rows it brought out of the line.

        Raises:
            Stale, OtherLife: the hold must be dropped, or the queue recovered.
            StoreUnavailable: a store is away; rows not marked are published again, which changes nothing.
        """
        limit = self._batch_size * 2 if hold.small else self._batch_size
        rows, snapshot = await self._read(hold, limit)
        done = Pass()
        later = [row for row in rows if self._waits_here(row)]
        ended = [row for row in rows if row.cancel_requested]
        if later:
            deferred = await self._defer(hold, later, done)
            done.wrote |= deferred
        if ended:
            changed, _ = await self._end_cancelled(hold, [Asked.of(row) for row in ended])
            wrote = await self._checked(hold, changed)
            done.wrote |= wrote
        await self._publish(hold, [row for row in rows if not row.cancel_requested and not self._waits_here(row)], done)
        if hold.failing and not done.failing:
            await self._note(hold, None)
            hold.failing = ""
        first_left = min(done.left, default=None)
        passed = [row.seq for row in rows if first_left is None or row.seq < first_left]
        hold.floor.passed(
            passed[-1] if passed and done.wrote else None,
            through=first_left is None and len(rows) < limit,
            snapshot=snapshot,
            now=self._clock.monotonic(),
        )
        return len(rows) - len(done.left) + done.freed

    async def come_due(self, hold: Hold) -> int:
        """Deferred rows that are within the horizon now join the line, and suspended runs whose time has come."""
        given = {"queue": hold.queue, "horizon": self._horizon, "limit": self._batch_size}
        return int((await self._database.run("stage what is due", self._sql.come_due, given))[0][0])

    async def cancel(self, hold: Hold) -> int:
        """Ends jobs whose cancel was asked for: in Redis where it knows them, else here. Answers how many ended."""
        rows = await self._database.run(
            "look for cancels", self._sql.cancels, {"queue": hold.queue, "limit": CANCELS_AT_ONCE}
        )
        return (await self._end_cancelled(hold, [Asked._make(row) for row in rows]))[1] if rows else 0

    async def _defer(self, hold: Hold, later: Sequence[StagedRow], done: Pass) -> bool:
        async def defer(rows: Sequence[StagedRow]) -> bool:
            return await self._change(hold, "defer rows", self._sql.defer, ids=id_array(row.id for row in rows))

        deferred, held = await self._unless_held(hold, later, defer)
        done.left += [row.seq for row in held]
        return bool(deferred)

    def _waits_here(self, row: StagedRow) -> bool:
        far = row.run_in is not None and row.run_in > self._horizon * 1000
        is_held = row.settled > 0  # the key of a run stays held while it is suspended
        return far and (row.idempotency_key is None or is_held) and not row.cancel_requested

    async def _read(self, hold: Hold, limit: int) -> tuple[list[StagedRow], Snapshot]:
        now, must_find = self._clock.monotonic(), hold.must_find
        hold.must_find = False
        if now >= hold.floor.walk_at:
            hold.floor.reset()
            hold.floor.walk_at = now + WALK_S
        while True:
            parameters = {"queue": hold.queue, "floor": hold.floor.seq, "limit": limit}
            read = await self._database.alone("read staged rows", self._sql.batch, parameters)
            seen = Snapshot.read(read[0][0])
            if hold.floor.must_read_again(seen):
                continue
            rows = [StagedRow._make(row[1:]) for row in read if row[1] is not None]
            if must_find and not rows and hold.floor.seq:
                hold.floor.reset()
                continue
            return rows, seen

    async def _publish(self, hold: Hold, rows: Sequence[StagedRow], done: Pass) -> None:
        """Publish and mark from the front, up to the first row that fails or finds no room."""
        made, unreadable = publications(rows, hold.share_by)
        hold.small = len(made) >= self._batch_size and sum(len(each.envelope) for each in made) < SMALL_BYTES * len(
            made
        )
        sent, error = 0, None
        try:
            for piece, size in pieces(made):
                if not await self._admits(size):
                    break
                went, error = await self._send(hold, rows[sent : sent + len(piece)], piece, done)
                sent += went
                if error:
                    break
        finally:
            await done.marked()
        if sent == len(made):
            error = unreadable
        done.left += [row.seq for row in rows[sent:]]
        if error:
            done.failing = True
            await self._name_failing(hold, rows[sent], sent, len(rows) - sent, error)

    async def _send(
        self, hold: Hold, rows: Sequence[StagedRow], made: Sequence[Publication], done: Pass
    ) -> tuple[int, Exception | None]:
        """Publish one piece and begin to mark it; where Redis refuses it, find the row that it refuses."""
        try:
            words = await self._carrier.publish(hold.fence, made)
        except StoreRefused as error:
            if len(rows) == 1:
                return 0, error
            half = len(rows) // 2
            went, refused = await self._send(hold, rows[:half], made[:half], done)
            if refused:
                return went, refused
            went, refused = await self._send(hold, rows[half:], made[half:], done)
            return half + went, refused
        await done.marked()
        done.mark = asyncio.create_task(self._mark(hold, rows, words, done), name=f"mark rows of {hold.queue}")
        return len(rows), None

    async def _mark(
        self, hold: Hold, rows: Sequence[StagedRow], words: Sequence[tuple[str, bytes | None]], done: Pass
    ) -> None:
        placed = [row for row, (word, _) in zip(rows, words, strict=True) if word not in DUPLICATE]
        duplicates = [
            (row, owner) for row, (word, owner) in zip(rows, words, strict=True) if owner and word in DUPLICATE
        ]
        replaced = [owner for word, owner in words if owner and word == "replaces"]
        if replaced:  # before the mark: until that, a publish that is repeated tells it again
            await self._database.change(
                "cancel what was replaced", self._sql.replaced, {"ids": id_array(replaced)} | self._shown(hold)
            )
        if placed:
            marked = await self._mark_placed(hold, placed, done)
            done.wrote |= marked
        if duplicates:
            kept = {owner for word, owner in words if owner and word == "kept"}
            await self._deduplicate(hold, duplicates, done, sure=kept)

    async def _mark_placed(self, hold: Hold, placed: Sequence[StagedRow], done: Pass) -> bool:
        """Mark rows; one that somebody holds stays in line, where it is published again, which changes nothing."""

        async def mark(rows: Sequence[StagedRow]) -> bool:
            return await self._change(
                hold,
                "mark rows",
                self._sql.mark,
                ids=id_array(row.id for row in rows),
                lives=_numbers(row.redrives for row in rows),
                numbers=_numbers(row.publications + 1 for row in rows),
            )

        marked, held = await self._unless_held(hold, placed, mark)
        done.left += [row.seq for row in held]
        return bool(marked)

    async def _deduplicate(
        self, hold: Hold, duplicates: Sequence[tuple[StagedRow, bytes]], done: Pass, sure: Iterable[bytes] = ()
    ) -> None:
        """A duplicate ends; where the job that holds the key has ended itself, Redis forgets that ghost instead.

        Args:
            sure: who holds a key whatever Postgres knows: in an open window, or a live job that never had a row.
        """
        parameters = {
            "ids": id_array(row.id for row, _ in duplicates),
            "lives": _numbers(row.redrives for row, _ in duplicates),
            "owners": id_array(owner for _, owner in duplicates),
            "sure": id_array(sure),
            "retention": self._retention,
        } | self._shown(hold)
        async with self._database.transaction("end duplicates") as connection:
            gone_rows = await fetch(connection, self._sql.deduplicate, parameters)
            ends = [End._make(row[:5]) for row in gone_rows]
            told = {
                row.id: Told(message=f"job {UUID(bytes=owner)} holds its idempotency key") for row, owner in duplicates
            }
            await self._aftermath.follow(connection, ends, told)
        ended = {end.id for end in ends}
        done.wrote |= bool(ended)
        owners = {row.id: owner for row, owner in duplicates}
        await self._carrier.tell_duplicates(
            hold.queue, [(row[0], owners[row[0]], row[5]) for row in gone_rows if row[5]]
        )
        waiting = [each for each in duplicates if each[0].id not in ended]
        if not waiting:
            return
        await self._checked(hold, 0)
        ghosts = {owner for _, owner in waiting}.difference(sure)
        gone, live = await self._carrier.clear_owners(hold.fence, sorted(ghosts)) if ghosts else (0, set[bytes]())
        held = [(row.idempotency_key, owner, 0) for row, owner in waiting if owner in ghosts - live]
        freed = await self._free(hold, held)
        done.freed += gone + freed
        done.left += [row.seq for row, owner in waiting if owner not in live]
        if live:  # jobs that never had a row hold their keys by themselves
            await self._deduplicate(hold, [each for each in waiting if each[1] in live], done, sure=live)

    async def _end_cancelled(self, hold: Hold, rows: Sequence[Asked]) -> tuple[int, int]:
        """Redis is asked first; only what it does not know is ended here. Answers how many rows changed, and ended."""
        words = await self._carrier.cancel(hold.fence, [(row.id, row.life, row.settled) for row in rows])
        unknown = [row for row, word in zip(rows, words, strict=True) if word == "unknown"]
        known = [row for row, word in zip(rows, words, strict=True) if word != "unknown"]
        gone = marked = 0
        if unknown:  # one that somebody holds is found by the next look at cancels
            gone, _ = await self._unless_held(hold, unknown, lambda free: self._end_here(hold, free), ends=True)
        if known:  # placed in Redis although never marked: a mark that got lost
            numbers = {"numbers": _numbers(row.number for row in known)}
            marked = await self._database.change(
                "mark rows", self._sql.mark, _pairs(known) | numbers | self._shown(hold)
            )
        return gone + marked, gone + words.count("ended")

    async def _end_here(self, hold: Hold, asked: Sequence[Asked]) -> int:
        parameters = _pairs(asked) | {"retention": self._retention} | self._shown(hold)
        async with self._database.transaction("end cancelled rows") as connection:
            rows = await fetch(connection, self._sql.end_cancelled, parameters)
            told = {row[0]: Told(message=CANCELLED) for row in rows}
            await self._aftermath.follow(connection, [End._make(row[:5]) for row in rows], told)
        # should a call get lost, the key is freed when the next job asks for it, and the audit finds the lane
        await self._free(hold, [(key, job, window) for job, *_, key, window, _ in rows if key is not None])
        lanes = [(lane.encode(), job) for job, *_, lane in rows if lane is not None]
        if lanes:
            await self._carrier.vacate(hold.fence, lanes)
        return len(rows)

    async def _free(self, hold: Hold, keys: Sequence[tuple[str | None, bytes, int]]) -> int:
        flat = [((key or "").encode(), job, window) for key, job, window in keys]
        return await self._carrier.free(hold.fence, flat) if flat else 0

    async def _unless_held(
        self, hold: Hold, rows: Sequence[R], change: Callable[[Sequence[R]], Awaitable[int]], *, ends: bool = False
    ) -> tuple[int, Sequence[R]]:
        """Change all rows but those that somebody holds; answers how many have changed, and who is held.

        A user's transaction that cancels a job, and stays open, must not hold up the others.
        """
        if self._clock.monotonic() >= hold.wary_until:
            try:
                return await change(rows), ()
            except StoreUnavailable as error:
                if not was_locked(error):
                    raise
        found = await self._aftermath.held(self._database, (row.id for row in rows), ends=ends)
        held = [row for row in rows if row.id in found]
        if held:
            hold.wary_until = self._clock.monotonic() + WARY_S
        free = [row for row in rows if row.id not in found]
        return await change(free) if free else 0, held

    async def _change(self, hold: Hold, what: str, statement: bytes, **parameters: Any) -> bool:
        changed = await self._database.change(what, statement, parameters | self._shown(hold))
        return await self._checked(hold, changed)

    async def _checked(self, hold: Hold, changed: int) -> bool:
        """Whether anything changed. A statement under the lease that changed nothing may have been refused: look.

        Raises:
            Stale: it was.
        """
        if changed:
            return True
        if not (await self._database.run("look at the lease", self._sql.is_held, self._shown(hold)))[0][0]:
            raise Stale(f"queue {hold.queue}: the lease under token {hold.token} has ended")
        return False

    def _shown(self, hold: Hold) -> dict[str, Any]:
        return {"queue": hold.queue, "token": hold.token, "epoch": hold.epoch}

    async def _name_failing(self, hold: Hold, row: StagedRow, published: int, remaining: int, error: Exception) -> None:
        """Say which row stops its queue, and note it in Postgres."""
        text = f"{type(error).__name__}: {error}"
        now, what = self._clock.monotonic(), f"{row.id.hex()} {text}"
        if hold.failing == what and now - hold.said_at < SAY_AGAIN_S:
            return
        job_id = UUID(bytes=row.id)
        remedy = f"redisjobs outbox set-aside {job_id} takes it out of the line"
        event(log, logging.ERROR, "outbox.publish_failed", queue=hold.queue, job=row.job, job_id=job_id,
              published=published, remaining=remaining, error=text, remedy=remedy)  # fmt: skip
        hold.failing, hold.said_at = what, now
        await self._note(hold, json.dumps({"id": str(job_id), "job": row.job, "error": text[:500].replace("\0", "")}))

    async def _note(self, hold: Hold, failing: str | None) -> None:
        parameters = {"queue": hold.queue, "token": hold.token, "failing": failing}
        await self._database.change("name a failing row", self._sql.failing, parameters)


def _numbers(numbers: Iterable[int]) -> str:
    return array(map(str, numbers))


def _pairs(rows: Sequence[Asked]) -> dict[str, str]:
    return {"ids": id_array(row.id for row in rows), "lives": _numbers(row.life for row in rows)}
