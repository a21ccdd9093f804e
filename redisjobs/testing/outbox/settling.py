"""The statements of the settler: what ended leaves the outbox, what comes back notes when and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from redisjobs.testing.outbox.parameters import Parameters, Rows, changed, ids, numbers, words
from redisjobs.testing.outbox.tables import DeadLetter, Finished, Row, Tables

ENDS = ("done", "dead", "cancelled", "expired")
_STATES = {"retry": "retrying", "snooze": "snoozed", "suspended": "suspended", "parked": "parked"}
FAILURES_KEPT = 30


@dataclass(frozen=True, slots=True)
class Told:
    """What the relay tells of one job."""

    id: UUID
    life: int
    attempts: int
    word: str = "done"
    number: int = 0
    delay: float = 0.0
    error: str | None = None
    failures: tuple[dict[str, Any], ...] = ()
    keep: float = 0.0
    result: bytes | None = None
    result_codec: str | None = None


def settle(tables: Tables, given: Parameters) -> Rows:
    """One outcome a job; those of a former life find no row."""
    gone = 0
    for told in _told(given):
        row = tables.outbox.get(told.id)
        if row is None or row.redrives != told.life:
            continue
        if told.word in ENDS:
            gone += 1
            _end(tables, row, told, given["retention"])
        else:
            _come_back(tables, row, told)
    return [(gone,)]


def settle_done(tables: Tables, given: Parameters) -> Rows:
    """The short way for what simply succeeded."""
    told = [
        Told(*each) for each in zip(ids(given["ids"]), numbers(given["lives"]), numbers(given["attempts"]), strict=True)
    ]
    ended = [each for each in told if (row := tables.outbox.get(each.id)) is not None and row.redrives == each.life]
    for each in ended:
        _end(tables, tables.outbox[each.id], each, given["retention"])
    return changed(ended)


def bury_direct(tables: Tables, given: Parameters) -> Rows:
    """A dead letter of a job that never had a row."""
    job_id: UUID = given["id"]
    if job_id in tables.outbox or job_id in tables.dead or tables.ended(job_id) is not None:
        return []
    row = Row(
        job_id, given["job"], given["queue"], None, given["payload"], given["codec"], given["idempotency_key"],
        given["key_window"], given["priority"], given["max_attempts"], None, None, given["tenant_id"],
        given["traceparent"], given["enqueued_by"], given["headers"], tables.now(), attempts=given["attempts"],
        failures=json.loads(given["failures"]),
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
        ids(given["ids"]), numbers(given["lives"]), numbers(given["attempts"]), words(given["words"]),
        numbers(given["numbers"]), map(float, words(given["delays"])), given["errors"],
        map(_failures, given["failures"]), map(float, words(given["keeps"])), given["results"], given["codecs"],
        strict=True,
    )  # fmt: skip
    return [Told(*each) for each in columns]


def _failures(text: str | None) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(text)) if text else ()


def _end(tables: Tables, row: Row, told: Told, retention: float) -> None:
    del tables.outbox[row.id]
    attempts = max(row.attempts, told.attempts)
    if told.word == "dead":
        row.failures = [*row.failures, *told.failures][-FAILURES_KEPT:]
        row.attempts, row.publications = attempts, max(row.publications, told.number)
        tables.dead[row.id] = DeadLetter(row, told.error or "unknown", tables.now())
    elif retention > 0 or told.keep > 0 or row.key_window is not None:
        keep = max(retention, told.keep, row.key_window or 0.0)
        tables.finished.append(
            Finished(
                row.id, row.job, row.queue, told.word, attempts, tables.in_seconds(keep), row.idempotency_key,
                _window(tables, row), None, told.error or row.last_error, told.result, told.result_codec,
            )
        )  # fmt: skip


def _window(tables: Tables, row: Row) -> datetime | None:
    return None if row.key_window is None else tables.now() + timedelta(seconds=row.key_window)


def _come_back(tables: Tables, row: Row, told: Told) -> None:
    row.state = _STATES[told.word]
    row.attempts, row.publications = max(row.attempts, told.attempts), max(row.publications, told.number)
    if told.word != "suspended":
        row.run_at = tables.in_seconds(told.delay)
    row.last_error = told.error or row.last_error
    row.failures = [*row.failures, *told.failures][-FAILURES_KEPT:]
