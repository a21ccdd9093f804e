"""`redisjobs jobs`: what both stores know of a job, in one place."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.support.builders import Conn, envelope, publication, stage
from tests.support.cli import CommandLine
from tests.support.queue import QueueByHand

UNKNOWN = "0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f"


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


def test_a_list_can_be_narrowed(redisjobs: CommandLine, conn: Conn):
    mail = stage(conn, "mail", queue="mails", tenant_id="acme")
    bill = stage(conn, "bill", queue="bills")
    conn.execute("UPDATE redisjobs.outbox SET state = 'retrying' WHERE id = %s", [bill])
    conn.commit()

    def ids(*options: str) -> set[str]:
        return {each["id"] for each in redisjobs.json("jobs", "list", *options)["jobs"]}

    assert ids() == {str(mail), str(bill)}
    assert ids("--queue", "mails") == ids("--job", "mail") == ids("--tenant", "acme") == {str(mail)}
    assert ids("--state", "retrying") == {str(bill)}
    assert ids("--queue", "mails", "--job", "bill") == set()
    assert len(ids("--limit", "1")) == 1


def test_a_list_has_jobs_that_have_ended(redisjobs: CommandLine, conn: Conn):
    conn.execute(
        "INSERT INTO redisjobs.finished (id, job, queue, state, staged_at, keep_until)"
        " VALUES (%s, 'mail', 'q', 'done', now(), now() + interval '1 h')",
        [uuid4()],
    )
    conn.execute("INSERT INTO redisjobs.dead (id, job, queue, reason) VALUES (%s, 'bill', 'q', 'why')", [uuid4()])
    conn.commit()

    assert {each["state"] for each in redisjobs.json("jobs", "list")["jobs"]} == {"done", "dead"}
    assert "bill" in redisjobs("jobs", "list").stdout


def test_the_error_of_an_earlier_attempt_is_no_error_of_a_job_that_is_done(redisjobs: CommandLine, conn: Conn):
    done, cancelled = uuid4(), uuid4()
    for job, state in ((done, "done"), (cancelled, "cancelled")):
        conn.execute(
            "INSERT INTO redisjobs.finished (id, job, queue, state, attempts, staged_at, keep_until, last_error)"
            " VALUES (%s, 'mail', 'q', %s, 2, now(), now() + interval '1 h', 'TimeoutError: slow')",
            [job, state],
        )
    conn.commit()

    told = {each["id"]: each for each in redisjobs.json("jobs", "list")["jobs"]}
    shown = redisjobs.json("jobs", "show", done)["job"]

    assert redisjobs("jobs", "list", "--state", "done").stdout.count("TimeoutError") == 0
    assert (told[str(done)]["error"], told[str(done)]["earlier_error"]) == (None, "TimeoutError: slow")
    assert (told[str(cancelled)]["error"], told[str(cancelled)]["earlier_error"]) == ("TimeoutError: slow", None)
    assert (shown["error"], shown["earlier_error"]) == (None, "TimeoutError: slow")
    assert "2; an earlier one failed: TimeoutError: slow" in redisjobs("jobs", "show", done).stdout
    assert [each["id"] for each in redisjobs.json("jobs", "list", "--error", "slow")["jobs"]] == [str(cancelled)]


async def test_show_follows_a_job_through_redis(redisjobs: CommandLine, conn: Conn, q: QueueByHand):
    job = stage(conn, "mail", queue="q")
    conn.commit()

    def place() -> object:
        return redisjobs.json("jobs", "show", job)["redis"]

    assert place() is None
    await q.publish(publication("mail", job_id=job.bytes))
    assert place()["where"] == "waiting"  # type: ignore[index]
    assert "waiting for a worker of queue q" in redisjobs("jobs", "show", job).stdout

    delivery = await q.take_one("worker-1", lease_ms=20_000)
    running = redisjobs.json("jobs", "show", job)["redis"]
    assert (running["where"], running["holder"], running["starts"]) == ("running", "worker-1", 1)
    assert 0 < running["lease_left_s"] <= 20
    assert "running on worker-1, its lease ends in" in redisjobs("jobs", "show", job).stdout

    await q.finish(delivery, "retry", consumer="worker-1", delay_ms=30_000)
    due = redisjobs.json("jobs", "show", job)["redis"]
    assert (due["where"], due["attempts"]) == ("due", 1)
    assert 0 < due["due_in_s"] <= 30


async def test_a_job_without_a_row_is_found_in_redis(redisjobs: CommandLine, q: QueueByHand):
    job = uuid4()
    await q.broker.enqueue_direct("q", [publication(envelope("ping"), job_id=job.bytes, direct=True)])

    assert "job ping, put there directly" in redisjobs("jobs", "show", job).stdout


@pytest.mark.parametrize("command", [["cancel"], ["reprioritize", "--priority", "1"], ["reschedule", "--now"]])
async def test_why_a_job_without_a_row_is_left_alone_is_told(
    redisjobs: CommandLine, q: QueueByHand, command: list[str]
):
    job = uuid4()
    await q.broker.enqueue_direct("q", [publication(envelope("ping"), job_id=job.bytes, direct=True)])

    refused = redisjobs("jobs", *command, job, code=1).stderr

    assert f"job {job} (ping) was put into Redis directly: it has no row" in refused
    assert "not known in this database" not in refused


def test_arguments_are_never_shown(redisjobs: CommandLine, conn: Conn):
    job = stage(conn, "mail", {"card": "4111-marker"})
    conn.commit()

    told = [redisjobs("jobs", "show", job), redisjobs("jobs", "show", job, "--json"), redisjobs("jobs", "list")]

    assert not any("4111-marker" in each.output for each in told)


def test_failures_are_shown_with_time_and_traceback(redisjobs: CommandLine, conn: Conn):
    job = stage(conn)
    failures = (
        '[{"attempt": 1, "at": "2026-01-02T03:04:05", "type": "KeyError", "message": "x", "traceback": "  File y"}]'
    )
    conn.execute("UPDATE redisjobs.outbox SET failures = %s, state = 'retrying' WHERE id = %s", [failures, job])
    conn.commit()

    told = redisjobs("jobs", "show", job).stdout

    assert "attempt 1 at 2026-01-02T03:04:05: KeyError" in told
    assert "  File y" in told


def test_show_works_without_redis(redisjobs: CommandLine, conn: Conn):
    job = stage(conn)
    conn.commit()

    assert (
        "not known: Redis does not answer"
        in redisjobs("jobs", "show", job, "--redis-url", "redis://127.0.0.1:1").stdout
    )


def test_an_unknown_job_ends_with_1_and_says_why_that_may_be(redisjobs: CommandLine):
    assert (
        "is not known in this database: its transaction rolled back"
        in redisjobs("jobs", "show", UNKNOWN, code=1).stderr
    )
    assert "is not known in this database" in redisjobs("jobs", "cancel", UNKNOWN, code=1).stderr


def test_cancel_flags_the_row(redisjobs: CommandLine, conn: Conn):
    job = stage(conn)
    conn.commit()

    assert f"{job} will be cancelled" in redisjobs("jobs", "cancel", job).stdout
    assert redisjobs.json("jobs", "show", job)["job"]["cancel_requested"] is True


def test_cancel_tells_how_a_job_has_ended(redisjobs: CommandLine, conn: Conn):
    job = uuid4()
    conn.execute("INSERT INTO redisjobs.dead (id, job, queue, reason) VALUES (%s, 'bill', 'q', 'why')", [job])
    conn.commit()

    assert f"{job} had ended already: dead" in redisjobs("jobs", "cancel", job).stdout
    assert redisjobs.json("jobs", "cancel", job)["jobs"] == [{"id": str(job), "answer": "dead"}]
