"""S1, S3, S4, S7, S8 and rule 8: what schedulers dispatch and pass over, and that each occurrence is there once."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from redisjobs import App, ArgumentsError, OptionError
from redisjobs.cron import cron
from redisjobs.errors import ConfigurationError
from tests.support.builders import stage, states
from tests.support.eventually import eventually
from tests.support.relays import relay_by_hand
from tests.support.schedules import dispatched, field, in_one_minute, make, outage, rounds, scheduler_by_hand

Conn = psycopg.Connection[Any]
MINUTELY, YEARLY = "* * * * *", "0 0 1 1 *"
HOURS_3 = timedelta(hours=3)


@pytest.fixture(autouse=True)
def no_minute_begins() -> None:
    """What is due every minute comes due in no test, but for what a test makes due."""
    in_one_minute()


def now(conn: Conn) -> datetime:
    row = conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    assert isinstance(row[0], datetime)
    return row[0].astimezone(UTC)


# -- S3
async def test_s3_a_new_schedule_starts_at_now_and_dispatches_nothing_for_the_past(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    assert dispatched(conn, "s") == []
    assert field(conn, "s", "next_run") > field(conn, "s", "created_at")


@pytest.mark.parametrize("change", [{"cron": "*/2 * * * *"}, {"cron": MINUTELY, "zone": "Europe/Berlin"}])
async def test_s3_a_changed_expression_or_zone_starts_anew(conn: Conn, database_url: str, change: dict[str, str]):
    make(conn, "s", cron=MINUTELY)
    outage(conn, "s", HOURS_3)
    make(conn, "s", **change)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    assert dispatched(conn, "s") == []


async def test_s3_another_change_keeps_what_is_missed(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY)
    outage(conn, "s", HOURS_3)
    make(conn, "s", cron=MINUTELY, priority=5)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    assert len(dispatched(conn, "s")) == 1


# -- S4, H10: a three-hour outage under each policy
async def test_s4_skip_dispatches_the_latest_missed_occurrence_alone(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY)
    outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
        [mark] = dispatched(conn, "s")
        assert mark["at"] == cron(MINUTELY).latest(mark["at"] - HOURS_3, mark["staged_at"])
        assert mark["catch_up"]
        assert field(conn, "s", "watermark") == mark["at"]
        assert field(conn, "s", "next_run") == mark["at"] + timedelta(minutes=1)


async def test_s4_run_once_dispatches_one_job_for_the_whole_window(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY, catch_up="run_once")
    since = outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    [mark] = dispatched(conn, "s")
    first = cron(MINUTELY).next(since)
    assert first is not None
    assert datetime.fromisoformat(mark["first"]) == first
    assert mark["count"] == (mark["at"] - first) // timedelta(minutes=1) + 1
    assert mark["count"] in (180, 181)
    assert mark["catch_up"]


async def test_s4_run_all_dispatches_each_occurrence_oldest_first_and_some_in_a_round(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY, catch_up="run_all", max_catch_up=50)
    since = outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await scheduler.tick()
        assert len(dispatched(conn, "s")) == 50
        await rounds(scheduler)
    marks = dispatched(conn, "s")
    expected = list(cron(MINUTELY).occurrences(since, marks[-1]["at"]))
    assert [mark["at"] for mark in marks] == expected
    assert len(expected) in (180, 181)
    late = [mark.get("catch_up", False) for mark in marks]
    assert all(late[:-1]), "each but the last came late by more than a period"
    assert not late[-1]


@pytest.mark.parametrize(
    ("options", "number"), [({}, 1), ({"catch_up": "run_once"}, 1), ({"catch_up": "run_all", "max_catch_up": 4}, 4)]
)
async def test_h10_ten_missed_minutes_are_made_up_for_as_was_asked_and_once(
    conn: Conn, database_url: str, options: dict[str, Any], number: int
):
    make(conn, "s", cron=MINUTELY, **options)
    outage(conn, "s", timedelta(minutes=10))
    async with scheduler_by_hand(database_url) as scheduler:
        await scheduler.tick()
        assert len(dispatched(conn, "s")) == number
        await rounds(scheduler)
    before = [mark["at"] for mark in dispatched(conn, "s")]
    async with scheduler_by_hand(database_url) as restarted:
        await rounds(restarted)
    after = [mark["at"] for mark in dispatched(conn, "s")]
    assert after[: len(before)] == before
    assert all(at > before[-1] for at in after[len(before) :]), "a restart makes up for nothing a second time"


async def test_what_is_late_by_more_than_the_misfire_grace_is_passed_over(conn: Conn, database_url: str):
    make(conn, "s", cron="0 0 1 * *", misfire_grace=timedelta(minutes=5), starts_at=datetime(2020, 1, 1, tzinfo=UTC))
    outage(conn, "s", timedelta(days=63))
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
        first = now(conn).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if now(conn) - first > timedelta(minutes=6):  # else the month has just begun, and it is not late
            assert dispatched(conn, "s") == []
            assert scheduler.passed_over == 1
            assert field(conn, "s", "passed_over") == {"why": "misfire_grace", "occurrence": first.isoformat()}
            assert field(conn, "s", "watermark") == first


async def test_run_all_makes_up_for_what_is_within_the_misfire_grace(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY, catch_up="run_all", max_catch_up=100, misfire_grace=timedelta(minutes=30))
    outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    marks = dispatched(conn, "s")
    assert len(marks) in (30, 31)
    assert marks[0]["at"] >= marks[0]["staged_at"] - timedelta(minutes=30, seconds=1)


# -- overlap
async def test_overlap_skip_passes_over_while_the_last_job_lives(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY, overlap="skip")
    outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
        outage(conn, "s", HOURS_3)
        await rounds(scheduler)
        assert len(dispatched(conn, "s")) == 1
        assert field(conn, "s", "passed_over")["why"] == "overlap"

        conn.execute("DELETE FROM redisjobs.outbox")  # it has ended
        conn.commit()
        outage(conn, "s", HOURS_3)
        await rounds(scheduler)
        assert len(dispatched(conn, "s")) == 1


async def test_overlap_cancel_asks_for_the_end_of_the_last_job(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY, overlap="cancel")
    async with scheduler_by_hand(database_url) as scheduler:
        for back in (timedelta(minutes=10), timedelta(minutes=0)):
            conn.execute(
                "UPDATE redisjobs.schedules SET watermark = clock_timestamp() - interval '1 h' - %s, stale = true",
                [back],
            )
            conn.commit()
            await rounds(scheduler)
            conn.execute("UPDATE redisjobs.outbox SET idempotency_key = gen_random_uuid()::text")
            conn.commit()
    rows = conn.execute("SELECT cancel_requested FROM redisjobs.outbox ORDER BY seq").fetchall()
    assert rows == [(True,), (False,)]


# -- what a dispatch carries
async def test_a_dispatch_carries_the_call_unchanged_under_the_key_of_its_occurrence(conn: Conn, database_url: str):
    make(conn, "s", "report", cron=MINUTELY, input='{"a":  1}', queue="reports", priority=7, max_attempts=3,
         tenant_id="acme", headers='{"h": [1]}', expires_in=timedelta(hours=1))  # fmt: skip
    outage(conn, "s", timedelta(minutes=2))
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    [row] = conn.execute(
        "SELECT job, queue, input::text, priority, max_attempts, tenant_id, headers -> 'h' ->> 0, idempotency_key,"
        " round(date_part('epoch', expires_at - staged_at)), run_at, enqueued_by FROM redisjobs.outbox"
    ).fetchall()
    [mark] = dispatched(conn, "s")
    key = f"schedule s {mark['at'].isoformat()}"
    assert row == ("report", "reports", '{"a":  1}', 7, 3, "acme", "1", key, 3600, None, "schedule s")


async def test_jitter_puts_the_start_off_and_not_the_dispatch(conn: Conn, database_url: str):
    for number in range(20):
        make(conn, f"s{number}", cron=MINUTELY, jitter=timedelta(hours=10))
        outage(conn, f"s{number}", timedelta(minutes=2))
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    rows = conn.execute("SELECT date_part('epoch', run_at - staged_at) FROM redisjobs.outbox").fetchall()
    delays = sorted(delay for (delay,) in rows)
    assert len(delays) == 20
    assert -120 <= delays[0] < delays[-1] <= 36_000
    assert delays[-1] - delays[0] > 3600


async def test_nothing_is_due_before_the_start_and_after_the_end(conn: Conn, database_url: str):
    at = now(conn)
    make(conn, "s", cron=MINUTELY, catch_up="run_all", max_catch_up=1000,
         starts_at=at - timedelta(minutes=60), ends_at=at - timedelta(minutes=30))  # fmt: skip
    outage(conn, "s", HOURS_3)
    make(conn, "later", cron=MINUTELY, starts_at=at + HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
    marks = dispatched(conn, "s")
    assert len(marks) in (30, 31)
    assert all(at - timedelta(minutes=60) <= mark["at"] <= at - timedelta(minutes=30) for mark in marks)
    assert field(conn, "s", "next_run") is None
    assert field(conn, "later", "next_run") >= at + HOURS_3


# -- S1: at run time
async def test_s1_a_paused_schedule_dispatches_nothing_and_goes_on_from_now(conn: Conn, database_url: str):
    app = App("shop")
    make(conn, "s", cron=MINUTELY)
    assert app.schedules.pause(conn, "s")
    conn.commit()
    outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
        assert app.schedules.resume(conn, "s")
        conn.commit()
        await rounds(scheduler)
    assert dispatched(conn, "s") == []
    assert field(conn, "s", "next_run") is not None


async def test_s1_a_triggered_schedule_asks_for_its_job_once_beside_its_occurrences(conn: Conn, database_url: str):
    app = App("shop")
    make(conn, "s", cron=YEARLY)
    job_id = app.schedules.trigger(conn, "s")
    conn.commit()
    assert job_id is not None
    [mark] = dispatched(conn, "s")
    assert mark["triggered"]
    assert field(conn, "s", "dispatches") == 0
    assert app.schedules.trigger(conn, "none") is None


async def test_s1_a_deleted_schedule_is_gone(conn: Conn, database_url: str):
    app = App("shop")
    make(conn, "s", cron=MINUTELY)
    assert app.schedules.delete(conn, "s")
    assert not app.schedules.delete(conn, "s")
    conn.commit()
    async with scheduler_by_hand(database_url) as scheduler:
        assert await rounds(scheduler) == 0


# -- declared in code
def declaring(cron: str = MINUTELY) -> App:
    app = App("shop")

    @app.schedule(cron)
    @app.job
    async def report() -> None: ...

    return app


async def test_a_declared_schedule_is_made_changed_and_withdrawn_as_the_code_has_it(conn: Conn, database_url: str):
    async with scheduler_by_hand(database_url, app=declaring()) as scheduler:
        await scheduler.tick()
    assert (field(conn, "report", "cron"), field(conn, "report", "declared_by")) == (MINUTELY, "shop")
    revision = field(conn, "report", "revision")

    async with scheduler_by_hand(database_url, app=declaring()) as scheduler:
        await scheduler.tick()
    assert field(conn, "report", "revision") == revision, "the same declaration changes nothing"

    async with scheduler_by_hand(database_url, app=declaring("*/5 * * * *")) as scheduler:
        await scheduler.tick()
    assert field(conn, "report", "cron") == "*/5 * * * *"

    bare = App("shop")
    bare.job(name="report")(_nothing)
    async with scheduler_by_hand(database_url, app=bare) as scheduler:
        await scheduler.tick()
    assert conn.execute("SELECT FROM redisjobs.schedules").fetchall() == []


async def _nothing() -> None: ...


async def test_a_declared_schedule_that_is_paused_stays_so_over_a_restart(conn: Conn, database_url: str):
    async with scheduler_by_hand(database_url, app=declaring()) as scheduler:
        await scheduler.tick()
    App("shop").schedules.pause(conn, "report")
    conn.commit()
    async with scheduler_by_hand(database_url, app=declaring()) as scheduler:
        await scheduler.tick()
    assert field(conn, "report", "enabled") is False


async def test_another_programs_declared_schedule_is_left_alone_and_named(conn: Conn, database_url: str, caplog: Any):
    async with scheduler_by_hand(database_url, app=declaring()) as scheduler:
        await scheduler.tick()
    async with scheduler_by_hand(database_url, app=App("shop")) as scheduler:
        await scheduler.tick()
    assert field(conn, "report", "cron") == MINUTELY
    assert "schedule.orphaned" in caplog.text


def test_s2_what_cannot_be_declared_is_refused_at_once():
    app = App("shop")

    @app.job
    async def mail(to: str) -> None: ...

    with pytest.raises(OptionError, match="never due"):
        app.schedule("0 0 30 2 *")
    with pytest.raises(OptionError, match="no zone"):
        app.schedule(MINUTELY, zone="Mars/Olympus")
    with pytest.raises(OptionError, match="or every="):
        app.schedule()
    with pytest.raises(OptionError, match="catch_up"):
        app.schedule(MINUTELY, catch_up="all")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="overlap"):
        app.schedule(MINUTELY, catch_up="run_all", overlap="skip")
    with pytest.raises(ArgumentsError, match="'to'"):
        app.schedule(MINUTELY)(mail)
    with pytest.raises(ConfigurationError, match="above"):
        app.schedule(MINUTELY)(_nothing)  # type: ignore[type-var]
    app.schedule(MINUTELY, name="a", call=mail.call("x"))
    with pytest.raises(ConfigurationError, match="two schedules"):
        app.schedule("*/2 * * * *", name="a", call=mail.call("x"))


async def test_a_schedule_that_cannot_be_read_says_why_and_stops_no_other(conn: Conn, database_url: str, caplog: Any):
    make(conn, "bad", cron="61 * * * *")
    make(conn, "lost", cron=MINUTELY, zone="Mars/Olympus")
    make(conn, "good", cron=MINUTELY)
    outage(conn, "good", HOURS_3)
    async with scheduler_by_hand(database_url) as scheduler:
        await rounds(scheduler)
        assert await scheduler.tick() == 0, "it is not looked at again before it changes"
    assert len(dispatched(conn, "good")) == 1
    assert "out of range" in field(conn, "bad", "trouble")
    assert "no zone" in field(conn, "lost", "trouble")
    assert caplog.text.count("schedule.refused") == 2


# -- S7 and rule 8
async def test_rule_8_of_many_schedulers_one_dispatches_an_occurrence(conn: Conn, database_url: str):
    make(conn, "s", cron=MINUTELY, catch_up="run_all", max_catch_up=7)
    outage(conn, "s", HOURS_3)
    async with (
        scheduler_by_hand(database_url) as first,
        scheduler_by_hand(database_url) as second,
        scheduler_by_hand(database_url) as third,
    ):
        await asyncio.gather(*(rounds(each) for each in (first, second, third)))
        await rounds(first)
    ats = [mark["at"] for mark in dispatched(conn, "s")]
    assert len(ats) == len(set(ats))
    assert ats == list(cron(MINUTELY).occurrences(ats[0] - timedelta(seconds=1), ats[-1]))


async def test_rule_8_a_watermark_that_moved_after_the_look_is_not_moved_again(conn: Conn, database_url: str):
    """A scheduler that stood still between its look and its dispatch, while another one did the work."""
    make(conn, "s", cron=MINUTELY)
    outage(conn, "s", HOURS_3)
    async with scheduler_by_hand(database_url) as paused, scheduler_by_hand(database_url) as other:
        from redisjobs.scheduler import read  # noqa: PLC0415

        rows = await paused.database.run("look", paused._sql.due, {"limit": 10})
        known = [read(row) for row in rows]
        await rounds(other)
        conn.execute("DELETE FROM redisjobs.outbox")  # the job has ended, and its key is free
        conn.commit()
        assert await paused._dispatch(known) == 0
    assert dispatched(conn, "s") == []


async def test_s7_a_running_scheduler_dispatches_on_time_and_never_early(conn: Conn, database_url: str):
    async with scheduler_by_hand(database_url, interval=30) as scheduler:
        await scheduler.start()
        await eventually(lambda: scheduler.works, "it runs")
        make(conn, "s", every=timedelta(seconds=1))
        await eventually(lambda: len(dispatched(conn, "s")) >= 3, "three dispatches, woken by the change alone")
    marks = dispatched(conn, "s")
    assert all(mark["staged_at"] >= mark["at"] for mark in marks)


async def test_h18_steps_of_the_hosts_clock_change_nothing(conn: Conn, database_url: str, monkeypatch: Any):
    """Moments are those of Postgres; the host's wall clock may say what it likes."""
    make(conn, "s", cron=MINUTELY)
    outage(conn, "s", timedelta(minutes=3))
    real = time.time
    async with scheduler_by_hand(database_url) as scheduler:
        for step in (86_400.0, -3600.0, 0.0):
            monkeypatch.setattr(time, "time", lambda step=step: real() + step)
            await rounds(scheduler)
    assert len(dispatched(conn, "s")) == 1
    assert field(conn, "s", "next_run") - field(conn, "s", "watermark") == timedelta(minutes=1)


