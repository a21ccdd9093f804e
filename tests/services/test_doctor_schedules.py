"""`redisjobs doctor` on schedules that nobody can read, and on none that anybody dispatches (P3)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.support.cli import CommandLine
from tests.support.examined import examine
from tests.support.schedules import make, outage, rounds, scheduler_by_hand

Conn = psycopg.Connection[Any]


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


async def test_schedules_that_are_dispatched_are_sound(redisjobs: CommandLine, conn: Conn, database_url: str):
    make(conn, "s", cron="* * * * *")
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    found = examine(redisjobs)
    assert (found.of("schedules.readable")["level"], found.of("schedules.dispatched")["level"]) == ("ok", "ok")


async def test_a_schedule_with_a_zone_that_is_none_is_named(redisjobs: CommandLine, conn: Conn, database_url: str):
    make(conn, "lost", cron="* * * * *", zone="Mars/Olympus")
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    found = examine(redisjobs).of("schedules.readable")
    assert found["level"] == "fail"
    assert "schedule lost" in found["value"]
    assert "no zone" in found["value"]
    assert "redisjobs schedules delete lost" in found["remedy"]


def test_a_schedule_that_never_ran_because_no_scheduler_runs_is_named(redisjobs: CommandLine, conn: Conn):
    make(conn, "s", cron="* * * * *")
    outage(conn, "s", timedelta(minutes=10))
    found = examine(redisjobs).of("schedules.dispatched")
    assert found["level"] == "fail"
    assert "overdue by 10 min, and has never run" in found["value"]
    assert "redisjobs scheduler" in found["remedy"]
