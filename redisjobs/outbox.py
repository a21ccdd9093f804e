"""The outbox: calls become rows in the caller's own transaction. Committing it is enqueuing; nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from redisjobs.base import statements
from redisjobs.base.codec import JSON
from redisjobs.base.durations import Duration, seconds
from redisjobs.call import Call, check_moment, check_priority
from redisjobs.drivers import Statement
from redisjobs.errors import EnqueueError, OptionError

statements.load("outbox").require("stage", "stage_many", "cancel", "reprioritize", "reschedule")


def stage(calls: Sequence[Call[Any]], schema: str = statements.SCHEMA) -> Statement:
    """One statement that stages these calls, with its parameters; a driver sends it.

    It answers nothing, so that its sender needs no right but INSERT: the ids are in the calls.

    Raises:
        EnqueueError: no calls, or one of them twice.
    """
    sql = statements.load("outbox", schema)
    if not calls:
        raise EnqueueError("there are no calls to enqueue: pass one at least")
    if len(calls) == 1:
        return sql.stage, _row(calls[0])
    if len({call.id for call in calls}) < len(calls):
        raise EnqueueError("a call is there twice, and a call is one job: make one for each job")
    return sql.stage_many, columns(calls)


def columns(calls: Sequence[Call[Any]]) -> dict[str, list[Any]]:
    """The columns of their rows, each with a value for each call."""
    rows = [_row(call) for call in calls]
    return {column: [row[column] for row in rows] for column in rows[0]}


def cancel(job_id: UUID, schema: str = statements.SCHEMA) -> Statement:
    """The statement that asks for a job's end; it answers a word."""
    return statements.load("outbox", schema).cancel, {"id": job_id}


def reprioritize(job_id: UUID, priority: int, schema: str = statements.SCHEMA) -> Statement:
    """The statement that gives a job another priority; it answers a word.

    Raises:
        OptionError: it is no priority.
    """
    return statements.load("outbox", schema).reprioritize, {"id": job_id, "priority": check_priority(priority)}


def reschedule(
    job_id: UUID, run_at: datetime | None, delay: Duration | None, schema: str = statements.SCHEMA
) -> Statement:
    """The statement that gives a job another time; it answers a word.

    Raises:
        OptionError: it is no time, or both are given.
    """
    if run_at is not None:
        check_moment("run_at", run_at)
        if delay is not None:
            raise OptionError("delay", delay, "says when to run, and so does run_at: pass one of them")
    distance = None if delay is None else seconds("delay", delay)
    return statements.load("outbox", schema).reschedule, {"id": job_id, "run_at": _in_utc(run_at), "delay": distance}


def _row(call: Call[Any]) -> dict[str, Any]:
    is_json = call.codec == JSON
    return {
        "id": call.id,
        "job": call.job,
        "queue": call.queue,
        "input": call.payload.decode() if is_json else None,
        "payload": None if is_json else call.payload,
        "codec": None if is_json else call.codec,
        "idempotency_key": call.idempotency_key,
        "key_window": call.key_window,
        "priority": call.priority,
        "max_attempts": call.max_attempts,
        "run_at": _in_utc(call.run_at),
        "delay": call.delay,
        "expires_at": _in_utc(call.expires_at),
        "expires_in": call.expires_in,
        "tenant_id": call.tenant_id,
        "traceparent": call.traceparent,
        "enqueued_by": call.enqueued_by,
        "headers": call.headers,
        "version": call.version,
        "lane": call.lane,
        "share_key": call.share_key,
        "key_policy": call.key_policy,
        "key_wait": call.key_wait,
        "key_longest": call.key_longest,
        "result_ttl": call.result_ttl,
    }


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