async def test_h20_zones_of_host_and_database_do_not_matter(conn: Conn, database_url: str, monkeypatch: Any):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        url = f"{database_url}{'&' if '?' in database_url else '?'}options=-c%20TimeZone%3DAsia/Tokyo"
        make(conn, "s", cron="45 9 * * *", zone="Europe/Moscow")
        outage(conn, "s", timedelta(hours=24))
        async with scheduler_by_hand(url) as scheduler:
            await rounds(scheduler)
        [mark] = dispatched(conn, "s")
        assert (mark["at"].hour, mark["at"].minute) == (6, 45)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
async def test_h21_the_zone_of_a_session_moves_no_moment(conn: Conn, database_url: str, redis_url: str, zone: str):
    conn.execute("SELECT set_config('TimeZone', %s, false)", [zone])
    job = stage(conn)
    make(conn, "s", cron=MINUTELY)
    at = now(conn)
    [(staged_at,)] = conn.execute("SELECT staged_at FROM redisjobs.outbox").fetchall()
    assert abs(staged_at - at) < timedelta(minutes=1)
    assert abs(field(conn, "s", "watermark") - at) < timedelta(minutes=1)
    async with relay_by_hand(database_url, redis_url) as relay:
        await relay.rounds()
    assert states(conn) == {job: "published"}


