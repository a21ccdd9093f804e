"""When a schedule is due and what becomes of an occurrence that comes late: checked where it is declared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, cast, get_args

from redisjobs.base.durations import Duration, optional, positive, seconds, whole
from redisjobs.base.zones import find_zone
from redisjobs.call import check_moment
from redisjobs.cron import LONGEST_INTERVAL_S, Cadence, cron, every
from redisjobs.errors import OptionError

CatchUp: TypeAlias = Literal["skip", "run_once", "run_all"]
Overlap: TypeAlias = Literal["allow", "skip", "cancel"]
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Timing:
    """When, and what if late. Durations are seconds or timedeltas; after the checks they are seconds.

    Args:
        cron: five fields (minute, hour, day of month, month, day of week), or six with the second in front.
        every: an even interval instead, 1 s to 366 days, counted from `starts_at`, else from 1970 in UTC.
        zone: whose clocks a cron expression means, of the IANA database.
        starts_at: nothing is due before it.
        ends_at: nothing is due after it.
        jitter: a dispatched job starts up to so much later, the same for the same occurrence; at most a day.
        catch_up: what is dispatched after an outage. `skip`: the latest missed occurrence. `run_once`: one job that
            stands for all of them. `run_all`: each of them, the oldest first.
        max_catch_up: with `run_all`, at most so many in one round.
        misfire_grace: an occurrence that is late by more than this is passed over; None: none is.
        overlap: while the last job still lives. `allow`: the next one is dispatched beside it. `skip`: the occurrence
            is passed over. `cancel`: the last job is cancelled.

    Raises:
        OptionError: an option out of its range, an expression that cannot be read or is never due, no such zone.
    """

    cron: str | None = None
    every: Duration | None = None
    zone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    jitter: Duration = 0.0
    catch_up: CatchUp = "skip"
    max_catch_up: int = 10
    misfire_grace: Duration | None = None
    overlap: Overlap = "allow"

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every is None):
            why = "goes with every=…, and a schedule has one of them" if self.cron is not None else "is not there"
            raise OptionError("cron", self.cron, f"{why}: pass cron=… or every=…")
        for name, moment in (("starts_at", self.starts_at), ("ends_at", self.ends_at)):
            if moment is not None:
                check_moment(name, moment)
        if self.starts_at is not None and self.ends_at is not None and self.ends_at < self.starts_at:
            raise OptionError(
                "ends_at", self.ends_at, f"lies before starts_at ({self.starts_at}): nothing would be due"
            )
        if self.every is not None:
            self._put("every", positive("every", self.every, most=LONGEST_INTERVAL_S))
        find_zone(self.zone)
        self.cadence()
        self._put("jitter", seconds("jitter", self.jitter, most=DAY_S))
        whole("max_catch_up", self.max_catch_up, most=1000)
        self._check_policies()

    def _check_policies(self) -> None:
        for name, value, known in (
            ("catch_up", self.catch_up, get_args(CatchUp)),
            ("overlap", self.overlap, get_args(Overlap)),
        ):
            if value not in known:
                raise OptionError(name, value, f"is unknown: pass one of {', '.join(known)}")
        grace = optional("misfire_grace", self.misfire_grace, most=LONGEST_INTERVAL_S)
        if grace is not None and grace < 1:
            raise OptionError(
                "misfire_grace", self.misfire_grace, "would pass over what is a moment late: pass 1 s or more"
            )
        self._put("misfire_grace", grace)
        if self.catch_up == "run_all" and self.overlap != "allow":
            why = "would pass over or cancel what catch_up='run_all' dispatches: leave one of them at its default"
            raise OptionError("overlap", self.overlap, why)

    def _put(self, option: str, value: object) -> None:
        object.__setattr__(self, option, value)

    def cadence(self) -> Cadence:
        """The row of instants, its beginning and its end apart."""
        if self.cron is not None:
            return cron(self.cron, self.zone)
        return every(cast(float, self.every), self.starts_at)

    @property
    def jitter_s(self) -> float:
        """The jitter in seconds."""
        return cast(float, self.jitter)

    @property
    def grace_s(self) -> float | None:
        """The misfire grace in seconds."""
        return cast("float | None", self.misfire_grace)

    @property
    def every_s(self) -> float | None:
        """The interval in seconds."""
        return cast("float | None", self.every)
