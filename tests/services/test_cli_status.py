"""`redisjobs status` and `redisjobs queues`: what both stores say, on one screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from tests.support.builders import Conn, publication, stage
from tests.support.cli import CommandLine
from tests.support.queue import QueueByHand
from tests.support.servers import RedisServer


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


async def test_every_state_of_a_queue_is_counted(redisjobs: CommandLine, conn: Conn, q: QueueByHand):
    stage(conn, queue="q")
    for job in (stage(conn, queue="q"), stage(conn, queue="q")):
        conn.execute("UPDATE redisjobs.outbox SET state = 'published' WHERE id = %s", [job])
        await q.publish(publication(job_id=job.bytes))
    await q.publish(publication(delay_ms=60_000))
    await q.take_one("worker-1")
    conn.commit()

    (line,) = redisjobs.json("status")["queues"]

    assert line["states"] == {"staged": 1, "published": 2}
    assert (line["waiting"], line["running"], line["due"], line["dead"], line["finished"]) == (1, 1, 1, 0, 0)
    assert [(each["name"], each["running"]) for each in line["consumers"]] == [("worker-1", 1)]
    assert 0 < line["publish_lag_s"] <= line["oldest_s"] < 60


def test_what_has_ended_is_not_counted_where_that_would_take_long(
    redisjobs: CommandLine, conn: Conn, monkeypatch: pytest.MonkeyPatch
):
    stage(conn, queue="q")
    conn.execute(
        "INSERT INTO redisjobs.finished (id, job, queue, state, keep_until)"
        " SELECT gen_random_uuid(), 'mail', 'q', 'done', now() FROM generate_series(1, 3)"
    )
    conn.commit()
    assert [each["finished"] for each in redisjobs.json("status")["queues"]] == [3]

    monkeypatch.setattr("redisjobs.operator.MOST_BYTES", 0)

    assert [each["finished"] for each in redisjobs.json("status")["queues"]] == [None]
    assert redisjobs("status").stdout.count(" - ") == 1


def test_the_oldest_that_is_parked_or_dead_is_shown(redisjobs: CommandLine, conn: Conn):
    for minutes in (5, 20):
        job = stage(conn, queue="q")
        conn.execute(
            "UPDATE redisjobs.outbox SET state = 'parked', staged_at = now() - %s * interval '1 min' WHERE id = %s",
            [minutes, job],
        )
    for days in (1, 3):
        conn.execute(
            "INSERT INTO redisjobs.dead (id, job, queue, reason, died_at)"
            " VALUES (gen_random_uuid(), 'mail', 'q', 'why', now() - %s * interval '1 d')",
            [days],
        )
    stage(conn, queue="young")
    conn.commit()

    old, young = redisjobs.json("status")["queues"]

    assert (round(old["oldest_parked_s"], -1), round(old["oldest_dead_s"], -1)) == (1200, 3 * 86_400)
    assert (young["oldest_parked_s"], young["oldest_dead_s"]) == (None, None)
    assert "2 parked, oldest parked 20 min, oldest dead 3 d" in redisjobs("status").stdout


async def test_an_outcome_that_is_not_settled_shows_as_lag(redisjobs: CommandLine, q: QueueByHand):
    await q.publish(publication())
    await q.finish(await q.take_one())
    await q.broker.redis.sadd("rj:queues", "q")  # pyright: ignore[reportGeneralTypeIssues]

    (before,) = redisjobs.json("status")["queues"]
    await q.settle()
    (after,) = redisjobs.json("status")["queues"]

    assert before["settle_lag_s"] > 0
    assert after["settle_lag_s"] == 0


def test_who_holds_a_queue_is_shown_for_as_long_as_the_lease_runs(redisjobs: CommandLine, conn: Conn):
    hold = "INSERT INTO redisjobs.queues (queue, holder, lease_until) VALUES (%s, 'relay-1', now() + %s::interval)"
    conn.execute(hold, ["held", "10 s"])
    conn.execute(hold, ["lapsed", "-10 s"])
    conn.commit()

    lines = {line["queue"]: line for line in redisjobs.json("status")["queues"]}

    assert lines["held"]["relay"]["holder"] == "relay-1"
    assert lines["lapsed"]["relay"]["holder"] is None
    assert "nobody" in redisjobs("status").stdout


def test_the_row_that_stops_a_queue_is_named_with_the_remedy(redisjobs: CommandLine, conn: Conn):
    failing = {"id": "0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f", "job": "mail", "error": "StoreRefused: no"}
    conn.execute("INSERT INTO redisjobs.queues (queue, failing) VALUES ('q', %s)", [json.dumps(failing)])
    conn.commit()

    for command in ("status", "outbox"):
        told = redisjobs(command).stdout
        assert "queue q stands still: row 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f (mail): StoreRefused: no" in told
        assert "redisjobs outbox set-aside 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f" in told


def test_without_redis_the_rest_is_shown_and_the_code_is_69(redisjobs: CommandLine, conn: Conn):
    stage(conn, queue="q")
    conn.commit()

    told = redisjobs("status", "--redis-url", "redis://:hush@127.0.0.1:1/0", code=69).stdout

    assert "DOWN: Redis does not answer" in told
    assert "hush" not in told
    assert "q " in told


def test_without_postgres_the_rest_is_shown_and_the_code_is_69(redisjobs: CommandLine):
    found = redisjobs.json("status", "--database-url", "postgresql://127.0.0.1:1/none", code=69)

    assert found["postgres"]["reachable"] is False
    assert found["redis"]["reachable"] is True


def test_without_tables_migrate_is_named_and_the_code_is_78(empty_database_url: str, redis_url: str):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": empty_database_url, "REDISJOBS_REDIS_URL": redis_url})

    told = redisjobs("status", code=78).stdout
    assert "LACKS 0001 outbox, " in told
    assert ": run `redisjobs migrate`" in " ".join(told.split())
    assert "run `redisjobs migrate`" in redisjobs("jobs", "list", code=78).stderr


def test_a_redis_past_the_budget_of_the_relays_is_named(database_url: str, start_redis: Callable[..., RedisServer]):
    server = start_redis(maxmemory="16mb")
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": server.url})
    with server.client() as client:
        client.mset({f"rj:ballast:{each}": "x" * 1_000_000 for each in range(6)})
        client.mset({f"rj:ballast:{each}": "x" * 1_000_000 for each in range(6, 13)})

    assert "FULL: relays publish nothing until there is room" in redisjobs("status").stdout
    assert redisjobs.json("status")["redis"]["full"] is True


def test_a_wrong_password_of_redis_is_refused_without_showing_it(
    database_url: str, start_redis: Callable[..., RedisServer]
):
    server = start_redis(requirepass="right/one")
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": server.url})

    told = redisjobs("status", "--redis-password", "wrong/one", code=78).output
    redisjobs("status", "--redis-password", "right/one")
    redisjobs("status", REDISJOBS_REDIS_PASSWORD="right/one")

    assert "check user and password of redis_url" in told
    assert "wrong" not in told


def test_a_queue_is_paused_and_resumed(redisjobs: CommandLine, conn: Conn):
    conn.execute("INSERT INTO redisjobs.queues (queue) VALUES ('mail')")
    conn.commit()

    redisjobs("queues", "pause", "mail")
    assert redisjobs.json("queues", "list")["queues"][0]["paused"] is True
    assert "PAUSED" in redisjobs("status").stdout
    redisjobs("queues", "resume", "mail")
    assert redisjobs.json("queues", "list")["queues"][0]["paused"] is False


def test_a_queue_that_nobody_has_used_can_be_paused_but_not_resumed(redisjobs: CommandLine):
    assert "no queue 'mial' has had a job" in redisjobs("queues", "resume", "mial", code=1).stderr
    assert "has had no job yet; it will begin paused" in redisjobs("queues", "pause", "soon").stderr


def test_a_name_that_no_queue_can_have_is_refused(redisjobs: CommandLine):
    assert "queue ('no such') is no queue name" in redisjobs("queues", "pause", "no such", code=78).stderr


def test_an_empty_system_says_what_comes_next(redisjobs: CommandLine):
    assert "no queue yet: enqueue a job" in redisjobs("status").stdout
    assert redisjobs.json("status")["queues"] == []


async def test_what_keeps_jobs_from_running_is_said_with_its_remedy(redisjobs: CommandLine, conn: Conn, q: QueueByHand):
    stage(conn, queue="lonely")
    parked = stage(conn, queue="odd")
    conn.execute("UPDATE redisjobs.outbox SET state = 'parked' WHERE id = %s", [parked])
    conn.commit()
    await q.publish(publication())
    await q.broker.redis.sadd("rj:queues", "q")  # pyright: ignore[reportGeneralTypeIssues]

    said = redisjobs("status").stdout
    redisjobs("queues", "pause", "lonely")
    paused = redisjobs("status").stdout

    assert "queue lonely: no relay holds it" in said
    assert "start one with: redisjobs relay" in said
    assert "start one with: redisjobs worker MODULE:APP --queues q" in said
    assert "redisjobs jobs list --queue odd --state parked" in said
    assert "queue lonely is paused" not in said
    assert "redisjobs queues resume lonely" in paused


@pytest.mark.parametrize(
    ("state", "seen_s", "told"),
    [
        ("running", 60, "its worker w9 fell silent 60 s ago"),
        ("draining", 0, "its worker w9 is draining"),
        ("quiet", 0, "its worker w9 is quiet"),
    ],
)
async def test_workers_that_fell_silent_or_take_nothing_serve_nothing(
    redisjobs: CommandLine, q: QueueByHand, state: str, seen_s: int, told: str
):
    await q.publish(publication())
    await q.take_one("w9")
    await q.broker.redis.sadd("rj:queues", "q")  # pyright: ignore[reportGeneralTypeIssues]
    q.present("w9")
    assert "no worker serves it" not in redisjobs("status").stdout
    assert redisjobs.json("status")["queues"][0]["workers"] == ["w9"]

    q.present("w9", state=state, seen_s=seen_s)

    assert f"queue q: no worker serves it: {told}" in redisjobs("status").stdout
    assert redisjobs.json("status")["queues"][0]["workers"] == []


def test_a_store_that_is_down_is_no_empty_system(redisjobs: CommandLine):
    down = {"REDISJOBS_REDIS_URL": "redis://127.0.0.1:1/0", "REDISJOBS_DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    for name, url in down.items():
        said = redisjobs("status", code=69, **{name: url}).stdout

        assert "DOWN" in said
        assert "no queue yet" not in said


def test_a_job_name_cannot_paint_the_terminal(redisjobs: CommandLine, conn: Conn):
    job: UUID = stage(conn, "[bold]mail[/bold]")
    conn.commit()

    assert "[bold]mail[/bold]" in redisjobs("jobs", "show", job).stdout
