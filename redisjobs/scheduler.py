"""The scheduler: asks for the jobs of schedules when they are due. Any number of them may run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from redisjobs import occurrence
from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.ids import new_id
from redisjobs.base.postgres import Connection, Database, Row, fetch
from redisjobs.base.service import Service
from redisjobs.base.zones import rules_version
from redisjobs.due import Dispatch, Plan, plan
from redisjobs.errors import ConfigurationError, StoreRefused
from redisjobs.logs import event
from redisjobs.schedules import Schedules, statement_of
from redisjobs.settings import SchedulerSettings
from redisjobs.timing import Timing
from redisjobs.wakeup import Ear

log = logging.getLogger("redisjobs.scheduler")

_NAMES = ("due", "dispatch", "cancel", "wait", "declared", "reread")
statements.load("scheduler").require(*_NAMES)

LOST_S = 0.05
"""Until the next look at rows that are due and that somebody else holds."""
CHANNEL = "redisjobs.schedules"


@dataclass(frozen=True, slots=True)
class Known:
    """A schedule as a scheduler has read it; what cannot be read is told in `trouble`."""

    name: str
    revision: int
    watermark: datetime
    headers: dict[str, Any]
    zone: str
    last_job: UUID | None
    now: datetime
    plan: Plan
    trouble: str | None = None


class Scheduler(Service):
    """Dispatches what is due. `tick` is one round over at most `batch_size` schedules.

    Each dispatch is one transaction with the watermark, which is moved by compare-and-set: of several schedulers one
    dispatches an occurrence, and the others dispatch nothing. What is due is decided by the clock of Postgres alone.

    Args:
        database: closed by the caller.
        name: unlike that of any other scheduler.
        declared: the schedules of an app, which are made as its code has them before the first round; None: of none.
        knows: the names of that app's jobs.
    """

    def __init__(
        self,
        database: Database,
        settings: SchedulerSettings | None = None,
        *,
        name: str,
        declared: Schedules | None = None,
        knows: frozenset[str] = frozenset(),
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings = settings = settings or SchedulerSettings()
        super().__init__(f"scheduler {name}", settings.every, clock)
        self.database = database
        self.ear = Ear(database, schema, lambda _: self.wake(), self.wake, call=CHANNEL, part="scheduler")
        self.dispatched = self.caught_up = self.passed_over = self.lost = self.refused = 0
        self.lateness_s = 0.0
        self._declared, self._knows = declared, knows
        self._schema = schema
        self._sql = statements.load("scheduler", schema).require(*_NAMES)
        self._began = False
        self._wait_s = 0.0

    # -- rounds
    async def _round(self) -> int:
        if not self._began:
            await self._begin()
        rows = await self.database.run("look for due schedules", self._sql.due, {"limit": self.settings.batch_size})
        known = [read(row) for row in rows]
        moved = await self._dispatch(known) if known else 0
        [[wait_s, stale]] = await self.database.run("look for the next schedule", self._sql.wait)
        self._wait_s = 0.0 if stale else self.interval if wait_s is None else wait_s
        if known and not moved:
            self._wait_s = LOST_S
        return moved

    def _pause(self, did: int) -> float:
        return max(0.0, min(self._wait_s, self.interval))

    async def _begin(self) -> None:
        """Make the declared schedules, and have those read again that were read by other rules."""
        if self._declared is not None:
            await self._declare(self._declared)
        await self.database.run("look at schedules anew", self._sql.reread, {"reader": rules_version()})
        self._began = True

    async def _declare(self, declared: Schedules) -> None:
        for schedule in declared.declared.values():
            statement, parameters = statement_of(schedule, declared.owner, self._schema)
            [[changed]] = await self.database.run(f"declare schedule {schedule.name}", statement, parameters)
            if changed:
                event(log, logging.INFO, "schedule.declared", schedule=schedule.name, job=schedule.call.job)
        for name, job in await self.database.run("look for old schedules", self._sql.declared, {"app": declared.owner}):
            if name not in declared.declared:
                await self._withdraw(name, job)

    async def _withdraw(self, name: str, job: str) -> None:
        """A schedule that the code had, and has no more: it goes, if its job shows that it was this program's."""
        if job not in self._knows:
            event(
                log, logging.WARNING, "schedule.orphaned", schedule=name, job=job,
                remedy=f"redisjobs schedules delete {name}; or give each program that declares schedules an App name",
            )  # fmt: skip
            return
        statement = statements.load("schedules", self._schema).unschedule
        await self.database.run(f"withdraw schedule {name}", statement, {"name": name})
        event(log, logging.INFO, "schedule.withdrawn", schedule=name, job=job)

    async def _open(self) -> None:
        await self.database.open()
        self._began = False
        await self.ear.start()
        event(log, logging.INFO, "scheduler.started", part=self.name)
        await super()._open()

    async def _close(self) -> None:
        await super()._close()
        await self.ear.stop()
        event(log, logging.INFO, "scheduler.stopped", part=self.name, dispatched=self.dispatched)

    # -- dispatches
    async def _dispatch(self, known: Sequence[Known]) -> int:
        """Do what was decided; what one schedule is refused for stops no other. Answers how many were moved."""
        try:
            return await self._move(known)
        except StoreRefused as error:
            if len(known) > 1:
                return sum([await self._dispatch([each]) for each in known])
            return await self._move([_refused(known[0], str(error))])

    async def _move(self, known: Sequence[Known]) -> int:
        async with self.database.transaction("dispatch schedules") as connection:
            rows = await fetch(connection, self._sql.dispatch, parameters_of(known))
            moved = {name for [name] in rows}
            await self._cancel(connection, [each for each in known if each.name in moved and each.plan.cancels])
        for each in known:
            if each.name in moved:
                self._tell(each)
        self.lost += len(known) - len(moved)
        return len(moved)

    async def _cancel(self, connection: Connection, known: Sequence[Known]) -> None:
        ids = [each.last_job for each in known if each.last_job is not None]
        if ids:
            await fetch(connection, self._sql.cancel, {"ids": ids})

    def _tell(self, known: Known) -> None:
        if known.trouble is not None:
            self.refused += 1
            event(log, logging.ERROR, "schedule.refused", schedule=known.name, error=known.trouble,
                  remedy="change it, or delete it: redisjobs schedules list")  # fmt: skip
        self.dispatched += len(known.plan.dispatches)
        for each in known.plan.dispatches:
            self.caught_up += each.catch_up
            self.lateness_s = (known.now - each.at).total_seconds()
            event(log, logging.DEBUG, "schedule.dispatched", schedule=known.name, occurrence=each.at.isoformat(),
                  catch_up=each.catch_up, count=each.count)  # fmt: skip
        if known.plan.passed_over is not None:
            self.passed_over += 1
            at, why = known.plan.passed_over
            event(log, logging.INFO, "schedule.passed_over", schedule=known.name, occurrence=at.isoformat(), why=why)

    def stats(self) -> dict[str, Any]:
        """What the scheduler does, and has done since it was made."""
        return {
            "name": self.name,
            "state": self.state,
            "dispatched": self.dispatched,
            "caught_up": self.caught_up,
            "passed_over": self.passed_over,
            "refused": self.refused,
            "listens": self.ear.hears,
        }


