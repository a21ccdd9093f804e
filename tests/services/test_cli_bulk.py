"""Commands on many jobs: they count first, ask, go piece by piece, and may be interrupted or run twice at once."""

from __future__ import annotations

import asyncio
import json
import signal
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from redisjobs.cli import cancel as cancel_module
from redisjobs.operator import Operator
from tests.services.test_cli_dead import bury
from tests.stories.road import Road
from tests.support.builders import Conn, envelope, publication, stage, states
from tests.support.cli import CommandLine
from tests.support.eventually import eventually, eventually_now
from tests.support.processes import Processes, Program
from tests.support.queue import QueueByHand
from tests.support.terminal import Terminal

MANY = 10_000


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


def bury_many(conn: Conn, number: int, job: str = "mail") -> None:
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, input, reason)"
        " SELECT redisjobs.new_id(), %s, 'q', '{}', 'why ' || n FROM generate_series(1, %s) n",
        [job, number],
    )
    conn.commit()


def count(conn: Conn, table: str) -> int:
    row = conn.execute(f"SELECT count(*) FROM redisjobs.{table}".encode()).fetchone()
    conn.commit()
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


# -- jobs list
def test_a_list_takes_several_states_and_every_filter(redisjobs: CommandLine, conn: Conn):
    mail = stage(conn, "mail", idempotency_key="k 1")
    bill, rest = stage(conn, "bill"), stage(conn, "rest")
    conn.execute("UPDATE redisjobs.outbox SET state = 'retrying', last_error = 'OSError: no' WHERE id = %s", [bill])
    conn.execute("UPDATE redisjobs.outbox SET state = 'parked' WHERE id = %s", [rest])
    conn.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '3 h' WHERE id = %s", [rest])
    conn.commit()

    def ids(*options: str) -> set[str]:
        return {each["id"] for each in redisjobs.json("jobs", "list", *options)["jobs"]}

    assert ids("--state", "retrying", "--state", "parked") == {str(bill), str(rest)}
    assert ids("--idempotency-key", "k 1") == {str(mail)}
    assert ids("--error", "oserror") == {str(bill)}
    assert ids("--older-than", "2h") == {str(rest)}
    assert ids("--newer-than", "2h") == {str(mail), str(bill)}
    assert redisjobs("jobs", "list", "--count").stdout == "3\n"
    assert redisjobs.json("jobs", "list", "--count", "--state", "parked") == {"count": 1}


def test_pages_and_lines_are_for_programs(redisjobs: CommandLine, conn: Conn):
    jobs = [str(stage(conn)) for _ in range(5)]
    conn.commit()

    first = redisjobs.json("jobs", "list", "--limit", "2")
    rest = redisjobs("jobs", "list", "--jsonl", "--after", first["next"])

    seen = [each["id"] for each in first["jobs"]] + [json.loads(line)["id"] for line in rest.stdout.splitlines()]
    assert seen == sorted(jobs, reverse=True)
    assert f"--after {first['next']} shows the next" in redisjobs("jobs", "list", "--limit", "2").stderr


