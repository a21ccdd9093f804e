"""What a schedule is going to do, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from redisjobs.base.durations import age, many
from redisjobs.base.zones import change_within, find_zone, is_ambiguous
from redisjobs.cron import Cron
from redisjobs.due import Plan, delay_of, next_run, plan
from redisjobs.timing import Timing


@dataclass(frozen=True, slots=True)
class Forecast:
    """An occurrence that lies ahead.

    Args:
        starts: when the job may start, which `jitter` puts off.
        notes: what the clocks of the zone do to it.
    """

    at: datetime
    local: datetime
    starts: datetime
    notes: tuple[str, ...]


def forecast(name: str, timing: Timing, after: datetime, until: datetime) -> Iterator[Forecast]:
    """The occurrences in (after, until], each with what the clocks do to it."""
    before, moment = after, next_run(timing, after)
    while moment is not None and moment <= until:
        starts = moment + timedelta(seconds=delay_of(name, timing, moment))
        notes = tuple(_notes(timing, before, moment))
        yield Forecast(moment, moment.astimezone(find_zone(timing.zone)), starts, notes)
        before, moment = moment, next_run(timing, moment)


def _notes(timing: Timing, before: datetime, at: datetime) -> Iterator[str]:
    if timing.cron is None:
        return
    zone, cadence = find_zone(timing.zone), timing.cadence()
    local = at.astimezone(zone)
    change = change_within(zone, before, at)
    if change is not None:
        instant, what = change
        there = instant.astimezone(zone)
        yield f"the clocks {'went forward' if what == 'skipped' else 'went back'}, to {there:%H:%M} on {there:%d %B}"
        if isinstance(cadence, Cron) and instant == at and not cadence.names(local.replace(tzinfo=None)):
            yield "its time is skipped that day: due right after the skip"
    if is_ambiguous(zone, local.replace(tzinfo=None)):
        follows = isinstance(cadence, Cron) and cadence.follows_clocks
        passing = "second" if local.fold else "first"
        yield f"this time comes twice: {passing} passing" + ("" if follows else ", the second is left out")


def after_outage(name: str, timing: Timing, since: datetime, until: datetime) -> list[str]:
    """What a scheduler would do at `until` if none had looked since `since`, a line for each round."""
    lines: list[str] = []
    watermark = since
    while len(lines) < 20:
        decided = plan(name, timing, watermark, until)
        if decided.watermark == watermark:
            break
        lines.append(_line(decided, timing))
        watermark = decided.watermark
    return lines or ["nothing: it was not due"]


def _line(decided: Plan, timing: Timing) -> str:
    if decided.passed_over is not None:
        at, _ = decided.passed_over
        return (
            f"nothing: {_shown(at, timing)} and all before it are later than misfire_grace={age(timing.grace_s or 0)}"
        )
    first, last = decided.dispatches[0], decided.dispatches[-1]
    late = ", marked catch_up" if any(each.catch_up for each in decided.dispatches) else ""
    if timing.catch_up == "run_once":
        return f"one job for {_shown(first.first or first.at, timing)} to {_shown(last.at, timing)}{late}"
    if timing.catch_up == "run_all":
        jobs = many(len(decided.dispatches), "job")
        return f"{jobs}, {_shown(first.at, timing)} to {_shown(last.at, timing)}, the oldest first{late}"
    return f"one job, for {_shown(last.at, timing)}, the latest; what came before it is left out{late}"


def _shown(at: datetime, timing: Timing) -> str:
    return f"{at.astimezone(find_zone(timing.zone)):%Y-%m-%d %H:%M:%S %Z}"