def read(row: Row) -> Known:
    """What is known of a schedule, from a row of the statement `due`, and what becomes of it."""
    (name, revision, cron, every, zone, starts_at, ends_at, jitter, catch_up, max_catch_up, grace, overlap, headers,
     watermark, first, last_job, running, now) = row  # fmt: skip
    watermark, trouble = watermark.astimezone(UTC), None
    try:
        timing = Timing(
            cron, every, zone, _utc(starts_at), _utc(ends_at), jitter, catch_up, max_catch_up, grace, overlap
        )
        decided = plan(name, timing, watermark, now.astimezone(UTC), first=_utc(first), running=running)
    except ConfigurationError as error:
        trouble, decided = str(error), Plan(watermark, None)
    except Exception as error:  # noqa: BLE001 - a schedule that nobody can read stops no other
        trouble, decided = f"{type(error).__name__}: {error}", Plan(watermark, None)
    given = cast("dict[str, Any]", json.loads(headers)) if headers else {}
    return Known(name, revision, watermark, given, zone, last_job, now, decided, trouble)


def parameters_of(known: Sequence[Known]) -> Mapping[str, Any]:
    """The parameters of the statement `dispatch`: a column each of the schedules, and of their dispatches."""
    calls = [(each, dispatch) for each in known for dispatch in each.plan.dispatches]
    ids = [new_id() for _ in calls]
    last = {each.name: (dispatch.at, job_id) for (each, dispatch), job_id in zip(calls, ids, strict=True)}
    nothing = (None, None)
    return {
        "reader": rules_version(),
        "name": [each.name for each in known],
        "revision": [each.revision for each in known],
        "old": [each.watermark for each in known],
        "watermark": [each.plan.watermark for each in known],
        "next_run": [each.plan.next_run for each in known],
        "trouble": [each.trouble and each.trouble[:1000].replace("\0", "") for each in known],
        "passed_over": [_passed_over(each.plan) for each in known],
        "number": [len(each.plan.dispatches) for each in known],
        "last_at": [last.get(each.name, nothing)[0] for each in known],
        "last_id": [last.get(each.name, nothing)[1] for each in known],
        "of": [each.name for each, _ in calls],
        "id": ids,
        "key": [key_of(each.name, dispatch.at) for each, dispatch in calls],
        "occurrence": [dispatch.at for _, dispatch in calls],
        "delay": [dispatch.delay for _, dispatch in calls],
        "headers": [_headers(each, dispatch) for each, dispatch in calls],
    }


def key_of(name: str, at: datetime) -> str:
    """The idempotency key of an occurrence."""
    return f"schedule {name} {at.isoformat()}"


def _headers(known: Known, dispatch: Dispatch) -> str:
    mark = occurrence.written(
        known.name, known.zone, dispatch.at, catch_up=dispatch.catch_up, first=dispatch.first, count=dispatch.count
    )
    return json.dumps(known.headers | {occurrence.HEADER: mark})


def _passed_over(decided: Plan) -> str | None:
    if decided.passed_over is None:
        return None
    at, why = decided.passed_over
    return json.dumps({"occurrence": at.isoformat(), "why": why})


def _refused(known: Known, trouble: str) -> Known:
    return replace(known, last_job=None, plan=Plan(known.watermark, None), trouble=trouble)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