async def test_what_waits_runs_and_is_due_is_told_by_redis(redisjobs: CommandLine, conn: Conn, q: QueueByHand):
    def row(job: str, **columns: Any) -> UUID:
        made = stage(conn, job, queue="q", **columns)
        conn.execute("UPDATE redisjobs.outbox SET state = 'published' WHERE id = %s", [made])
        conn.commit()
        return made

    running = [row("run"), row("run")]
    await q.publish(*[publication("run", job_id=each.bytes) for each in running])
    await q.take(count=2)
    waiting = [row("mail", tenant_id="acme"), row("bill")]
    await q.publish(*[publication(job_id=each.bytes) for each in waiting])
    due = [row("later"), row("later")]
    await q.publish(*[publication(job_id=each.bytes, delay_ms=60_000) for each in due])
    direct = uuid4()
    await q.broker.enqueue_direct("q", [publication(envelope("ping"), job_id=direct.bytes, direct=True)])

    def ids(*options: str) -> list[str]:
        return [each["id"] for each in redisjobs.json("jobs", "list", "--state", *options)["jobs"]]

    assert ids("running") == list(map(str, running))
    assert ids("waiting", "--queue", "q") == list(map(str, [*waiting, direct]))
    assert ids("waiting", "--job", "ping") == [str(direct)]
    assert ids("waiting", "--tenant", "acme") == [str(waiting[0])]
    assert sorted(ids("due")) == sorted(map(str, due))
    assert ids("waiting", "--limit", "1") == [str(waiting[0])]
    assert ids("waiting", "--after", str(waiting[0])) == [str(waiting[1]), str(direct)]
    assert ids("waiting", "--queue", "other") == []
    assert redisjobs("jobs", "list", "--state", "due", "--count").stdout == "2\n"
    assert (
        "is not running any more" in redisjobs("jobs", "list", "--state", "running", "--after", direct, code=1).stderr
    )


async def test_thousands_due_at_the_same_moment_are_told_once_each(redisjobs: CommandLine, q: QueueByHand):
    jobs = [publication(direct=True, delay_ms=60_000) for _ in range(1_700)]
    await q.broker.enqueue_direct("q", jobs)
    scores = {job.job_id: 4e12 + (n % 3) for n, job in enumerate(jobs)}
    q.redis.zadd(q.key("due"), scores)

    told = [each["id"] for each in redisjobs.json("jobs", "list", "--state", "due", "--limit", "5000")["jobs"]]

    assert sorted(told) == sorted(str(UUID(bytes=job.job_id)) for job in jobs)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["jobs", "list", "--state", "lost"], 2, "'lost' is not one of"),
        (["jobs", "list", "--older-than", "soon"], 2, "'soon' is no duration"),
        (["jobs", "list", "--older-than", "2h", "--newer-than", "1h"], 78, "no job is older than 7200 s and not older"),
        (["jobs", "list", "--state", "running", "--state", "dead"], 78, "--state running is known by Redis alone"),
        (["jobs", "list", "--queue", "no such"], 78, "queue ('no such') is no queue name"),
        (["jobs", "list", "--error", ""], 2, "--error is empty"),
        (["jobs", "list", "--error", "\udcff"], 2, "is no text in UTF-8"),
        (["jobs", "list", "--older-than", "800000d"], 2, "is longer than 100 years"),
        (["dead", "redrive", "--newer-than", "9999999999d"], 2, "is longer than 100 years"),
        (["jobs", "list", "--after", "17"], 2, "'17' is no job id"),
        (["jobs", "cancel"], 2, "Say which: ids, filters"),
        (["jobs", "cancel", "--all", "--queue", "q"], 2, "--all takes all of them"),
        (["jobs", "cancel", "--state", "dead"], 2, "'dead' is not one of"),
        (["jobs", "cancel", str(uuid4()), "--job", "mail"], 2, "not both"),
        (["dead", "redrive", str(uuid4()), "--job", "mail"], 2, "not both"),
        (["dead", "replay", "--rate", "50/s"], 2, "Say which"),
        (["dead", "replay", "--all", "--rate", "fast"], 2, "rate ('fast') is no rate: pass such as 50/s"),
        (["dead", "replay", "--all", "--rate", "0"], 2, "is no rate"),
        (["dead", "replay", "--all", "--rate", "1", "--stop-on-failures", "120%"], 2, "is no share: pass such as 20%"),
        (["dead", "replay", "--all", "--rate", "1", "--died-before", "noon"], 2, "'noon' is no moment"),
    ],
)
def test_a_wrong_filter_is_told_with_the_remedy(redisjobs: CommandLine, options: list[str], code: int, told: str):
    assert told in redisjobs(*options, code=code).stderr


