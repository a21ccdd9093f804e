"""What a run waits for: a time, or an event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from redisjobs.base.annotations import shape_of
from redisjobs.base.shapes import ANY
from redisjobs.durable import Event, Wait
from redisjobs.runs.run import Run
from redisjobs.runs.values import Values
from redisjobs.steps import StepRecord


async def sleep(run: Run, name: str, *, seconds: float | None = None, moment: datetime | None = None) -> None:
    """Return so long after this was first recorded, or at this moment."""
    record = await run.begin(name, "sleep")
    if record is None:
        record = run.new(name, "sleep", state="waiting", due_in=seconds, due=moment, awaited=True)
        await run.put(record)
        if moment is not None:
            record.due_in = (moment - run.means.now()).total_seconds()
    left = run.left(record)
    if left is not None and left > 0:
        await run.wait(left, waits=False)


async def wait_for_event(run: Run, wait: Wait) -> Event[Any] | None:
    """The event, or None at the timeout."""
    record = await run.begin(wait.step, "event")
    if record is None or record.state == "waiting":
        asked = run.new(
            wait.step, "event", state="waiting", due_in=wait.timeout, awaited=True, event=wait.name, key=wait.key
        )
        record = await run.persist(wait.step, lambda: run.means.store.wait(run.token, asked))
        run.keep(record)
    if record.state == "waiting":
        await run.wait(run.left(record), waits=True)
        return await _after_its_time(run, wait, asked=record)
    return _event(run, wait, record)


async def _after_its_time(run: Run, wait: Wait, asked: StepRecord) -> Event[Any] | None:
    """Its time has come while other branches went on: whether it has timed out is the store's to say."""
    while True:
        record = await run.persist(wait.step, lambda: run.means.store.wait(run.token, asked))
        run.keep(record)
        if record.state != "waiting":
            return _event(run, wait, record)
        await run.wait(max(0.05, run.left(record) or 0.0), waits=True)


def _event(run: Run, wait: Wait, record: StepRecord) -> Event[Any] | None:
    detail = record.detail or {}
    if detail.get("timed_out"):
        return None
    values = Values(run.job.door.codecs, ANY if wait.of is None else shape_of(wait.of))
    return Event(wait.name, wait.key, values.read(record), datetime.fromisoformat(str(detail["sent_at"])))