async def test_ten_thousand_schedules_due_in_one_minute_are_dispatched_soon(conn: Conn, database_url: str):
    conn.execute(
        "INSERT INTO redisjobs.schedules (name, job, input, cron, watermark)"
        " SELECT 's' || n, 'tick', '{}', '0 0 * * *', clock_timestamp() - interval '25 hours'"
        " FROM generate_series(1, 10000) n"
    )
    conn.commit()
    # what Postgres itself needs to write as many rows one by one, in the same run, is the measure of this machine
    began = time.perf_counter()
    for start in range(0, 10_000, 200):
        conn.execute(
            "INSERT INTO redisjobs.outbox (job, input, queue)"
            " SELECT 'x', '{}', 'measure' FROM generate_series(1, 200) WHERE %s >= 0",
            [start],
        )
        conn.commit()
    alone = time.perf_counter() - began
    async with scheduler_by_hand(database_url) as scheduler:
        began = time.perf_counter()
        await rounds(scheduler)
        took = time.perf_counter() - began
    assert scheduler.dispatched == 10_000
    assert conn.execute("SELECT count(DISTINCT idempotency_key) FROM redisjobs.outbox").fetchone() == (10_000,)
    assert took < max(5.0, 25 * alone), f"{took:.1f} s, where bare inserts take {alone:.1f} s"


def test_the_process_is_in_its_own_zone_again():
    assert os.environ.get("TZ") != "America/New_York"
