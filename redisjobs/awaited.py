"""The result of a job, for whoever waits for it: of a duplicate that of the job which ran in its place."""

from __future__ import annotations

import time
from typing import Any, TypeVar, cast
from uuid import UUID

import msgpack

from redisjobs.base.durations import LONGEST, Duration, seconds
from redisjobs.broker import Broker, Result
from redisjobs.errors import DecodeError, JobCancelled, JobExpired, JobFailed, ResultTimeout
from redisjobs.job import Job

R = TypeVar("R")


async def result(broker: Broker, job: Job[Any, R], queue: str, job_id: UUID, timeout: Duration | None) -> R:
    """What the body of this job, or of the one that it is a duplicate of, returned.

    Raises:
        JobFailed, JobCancelled, JobExpired: it ended otherwise. ResultTimeout: not in time.
        DecodeError: what was kept cannot be read.
    """
    limit = LONGEST if timeout is None else seconds("timeout", timeout)
    ends_at, seen = time.monotonic() + limit, set[UUID]()
    while job_id not in seen:
        seen.add(job_id)
        found = await broker.wait_result(queue, job_id.bytes, max(0.0, ends_at - time.monotonic()))
        if found is None:
            raise ResultTimeout(f"job {job_id} ({job.name}) has no result after {limit:g} s; it goes on")
        if found.word != "deduplicated":
            return _outcome(job, str(job_id), found)
        job_id = _owner(str(job_id), found)
    raise DecodeError(f"job {job_id} is a duplicate of itself: its outcome was written by somebody else")


def _outcome(job: Job[Any, R], job_id: str, found: Result) -> R:
    record = _record(job_id, found)
    if found.word == "done":
        if not isinstance(record.get("r"), bytes) or not isinstance(record.get("rc"), str):
            raise DecodeError(f"job {job_id} is done, and its result was not kept")
        return job.decode_result(record["rc"], record["r"])
    if found.word == "cancelled":
        raise JobCancelled(f"job {job_id} was cancelled: {record.get('why', 'as was asked for')}")
    if found.word == "expired":
        raise JobExpired(f"job {job_id} was past its expires before it could start")
    error = record.get("e")
    if isinstance(error, dict):
        told = cast("dict[str, Any]", error)
        raise JobFailed(job_id, f"{told.get('type')}: {told.get('message')}")
    raise JobFailed(job_id, str(record.get("why", "the leases of its attempts were lost again and again")))


def _owner(job_id: str, found: Result) -> UUID:
    """The job that a duplicate leads to."""
    owner = _record(job_id, found).get("by")
    if not isinstance(owner, bytes) or len(owner) != 16:
        raise DecodeError(f"job {job_id} is a duplicate, and its outcome does not say of which")
    return UUID(bytes=owner)


def _record(job_id: str, found: Result) -> dict[str, Any]:
    """What stands with a result; whatever bytes somebody put there, it is read as data or not at all."""
    try:
        record: object = msgpack.unpackb(found.record) if found.record else {}
    except Exception as error:  # noqa: BLE001 - msgpack has many ways to say that bytes are not its own
        raise DecodeError(f"the result of job {job_id} cannot be read ({type(error).__name__})") from None
    if not isinstance(record, dict):
        raise DecodeError(f"the result of job {job_id} cannot be read: it is a {type(record).__name__}")
    return cast("dict[str, Any]", record)
