"""`redisjobs doctor` on a Redis with something wrong about it: each misconfiguration is found (P3, N03, N04)."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from redisjobs.broker.checkup import NEEDED, check_up
from redisjobs.doctor import limits
from redisjobs.doctor.of_redis import CHECKS
from redisjobs.errors import StoreRefused
from tests.services.test_doctor_postgres import is_told
from tests.support.binaries import valkey_9
from tests.support.builders import publication
from tests.support.cli import CommandLine
from tests.support.examined import examine
from tests.support.proxy import Proxy
from tests.support.queue import QueueByHand, dump
from tests.support.redis_versions import AnyRedis
from tests.support.servers import RedisServer

GOOD = {"appendonly": "yes", "maxmemory": "512mb", "maxmemory-policy": "noeviction", "timeout": "0"}
"""The settings of compose.yaml."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A Redis that the tests of this module set as they like; each begins with good settings."""
    with RedisServer(tmp_path_factory.mktemp("redis"), valkey_9()) as started:
        yield started


@pytest.fixture
def redisjobs(database_url: str, server: RedisServer) -> CommandLine:
    with server.client() as client:
        client.flushall()
        for name, value in GOOD.items():
            client.config_set(name, value)
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": server.url})


@pytest.mark.parametrize(
    ("settings", "check", "level", "told"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "redis.eviction", "fail", "CONFIG SET maxmemory-policy noeviction"),
        ({"maxmemory-policy": "volatile-ttl"}, "redis.eviction", "warn", "maxmemory-policy is volatile-ttl"),
        ({"maxmemory": "0"}, "redis.memory", "warn", "no limit"),
        ({"maxmemory": "32mb"}, "redis.memory", "warn", "few fit"),
        ({"appendonly": "no"}, "redis.persistence", "warn", "CONFIG SET appendonly yes"),
        ({"timeout": "30"}, "redis.idle_timeout", "warn", "CONFIG SET timeout 0"),
        ({"maxclients": "1"}, "redis.clients", "fail", "connections taken: 1 of 1"),
    ],
)
@pytest.mark.usefixtures("unhurried")
def test_a_setting_that_does_harm(  # noqa: PLR0917 - a table of cases
    redisjobs: CommandLine, server: RedisServer, settings: dict[str, str], check: str, level: str, told: str
):
    with server.client() as client:
        for name, value in settings.items():
            client.config_set(name, value)
        client.close()

    found = examine(redisjobs)
    if "maxclients" in settings:
        with server.client() as client:
            client.config_set("maxclients", "1000")

    is_told(found.of(check), level, told)
    assert found.levels("warn", "fail").keys() - {"postgres.durability"} == {check}


def test_a_redis_that_is_nearly_full_and_one_that_is_full(redisjobs: CommandLine, server: RedisServer):
    with server.client() as client:
        client.config_set("maxmemory", "100mb")
        client.mset({f"rj:ballast:{each}": "x" * 1_000_000 for each in range(65)})
        close = examine(redisjobs).of("redis.memory")
        client.mset({f"rj:ballast:{each}": "x" * 1_000_000 for each in range(65, 85)})
        full = examine(redisjobs).of("redis.memory")
        client.flushall()

    is_told(close, "warn", "of 100", "at 80% relays stop publishing")
    is_told(full, "fail", "relays publish nothing while more than 80% are used")


def test_a_replica(redisjobs: CommandLine, server: RedisServer):
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        found = examine(redisjobs)
        client.execute_command("REPLICAOF", "NO", "ONE")

    is_told(found.of("redis.primary"), "fail", "a replica of 127.0.0.1:1", "REPLICAOF NO ONE")
    assert found.code == 1


def test_a_redis_that_is_far_away(database_url: str, redis_proxy: Proxy, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "TOO_SLOW_S", 60.0)  # however busy this machine is
    redis_proxy.replies.delay(0.05)
    found = examine(CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_proxy.url}))

    is_told(found.of("redis.latency"), "warn", "answers a PING in", "redis-cli --latency")


