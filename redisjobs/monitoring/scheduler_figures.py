"""What a scheduler tells: how much it dispatched, how late, and what it could not."""

from __future__ import annotations

from collections.abc import Iterator

from redisjobs.monitoring.family import Family
from redisjobs.scheduler import Scheduler

_COUNTERS = {
    "redisjobs_schedule_dispatched": "Jobs that were asked for, for an occurrence each.",
    "redisjobs_schedule_caught_up": "Those for more than one occurrence, or late by more than a period.",
    "redisjobs_schedule_passed_over": "Times that nothing was dispatched: too late, or its last job lives.",
    "redisjobs_schedule_refused": "Schedules that could not be read or staged.",
    "redisjobs_schedule_lost": "Times that another scheduler had dispatched first.",
}


def of_scheduler(scheduler: Scheduler) -> Iterator[Family]:
    """Its metrics now; any thread may ask."""
    for name, text in _COUNTERS.items():
        count = getattr(scheduler, name.removeprefix("redisjobs_schedule_"))
        yield Family(name, "counter", text, (), [((), count)])
    text = "How late the last dispatch was for its occurrence, by the clock of Postgres."
    yield Family.one("redisjobs_schedule_lateness_seconds", text, scheduler.lateness_s)
    yield Family.one("redisjobs_scheduler_listens", "1 while changes are heard of at once.", scheduler.ear.hears)
