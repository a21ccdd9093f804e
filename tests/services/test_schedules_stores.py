"""What a scheduler asks of Postgres it is answered in memory too: the same schedules, the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from redisjobs import App
from redisjobs.base import statements
from redisjobs.due import Plan
from redisjobs.occurrence import HEADER
from redisjobs.scheduler import Known, parameters_of, read
from tests.support.outboxes import AnyOutbox, in_memory, in_postgres

app = App("shop")
PAST = datetime(2026, 1, 1, tzinfo=UTC)


@app.job
async def tick(note: str = "") -> None:
    del note


@pytest.fixture
def both(database_url: str) -> Iterator[tuple[AnyOutbox, AnyOutbox]]:
    opened: list[Any] = []
    yield in_postgres(database_url, opened), in_memory()
    for each in opened:
        each.close()


def create(outbox: AnyOutbox, name: str, **options: Any) -> bool:
    connection = outbox.connect()
    call = tick.using(queue="q", priority=3, tenant="t", headers={"a": 1}, expires=3600).call("x")
    answer = app.schedules.create(connection, name, call, "*/5 * * * *", **options)
    connection.commit()
    connection.close()
    return bool(answer)


async def opened(outbox: AnyOutbox) -> AnyOutbox:
    await outbox.database.open()
    return outbox


async def look(outbox: AnyOutbox) -> list[Known]:
    statement = statements.load("scheduler").due
    return [read(row) for row in await outbox.database.run("due", statement, {"limit": 10})]


async def test_what_is_due_is_dispatched_alike(both: tuple[AnyOutbox, AnyOutbox]):
    """Both are told to have dealt with all up to the same moment, and then come to the same rows."""
    found: list[Any] = []
    for outbox in both:
        await opened(outbox)
        told = [create(outbox, "s", catch_up="run_once"), create(outbox, "s", catch_up="run_once")]
        told += [create(outbox, "s", catch_up="run_once", jitter=60), create(outbox, "other", enabled=False)]
        [known] = await look(outbox)
        assert known.plan.dispatches == ()
        dispatch = statements.load("scheduler").dispatch
        back = Plan(PAST, PAST + timedelta(minutes=5))
        for each in (Known("s", known.revision, known.watermark, {}, "UTC", None, known.now, back),
                     Known("s", known.revision - 1, PAST, {}, "UTC", None, known.now, back)):  # fmt: skip
            rows = await outbox.database.run("dispatch", dispatch, parameters_of([each]))
            told.append(len(rows) == 1)
        [known] = await look(outbox)
        [planned] = known.plan.dispatches
        rows = await outbox.database.run("dispatch", dispatch, parameters_of([known]))
        again = await outbox.database.run("dispatch", dispatch, parameters_of([known]))
        [[wait_s, stale]] = await outbox.database.run("wait", statements.load("scheduler").wait)
        [row] = outbox.rows()
        mark = json.loads(row["headers"])
        assert mark.pop(HEADER)["first"] == (PAST + timedelta(minutes=5)).isoformat()
        columns = {
            name: row[name] for name in ("job", "queue", "input", "priority", "tenant_id", "enqueued_by", "state")
        }
        found.append(
            (told, planned.count, rows, again, stale, 0 < wait_s <= 300, mark, columns, row["run_at"] is not None)
        )
        assert row["idempotency_key"] == f"schedule s {planned.at.isoformat()}"
        await outbox.database.close()
    assert found[0] == found[1]
    assert found[0][0] == [True, False, True, True, True, False]
    assert found[0][2:4] == ([("s",)], [])


async def test_h18_a_watermark_ahead_of_the_clock_stays_and_is_never_moved_further(
    both: tuple[AnyOutbox, AnyOutbox],
):
    """As it is after the clock of Postgres was put back."""
    for outbox in both:
        await opened(outbox)
        create(outbox, "s")
        dispatch = statements.load("scheduler").dispatch
        [known] = await look(outbox)
        hour = timedelta(hours=1)
        early = replace(known, plan=Plan(known.now + hour, known.now + 2 * hour))
        assert await outbox.database.run("dispatch", dispatch, parameters_of([early])) == []

        outbox.reached("s", 3600)
        [known] = await look(outbox)
        assert known.watermark > known.now
        further = replace(known, plan=Plan(known.watermark + hour, known.watermark + 2 * hour))
        assert await outbox.database.run("dispatch", dispatch, parameters_of([further])) == []
        assert await outbox.database.run("dispatch", dispatch, parameters_of([known])) == [("s",)]
        [[_, stale]] = await outbox.database.run("wait", statements.load("scheduler").wait)
        assert not stale
        await outbox.database.close()