# -- jobs cancel
def test_many_are_cancelled_by_what_is_known_of_them(redisjobs: CommandLine, conn: Conn):
    mails = [stage(conn, "mail") for _ in range(250)]
    stays = stage(conn, "bill")
    conn.commit()

    tried = redisjobs("jobs", "cancel", "--job", "mail", "--dry-run").stdout
    assert tried.startswith("250 jobs would be cancelled; nothing was changed\n")
    assert tried.count("-7") >= 10
    assert "… and 240 more" in tried
    flagged = "SELECT id FROM redisjobs.outbox WHERE cancel_requested"
    assert conn.execute(flagged).fetchall() == []

    assert redisjobs("jobs", "cancel", "--job", "mail").stdout == "250 jobs will be cancelled\n"
    assert {row[0] for row in conn.execute(flagged).fetchall()} == set(mails)
    conn.commit()
    assert redisjobs("jobs", "cancel", "--all").stdout == "1 job will be cancelled\n"
    assert stays in {row[0] for row in conn.execute(flagged).fetchall()}


async def test_what_waits_is_cancelled_and_what_runs_is_not(redisjobs: CommandLine, conn: Conn, q: QueueByHand):
    rows = [stage(conn, queue="q") for _ in range(3)]
    conn.execute("UPDATE redisjobs.outbox SET state = 'published'")
    conn.commit()
    await q.publish(*[publication(job_id=each.bytes) for each in rows])
    await q.take(count=1)

    told = redisjobs.json("jobs", "cancel", "--state", "waiting", "--queue", "q")

    assert (told["fit"], told["answers"]) == (2, {"requested": 2})
    flagged = conn.execute("SELECT id FROM redisjobs.outbox WHERE cancel_requested").fetchall()
    assert {row[0] for row in flagged} == set(rows[1:])


async def test_jobs_that_finish_while_they_are_cancelled_have_one_end_each(
    database_url: str, redis_url: str, redisjobs: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cancel_module, "AT_ONCE", 7)
    cancelling = asyncio.Event()
    async with Road(database_url, redis_url) as road:

        @road.app.job()
        async def work() -> None:
            if len(road.seen) >= 300:  # some are left for it, however late it comes
                await cancelling.wait()
            await asyncio.sleep(0.002)
            road.seen.append(1)

        jobs = road.commit(*[work.call() for _ in range(600)])
        await road.work(concurrency=20)
        await eventually(lambda: len(road.seen) >= 50, "it is in full swing")
        cancel = asyncio.create_task(asyncio.to_thread(redisjobs.json, "jobs", "cancel", "--job", "work"))
        asked = "SELECT FROM redisjobs.outbox WHERE cancel_requested"
        gone = "SELECT FROM redisjobs.finished WHERE state = 'cancelled'"
        await eventually(lambda: road.query(f"{asked} UNION ALL {gone}"), "some are cancelled")
        cancelling.set()
        told = await cancel

        async def ended() -> bool:
            return not road.query("SELECT FROM redisjobs.outbox LIMIT 1")

        await eventually(ended, "every job has ended", 30)
        ends = road.query("SELECT state, count(*) FROM redisjobs.finished GROUP BY state")
    by_state = {str(state): int(number) for state, number in ends}
    assert sum(by_state.values()) == len(jobs)
    assert set(by_state) <= {"done", "cancelled"}
    assert by_state["cancelled"] <= told["answers"]["requested"]
    assert by_state["cancelled"] > 0


# -- dead redrive
def test_ten_thousand_are_redriven_in_bounded_memory(redisjobs: CommandLine, conn: Conn):
    bury_many(conn, MANY)
    bury(conn, "other")

    tracemalloc.start()
    told = redisjobs.json("dead", "redrive", "--job", "mail")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (told["fit"], told["done"]) == (MANY, MANY)
    assert (count(conn, "outbox"), count(conn, "dead")) == (MANY, 1)
    assert peak < 30_000_000


