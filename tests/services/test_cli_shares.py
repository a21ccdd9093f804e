"""`redisjobs queues`: one tenant is paused, and weights are set, at run time; a relay tells Redis (L4)."""

from __future__ import annotations

import psycopg
import pytest

from redisjobs.broker.view import View
from tests.support.builders import finish, stage
from tests.support.cli import CommandLine
from tests.support.relays import Hand, RelayByHand, job_of

Conn = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


async def test_a_tenant_is_paused_and_resumed_by_its_key(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand, worker: Hand
):
    redisjobs("queues", "share", "default", "tenant")
    redisjobs("queues", "pause", "default", "--tenant", "42")
    paused = [stage(conn, tenant_id="42") for _ in range(2)]
    going = [stage(conn, tenant_id="7"), stage(conn, share_key="7", tenant_id="42")]
    conn.commit()

    await relay.rounds()

    taken = [*await worker.take(), *await worker.take()]
    assert {job_of(each) for each in taken} == set(going)
    assert redisjobs.json("queues", "show", "default") == {
        "queue": "default",
        "share_by": "tenant",
        "shares": [{"share": "42", "weight": 1.0, "paused": True, "waiting": 2}],
    }
    listed = redisjobs.json("queues", "list")["queues"][0]
    assert (listed["waiting"], listed["shared"], listed["shares"]) == (2, 2, {"42": {"paused": True}})
    assert "by tenant, 2 wait, 1 PAUSED" in redisjobs("queues", "list").stdout
    assert "42" in redisjobs("queues", "show", "default").stdout

    said = redisjobs("explain", paused[1]).stdout
    assert "Share '42' of queue default is paused: none of its jobs starts." in said
    assert "redisjobs queues resume default --share 42" in said

    redisjobs("queues", "resume", "default", "--tenant", "42")
    await relay.renewed()
    assert [job_of(each) for each in await worker.take()] == paused


async def test_what_is_set_is_told_to_redis_again_after_it_lost_its_data(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand, worker: Hand, redis_url: str
):
    redisjobs("queues", "pause", "default", "--share", "a b")
    redisjobs("queues", "weight", "default", "2.5", "--share", "c")
    stage(conn, share_key="a b")
    conn.commit()
    await relay.rounds()
    await worker.broker.redis.flushall()

    await relay.renewed()
    await relay.rounds()

    assert await worker.take() == []
    with View(redis_url) as view:
        lines = {each.share: (each.waiting, each.weight, each.paused) for each in view.shares("default")}
    assert lines == {"a b": (1, 1.0, True), "c": (0, 2.5, False)}


async def test_why_a_job_in_a_share_waits_is_told(redisjobs: CommandLine, conn: Conn, relay: RelayByHand, worker: Hand):
    jobs = [stage(conn, share_key=share) for share in "aaab"]
    conn.commit()
    await relay.rounds()

    said = redisjobs("explain", jobs[2]).stdout

    assert "It waits in share 'a', where 1 job of it goes before it" in said
    found = redisjobs.json("jobs", "list", "--state", "waiting")["jobs"]
    assert {each["id"] for each in found} == {str(each) for each in jobs}
    for each in await worker.take():
        await worker.end(finish(each))


def test_a_rule_that_says_what_is_so_anyway_is_not_kept(redisjobs: CommandLine, conn: Conn):
    redisjobs("queues", "weight", "mail", "3", "--share", "a")
    redisjobs("queues", "pause", "mail", "--share", "a")
    assert redisjobs.json("queues", "show", "mail")["shares"] == [
        {"share": "a", "weight": 3.0, "paused": True, "waiting": 0}
    ]

    redisjobs("queues", "weight", "mail", "1", "--share", "a")
    redisjobs("queues", "resume", "mail", "--share", "a")
    redisjobs("queues", "share", "mail", "tenant")
    redisjobs("queues", "share", "mail", "key")

    assert redisjobs.json("queues", "show", "mail") == {"queue": "mail", "share_by": None, "shares": []}


@pytest.mark.parametrize("weight", ["0", "-1", "101", "nan", "inf"])
def test_a_weight_out_of_range_is_refused_with_the_remedy(redisjobs: CommandLine, weight: str):
    said = redisjobs("queues", "weight", "mail", "--share", "a", "--", weight, code=78).stderr

    assert "is out of range: pass a number from 0.01 to 100" in said


def test_a_share_that_no_job_can_have_is_refused(redisjobs: CommandLine):
    assert "pass 1 to 200 characters" in redisjobs("queues", "pause", "mail", "--share", "", code=78).stderr
    assert "pass 1 to 200 characters" in redisjobs("queues", "pause", "mail", "--share", "x" * 201, code=78).stderr


@pytest.mark.parametrize(("share", "weight"), [("", 1), (None, 1), ("x" * 201, 1), ("a", 0), ("a", 100.5)])
def test_postgres_refuses_a_rule_of_any_other_program_too(conn: Conn, share: str | None, weight: float):
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        conn.execute("SELECT redisjobs.set_share('mail', %s, %s::numeric)", [share, weight])
