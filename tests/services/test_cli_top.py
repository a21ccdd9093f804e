"""`redisjobs top`: what goes on now, in both stores, on a terminal and for programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import redis as redis_py

from redisjobs.broker.presence import Presence
from redisjobs.settings import Settings
from redisjobs.snapshots import Snapshots
from tests.stories.road import Road
from tests.support.builders import Conn, publication, stage
from tests.support.cli import CommandLine
from tests.support.eventually import eventually
from tests.support.processes import Processes
from tests.support.queue import QueueByHand
from tests.support.redis_versions import AnyRedis
from tests.support.terminal import Terminal

LOST = {"REDISJOBS_REDIS_URL": "redis://127.0.0.1:1/0", "REDISJOBS_DATABASE_URL": "postgresql://127.0.0.1:1/x"}


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


@pytest.fixture
def settings(database_url: str, redis_url: str) -> Settings:
    return Settings(database_url, redis_url)


def once(redisjobs: CommandLine, *options: object, code: int = 0, **env: str) -> Any:
    return json.loads(redisjobs("top", "--once", "--json", "--interval", "0.2", *options, code=code, **env).stdout)


async def test_one_look_has_queues_relays_and_workers(
    database_url: str, redis_url: str, redisjobs: CommandLine, conn: Conn, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("redisjobs.announcer.EVERY_S", 0.05)
    monkeypatch.setattr("redisjobs.heartbeat.LOOK_S", 0.05)
    free = asyncio.Event()
    async with Road(database_url, redis_url) as road:

        @road.app.job(queue="mail")
        async def wait() -> None:
            await free.wait()

        road.commit(*[wait.call() for _ in range(5)], wait.using(delay=3600 * 5).call(), wait.using(delay=60).call())
        await road.work(queues=["mail"], concurrency=3, worker_id="w1")
        conn.execute(
            "INSERT INTO redisjobs.dead (id, job, queue, reason) VALUES (gen_random_uuid(), 'a', 'old', 'why')"
        )
        conn.commit()

        async def busy() -> dict[str, Any]:
            found = await asyncio.to_thread(once, redisjobs)
            (mail,) = [each for each in found["queues"] if each["queue"] == "mail"]
            # a worker of an earlier test may say a last word after its keys were removed
            (worker,) = [each for each in found["workers"] if each["worker_id"] == "w1"]
            assert (mail["running"], mail["ready"], mail["due"], mail["deferred"]) == (3, 2, 1, 1)
            assert mail["start_s"] is not None
            assert (mail["slots"], mail["workers"], worker["running"]) == (3, 1, {"mail": 3})
            return dict(found, mail=mail, worker=worker)

        seen = await eventually(busy, "all are where they belong", despite=(AssertionError, ValueError))
        free.set()

    mail, worker, (relay,) = seen["mail"], seen["worker"], seen["relays"]
    assert (mail["holder"], mail["paused"]) == ("story", False)
    assert 0 <= mail["start_s"] < 60
    assert 0 < mail["ready_s"] < 60
    assert (relay["relay"], relay["queues"]) == ("story", ["mail"])
    assert worker["is_there"] is True
    assert worker["oldest_s"] > 0
    assert {each["queue"]: each["dead"] for each in seen["queues"]} == {"mail": 0, "old": 1}


async def test_rates_are_those_between_two_looks(settings: Settings, q: QueueByHand):
    await q.carrier.announce(["q"])
    snapshots = Snapshots(settings)
    (first,) = snapshots.look().queues
    await q.publish(*[publication() for _ in range(30)])
    for delivery in await q.take(count=10):
        await q.finish(delivery)
    (second,) = snapshots.look().queues
    (third,) = snapshots.look().queues
    q.redis.flushall()
    await q.carrier.announce(["q"])
    (lost,) = snapshots.look().queues
    snapshots.close()

    assert (first.in_per_s, first.out_per_s) == (None, None)
    assert second.in_per_s is not None
    assert second.out_per_s is not None
    assert second.in_per_s == pytest.approx(3 * second.out_per_s)
    assert (third.in_per_s, third.out_per_s) == (0, 0)
    assert (lost.in_per_s, lost.out_per_s) == (None, None)


async def test_it_works_on_every_redis_and_before_7_without_rates(any_real_redis: AnyRedis, database_url: str):
    async with QueueByHand(any_real_redis.url) as q:
        await q.carrier.announce(["q"])
        await q.publish(publication(), publication())
        await q.take(count=1)
        snapshots = Snapshots(Settings(database_url, any_real_redis.url))
        snapshots.look()
        (queue,) = snapshots.look().queues
        snapshots.close()

    assert (queue.ready, queue.running) == (1, 1)
    assert queue.in_per_s == (None if any_real_redis.version < (7,) else 0)


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_without_a_store_the_rest_is_shown_and_the_code_is_69(redisjobs: CommandLine, conn: Conn, store: str):
    stage(conn, queue="mail")
    conn.commit()
    name = {"redis": "REDISJOBS_REDIS_URL", "postgres": "REDISJOBS_DATABASE_URL"}[store]

    seen = once(redisjobs, code=69, **{name: LOST[name]})

    assert list(seen["errors"]) == [store]
    assert [each["staged"] for each in seen["queues"]] == ([1] if store == "redis" else [])
    assert (seen["workers"] is None) == (store == "redis")
    assert (
        f"{store.title()} is DOWN"
        in redisjobs("top", "--once", "--interval", "0.2", code=69, **{name: LOST[name]}).stdout
    )


def test_a_store_that_comes_back_is_asked_again(settings: Settings, postgres_proxy: Any, conn: Conn):
    stage(conn, queue="mail")
    conn.commit()
    snapshots = Snapshots(Settings(postgres_proxy.url, settings.redis_url))
    assert not snapshots.look().errors
    postgres_proxy.refuse()
    postgres_proxy.reset()
    assert list(snapshots.look().errors) == ["postgres"]
    postgres_proxy.heal()
    assert [each.staged for each in snapshots.look().queues] == [1]
    snapshots.close()


def test_what_is_out_of_the_ordinary_is_said(redisjobs: CommandLine, conn: Conn):
    parked = stage(conn, queue="odd")
    conn.execute("UPDATE redisjobs.outbox SET state = 'parked' WHERE id = %s", [parked])
    stage(conn, queue="lonely")
    conn.commit()
    redisjobs("queues", "pause", "odd")

    told = redisjobs("top", "--once", "--interval", "0.2").stdout

    assert "odd: PAUSED, 1 parked" in told
    assert "lonely: no relay holds it" in told
    assert told.count("nobody") == 2


def test_on_a_terminal_of_80_columns_it_is_drawn_again_and_again_until_q(
    redisjobs: CommandLine, conn: Conn, redis_url: str
):
    for number in range(60):
        stage(conn, queue=f"a-queue-with-a-rather-long-name-{number}")
    conn.commit()
    with Terminal("top", "--interval", "0.2", env=redisjobs.env, size=(80, 24)) as terminal:
        terminal.shows(" more")
        redisjobs("queues", "pause", "a-queue-with-a-rather-long-name-1")
        terminal.shows("PAUSED")
        terminal.press("q")
        assert terminal.code() == 0
        screens = terminal.screens()
    assert len(screens) > 2
    assert max(len(line.rstrip()) for screen in screens for line in screen.split("\n")) <= 80
    assert max(len(screen.strip().split("\n")) for screen in screens) <= 24
    assert "q quits" in screens[-1]


def test_on_a_terminal_it_goes_on_while_a_store_is_down(redisjobs: CommandLine):
    env = redisjobs.env | {"REDISJOBS_REDIS_URL": LOST["REDISJOBS_REDIS_URL"]}
    with Terminal("top", "--interval", "0.2", env=env) as terminal:
        terminal.shows("Redis is DOWN")
        terminal.press("q")
        assert terminal.code() == 0


def test_programs_get_a_line_a_look_until_they_have_enough(processes: Processes):
    top = processes.redisjobs("top", "--json", "--interval", "0.2")
    top.says_now('"queues"')
    os.kill(top.pid, signal.SIGTERM)
    top.wait()
    assert all("workers" in json.loads(line) for line in top.log().splitlines())


def test_an_operators_rights_are_enough(redisjobs: CommandLine, conn: Conn, database_url: str):
    role = f"viewer_{uuid4().hex[:8]}"
    conn.execute(f"CREATE ROLE {role} LOGIN".encode())
    conn.execute("SELECT redisjobs.grant_operator(%s)", [role])
    stage(conn, queue="mail")
    conn.commit()
    try:
        url = database_url.replace("//postgres@", f"//{role}@")
        assert [each["staged"] for each in once(redisjobs, "--database-url", url)["queues"]] == [1]
    finally:
        conn.execute(f"DROP OWNED BY {role}".encode())
        conn.execute(f"DROP ROLE {role}".encode())
        conn.commit()


def test_an_interval_that_is_too_short_is_refused(redisjobs: CommandLine):
    assert "0.05 s is too short: pass at least 200ms" in redisjobs("top", "--interval", "50ms", code=2).stderr


def test_the_oldest_silence_is_shown_as_such(redisjobs: CommandLine, tell_of: Callable[[str, int], None]):
    tell_of("gone", 60_000)
    tell_of("here", 0)

    seen = {each["worker_id"]: each for each in once(redisjobs)["workers"]}

    assert (seen["gone"]["is_there"], seen["here"]["is_there"]) == (False, True)
    assert 60 <= seen["gone"]["seen_s"] < 120
    assert "GONE q" in redisjobs("top", "--once", "--interval", "0.2").stdout


@pytest.fixture
def tell_of(redis_url: str) -> Callable[[str, int], None]:
    """Has a worker speak, so many ms ago."""

    def tell(name: str, ms_ago: int) -> None:
        with redis_py.Redis.from_url(redis_url) as client:
            seconds, micros = client.time()
            until = seconds * 1000 + micros // 1000 - ms_ago + 15_000
            client.hset("rj:{-}:workers", name, Presence(name, queues=["q"]).pack().decode())
            client.zadd("rj:{-}:seen", {name: until})

    return tell