def test_two_operators_share_the_work(processes: Processes, conn: Conn):
    bury_many(conn, MANY)

    both = [processes.redisjobs("dead", "redrive", "--all", "--json") for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]

    logs = [each.log() for each in both]  # lines on progress stand before the document where it takes long
    done = [json.loads(log[log.index("{") :])["done"] for log in logs]
    assert sum(done) == MANY
    assert (count(conn, "outbox"), count(conn, "dead")) == (MANY, 0)
    row = conn.execute("SELECT max(redrives), min(redrives) FROM redisjobs.outbox").fetchone()
    assert row == (1, 1)


def test_ctrl_c_tells_how_far_it_came_and_a_repeat_goes_on(processes: Processes, conn: Conn, redisjobs: CommandLine):
    bury_many(conn, 3_000)
    row = "SELECT id FROM redisjobs.dead ORDER BY died_at, id OFFSET 1700 LIMIT 1"
    conn.execute(f"SELECT FROM redisjobs.dead WHERE id = ({row}) FOR UPDATE".encode())

    busy = interruptible(processes, "dead", "redrive", "--all")
    eventually_now(lambda: is_blocked(redisjobs), "it waits for the row that is locked")
    busy.send(signal.SIGINT)

    assert busy.wait() == 130
    assert "interrupted: 1500 of 3000 dead letters redriven; the same command goes on with the rest" in busy.log()
    conn.rollback()
    assert "1500 dead letters redriven" in redisjobs("dead", "redrive", "--all").stdout
    assert (count(conn, "outbox"), count(conn, "dead")) == (3_000, 0)


def interruptible(processes: Processes, *arguments: str) -> Program:
    """A command that hears SIGINT, also where this run was started with it ignored."""
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{hears}\nfrom redisjobs.cli import main; main()"
    return processes.python("-c", code, *arguments)


def is_blocked(redisjobs: CommandLine) -> bool:
    with psycopg.connect(redisjobs.env["REDISJOBS_DATABASE_URL"], autocommit=True) as other:
        found = other.execute(
            "SELECT FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
        ).fetchall()
    return bool(found)


def test_one_that_died_again_meanwhile_is_left_alone(redisjobs: CommandLine, conn: Conn, database_url: str):
    dead = bury(conn)
    with Operator(database_url) as operator:
        assert operator.redrive([dead], datetime.now(UTC) - timedelta(minutes=1)) == 0
        assert operator.purge([dead], datetime.now(UTC) - timedelta(minutes=1)) == 0
        assert operator.redrive([dead]) == 1
    assert states(conn) == {dead: "staged"}


# -- on a terminal
def test_many_are_asked_about_on_a_terminal_and_a_bar_shows_how_far_it_is(redisjobs: CommandLine, conn: Conn):
    bury_many(conn, 1_200)

    with Terminal("dead", "redrive", "--all", env=redisjobs.env) as terminal:
        terminal.shows("redrive 1200 dead letters? [y/N]")
        terminal.press("n\n")
        assert terminal.code() == 1
    assert count(conn, "dead") == 1_200

    with Terminal("dead", "redrive", "--all", env=redisjobs.env) as terminal:
        terminal.shows("redrive 1200 dead letters? [y/N]")
        terminal.press("y\n")
        assert terminal.code() == 0
        terminal.shows("1200/1200")
        terminal.shows("1200 dead letters redriven")
    assert count(conn, "outbox") == 1_200


def test_few_are_not_asked_about_and_yes_asks_never(redisjobs: CommandLine, conn: Conn):
    bury_many(conn, 3)
    with Terminal("dead", "redrive", "--all", env=redisjobs.env) as terminal:
        assert terminal.code() == 0
    bury_many(conn, 150)
    with Terminal("dead", "purge", "--all", "--yes", env=redisjobs.env) as terminal:
        assert terminal.code() == 0
        assert "[y/N]" not in terminal.text()
    assert (count(conn, "outbox"), count(conn, "dead")) == (3, 0)
