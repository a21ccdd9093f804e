"""`redisjobs jobs reprioritize` and `reschedule`: by id or by filters, in words and as JSON."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis as redis_py

from redisjobs.cli import moves as moves_module
from redisjobs.operator import Operator
from tests.support.builders import Conn, finish, stage, states
from tests.support.cli import CommandLine
from tests.support.relays import Hand, RelayByHand, hand, relay_by_hand


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url, lease=600) as made:
        yield made


@pytest.fixture
async def worker(redis_url: str) -> AsyncIterator[Hand]:
    async with hand(redis_url) as made:
        yield made


def committed(conn: Conn, count: int, /, *given: Any, **columns: Any) -> list[UUID]:
    jobs = [stage(conn, *given, **columns) for _ in range(count)]
    conn.commit()
    return jobs


def of_each(conn: Conn, name: str) -> dict[UUID, Any]:
    rows: Any = conn.execute(f"SELECT id, {name} FROM redisjobs.outbox".encode()).fetchall()
    conn.commit()
    return dict(rows)


async def test_one_job_goes_before_the_others(conn: Conn, redisjobs: CommandLine, relay: RelayByHand, worker: Hand):
    first, second = committed(conn, 2)
    (far,) = committed(conn, 1, run_at="2100-01-01 00:00Z")
    await relay.rounds()

    told = redisjobs("jobs", "reprioritize", second, far, "--priority", "7").stdout

    assert f"{second} gets priority 7 within moments, unless it starts before" in told
    assert f"{far} gets priority 7\n" in told
    await relay.rounds()
    assert [UUID(bytes=each.job_id) for each in await worker.take()] == [second, first]
    assert redisjobs.json("jobs", "reprioritize", far, "--priority", "-7") == {
        "jobs": [{"id": str(far), "answer": "changed"}]
    }


async def test_what_runs_has_ended_waits_for_itself_or_is_unknown_is_refused(
    conn: Conn, redisjobs: CommandLine, relay: RelayByHand, worker: Hand
):
    done, running = committed(conn, 2)
    await relay.rounds()
    ended, held = await worker.take()
    await worker.end(finish(ended))
    await relay.rounds()
    assert UUID(bytes=held.job_id) == running
    (waits,) = committed(conn, 1)
    conn.execute("UPDATE redisjobs.outbox SET state = 'suspended', settled = 1 WHERE id = %s", [waits])
    conn.commit()
    nobody = uuid4()

    refused = redisjobs("jobs", "reschedule", done, running, waits, nobody, "--in", "5m", code=1)

    assert refused.stdout == ""
    assert f"{done} is left as it is: it has ended already (done)" in refused.stderr
    assert f"{running} is left as it is: it runs now" in refused.stderr
    assert f"{waits} is left as it is: a durable run that sleeps or waits" in refused.stderr
    assert f"job {nobody} is not known in this database" in refused.stderr
    assert of_each(conn, "run_at")[running] is None
    answers = redisjobs.json("jobs", "reprioritize", done, running, waits, "--priority", "1", code=1)["jobs"]
    assert [each["answer"] for each in answers] == ["done", "running", "changed"]


def test_without_redis_the_row_is_changed_all_the_same(conn: Conn, database_url: str):
    (job,) = committed(conn, 1)
    conn.execute("UPDATE redisjobs.outbox SET state = 'published' WHERE id = %s", [job])
    conn.commit()
    for url in ("", "redis://127.0.0.1:1"):
        redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": url})
        assert redisjobs.json("jobs", "reprioritize", job, "--priority", "3")["jobs"][0]["answer"] == "requested"


async def test_many_are_found_counted_and_changed_piece_by_piece(
    conn: Conn, redisjobs: CommandLine, relay: RelayByHand, worker: Hand, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(moves_module, "AT_ONCE", 3)
    mail = committed(conn, 8, "mail", tenant_id="acme")
    rest = committed(conn, 2, "rest")
    await relay.rounds()
    ended = (await worker.take(1))[0]
    later = committed(conn, 2, "mail", tenant_id="acme")

    dry = redisjobs.json("jobs", "reprioritize", "--tenant", "acme", "--priority", "-5", "--dry-run")
    assert (dry["fit"], dry["answers"]) == (10, {})
    assert set(of_each(conn, "priority").values()) == {0}
    text = redisjobs("jobs", "reprioritize", "--tenant", "acme", "--priority", "-5", "--dry-run").stdout
    assert "10 jobs would get priority -5; nothing was changed" in text
    told = redisjobs("jobs", "reprioritize", "--tenant", "acme", "--priority", "-5").stdout

    assert "10 jobs get priority -5\n8 of them are in Redis: changed within moments, unless they start" in told
    assert of_each(conn, "priority") == dict.fromkeys([*mail, *later], -5) | dict.fromkeys(rest, 0)
    await relay.rounds()
    assert {UUID(bytes=each.job_id) for each in (await worker.take(2))} == set(rest)
    await worker.end(finish(ended))
    again = redisjobs.json("jobs", "reprioritize", "--tenant", "acme", "--priority", "-6", "--yes")
    assert again["answers"] == {"requested": 10}


async def test_what_is_due_is_put_off_once_although_it_is_met_again_further_on(
    conn: Conn, redis_url: str, redisjobs: CommandLine, relay: RelayByHand, monkeypatch: pytest.MonkeyPatch
):
    jobs = committed(conn, 6, run_at=datetime.now(UTC) + timedelta(minutes=1))
    await relay.rounds()
    monkeypatch.setattr(moves_module, "AT_ONCE", 2)
    put_off: list[UUID] = []
    reschedule = Operator.reschedule

    def and_moved(self: Operator, ids: Sequence[UUID], **when: Any) -> dict[UUID, str]:
        with redis_py.Redis.from_url(redis_url) as client:
            for each in ids:
                put_off.append(each)
                client.zadd("rj:{default}:due", {each.bytes: 9e12 + len(put_off)})
        return reschedule(self, ids, **when)

    monkeypatch.setattr(Operator, "reschedule", and_moved)

    told = redisjobs.json("jobs", "reschedule", "--state", "due", "--in", "1h")

    assert told["answers"] == {"requested": 6}
    assert sorted(put_off) == sorted(jobs)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["reprioritize", str(uuid4())], 2, "Missing option '--priority'"),
        (["reprioritize", "--priority", "101", "--all"], 2, "101 is not in the range -100<=x<=100"),
        (["reprioritize", "--priority", "1"], 2, "Say which: ids, filters"),
        (["reprioritize", "--priority", "1", "--state", "running"], 2, "'running' is not one of"),
        (["reprioritize", "--priority", "1", str(uuid4()), "--dry-run"], 2, "--dry-run goes with filters"),
        (["reschedule", str(uuid4())], 2, "Say when they may start, by one of --at TIME, --in DURATION and --now"),
        (["reschedule", "--now", "--in", "5m", "--all"], 2, "Say when they may start, by one of"),
        (["reschedule", "--in", "soon", "--all"], 2, "'soon' is no duration"),
        (["reschedule", "--in", "9999999d", "--all"], 2, "is longer than 100 years"),
        (["reschedule", "--at", "tomorrow", "--all"], 2, "'tomorrow' is no moment"),
        (["reschedule", "--at", "0001-01-01T00:00:00Z", "--all"], 78, "is at the end of the calendar"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_changed(
    redisjobs: CommandLine, options: list[str], code: int, told: str
):
    assert told in re.sub(r"\s+", " ", redisjobs("jobs", *options, code=code).stderr)


def test_a_moment_is_told_in_utc(conn: Conn, redisjobs: CommandLine):
    (job,) = committed(conn, 1)

    told = redisjobs("jobs", "reschedule", job, "--at", "2030-01-02T03:04:05+02:00").stdout

    assert told == f"{job} gets its start at 2030-01-02 01:04:05 UTC\n"
    assert redisjobs("jobs", "reschedule", job, "--in", "90s").stdout == f"{job} gets its start in 90 s\n"
    assert redisjobs("jobs", "reschedule", job, "--now").stdout == f"{job} gets its start now\n"
    assert states(conn) == {job: "staged"}
