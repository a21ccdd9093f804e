"""S3, S4, H18: schedulers when the clock of Postgres has been ahead, and is right again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.support.relays import relay_by_hand
from tests.support.schedules import dispatched, field, in_one_minute, make, outage, rounds, scheduler_by_hand

Conn = psycopg.Connection[Any]
MINUTELY = "* * * * *"
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def no_minute_begins() -> None:
    """What is due every minute comes due in no test, but for what a test makes due."""
    in_one_minute()


def ahead(conn: Conn, name: str, by: timedelta) -> None:
    """As if its last dispatch had been made by a clock that was so far ahead. Commits."""
    conn.execute(
        "UPDATE redisjobs.schedules SET watermark = date_trunc('minute', clock_timestamp()) + %(by)s,"
        " next_run = date_trunc('minute', clock_timestamp()) + %(by)s + interval '1 minute' WHERE name = %(name)s",
        {"by": by, "name": name},
    )
    conn.commit()


async def test_h18_a_clock_that_was_a_day_ahead_is_one_late_dispatch_and_going_back_repeats_nothing(
    conn: Conn, database_url: str
):
    make(conn, "s", cron=MINUTELY)
    outage(conn, "s", timedelta(days=1))
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
        [mark] = dispatched(conn, "s")
        assert mark["catch_up"]
        ahead(conn, "s", HOUR)
        assert await rounds(scheduler) == 0
        assert len(dispatched(conn, "s")) == 1
        assert scheduler._pause(0) > 1, "it waits, and does not look again and again"


async def test_h18_one_that_is_ahead_and_must_be_looked_at_anew_makes_nobody_spin_or_wait(
    conn: Conn, database_url: str
):
    """As after another version of the rules of time zones has come with a deploy."""
    make(conn, "a", cron=MINUTELY)
    async with scheduler_by_hand(database_url, batch_size=1) as scheduler:
        await rounds(scheduler)
        ahead(conn, "a", HOUR)
        conn.execute("UPDATE redisjobs.schedules SET stale = true")
        conn.commit()
        make(conn, "b", cron=MINUTELY)
        await rounds(scheduler)
        assert dispatched(conn, "a") == []
        assert not field(conn, "b", "stale")
        assert scheduler._pause(0) > 0.5, "it waits, and does not look again and again"


async def test_h18_a_watermark_that_was_put_back_runs_no_occurrence_twice_whose_job_still_waits(
    conn: Conn, database_url: str, redis_url: str
):
    """As by a table that was restored from an older dump: an occurrence is known by itself, whoever looks and when."""
    make(conn, "s", cron=MINUTELY, catch_up="run_all")
    async with scheduler_by_hand(database_url) as scheduler, relay_by_hand(database_url, redis_url) as relay:
        for _ in range(2):
            outage(conn, "s", timedelta(minutes=3))
            await rounds(scheduler)
            await relay.rounds()
    ats = [mark["at"] for mark in dispatched(conn, "s")]
    assert len(ats) >= 3
    assert len(ats) == len(set(ats)), "an occurrence has two jobs"
    ends = conn.execute("SELECT state, count(*) FROM redisjobs.finished GROUP BY state").fetchall()
    assert [word for word, _ in ends] == ["deduplicated"]
    assert ends[0][1] >= 2
