"""What tests of faults do to servers and programs: their disks, files, clocks and threads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest
import redis as redis_py

from tests.support.eventually import eventually_now
from tests.support.net import Address
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.redis_data import Snapshot, cut_aof, wipe
from tests.support.rules import chance
from tests.support.seizure import Seized, seize
from tests.support.servers import PostgresServer, RedisServer
from tests.support.small_disk import SmallDisk
from tests.support.wall_clock import WallClock

StartRedis = Callable[..., RedisServer]
StartPostgres = Callable[..., PostgresServer]


def test_replies_are_lost_by_chance_and_the_same_ones_for_the_same_seed(redis_proxy: Proxy):
    def lost(seed: int) -> list[int]:
        found: list[int] = []
        with redis_proxy.lose_reply("INCRBY", times=None, odds=chance(0.2, random.Random(seed))):
            for number in range(60):
                with redis_py.Redis.from_url(redis_proxy.url, retry=None) as client:
                    try:
                        client.incr("rj:n")
                    except redis_py.ConnectionError:
                        found.append(number)
        return found

    first = lost(1)
    assert 2 <= len(first) <= 25
    assert lost(1) == first
    assert lost(2) != first


def test_a_proxy_points_new_connections_to_another_server(redis_proxy: Proxy, start_redis: StartRedis):
    other = start_redis()
    with redis_py.Redis.from_url(redis_proxy.url) as before, redis_py.Redis.from_url(redis_proxy.url) as after:
        before.set("rj:a", 1)
        redis_proxy.redirect(Address.of_redis(other.url))

        assert before.get("rj:a") == b"1"
        assert after.get("rj:a") is None


def test_a_redis_whose_disk_is_full_refuses_writes_and_goes_on_when_there_is_room(start_redis: StartRedis):
    server = start_redis(appendonly="yes", appendfsync="everysec")
    with server.client() as client:
        client.set("rj:before", 1)
    server.stop()

    with SmallDisk(server.folder, megabytes=8) as disk:
        server.inside = disk.inside
        server.start()
        with server.client() as client:
            assert client.get("rj:before") == b"1"
            assert disk.fill() > 1_000_000
            eventually_now(lambda: refused(client), "writes are refused")

            disk.free()
            eventually_now(lambda: client.set("rj:after", 2), "writes go on", despite=(redis_py.ResponseError,))
        server.stop()
        disk.give_back()
    server.inside = []
    server.start()
    with server.client() as client:
        assert client.mget("rj:before", "rj:after") == [b"1", b"2"]


def refused(client: redis_py.Redis) -> bool:
    """It says that it cannot write what it is told."""
    try:
        client.set("rj:full", b"x" * 100_000)
    except redis_py.ResponseError as error:
        return "MISCONF" in str(error)
    return False


def test_a_postgres_whose_disk_is_full_fails_what_writes_and_loses_nothing(start_postgres: StartPostgres):
    server = start_postgres()
    with psycopg.connect(server.url) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 1 AS number")
    server.stop()

    with SmallDisk(server.folder, megabytes=150) as disk:
        server.inside = disk.inside
        server.start()
        disk.fill()
        with psycopg.connect(server.url) as conn, pytest.raises((psycopg.OperationalError, psycopg.errors.DiskFull)):
            conn.execute("INSERT INTO kept SELECT generate_series(1, 1000000)")
        disk.free()
        eventually_now(lambda: insert(server), "it writes again", 30, despite=(psycopg.OperationalError,))
        server.stop()
        disk.give_back()
    server.inside = []
    server.start()
    with psycopg.connect(server.url) as conn:
        assert conn.execute("SELECT * FROM kept ORDER BY 1").fetchall() == [(1,), (2,)]


def insert(server: PostgresServer) -> bool:
    with psycopg.connect(server.url) as conn:
        conn.execute("INSERT INTO kept VALUES (2)")
    return True


def test_a_redis_is_put_back_to_what_it_was(start_redis: StartRedis, tmp_path: Path):
    server = start_redis(appendonly="yes", appendfsync="always")
    with server.client() as client:
        client.set("rj:old", 1)
        old = Snapshot(server, tmp_path / "old")
        client.set("rj:new", 2)
    server.kill()
    old.put_back()
    server.start()

    with server.client() as client:
        assert client.mget("rj:old", "rj:new") == [b"1", None]


def test_a_redis_whose_log_is_cut_has_lost_its_last_writes_alone(start_redis: StartRedis):
    server = start_redis(appendonly="yes", appendfsync="always")
    with server.client() as client:
        for number in range(100):
            client.set(f"rj:{number}", b"x" * 1000)
    server.kill()
    assert cut_aof(server, 5_500) == 5_500
    server.start()

    with server.client() as client:
        assert client.get("rj:93") is not None
        assert client.get("rj:94") is None


def test_a_redis_that_was_wiped_is_empty(start_redis: StartRedis):
    server = start_redis(appendonly="yes", appendfsync="always")
    with server.client() as client:
        client.set("rj:a", 1)
    with pytest.raises(AssertionError, match="stop or kill"):
        wipe(server)
    server.kill()
    wipe(server)
    server.start()

    with server.client() as client:
        assert client.dbsize() == 0


def test_a_wall_clock_is_set_while_its_program_runs(processes: Processes, tmp_path: Path):
    clock = WallClock(tmp_path / "clock", seconds=-600)
    source = (
        "import threading, time\nwhile True: print('at', round(time.time() - time.monotonic()));"
        " threading.Event().wait(0.05)"
    )
    true = round(time.time() - time.monotonic())
    program = processes.python("-c", source, env=clock.env)
    program.says_now("\n")
    eventually_now(lambda: told(program.log(), true - 600), "it is behind")

    clock.set(600)
    eventually_now(lambda: told(program.log(), true + 600), "it has jumped")
    clock.set(0)
    eventually_now(lambda: told(program.log(), true), "it is right")


def told(log: str, at: int) -> bool:
    """The last time that it told is this one, but for a second."""
    return abs(int(log[: log.rfind("\n")].rpartition("at ")[2]) - at) <= 1


def test_a_redis_has_a_clock_of_its_own(start_redis: StartRedis, tmp_path: Path):
    clock = WallClock(tmp_path / "clock")
    server = start_redis()
    server.env = clock.env
    server.restart()
    with server.client() as client:
        for seconds in (600, -600):
            clock.set(seconds)
            eventually_now(partial(is_off, seconds, lambda: client.time()[0]), "its clock is as it was set")


def test_a_postgres_has_a_clock_of_its_own(start_postgres: StartPostgres, tmp_path: Path):
    clock = WallClock(tmp_path / "clock")
    server = start_postgres()
    server.env = clock.env
    server.restart()
    with psycopg.connect(server.url, autocommit=True) as conn:
        clock.set(600)
        eventually_now(partial(is_off, 600, lambda: now_of(conn)), "its clock is as it was set")


def now_of(conn: psycopg.Connection[tuple[object, ...]]) -> float:
    (seconds,) = conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0,)
    return float(str(seconds))


def is_off(seconds: float, now: Callable[[], float]) -> bool:
    return abs(now() - time.time() - seconds) < 10


@pytest.mark.parametrize(("what", "others_go_on"), [("loop", True), ("gil", False)])
def test_a_program_is_seized(processes: Processes, what: Seized, others_go_on: bool):
    module = processes.module(
        "seized",
        """
        import threading, time
        from tests.support import seizure
        seizure.install()
        most = dict.fromkeys(("main", "other"), 0.0)

        def live(name):
            last = time.monotonic()
            while True:
                time.sleep(0.01)
                now = time.monotonic()
                most[name] = max(most[name], now - last)
                last = now
                if name == "main":
                    print("most", most["main"] > 2.9, most["other"] > 2.9, flush=True)

        threading.Thread(target=live, args=["other"], daemon=True).start()
        live("main")
        """,
    )
    program = processes.python("-m", module)
    program.says_now("most False False")

    seize(program.pid, what, 3)

    program.says_now(f"most True {not others_go_on}")
