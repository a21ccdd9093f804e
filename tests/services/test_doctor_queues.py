"""`redisjobs doctor` on queues that stand still, and on a set-up that is well: no false alarm (P3, O05)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import redis as redis_py

from redisjobs.broker.checkup import ungrouped
from redisjobs.broker.keys import Keys
from redisjobs.broker.values import STREAMS
from redisjobs.doctor import limits
from redisjobs.embedded import Embedded
from redisjobs.migrations import migrate
from tests.services.test_doctor_postgres import is_told
from tests.services.test_doctor_redis import GOOD
from tests.support.binaries import postgres_binaries, valkey_9
from tests.support.builders import Conn, publication, stage
from tests.support.cli import CommandLine
from tests.support.crew import Crew
from tests.support.eventually import eventually, eventually_now
from tests.support.examined import Examined, examine
from tests.support.queue import QueueByHand
from tests.support.relays import RelayByHand, relay_by_hand
from tests.support.servers import PostgresServer, RedisServer


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url, name="relay-1", lease=600) as made:
        yield made


async def has_spoken(crew: Crew) -> bool:
    """Whether its first worker said that it is there: in a thread of its own, soon after its start."""
    return await crew.broker.redis.zscore("rj:{-}:seen", crew.workers[0].worker_id) is not None


def troubles_of(found: Examined, queue: str) -> list[str]:
    """The checks that found something wrong with a queue."""
    return [each["check"] for each in found.findings if each["subject"] == queue and each["level"] in ("warn", "fail")]


def test_rows_that_no_relay_publishes(redisjobs: CommandLine, conn: Conn):
    stage(conn, queue="q")
    conn.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '5 min'")
    conn.commit()

    found = examine(redisjobs)

    is_told(
        found.of("queues.relay", "q"),
        "fail",
        "no relay holds it; its oldest row has waited for 5 min",
        "redisjobs relay",
    )
    assert found.code == 1


async def test_a_row_that_stops_its_queue_and_a_relay_that_lags(redisjobs: CommandLine, conn: Conn, relay: RelayByHand):
    stage(conn, queue="q")
    conn.commit()
    await relay.rounds()
    late = stage(conn, queue="q")
    conn.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '5 min' WHERE id = %s", [late])
    conn.commit()
    lags = examine(redisjobs).of("queues.relay", "q")
    note = json.dumps({"id": str(late), "job": "mail", "error": "StoreRefused: no"})
    conn.execute("UPDATE redisjobs.queues SET failing = %s", [note])
    conn.commit()
    stopped = examine(redisjobs).of("queues.relay", "q")

    is_told(lags, "warn", "relay-1 lags: its oldest row has waited for 5 min")
    is_told(stopped, "fail", f"row {late} (mail) stops it: StoreRefused: no", f"redisjobs outbox set-aside {late}")


def test_rows_that_are_set_aside_or_parked_and_a_pause(redisjobs: CommandLine, conn: Conn):
    for state in ("set_aside", "parked"):
        job = stage(conn, queue="q")
        conn.execute("UPDATE redisjobs.outbox SET state = %s WHERE id = %s", [state, job])
    conn.execute("SELECT redisjobs.pause('q')")
    conn.commit()

    found = examine(redisjobs)

    is_told(found.of("queues.set_aside", "q"), "warn", "rows that are set aside: 1", "redisjobs outbox put-back ID")
    is_told(found.of("queues.parked", "q"), "warn", "for no worker knows their names: 1, the oldest of", "--queue q")
    is_told(found.of("queues.paused", "q"), "warn", "it is paused, and jobs wait: 2", "redisjobs queues resume q")


async def test_a_share_that_is_paused_is_named_once_jobs_wait_behind_it(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand
):
    for share in ("a b", "c"):
        redisjobs("queues", "pause", "default", "--share", share)
    stage(conn, share_key="d")
    conn.commit()
    await relay.rounds()
    assert "queues.paused" not in examine(redisjobs).levels("warn")

    for _ in range(2):
        stage(conn, share_key="a b")
    stage(conn, share_key="c")
    conn.commit()
    await relay.rounds()

    found = examine(redisjobs).of("queues.paused", "default")
    told = "share a b is paused, and jobs wait in it: 2 (and 1 more)"
    is_told(found, "warn", told, "redisjobs queues resume default --share 'a b'")


def test_what_has_been_parked_or_dead_for_long(redisjobs: CommandLine, conn: Conn):
    parked = stage(conn, queue="q")
    conn.execute(
        "UPDATE redisjobs.outbox SET state = 'parked', staged_at = now() - interval '20 min' WHERE id = %s", [parked]
    )
    died = (
        "INSERT INTO redisjobs.dead (id, job, queue, reason, died_at)"
        " VALUES (gen_random_uuid(), 'mail', %s, 'why', now() - %s::interval)"
    )
    conn.execute(died, ["q", "8 d"])
    conn.execute(died, ["fresh", "6 d"])
    conn.commit()

    found = examine(redisjobs)

    is_told(found.of("queues.parked", "q"), "warn", "names: 1, the oldest of 20 min", "--state parked")
    assert found.of("queues.parked", "q")["why"].endswith("for longer than a deploy takes")
    is_told(found.of("queues.dead", "q"), "warn", "dead letters: 1, the oldest of 8 d", "redisjobs dead list --queue q")
    assert "queues.dead" not in troubles_of(found, "fresh")


async def test_jobs_that_no_worker_takes(redisjobs: CommandLine, conn: Conn, relay: RelayByHand, q: QueueByHand):
    stage(conn, queue="q")
    conn.commit()
    await relay.rounds()
    nobody = examine(redisjobs)
    q.present("w9", seen_s=60)
    silent = examine(redisjobs)

    is_told(nobody.of("queues.workers", "q"), "warn", "none says that it does; jobs that wait: 1", "--queues q")
    assert troubles_of(nobody, "q") == ["queues.workers"]  # no group either, of which that is the cause
    is_told(silent.of("queues.workers", "q"), "warn", "no worker serves it: its worker w9 fell silent 60 s ago")


def test_entries_without_a_group_count_for_the_queue_of_their_stream(q: QueueByHand, redis_url: str):
    for stream in Keys().streams("b"):
        q.redis.xadd(stream, {"j": "x"})

    assert ungrouped(redis_url, "rj", ["a", "b"]) == {"a": 0, "b": STREAMS}
    assert ungrouped(redis_url, "rj", ["b", "c"]) == {"b": STREAMS, "c": 0}


async def test_a_stream_whose_group_was_deleted(redisjobs: CommandLine, conn: Conn, relay: RelayByHand, q: QueueByHand):
    stage(conn, queue="q")
    conn.commit()
    await relay.rounds()
    await q.take_one()
    q.present()
    q.redis.xgroup_destroy("rj:{q}:ready:1", "workers")

    found = examine(redisjobs)

    is_told(found.of("queues.groups", "q"), "warn", "entries in streams without a group: 1", "--queues q")
    assert troubles_of(found, "q") == ["queues.groups"]


async def test_a_job_under_a_lease_that_lapsed_long_ago(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand, q: QueueByHand, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "SILENT_S", 0.05)
    stage(conn, queue="jobs")
    conn.commit()
    await relay.rounds()
    await q.broker.take("jobs", "w1", 1, lease_ms=1)

    def found() -> list[dict[str, str]]:
        return [each for each in examine(redisjobs).findings if each["check"] == "queues.leases"]

    is_told(eventually_now(found, "the lease has lapsed")[0], "fail", "worker w1 is silent, and its lease lapsed")


async def test_an_outcome_that_nobody_settles(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand, q: QueueByHand, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "LAG_S", 0.0)
    stage(conn, queue="q")
    conn.commit()
    await relay.rounds()
    await q.finish(await q.take_one())

    is_told(examine(redisjobs).of("queues.settling", "q"), "warn", "an outcome has waited for", "the relay's log")


async def test_a_redis_that_lost_its_data(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    stage(conn, queue="q")
    conn.commit()
    await relay.rounds()
    redis.flushall()
    held = examine(redisjobs).of("queues.life", "q")
    await relay.relay.leases.let_go()
    alone = examine(redisjobs).of("queues.life", "q")

    is_told(held, "warn", "and Redis knows of no life", "the relay that holds the queue publishes again")
    is_told(alone, "fail", "and Redis knows of no life", "redisjobs relay")


async def test_two_databases_behind_one_prefix(redisjobs: CommandLine, conn: Conn, relay: RelayByHand, q: QueueByHand):
    stage(conn, queue="jobs")
    conn.commit()
    await relay.rounds()
    await q.broker.redis.sadd("rj:queues", "q")  # pyright: ignore[reportGeneralTypeIssues]
    await q.carrier.open("jobs", 99, paused=False)
    await q.broker.redis.hset("rj:{jobs}:life", "epoch", "another")  # pyright: ignore[reportGeneralTypeIssues]

    found = examine(redisjobs)

    is_told(found.of("queues.fence", "q"), "fail", "a relay has opened it in Redis (token 1)", "--prefix of its own")
    is_told(found.of("queues.fence", "jobs"), "fail", "Redis has seen token 99, and this database is at 1")
    is_told(found.of("queues.life", "jobs"), "fail", "and Redis is in life another")


async def test_a_queue_that_is_well_shows_its_numbers(
    redisjobs: CommandLine, conn: Conn, relay: RelayByHand, crew: Crew
):
    @crew.app.job
    async def add() -> None:
        return None

    conn.execute("INSERT INTO redisjobs.dead (id, job, queue, reason) VALUES (redisjobs.new_id(), 'bill', 'q', 'why')")
    stage(conn, queue="q")
    conn.commit()
    await crew.start(queues=["q"])
    await relay.rounds()
    await eventually(lambda: crew.workers[0].stats()["processed"] == 1, "it ran")
    await eventually(lambda: has_spoken(crew), "its worker has said that it is there")
    await relay.rounds()

    found = examine(redisjobs).of("queues.state", "q")

    assert found["level"] == "ok"
    assert "relay relay-1" in found["value"]
    assert "1 dead" in found["value"]
    assert "1 worker" in found["value"]


@pytest.mark.usefixtures("unhurried")
async def test_nothing_is_wrong_with_embedded_servers_at_work(tmp_path: Path):
    with Embedded(tmp_path) as servers:
        migrate(servers.database_url)
        crew = Crew(servers.redis_url)

        @crew.app.job
        async def add() -> None:
            return None

        await crew.start(queues=["q"])
        async with relay_by_hand(servers.database_url, servers.redis_url, lease=600) as relay:
            with psycopg.connect(servers.database_url) as conn:
                stage(conn, queue="q")
                stage(conn, queue="q", run_at="2100-01-01 00:00Z")
            await relay.rounds()
            await eventually(lambda: crew.workers[0].stats()["processed"] == 1, "the first one ran")
            await eventually(lambda: has_spoken(crew), "its worker has said that it is there")
            await relay.rounds()

            found = examine(
                CommandLine({"REDISJOBS_DATABASE_URL": servers.database_url, "REDISJOBS_REDIS_URL": servers.redis_url})
            )
        await crew.close()

    assert found.levels("warn", "fail", "unknown") == {}
    assert found.of("queues.state", "q")["level"] == "ok"


@pytest.mark.usefixtures("unhurried")
def test_nothing_is_wrong_with_servers_as_compose_starts_them(tmp_path: Path):
    with (
        PostgresServer(tmp_path / "postgres", postgres_binaries(), fsync="on", shared_buffers="128MB") as postgres,
        RedisServer(
            tmp_path / "redis", valkey_9(), **{name.replace("-", "_"): value for name, value in GOOD.items()}
        ) as redis,
    ):
        migrate(postgres.url)
        found = examine(CommandLine({"REDISJOBS_DATABASE_URL": postgres.url, "REDISJOBS_REDIS_URL": redis.url}))

    assert found.levels("warn", "fail", "unknown") == {}


def test_it_shows_what_is_wrong_with_why_and_remedy_and_the_rest_if_asked(redisjobs: CommandLine):
    short, whole = redisjobs("doctor", code=1).stdout, redisjobs("doctor", "--all", code=1).stdout

    assert "FAIL  postgres.durability" in short
    assert "      why  a crash of the machine can destroy" in short
    assert "      do   psql -c " in short
    assert "ok    postgres.schema" not in short
    assert "ok    postgres.schema" in whole


async def test_it_changes_nothing(redisjobs: CommandLine, conn: Conn, q: QueueByHand):
    await q.publish(publication())
    await q.take_one()
    q.redis.sadd("rj:queues", "q")
    before = q.dump()

    examine(redisjobs)

    assert q.dump() == before
    assert conn.execute("SELECT count(*) FROM redisjobs.queues").fetchone() == (0,)
