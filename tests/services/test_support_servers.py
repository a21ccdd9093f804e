"""The servers, programs and the ledger that tests use."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis as redis_py
from redis.exceptions import NoPermissionError

from tests.support.eventually import eventually, eventually_now
from tests.support.ledger import Ledger
from tests.support.pgbouncer import PgBouncer
from tests.support.processes import Processes, other_clock
from tests.support.redis_versions import AnyRedis
from tests.support.servers import PostgresServer, RedisServer


def test_every_redis_runs_scripts_and_streams(any_redis: AnyRedis):
    with redis_py.Redis.from_url(any_redis.url) as client:
        assert client.dbsize() == 0
        script = client.register_script("return redis.call('XADD', KEYS[1], '*', 'id', ARGV[1])")
        client.xgroup_create("rj:s", "workers", id="0", mkstream=True)
        entry = script(keys=["rj:s"], args=["a"])

        assert client.xreadgroup("workers", "me", {"rj:s": ">"}) in (
            [[b"rj:s", [(entry, {b"id": b"a"})]]],
            {b"rj:s": [[(entry, {b"id": b"a"})]]},
        )


def test_every_real_redis_is_the_version_that_it_is_called(any_real_redis: AnyRedis):
    kind, _, wanted = any_real_redis.name.partition("-")
    with redis_py.Redis.from_url(any_real_redis.url) as client:
        info = client.info("server")

    assert ".".join(map(str, any_real_redis.version)).startswith(wanted)
    assert info["valkey_version" if kind == "valkey" else "redis_version"].startswith(wanted)


def test_a_redis_of_its_own_keeps_its_data_over_a_kill(start_redis: Callable[..., RedisServer]):
    server = start_redis(appendonly="yes", appendfsync="always", maxmemory="50mb")
    with server.client() as client:
        client.set("rj:a", 1)
        assert client.config_get("maxmemory") == {"maxmemory": str(50 * 1024 * 1024)}

    server.kill()
    server.start()

    with server.client() as client:
        assert client.get("rj:a") == b"1"


def test_a_replica_follows(start_redis: Callable[..., RedisServer]):
    primary = start_redis()
    replica = start_redis(replicaof=f"127.0.0.1 {primary.port}")
    with primary.client() as writer, replica.client() as reader:
        writer.set("rj:a", 1)

        eventually_now(lambda: reader.get("rj:a") == b"1", "the replica has it")
        with pytest.raises(redis_py.ReadOnlyError):
            reader.set("rj:a", 2)


def test_a_redis_with_a_limited_user(start_redis: Callable[..., RedisServer]):
    server = start_redis(user="limited on >pw ~rj:* +get")
    with redis_py.Redis(port=server.port, username="limited", password="pw") as client:
        assert client.get("rj:a") is None
        with pytest.raises(NoPermissionError):
            client.set("rj:a", 1)


def test_a_postgres_of_its_own_comes_back_after_a_kill(start_postgres: Callable[..., PostgresServer]):
    server = start_postgres(max_connections="7")
    with psycopg.connect(server.url) as conn:
        conn.execute("CREATE TABLE kept AS SELECT current_setting('max_connections') AS most")

    server.kill()
    server.start()

    with psycopg.connect(server.url) as conn:
        assert conn.execute("SELECT most FROM kept").fetchone() == ("7",)


def test_pgbouncer_changes_the_server_connection_between_transactions(pgbouncer: PgBouncer):
    with psycopg.connect(pgbouncer.url) as one, psycopg.connect(pgbouncer.url) as other:
        first = one.execute("SELECT pg_backend_pid(), current_database()").fetchone()
        one.commit()

        assert other.execute("SELECT pg_backend_pid(), current_database()").fetchone() == first


def test_clients_of_a_pgbouncer_can_be_who_they_say_they_are(database_url: str, tmp_path: Path):
    with psycopg.connect(database_url) as conn:
        (me,) = conn.execute("SELECT session_user::text").fetchone() or ("",)
        conn.execute("CREATE ROLE somebody SUPERUSER LOGIN")
    try:
        with PgBouncer(tmp_path, database_url, users=[str(me), "somebody"]) as pooler:
            for name in (str(me), "somebody"):
                with psycopg.connect(pooler.url, user=name) as conn:
                    assert conn.execute("SELECT session_user::text").fetchone() == (name,)
    finally:
        with psycopg.connect(database_url) as conn:
            conn.execute("DROP ROLE somebody")


def test_the_ledger_knows_who_ran_when_and_how_it_ended(ledger: Ledger):
    with ledger.run("twice", note="limited"), ledger.run("twice", attempt=2, note="limited"):
        pass
    with pytest.raises(ValueError, match="no"), ledger.run("failed"):
        raise ValueError("no")

    assert ledger.starts("twice") == 2
    assert ledger.extra_starts() == {"twice": 1}
    assert ledger.overlaps() == [(1, 2)]
    assert ledger.most_at_once("limited") == 2
    assert ledger.never_started(["twice", "failed", "other"]) == {"other"}
    assert [run.how for run in ledger.runs("failed")] == ["ValueError"]
    assert ledger.accepted() == set()


async def test_the_ledger_works_in_a_loop_and_in_a_process_that_is_killed(ledger: Ledger, processes: Processes):
    app = processes.module(
        "body",
        """
        import asyncio
        from tests.support.ledger import Ledger

        async def main():
            async with Ledger.of_env().arun("job", 3):
                await asyncio.Event().wait()

        asyncio.run(main())
        """,
    )
    program = processes.python("-m", app, env=ledger.env)
    await eventually(lambda: ledger.starts("job") == 1, "the body runs")
    program.kill()

    async with ledger.arun("here"):
        pass
    (killed,), (ended,) = ledger.runs("job"), ledger.runs("here")
    assert (killed.pid, killed.attempt, killed.ended) == (program.pid, 3, None)
    assert ended.how == "returned"


def test_programs_are_stopped_frozen_and_heard(processes: Processes):
    source = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(75)); print('up')\n"
        "while True: time.sleep(0.05)"
    )
    program = processes.python("-c", source)
    program.says_now("up")

    program.freeze()
    program.send(signal.SIGTERM)
    assert program.is_running()
    program.thaw()

    assert program.wait() == 75
    with pytest.raises(AssertionError, match="ended with 75 and never said 'down'"):
        program.says_now("down")
    assert "up" in processes.report()


def test_programs_that_ignore_all_are_gone_in_the_end(processes: Processes):
    source = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf'); signal.pause()"
    program = processes.python("-c", source)
    program.says_now("deaf")

    program.freeze()
    processes.close()

    assert program.code == -signal.SIGKILL


def test_a_program_can_have_another_clock(processes: Processes):
    program = processes.python("-c", "import time; print(time.time(), time.monotonic())", env=other_clock(600))
    assert program.wait() == 0
    wall, monotonic = map(float, program.log().split())

    assert wall - time.time() == pytest.approx(600, abs=10)
    assert monotonic - time.monotonic() == pytest.approx(0, abs=10)
