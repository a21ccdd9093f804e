"""The statements of the settler: what ended leaves the outbox, what comes back notes when and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from redisjobs.testing.outbox.parameters import Parameters, Rows, changed, ids, numbers, words
from redisjobs.testing.outbox.tables import DeadLetter, Finished, Row, Tables

ENDS = ("done", "dead", "cancelled", "expired", "deduplicated")
_STATES = {"retry": "retrying", "snooze": "snoozed", "parked": "parked"}
FAILURES_KEPT = 30


@dataclass(frozen=True, slots=True)
class Told:
    """What the relay tells of one job."""

    id: UUID
    life: int
    number: int
    attempts: int
    word: str = "done"
    delay: float = 0.0
    error: str | None = None
    failures: tuple[dict[str, Any], ...] = ()
    keep: float = 0.0
    result: bytes | None = None
    result_codec: str | None = None
    undone: bool = False
    owner: UUID | None = None


def settle(tables: Tables, given: Parameters) -> Rows:
    """One outcome a job; those of a former life, and of a publication that has settled, find no row."""
    ends: Rows = []
    undoing: Rows = []
    for told in _told(given):
        row = _found(tables, told)
        if row is None:
            continue
        if told.word not in ENDS:
            _come_back(tables, row, told)
        elif _must_undo(row, told):
            _undo(tables, row, told)
            undoing.append((row.id.bytes, told.word, True, False, False, 0))
        else:
            _end(tables, row, told, given["retention"])
            ends += [(*each, _kept_ms(row, told)) for each in _follows(row, told)]
            _count_burst(tables, row, told)
    return ends + undoing


def suspend(tables: Tables, given: Parameters) -> Rows:
    """Runs that have let go of their worker."""
    columns = zip(
        ids(given["ids"]), numbers(given["lives"]), numbers(given["numbers"]), numbers(given["attempts"]),
        words(given["delays"]), words(given["waits"]), given["errors"], map(_failures, given["failures"]), strict=True,
    )  # fmt: skip
    paused: list[Row] = []
    for job_id, life, number, attempts, delay, waits, error, failures in columns:
        told = Told(job_id, life, number, attempts, "suspended", error=error, failures=failures)
        row = _found(tables, told)
        if row is not None:
            paused.append(row)
            _pause(tables, row, None if delay == "NULL" else float(delay), given["horizon"], waits=waits == "true")
            _note(row, told)
            row.settled = number
    return changed(paused)


def settle_done(tables: Tables, given: Parameters) -> Rows:
    """The short way for what simply succeeded."""
    columns = (ids(given["ids"]), numbers(given["lives"]), numbers(given["numbers"]), numbers(given["attempts"]))
    ends: Rows = []
    for told in map(Told, *columns):
        row = _found(tables, told)
        if row is not None:
            _end(tables, row, told, given["retention"])
            ends += _follows(row, told)
    return ends


def bury_direct(tables: Tables, given: Parameters) -> Rows:
    """A dead letter of a job that never had a row."""
    job_id: UUID = given["id"]
    if job_id in tables.outbox or job_id in tables.dead or tables.ended(job_id) is not None:
        return []
    row = Row(
        job_id, given["job"], given["queue"], None, given["payload"], given["codec"], given["idempotency_key"],
        given["key_window"], given["priority"], given["max_attempts"], None, None, given["tenant_id"],
        given["traceparent"], given["enqueued_by"], given["headers"], tables.now(), attempts=given["attempts"],
        failures=json.loads(given["failures"]), version=given["version"], lane=given["lane"],
        share_key=given["share_key"], key_policy=given["key_policy"], key_wait=given["key_wait"],
        key_longest=given["key_longest"],
    )  # fmt: skip
    tables.dead[job_id] = DeadLetter(row, given["reason"], tables.now())
    return changed([row])


def make_room(tables: Tables, given: Parameters) -> Rows:
    """There are no partitions here."""
    return [(b"",)]


def drop_finished(tables: Tables, given: Parameters) -> Rows:
    """What was kept for long enough goes."""
    kept = [each for each in tables.finished if each.keep_until >= tables.now()]
    dropped, tables.finished[:] = len(tables.finished) - len(kept), kept
    return [(dropped,)]


def _told(given: Parameters) -> list[Told]:
    columns = zip(
        ids(given["ids"]), numbers(given["lives"]), numbers(given["numbers"]), numbers(given["attempts"]),
        words(given["words"]), map(float, words(given["delays"])), given["errors"],
        map(_failures, given["failures"]), map(float, words(given["keeps"])), given["results"], given["codecs"],
        (each == "true" for each in words(given["undones"])), map(_owner, words(given["owners"])), strict=True,
    )  # fmt: skip
    return [Told(*each) for each in columns]


def _failures(text: str | None) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(text)) if text else ()


def _found(tables: Tables, told: Told) -> Row | None:
    row = tables.outbox.get(told.id)
    return row if row is not None and row.redrives == told.life and row.settled < told.number else None


def _follows(row: Row, told: Told) -> Rows:
    is_run, is_child = row.fence is not None, row.parent is not None
    is_awaited = told.word == "deduplicated" and row.result_ttl is not None
    return [(row.id.bytes, told.word, is_run, is_child, True)] if is_run or is_child or is_awaited else []


def _kept_ms(row: Row, told: Told) -> int:
    return round((row.result_ttl or 0.0) * 1000) if told.word == "deduplicated" else 0


def _count_burst(tables: Tables, row: Row, told: Told) -> None:
    """What a burst ends goes on counting from its first call."""
    last = None if told.owner is None else tables.outbox.get(told.owner)
    if told.word == "deduplicated" and row.key_policy == "debounce" and row.key_since and last is not None:
        last.key_since = min(row.key_since, last.key_since or row.key_since)


def _owner(text: str) -> UUID | None:
    return None if text == "NULL" else UUID(text)


def _must_undo(row: Row, told: Told) -> bool:
    if told.word == "done" or told.undone or not row.undo:
        return False
    return told.word != "dead" or row.ending is None


def _undo(tables: Tables, row: Row, told: Told) -> None:
    row.state, row.run_at, row.expires_at, row.wake_at, row.cancel_requested = "staged", None, None, None, False
    row.moving, row.move_to = False, None
    row.ending = row.ending or {"word": told.word, "reason": told.error or "", "failures": []}
    row.settled, row.xact, row.seq = told.number, tables.next_xact(), tables.next_seq()
    _note(row, told)


def _pause(tables: Tables, row: Row, delay: float | None, horizon: float, *, waits: bool) -> None:
    now = tables.now()
    asked = now if not waits else None
    if delay is not None:
        asked = tables.in_seconds(delay) if delay > 0 else now
    expires_at = row.expires_at if row.ending is None else None
    at = min((each for each in (row.wake_at, expires_at, asked) if each is not None), default=None)
    if at is not None and at <= now:
        row.state = "staged"
    elif waits:
        row.state = "suspended"
    else:
        row.state = "deferred" if at is not None and at > tables.in_seconds(horizon) else "staged"
    row.run_at = at if at is not None and at > now else None
    row.wake_at, row.xact, row.seq = None, tables.next_xact(), tables.next_seq()
    row.moving, row.move_to = False, None


def _end(tables: Tables, row: Row, told: Told, retention: float) -> None:
    del tables.outbox[row.id]
    ending = row.ending or {}
    attempts = max(row.attempts, told.attempts, ending.get("attempts", 0))
    error = told.error if told.error is not None else ending.get("reason")
    if told.word == "dead":
        row.failures = [*row.failures, *(told.failures or ending.get("failures", ()))][-FAILURES_KEPT:]
        row.attempts, row.publications = attempts, max(row.publications, told.number)
        tables.dead[row.id] = DeadLetter(row, error if error is not None else "unknown", tables.now())
    elif retention > 0 or told.keep > 0 or row.key_window is not None:
        keep = max(retention, told.keep, row.key_window or 0.0)
        tables.finished.append(
            Finished(
                row.id, row.job, row.queue, told.word, attempts, tables.in_seconds(keep), row.idempotency_key,
                row.key_until(tables.now()), told.owner, row.last_error if error is None else error, told.result,
                told.result_codec,
            )
        )  # fmt: skip


def _come_back(tables: Tables, row: Row, told: Told) -> None:
    row.state, row.run_at = _STATES[told.word], tables.in_seconds(told.delay)
    _note(row, replace(told, failures=tuple(each for each in told.failures if each not in row.failures)))


def _note(row: Row, told: Told) -> None:
    row.attempts, row.publications = max(row.attempts, told.attempts), max(row.publications, told.number)
    row.last_error = told.error or row.last_error
    row.failures = [*row.failures, *told.failures][-FAILURES_KEPT:]