def limited(server: RedisServer, *rules: str) -> str:
    """A user with the rights of the manual, and these rules on top; its URL."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    with server.client() as admin:
        admin.execute_command("ACL", "DELUSER", "redisjobs")
        admin.execute_command(*re.findall(r"```acl\n(.*?)```", page, re.DOTALL)[0].split(), *rules)
    return server.url.replace("redis://", "redis://redisjobs:change-me@")


@pytest.mark.parametrize("right", NEEDED)
def test_each_right_that_lacks_is_named_and_no_other(server: RedisServer, right: str):
    with server.client() as client:
        client.flushall()
        client.sadd("rj:queues", "q")
        url = limited(server, f"-{right}")
        before = dump(client, b"")
        if right in ("ping", "time"):  # without which nothing begins
            with pytest.raises(StoreRefused, match=right):
                check_up(url, "rj")
            return
        (found,) = check_up(url, "rj").nodes

        assert found.lacks == [right]
        assert dump(client, b"") == before
        assert found.untried == ([] if right != "srandmember" else ["sadd"])


@pytest.mark.usefixtures("unhurried")
def test_a_user_with_the_rights_of_the_manual_may_not_look_and_that_is_no_fault(
    redisjobs: CommandLine, server: RedisServer
):
    found = examine(redisjobs, REDISJOBS_REDIS_URL=limited(server))

    assert found.of("redis.rights")["level"] == "ok"
    assert found.of("redis.looking")["value"].startswith("INFO, CONFIG may not be asked")
    assert found.levels("unknown").keys() >= {"redis.looking", "redis.eviction", "redis.idle_timeout"}
    assert not [name for name in found.levels("warn", "fail") if name.startswith("redis")]


def test_a_right_that_lacks_is_told_with_the_command(redisjobs: CommandLine, server: RedisServer):
    found = examine(redisjobs, REDISJOBS_REDIS_URL=limited(server, "-xadd", "-zadd"))

    is_told(found.of("redis.rights"), "fail", "may not use xadd, zadd", "ACL SETUSER NAME +xadd +zadd")


def test_a_user_for_other_keys(redisjobs: CommandLine, server: RedisServer):
    found = examine(redisjobs, "--prefix", "other", REDISJOBS_REDIS_URL=limited(server))

    is_told(found.of("redis.rights"), "fail", "may not use keys of other:*", "'~other:*'")


def test_a_wrong_password(redisjobs: CommandLine, server: RedisServer):
    limited(server)
    url = server.url.replace("redis://", "redis://redisjobs:hush@")

    found = examine(redisjobs, REDISJOBS_REDIS_URL=url)

    is_told(found.of("redis.reached"), "fail", "Redis refuses the login")
    assert not any("hush" in str(each) for each in found.findings)


def test_a_url_that_would_be_misunderstood_is_not_asked(redisjobs: CommandLine, server: RedisServer):
    found = examine(redisjobs, REDISJOBS_REDIS_URL=f"{server.url}?decode_responses=True")

    is_told(found.of("settings.redis_url"), "fail", "decode_responses=True")
    assert found.of("redis.reached")["level"] == "unknown"


def test_clocks_that_differ(database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch):
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() - 60.5)
    found = examine(CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url}))

    is_told(found.of("redis.clock"), "warn", "Redis is 6", " s ahead of this machine")
    is_told(found.of("postgres.clock"), "warn", "Postgres is 6", " s ahead of this machine")


def test_every_redis_can_be_looked_over(any_real_redis: AnyRedis):
    (found,) = check_up(any_real_redis.url, "rj").nodes

    assert (found.lacks, found.other_keys, found.forbidden) == ([], None, {})
    assert found.config["timeout"] == "0"
    assert {name: CHECKS[name](found).level for name in ("redis.version", "redis.primary", "redis.rights")} == {
        "redis.version": "ok",
        "redis.primary": "ok",
        "redis.rights": "ok",
    }
    with redis_py.Redis.from_url(any_real_redis.url) as client:
        assert client.dbsize() == 0


async def test_it_changes_nothing_in_a_queue_that_is_at_work(redis: redis_py.Redis, q: QueueByHand, redis_url: str):
    await q.publish(publication(), publication(delay_ms=60_000))
    await q.take_one()
    redis.sadd("rj:queues", "q")
    before = dump(redis, b"")

    check_up(redis_url, "rj")

    assert dump(redis, b"") == before
