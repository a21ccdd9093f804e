"""Another priority or time for a job that waits: the functions of operators, and the statements of the mover."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from redisjobs.context import micros
from redisjobs.testing.outbox.parameters import Parameters, Rows, Statement, changed, ids, is_held, numbers, words
from redisjobs.testing.outbox.publishing import read
from redisjobs.testing.outbox.tables import PLACED, Row, Tables


def resolved(tables: Tables, given: Parameters) -> dict[str, Any]:
    """What `reschedule` was given, with its time as a moment."""
    return {**given, "run_at": given["run_at"] or tables.in_seconds(given["delay"] or 0.0)}


def reprioritize(row: Row, given: Parameters) -> str:
    """Another priority; answers what `redisjobs.reprioritize` answers."""
    row.priority, row.moving = given["priority"], row.state not in ("deferred", "set_aside", "suspended")
    return "requested" if row.state in PLACED else "changed"


def reschedule(row: Row, given: Parameters) -> str:
    """Another time; answers what `redisjobs.reschedule` answers."""
    if row.state == "suspended" or (row.settled and row.state in ("staged", "deferred", "published")):
        return "suspended"
    row.run_at, row.moving = given["run_at"], row.state not in ("deferred", "set_aside")
    row.move_to = row.run_at if row.moving else None
    return "requested" if row.state in PLACED else "changed"


def moves(tables: Tables, given: Parameters) -> Rows:
    """Jobs that Redis has and that were given another place."""
    asked = [row for row in tables.of_queue(given["queue"], *PLACED) if row.moving]
    return [_asked(row, tables.now()) for row in sorted(asked, key=lambda row: row.id)[: given["limit"]]]


def moved(tables: Tables, given: Parameters) -> Rows:
    """Redis has been told, or has refused."""
    if not is_held(tables, given):
        return []
    columns = zip(
        ids(given["ids"]), numbers(given["lives"]), numbers(given["priorities"]), words(given["times"]),
        words(given["taken"]), strict=True,
    )  # fmt: skip
    noted: list[Row] = []
    for job_id, life, priority, time, taken in columns:
        row = tables.outbox.get(job_id)
        if row is None or not row.moving or (row.redrives, row.priority, _time(row)) != (life, priority, time):
            continue
        if taken == "true":
            row.run_at = row.move_to or row.run_at
        elif row.run_at == row.move_to:
            row.run_at = None
        row.moving, row.move_to = False, None
        noted.append(row)
    return changed(noted)


def _asked(row: Row, now: datetime) -> tuple[Any, ...]:
    columns = list(read(row, now))
    columns[12:14] = None, None  # the distances of run_at and expires_at
    columns[-1] = None  # that of key_since
    if row.move_to is None:
        return None, None, *columns
    columns[10] = micros(row.move_to)
    return micros(row.move_to), round((row.move_to - now) / timedelta(milliseconds=1)), *columns


def _time(row: Row) -> str:
    return "NULL" if row.move_to is None else str(micros(row.move_to))


MOVER: dict[str, Statement] = {"moves": moves, "moved": moved}
