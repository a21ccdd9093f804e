"""`redisjobs schedules`, `redisjobs scheduler` and `worker --scheduler`: S1 and what an operator is told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.cli import CommandLine
from tests.support.eventually import eventually
from tests.support.processes import Processes
from tests.support.schedules import dispatched, field, make, outage, rounds, scheduler_by_hand

Conn = psycopg.Connection[Any]
APP = """
import psycopg, os
from redisjobs import App, Context

app = App("shop")


@app.schedule(every=1)
@app.job
async def tick(ctx: Context) -> None:
    found = ctx.schedule
    print("ran", found.schedule, found.at.isoformat(), found.local.tzinfo, found.catch_up, flush=True)
"""


@pytest.fixture
def cli(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


def told(cli: CommandLine, *arguments: str) -> str:
    return cli(*arguments).stdout


def test_next_tells_local_and_utc_times_and_marks_changes_of_the_clocks(cli: CommandLine, conn: Conn):
    make(conn, "nightly", cron="30 2 * * *", zone="Europe/Berlin")
    spring = cli.json("schedules", "next", "nightly", "--count", "3", "--from", "2026-03-27T12:00Z")["next"]
    assert [each["utc"] for each in spring] == [
        "2026-03-28T01:30:00+00:00", "2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00",
    ]  # fmt: skip
    assert spring[1]["local"] == "2026-03-29T03:00:00+02:00"
    assert spring[1]["notes"] == [
        "the clocks went forward, to 03:00 on 29 March", "its time is skipped that day: due right after the skip",
    ]  # fmt: skip
    autumn = cli.json("schedules", "next", "nightly", "--count", "2", "--from", "2026-10-24T12:00Z")["next"]
    assert autumn[0]["notes"] == ["this time comes twice: first passing, the second is left out"]
    assert autumn[1]["notes"] == ["the clocks went back, to 02:00 on 25 October"]
    shown = told(cli, "schedules", "next", "nightly", "--from", "2026-03-28T12:00Z")
    assert "Sun 2026-03-29 03:00:00 +0200" in shown
    assert "local (Europe/Berlin)" in shown


def test_explain_tells_what_would_be_dispatched_and_why(cli: CommandLine, conn: Conn):
    make(conn, "s", cron="0 * * * *", overlap="skip", misfire_grace=timedelta(hours=2), jitter=timedelta(minutes=5))
    text = told(cli, "schedules", "explain", "s", "--from", "2026-03-01T00:00Z", "--to", "2026-03-01T06:30Z")
    assert "6 occurrences" in text
    assert "late by more than 2 h is passed over" in text
    assert "the occurrence is passed over (overlap=skip)" in text
    assert "one job, for 2026-03-01 06:00:00 UTC, the latest" in text
    make(conn, "all", cron="0 * * * *", catch_up="run_all", max_catch_up=4)
    document = cli.json("schedules", "explain", "all", "--from", "2026-03-01T00:00Z", "--to", "2026-03-01T06:30Z")
    assert [line[:6] for line in document["after_an_outage"]] == ["4 jobs", "2 jobs"]


def test_an_operator_makes_pauses_resumes_triggers_and_deletes(cli: CommandLine, conn: Conn):
    create = (
        "schedules",
        "create",
        "ping",
        "ping",
        "--cron",
        "*/5 * * * *",
        "--zone",
        "Asia/Tokyo",
        "--input",
        '{"a": 1}',
    )
    assert "is there" in told(cli, *create)
    assert "as it was asked for" in told(cli, *create)
    told(cli, "schedules", "pause", "ping")
    [line] = cli.json("schedules", "list")["schedules"]
    assert (line["name"], line["enabled"], line["cron"]) == ("ping", False, "*/5 * * * *")
    assert "PAUSED" in told(cli, "schedules", "list")
    told(cli, "schedules", "resume", "ping")
    assert field(conn, "ping", "enabled") is True
    job_id = told(cli, "schedules", "trigger", "ping").strip()
    assert conn.execute("SELECT id::text, input ->> 'a' FROM redisjobs.outbox").fetchall() == [(job_id, "1")]
    conn.commit()
    told(cli, "schedules", "delete", "ping")
    assert "no schedule yet" in told(cli, "schedules", "list")


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        (["create", "a", "b", "--cron", "0 0 30 2 *"], 78, "never due"),
        (["create", "a", "b", "--cron", "* * * * *", "--zone", "Mars"], 78, "no zone"),
        (["create", "a", "b", "--cron", "* * * * *", "--every", "5s"], 78, "goes with every"),
        (["create", "a", "b"], 78, "pass cron=… or every=…"),
        (["create", "a", "b", "--every", "5s", "--input", "1"], 2, "no JSON object"),
        (["next", "none"], 1, "no schedule 'none'"),
        (["pause", "none"], 1, "no schedule 'none'"),
        (["trigger", "none"], 1, "no schedule 'none'"),
        (["delete", "none"], 1, "no schedule 'none'"),
    ],
)
def test_a_mistake_is_told_in_one_line(cli: CommandLine, command: list[str], code: int, why: str):
    assert why in cli("schedules", *command, code=code).stderr


async def test_an_overdue_schedule_and_one_that_cannot_be_read_are_named(
    cli: CommandLine, conn: Conn, database_url: str
):
    make(conn, "late", cron="* * * * *")
    make(conn, "bad", cron="61 * * * *")
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    outage(conn, "late", timedelta(minutes=5))
    answer = cli("schedules", "list")
    assert "OVERDUE" in answer.stdout
    assert "REFUSED" in answer.stdout
    assert "is a scheduler running?" in answer.stderr


async def test_a_scheduler_a_relay_and_a_worker_run_the_schedules_of_the_code(
    processes: Processes, conn: Conn, tmp_path: Path
):
    (tmp_path / "shop.py").write_text(APP)
    scheduler = processes.redisjobs("scheduler", "shop:app")
    processes.redisjobs("relay")
    worker = processes.redisjobs("worker", "shop:app")
    await scheduler.says("scheduler.started")
    await eventually(lambda: worker.log().count("ran tick") >= 2, "the worker runs it twice", within=30)
    assert "UTC False" in worker.log()
    assert scheduler.stop(within=15) == 0
    assert "scheduler.stopped" in scheduler.log()


async def test_a_worker_dispatches_too_when_it_is_asked_to(processes: Processes, conn: Conn, tmp_path: Path):
    (tmp_path / "shop.py").write_text(APP)
    worker = processes.redisjobs("worker", "shop:app", "--scheduler")
    await worker.says("scheduler.started")
    await eventually(lambda: dispatched(conn, "tick"), "an occurrence is dispatched", within=20)
    assert worker.stop(within=15) == 0
