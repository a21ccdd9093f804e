"""The statements of the publisher: what is read in line, and what leaves it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from redisjobs.context import micros
from redisjobs.staged import StagedRow
from redisjobs.testing.outbox.parameters import Parameters, Rows, changed, ids, is_held, numbers
from redisjobs.testing.outbox.runs import stage_runs
from redisjobs.testing.outbox.tables import Finished, Row, Tables


def batch(tables: Tables, given: Parameters) -> Rows:
    """The oldest staged rows of a queue, in the order of staging, and which transactions had not ended."""
    staged = [row for row in tables.of_queue(given["queue"], "staged") if row.seq > given["floor"]]
    found = [read(row, tables.now()) for row in sorted(staged, key=lambda row: row.seq)[: given["limit"]]]
    rows = found or [(None,) * len(StagedRow._fields)]
    return [(None if number else tables.snapshot(), *row) for number, row in enumerate(rows)]


def mark(tables: Tables, given: Parameters) -> Rows:
    """Published rows leave the line, if it is this publication that they wait for."""
    expected = dict(zip(ids(given["ids"]), numbers(given["numbers"]), strict=True))
    rows = [row for row in _in_life(tables, given, "staged") if row.publications == expected[row.id] - 1]
    for row in rows:
        row.state, row.published_at, row.publications = "published", tables.now(), row.publications + 1
        row.key_since = _key_since(tables, row)
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
    """Deferred rows within the horizon, and suspended runs whose time has come, join the end of the line."""
    due = _due(tables, given, "deferred", tables.in_seconds(given["horizon"]))
    for row in due:
        row.state, row.xact, row.seq = "staged", tables.next_xact(), tables.next_seq()
    runs = _due(tables, given, "suspended", tables.now())
    return [(len(due) + stage_runs(tables, [row.id for row in runs]),)]


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
    return [
        (row.id.bytes, "deduplicated", row.fence is not None, row.parent is not None, True, _kept_ms(row))
        for row in gone
    ]


def replaced(tables: Tables, given: Parameters) -> Rows:
    """The end of jobs that a new one of their key takes the place of."""
    found = [tables.outbox.get(job_id) for job_id in ids(given["ids"])] if is_held(tables, given) else []
    rows = [row for row in found if row is not None and not row.cancel_requested]
    for row in rows:
        row.cancel_requested = True
    return changed(rows)


def cancels(tables: Tables, given: Parameters) -> Rows:
    """Rows whose end was asked for, unless they are on their way to one."""
    rows = [row for row in tables.outbox.values() if row.queue == given["queue"] and _is_cancelled(row)]
    first = sorted(rows, key=lambda row: row.id)[: given["limit"]]
    return [(row.id.bytes, row.redrives, row.settled, row.publications + 1) for row in first]


def end_cancelled(tables: Tables, given: Parameters) -> Rows:
    """Rows that Redis does not know end here; a run with undos is published for them."""
    ended: Rows = []
    undoing: Rows = []
    for row in [row for row in _in_life(tables, given) if _is_cancelled(row)]:
        if row.undo:
            _undo(tables, row)
            undoing.append((row.id.bytes, "cancelled", True, False, False, None, 0, None))
            continue
        del tables.outbox[row.id]
        is_throttled = row.key_policy == "throttle"
        window = row.key_window if row.settled and not is_throttled else None
        until = row.key_until(tables.now()) if is_throttled else None
        if given["retention"] > 0 or window is not None or until is not None:
            _keep(tables, row, "cancelled", given["retention"], window=window, until=until)
        key = row.idempotency_key if row.settled and not is_throttled else None
        is_run, is_child, lane = row.fence is not None, row.parent is not None, row.lane if row.settled else None
        ended.append((row.id.bytes, "cancelled", is_run, is_child, True, key, round((window or 0.0) * 1000), lane))
    return ended + undoing


def failing(tables: Tables, given: Parameters) -> Rows:
    """Names the row that stops its queue."""
    queue = tables.queues.get(given["queue"])
    if queue is None or queue.token != given["token"]:
        return []
    queue.failing = given["failing"]
    return changed([queue])


def _due(tables: Tables, given: Parameters, state: str, until: datetime) -> list[Row]:
    rows = [row for row in tables.of_queue(given["queue"], state) if row.run_at is not None and row.run_at < until]
    return sorted(rows, key=lambda row: (row.run_at, row.seq))[: given["limit"]]


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


def _undo(tables: Tables, row: Row) -> None:
    row.state, row.run_at, row.expires_at, row.wake_at, row.cancel_requested = "staged", None, None, None, False
    row.moving, row.move_to = False, None
    row.ending = {"word": "cancelled", "reason": "it was cancelled", "failures": []}
    row.xact, row.seq = tables.next_xact(), tables.next_seq()


def _keep(
    tables: Tables,
    row: Row,
    state: str,
    retention: float,
    *,
    duplicate_of: UUID | None = None,
    window: float | None = None,
    until: datetime | None = None,
) -> None:
    key_until = tables.in_seconds(window) if until is None and window is not None else until
    kept = tables.in_seconds(max(retention, window or 0.0))
    tables.finished.append(
        Finished(
            row.id,
            row.job,
            row.queue,
            state,
            row.attempts,
            kept if until is None else max(kept, until),
            idempotency_key=row.idempotency_key,
            key_until=key_until,
            duplicate_of=duplicate_of,
        )
    )


def _key_since(tables: Tables, row: Row) -> datetime | None:
    if row.key_policy is None or row.key_since is not None:
        return None if row.key_policy is None else row.key_since
    now = tables.now()
    return max(now, row.run_at) if row.key_policy == "throttle" and row.run_at is not None else now


def _kept_ms(row: Row) -> int:
    return round((row.result_ttl or 0.0) * 1000)


def _is_cancelled(row: Row) -> bool:
    return row.cancel_requested and row.ending is None


def read(row: Row, now: datetime) -> tuple[Any, ...]:
    """The columns of `StagedRow`."""
    expires_at = row.expires_at if row.ending is None else None
    return (
        row.id.bytes, row.seq, row.job, row.input, row.payload, row.codec, row.idempotency_key, row.key_window,
        row.priority, row.max_attempts, _micros(row.run_at), _micros(expires_at), _until(row.run_at, now),
        _until(expires_at, now), row.tenant_id, row.traceparent, row.enqueued_by, row.headers,
        micros(row.staged_at), row.attempts, row.publications, row.redrives, _is_cancelled(row),
        row.version, row.parent is not None, row.ending is not None, row.settled, row.lane, row.share_key,
        row.key_policy, row.key_wait, row.key_longest, None if row.key_since is None else _until(now, row.key_since),
    )  # fmt: skip


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def _until(moment: datetime | None, now: datetime) -> int | None:
    """Milliseconds."""
    return None if moment is None else round((moment - now) / timedelta(milliseconds=1))
