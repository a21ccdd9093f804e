"""The statements of the publisher: what is read in line, and what leaves it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from redisjobs.context import micros
from redisjobs.testing.outbox.parameters import Parameters, Rows, changed, ids, is_held, numbers
from redisjobs.testing.outbox.tables import Finished, Row, Tables


def batch(tables: Tables, given: Parameters) -> Rows:
    """The oldest staged rows of a queue, in the order of staging."""
    staged = [row for row in tables.of_queue(given["queue"], "staged") if row.seq > given["floor"]]
    return [_read(row, tables.now()) for row in sorted(staged, key=lambda row: row.seq)[: given["limit"]]]


def snapshot(tables: Tables, given: Parameters) -> Rows:
    """Which transactions had not ended."""
    return [(tables.snapshot(),)]


def mark(tables: Tables, given: Parameters) -> Rows:
    """Published rows leave the line."""
    rows = _in_life(tables, given, "staged")
    for row in rows:
        row.state, row.published_at, row.publications = "published", tables.now(), row.publications + 1
    return changed(rows)


def look_at_lease(tables: Tables, given: Parameters) -> Rows:
    """Whether lease, token and epoch still stand."""
    return [(is_held(tables, given),)]


def defer(tables: Tables, given: Parameters) -> Rows:
    """Rows due behind the horizon wait here."""
    found = [tables.outbox.get(job_id) for job_id in ids(given["ids"])] if is_held(tables, given) else []
    rows = [row for row in found if row is not None and row.state == "staged"]
    for row in rows:
        row.state = "deferred"
    return changed(rows)


def come_due(tables: Tables, given: Parameters) -> Rows:
    """Deferred rows within the horizon join the end of the line."""
    until = tables.in_seconds(given["horizon"])
    due = [row for row in tables.of_queue(given["queue"], "deferred") if row.run_at is not None and row.run_at < until]
    due = sorted(due, key=lambda row: (row.run_at, row.seq))[: given["limit"]]
    for row in due:
        row.state, row.xact, row.seq = "staged", tables.next_xact(), tables.next_seq()
    return changed(due)


def deduplicate(tables: Tables, given: Parameters) -> Rows:
    """A row ends as a duplicate while the job that holds its key is live, or ended within its window."""
    if not is_held(tables, given):
        return []
    sure, gone = set(ids(given["sure"])), list[Row]()
    for job_id, life, owner in zip(ids(given["ids"]), numbers(given["lives"]), ids(given["owners"]), strict=True):
        row = tables.outbox.get(job_id)
        if row is None or row.redrives != life or not (owner in sure or _holds_its_key(tables, owner)):
            continue
        gone.append(tables.outbox.pop(job_id))
        if given["retention"] > 0:
            _keep(tables, row, "deduplicated", given["retention"], duplicate_of=owner)
    return [(row.id.bytes,) for row in gone]


def cancels(tables: Tables, given: Parameters) -> Rows:
    """Rows whose end was asked for."""
    rows = [row for row in tables.outbox.values() if row.queue == given["queue"] and row.cancel_requested]
    return [(row.id.bytes, row.redrives) for row in sorted(rows, key=lambda row: row.id)[: given["limit"]]]


def end_cancelled(tables: Tables, given: Parameters) -> Rows:
    """Rows that Redis does not know end here."""
    rows = [row for row in _in_life(tables, given) if row.cancel_requested]
    for row in rows:
        del tables.outbox[row.id]
        if given["retention"] > 0:
            _keep(tables, row, "cancelled", given["retention"])
    return [(len(rows),)]


def failing(tables: Tables, given: Parameters) -> Rows:
    """Names the row that stops its queue."""
    queue = tables.queues.get(given["queue"])
    if queue is None or queue.token != given["token"]:
        return []
    queue.failing = given["failing"]
    return changed([queue])


def _in_life(tables: Tables, given: Parameters, *states: str) -> list[Row]:
    """The rows of these ids and lives, in these states if any are given; none without the lease."""
    if not is_held(tables, given):
        return []
    pairs = zip(ids(given["ids"]), numbers(given["lives"]), strict=True)
    rows = [row for job_id, life in pairs if (row := tables.outbox.get(job_id)) is not None and row.redrives == life]
    return [row for row in rows if not states or row.state in states]


def _holds_its_key(tables: Tables, owner: UUID) -> bool:
    if owner in tables.outbox:
        return True
    windows = [each.key_until for each in tables.finished if each.id == owner]
    if owner in tables.dead:
        windows.append(tables.dead[owner].key_until)
    return any(until is not None and until > tables.now() for until in windows)


def _keep(tables: Tables, row: Row, state: str, retention: float, duplicate_of: UUID | None = None) -> None:
    tables.finished.append(
        Finished(
            row.id,
            row.job,
            row.queue,
            state,
            row.attempts,
            tables.in_seconds(retention),
            idempotency_key=row.idempotency_key,
            duplicate_of=duplicate_of,
        )
    )


def _read(row: Row, now: datetime) -> tuple[Any, ...]:
    """The columns of `StagedRow`."""
    return (
        row.id.bytes, row.seq, row.job, row.input, row.payload, row.codec, row.idempotency_key, row.key_window,
        row.priority, row.max_attempts, _micros(row.run_at), _micros(row.expires_at), _until(row.run_at, now),
        _until(row.expires_at, now), row.tenant_id, row.traceparent, row.enqueued_by, row.headers,
        micros(row.staged_at), row.attempts, row.publications, row.redrives, row.cancel_requested,
    )  # fmt: skip


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def _until(moment: datetime | None, now: datetime) -> int | None:
    """Milliseconds."""
    return None if moment is None else round((moment - now) / timedelta(milliseconds=1))
