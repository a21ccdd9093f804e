"""How schedules are told: their occurrences, their state, and what becomes of what comes late."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from redisjobs.cli import render
from redisjobs.forecast import Forecast
from redisjobs.timetable import Line
from redisjobs.timing import Timing

_CATCH_UP = {
    "skip": "after an outage the latest missed occurrence is dispatched (catch_up=skip)",
    "run_once": "after an outage one job stands for all that was missed (catch_up=run_once)",
    "run_all": "after an outage each missed occurrence is dispatched, {most} in a round (catch_up=run_all)",
}


def show(ahead: list[Forecast], zone: str) -> None:
    """Print occurrences, in the zone and in UTC."""
    if not ahead:
        click.echo("none")
        return
    render.table(
        [f"local ({zone})", "UTC", "starts from (UTC)", "clocks"],
        ([f"{each.local:%a %Y-%m-%d %H:%M:%S %z}", utc(each.at),
          "" if each.starts == each.at else utc(each.starts), "; ".join(each.notes)] for each in ahead),
    )  # fmt: skip


def told(each: Forecast) -> dict[str, Any]:
    """An occurrence for machines."""
    return {"local": each.local, "utc": each.at, "starts_from": each.starts, "notes": list(each.notes)}


def when(line: Line) -> str:
    """The expression, or the interval."""
    return line.cron if line.cron is not None else f"every {render.age(line.every_s)}"


def utc(moment: datetime | None) -> str | None:
    """A moment in UTC."""
    return None if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def state(line: Line) -> str:
    """What somebody should know of it; empty: nothing."""
    if line.trouble is not None:
        return f"REFUSED: {line.trouble}"
    if not line.enabled:
        return "PAUSED"
    if line.is_overdue:
        return "OVERDUE"
    return "ended" if line.next_run is None and not line.stale else ""


def document(line: Line) -> dict[str, Any]:
    """A schedule for machines."""
    fields = ("name", "job", "queue", "cron", "every_s", "zone", "starts_at", "ends_at", "jitter_s", "catch_up",
              "max_catch_up", "grace_s", "overlap", "enabled", "declared_by", "tenant_id", "created_at", "watermark",
              "next_run", "trouble", "dispatches", "last_dispatch", "last_occurrence", "last_job",
              "passed_over")  # fmt: skip
    return {field: getattr(line, field) for field in fields} | {"overdue": line.is_overdue}


def sentences(line: Line, timing: Timing) -> list[str]:
    """What the schedule does, and what becomes of what comes late."""
    head = (
        f"schedule {line.name} asks for job {line.job} on queue {line.queue}, {when(line)} on the clocks of {line.zone}"
    )
    said = [head]
    if line.trouble is not None:
        said.append(f"no scheduler can dispatch it: {line.trouble}")
    if not line.enabled:
        said.append("it is paused: nothing is dispatched until `redisjobs schedules resume`")
    said.append(_CATCH_UP[timing.catch_up].format(most=line.max_catch_up))
    if timing.grace_s is not None:
        said.append(f"what is late by more than {render.age(timing.grace_s)} is passed over (misfire_grace)")
    if timing.overlap != "allow":
        done = "the occurrence is passed over" if timing.overlap == "skip" else "that job is cancelled"
        said.append(f"while the last job has not ended, {done} (overlap={timing.overlap})")
    if timing.jitter_s:
        said.append(f"a job starts up to {render.age(timing.jitter_s)} after its occurrence (jitter)")
    if line.passed_over is not None:
        said.append(f"passed over last: {line.passed_over['occurrence']}, because of {line.passed_over['why']}")
    return said
