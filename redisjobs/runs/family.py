"""The children of a run: jobs of their own, whose end comes back as a record."""

from __future__ import annotations

from typing import Any

from redisjobs.base.envelope import Envelope
from redisjobs.call import Call
from redisjobs.errors import DecodeError, EnqueueError
from redisjobs.runs.failures import failure_of
from redisjobs.runs.run import Run
from redisjobs.runs.values import Values
from redisjobs.steps import StepRecord


async def start(run: Run, call: Call[Any], name: str, *, awaited: bool) -> str:
    """Enqueue a child, once; answers its id."""
    if awaited:
        _refuse_own_lane(run, call, name)
    record = await run.begin(name, "child")
    if record is None or record.state == "retrying":
        record = run.new(name, "child", state="waiting", child=call.id, awaited=awaited)
        await run.put(record, call)
    return str(record.child)


async def result(run: Run, call: Call[Any], name: str) -> Any:
    """What a child returned."""
    record = run.records[name]
    if run.ending is not None and record.state == "waiting":
        await run.rewind()
    if record.state == "waiting" and not record.awaited:
        _refuse_own_lane(run, call, name)
        record = run.new(name, "child", state="waiting", child=record.child, awaited=True)
        await run.put(record)
    if record.state == "waiting":
        await run.wait(None, waits=True)
    if record.state == "failed":
        raise failure_of(record)
    return _returned(run, call, record)


def _refuse_own_lane(run: Run, call: Call[Any], name: str) -> None:
    """Of a lane one job goes after the other: a child would wait for its parent's end, and the parent for the child's.

    Raises:
        EnqueueError: the child is in its parent's lane.
    """
    held = run.attempt.delivery
    if call.lane is None or call.queue != held.queue or call.lane != Envelope.unpack(held.body).lane:
        return
    raise EnqueueError(
        f"job {run.job.name!r}: its child {name!r} is in lane {call.lane!r} of queue {call.queue}, which the run has "
        "until it ends, so each would wait for the other: give the child another lane or queue, or do not wait for it"
    )


def _returned(run: Run, call: Call[Any], record: StepRecord) -> Any:
    if record.codec is None or record.value is None:
        return None
    job = run.means.find(call.job)
    if job is None:  # of another app: plain data
        return Values(run.job.door.codecs).read(record)
    try:
        return job.decode_result(record.codec, record.value)
    except DecodeError as error:
        raise DecodeError(f"step {record.name!r}: {error}") from None
