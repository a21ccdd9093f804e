"""The statements of schedules and schedulers: what is due, and the watermarks that are moved with what is staged."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from redisjobs.base.ids import new_id
from redisjobs.errors import EnqueueError
from redisjobs.occurrence import HEADER
from redisjobs.testing.outbox.checks import check
from redisjobs.testing.outbox.parameters import Parameters, Rows, Statement
from redisjobs.testing.outbox.tables import Row, ScheduleRow, Tables

_STARTS_ANEW = ("cron", "every", "zone")
"""What a schedule is due by: where it changes, nothing is dispatched for the past."""


def due(tables: Tables, given: Parameters) -> Rows:
    """Schedules whose time has come, and those that no scheduler has looked at."""
    now = tables.now()
    enabled = [each for each in tables.schedules.values() if each.enabled]
    come = [each for each in enabled if not each.stale and each.next_run is not None and each.next_run <= now]
    come.sort(key=lambda each: each.next_run or now)
    stale = sorted((each for each in enabled if each.stale), key=lambda each: each.name)
    return [_as_due(tables, each, now) for each in [*come, *stale][: given["limit"]]]


def _as_due(tables: Tables, row: ScheduleRow, now: datetime) -> tuple[Any, ...]:
    running = row.overlap != "allow" and row.last_job in tables.outbox
    return (
        row.name, row.revision, row.cron, row.every, row.zone, row.starts_at, row.ends_at, row.jitter, row.catch_up,
        row.max_catch_up, row.misfire_grace, row.overlap, row.headers, row.watermark,
        None if row.stale else row.next_run, row.last_job, running, now,
    )  # fmt: skip


def dispatch(tables: Tables, given: Parameters) -> Rows:
    """Moves watermarks from the values that were read, and stages; answers the names that were moved."""
    moved: list[str] = []
    for place, name in enumerate(given["name"]):
        row = tables.schedules.get(name)
        if row is None or not _stands(tables, row, given, place):
            continue
        moved.append(name)
        _move(tables, row, given, place)
    for place, name in enumerate(given["of"]):
        if name in moved:
            _stage(tables, tables.schedules[name], given, place)
    return [(name,) for name in moved]


def _stands(tables: Tables, row: ScheduleRow, given: Parameters, place: int) -> bool:
    as_read = (row.revision, row.watermark) == (given["revision"][place], given["old"][place])
    reached = given["watermark"][place]
    return as_read and row.enabled and (reached <= tables.now() or reached == row.watermark)


def _move(tables: Tables, row: ScheduleRow, given: Parameters, place: int) -> None:
    number, passed_over = given["number"][place], given["passed_over"][place]
    row.watermark, row.next_run = given["watermark"][place], given["next_run"][place]
    row.stale, row.reader, row.trouble = False, given["reader"], given["trouble"][place]
    row.dispatches += number
    row.passed_over = json.loads(passed_over) if passed_over else row.passed_over
    if number:
        row.last_dispatch, row.last_occurrence = tables.now(), given["last_at"][place]
        row.last_job = given["last_id"][place]


def _stage(tables: Tables, row: ScheduleRow, given: Parameters, place: int) -> None:
    delay = given["delay"][place]
    expires = None if row.expires_in is None else tables.in_seconds(delay + row.expires_in)
    staged = replace(
        _row(tables, row, given["id"][place], given["headers"][place]),
        idempotency_key=row.idempotency_key or given["key"][place],
        run_at=tables.in_seconds(delay) if delay else None, expires_at=expires,
    )  # fmt: skip
    check(staged)
    tables.outbox[staged.id] = staged


def _row(tables: Tables, row: ScheduleRow, job_id: UUID, headers: str) -> Row:
    return Row(
        id=job_id, job=row.job, queue=row.queue, input=row.input, payload=row.payload, codec=row.codec,
        idempotency_key=row.idempotency_key, key_window=row.key_window, priority=row.priority,
        max_attempts=row.max_attempts, run_at=None, expires_at=None, tenant_id=row.tenant_id,
        traceparent=None, enqueued_by=f"schedule {row.name}"[:200],
        headers=headers, staged_at=tables.now(), xact=tables.next_xact(), seq=tables.next_seq(), lane=row.lane,
        share_key=row.share_key, key_policy=row.key_policy, key_wait=row.key_wait, key_longest=row.key_longest,
    )  # fmt: skip


def cancel(tables: Tables, given: Parameters) -> Rows:
    """The end of jobs that a newer dispatch takes the place of."""
    for job_id in given["ids"]:
        if job_id in tables.outbox:
            tables.outbox[job_id].cancel_requested = True
    return [("requested" if job_id in tables.outbox else "unknown",) for job_id in given["ids"]]


def wait(tables: Tables, given: Parameters) -> Rows:
    """Seconds until a schedule is due, and whether some must be looked at first."""
    enabled = [each for each in tables.schedules.values() if each.enabled]
    ahead = [each.next_run for each in enabled if not each.stale and each.next_run is not None]
    until = (min(ahead) - tables.now()).total_seconds() if ahead else None
    return [(until, any(each.stale for each in enabled))]


def declared(tables: Tables, given: Parameters) -> Rows:
    """What a program of this name has declared before."""
    mine = [each for each in tables.schedules.values() if each.declared_by == given["app"]]
    return [(each.name, each.job) for each in sorted(mine, key=lambda each: each.name)]


def reread(tables: Tables, given: Parameters) -> Rows:
    """Those that were read by other rules are looked at again."""
    for each in tables.schedules.values():
        each.stale = each.stale or (each.reader is not None and each.reader != given["reader"])
    return []


def create(tables: Tables, given: Parameters) -> Rows:
    """Makes a schedule, or changes the one of this name; answers whether that changed anything."""
    columns = {name: value for name, value in given.items() if name not in ("enabled", "declared_by")}
    if columns["input"] is None and columns["payload"] is None:
        columns["input"] = "{}"
    known = tables.schedules.get(given["name"])
    if known is None:
        on = given["enabled"] is not False
        tables.schedules[given["name"]] = ScheduleRow(
            **columns, enabled=on, declared_by=given["declared_by"], watermark=tables.now()
        )
        return [(True,)]
    if known.declared_by != given["declared_by"]:
        raise EnqueueError(f"schedule {known.name}: it is another program's: give one of them another name")
    on = known.enabled if given["enabled"] is None else given["enabled"]
    changes = {name: value for name, value in (columns | {"enabled": on}).items() if getattr(known, name) != value}
    if changes:
        _change(tables, known, changes)
    return [(bool(changes),)]


def _change(tables: Tables, row: ScheduleRow, changes: dict[str, Any]) -> None:
    if any(name in changes for name in _STARTS_ANEW) or changes.get("enabled"):
        row.watermark = max(row.watermark, tables.now())
    for name, value in changes.items():
        setattr(row, name, value)
    row.revision, row.stale, row.trouble = row.revision + 1, True, None


def pause(tables: Tables, given: Parameters) -> Rows:
    """Stops a schedule, or goes on with it from now."""
    row = tables.schedules.get(given["name"])
    if row is not None and row.enabled == given["pause"]:
        _change(tables, row, {"enabled": not given["pause"]})
    return [(row is not None,)]


def unschedule(tables: Tables, given: Parameters) -> Rows:
    """Takes a schedule away."""
    return [(tables.schedules.pop(given["name"], None) is not None,)]


def trigger(tables: Tables, given: Parameters) -> Rows:
    """Asks for its job once, now."""
    row = tables.schedules.get(given["name"])
    if row is None:
        return [(None,)]
    at = tables.now().isoformat(timespec="microseconds")
    mark = {"name": row.name, "zone": row.zone, "at": at, "triggered": True}
    own: dict[str, Any] = json.loads(row.headers) if row.headers else {}
    headers: dict[str, Any] = own | {HEADER: mark}
    staged = _row(tables, row, new_id(), json.dumps(headers))
    if row.expires_in is not None:
        staged.expires_at = tables.now() + timedelta(seconds=row.expires_in)
    tables.outbox[staged.id] = staged
    return [(staged.id,)]


SCHEDULER: dict[str, Statement] = {
    "due": due, "dispatch": dispatch, "cancel": cancel, "wait": wait, "declared": declared, "reread": reread,
}  # fmt: skip
SCHEDULES: dict[str, Statement] = {"create": create, "pause": pause, "unschedule": unschedule, "trigger": trigger}
