"""What a place tells of a job, and the words that all places use."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from redisjobs.base.durations import age
from redisjobs.base.ids import made_at
from redisjobs.explain.facts import Facts
from redisjobs.explain.obstacles import expires_in_s
from redisjobs.explain.reason import Reason

BANDS = ("high", "normal", "low")


@dataclass(frozen=True, slots=True)
class Story:
    """Where a job is and what happens next, in sentences; with reasons and commands that only this place knows."""

    where: str
    next: str
    commands: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    reasons: list[Reason] = field(default_factory=list[Reason])


def moment(at: datetime | None) -> str:
    """A time as it is written: in UTC, so that it compares with logs."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "an unknown time"


def due(in_s: float | None) -> str:
    """When something is due, from its distance."""
    if in_s is None:
        return "at an unknown time"
    if in_s <= 0:
        return "now"
    return f"in {age(in_s)}, at {moment(datetime.now(UTC) + timedelta(seconds=in_s))}"


def attempt(facts: Facts, *, running: bool = False) -> str:
    """Which attempt comes next, or runs: counted ones alone have numbers."""
    number = facts.attempts + 1
    limit = facts.max_attempts
    of = f" of {limit}" if limit else ""
    return f"{'its' if running else ''} attempt {number}{of}".strip()


def unless_expired(facts: Facts) -> str:
    """What an expiry adds to what happens next."""
    left_s = expires_in_s(facts)
    return f", unless that is later than its expiry ({due(left_s)})" if left_s is not None and left_s > 0 else ""


def band(facts: Facts) -> str:
    """The band that it waits in, where that is not the normal one."""
    number = facts.trace.band if facts.trace else 1
    return f", {BANDS[number]} band," if number != 1 else ""


def times(count: int) -> str:
    """How often."""
    return "once" if count == 1 else f"{count} times"


def redriven(facts: Facts) -> list[str]:
    """What is worth knowing of a job with more than one life, each of which is staged anew."""
    count, made = facts.row.redrives if facts.row else 0, made_at(facts.id)
    since = f"; its id was made {age(max(0.0, (datetime.now(UTC) - made).total_seconds()))} ago" if made else ""
    return [f"It was a dead letter before, and redriven {times(count)}{since}."] if count else []
