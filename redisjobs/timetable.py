"""What an operator asks about schedules and does to them, over one connection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from redisjobs.base import statements
from redisjobs.base.asking import Asking
from redisjobs.schedules import Schedule, check_name, statement_of
from redisjobs.timing import CatchUp, Overlap, Timing

_NAMES = ("create", "pause", "unschedule", "trigger")
statements.load("schedules").require(*_NAMES)
statements.load("timetable").require("list")

OVERDUE = timedelta(seconds=30)
"""By so much a schedule may be late before somebody should look for a scheduler."""


@dataclass(frozen=True, slots=True)
class Line:
    """A schedule in Postgres; `now` is when it was looked at, by the clock of Postgres.

    Args:
        stale: no scheduler has looked at it since it changed.
        trouble: why no scheduler can dispatch it.
        passed_over: the latest occurrence that was due and not dispatched, and why.
    """

    name: str
    job: str
    queue: str
    cron: str | None
    every_s: float | None
    zone: str
    starts_at: datetime | None
    ends_at: datetime | None
    jitter_s: float
    catch_up: CatchUp
    max_catch_up: int
    grace_s: float | None
    overlap: Overlap
    enabled: bool
    declared_by: str | None
    tenant_id: str | None
    created_at: datetime
    watermark: datetime
    next_run: datetime | None
    stale: bool
    trouble: str | None
    dispatches: int
    last_dispatch: datetime | None
    last_occurrence: datetime | None
    last_job: UUID | None
    passed_over: dict[str, Any] | None
    now: datetime

    def timing(self) -> Timing:
        """When it is due.

        Raises:
            OptionError: nobody can read it.
        """
        return Timing(
            self.cron, self.every_s, self.zone, self.starts_at, self.ends_at, self.jitter_s, self.catch_up,
            self.max_catch_up, self.grace_s, self.overlap,
        )  # fmt: skip

    @property
    def is_overdue(self) -> bool:
        """It should have been dealt with by now: no scheduler runs, or none gets there."""
        if not self.enabled:
            return False
        since = self.watermark if self.stale else self.next_run
        return since is not None and self.now - since > OVERDUE


class Timetable(Asking):
    """The schedules of a database; every call is a transaction of its own.

    Its role needs what `redisjobs.grant_operator` gives.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._schema = schema
        self._sql = statements.load("schedules", schema).require(*_NAMES)
        self._list = statements.load("timetable", schema)["list"]
        super().__init__(url)

    def lines(self) -> list[Line]:
        """Every schedule, by name."""
        return self._lines(None)

    def line(self, name: str) -> Line | None:
        """One schedule; None: there is none of this name."""
        return next(iter(self._lines(check_name(name))), None)

    def create(self, schedule: Schedule) -> bool:
        """Make a schedule, or change the one of its name; answers whether that changed anything."""
        return bool(self._one("create a schedule", *statement_of(schedule, None, self._schema)))

    def pause(self, name: str, *, paused: bool = True) -> bool:
        """Stop it, or go on from now; answers whether there is such a schedule."""
        return bool(self._one("pause a schedule", self._sql.pause, {"name": check_name(name), "pause": paused}))

    def delete(self, name: str) -> bool:
        """Take it away; answers whether there was such a schedule."""
        return bool(self._one("delete a schedule", self._sql.unschedule, {"name": check_name(name)}))

    def trigger(self, name: str) -> UUID | None:
        """Ask for its job once, now; the job's id, None: there is no such schedule."""
        found: UUID | None = self._one("trigger a schedule", self._sql.trigger, {"name": check_name(name)})
        return found

    def _lines(self, name: str | None) -> list[Line]:
        return self._all("look at schedules", Line, self._list, {"name": name})
