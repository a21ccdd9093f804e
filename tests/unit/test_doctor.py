"""The checks of `redisjobs doctor` that ask no store, and those for which no test can have the server."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redisjobs.broker.checkup import NEEDED, Checkup, RedisFacts
from redisjobs.broker.coverage import Coverage
from redisjobs.cli.doctor import known_names
from redisjobs.doctor import CHECKS, Given, of_postgres, of_redis, of_settings
from redisjobs.doctor.facts import PostgresFacts, Server
from redisjobs.doctor.of_settings import is_far
from redisjobs.explain import PLACES
from reference.settings import names_in_code

DOCS = Path(__file__).parents[2] / "docs"
NAMES = known_names()
SERVER = Server(
    180000, "18.0", standby=False, login="me", database="d", read_only=False, isolation="read committed",
    statement_timeout_ms=0, transaction_timeout_ms=0, idle_timeout_ms=0, autovacuum=True, fsync=True,
    full_page_writes=True, synchronous_commit="on", places=97, taken=3, login_limit=-1, database_limit=-1,
    encrypted=False, now_s=1000.0,
)  # fmt: skip
POSTGRES = PostgresFacts("postgresql://h/d", "redisjobs", "127.0.0.1", SERVER, 1000.0, 0.01)
REDIS = RedisFacts("redis://h/0", "rj", "127.0.0.1", 0.001, 1000.0, 1000.0, {"redis_version": "7.2.0"})


def given(**changes: Any) -> Given:
    return replace(Given({}, NAMES, "postgresql://h/d", "redis://h/0"), **changes)


def test_a_misspelled_variable_is_named_with_the_one_that_was_meant():
    found = of_settings.environment(given(environ={"REDISJOBS_DATABSE_URL": "x", "REDISJOBS_APP": "y", "OTHER": "z"}))

    assert (found.level, found.value) == ("warn", "REDISJOBS_DATABSE_URL: no command reads it")
    assert found.remedy == "export REDISJOBS_DATABASE_URL=…; unset REDISJOBS_DATABSE_URL"


@pytest.mark.parametrize(
    "name", ["REDISJOBS_RELAY_BATCH_SIZE", "REDISJOBS_QUEUES", "REDISJOBS_LOG_FORMAT", "REDISJOBS_JOBS_LIST_LIMIT",
             "REDISJOBS_HTTP_PORT", "REDISJOBS_REDIS_PASSWORD", "REDISJOBS_PREFIX"],
)  # fmt: skip
def test_every_variable_that_some_command_reads_is_known(name: str):
    assert of_settings.environment(given(environ={name: "x"})).level == "ok"


@pytest.mark.parametrize(
    ("zone", "level"), [("Europe/Berlin", "ok"), ("", "ok"), ("CET-1CEST", "ok"), ("Berlin", "warn")]
)
def test_a_time_zone_that_is_none_is_named(zone: str, level: str):
    assert of_settings.time_zone(given(environ={"TZ": zone})).level == level


@pytest.mark.parametrize(
    ("url", "level", "told"),
    [
        ("redis://h/0?decode_responses=True", "fail", "the URL sets decode_responses=True"),
        ("redis://h/0?protocol=3", "fail", "the URL sets protocol=3"),
        ("redis://h/0?socket_timeout=1", "fail", "cuts off reads that wait for jobs"),
        ("redis://h/jobs", "fail", "database 'jobs' is no number"),
        ("rediss://h/0?ssl_cert_reqs=none", "warn", "ssl_cert_reqs=none"),
        ("unix:///run/redis.sock?db=1", "ok", "unix to /run/redis.sock"),
    ],
)
def test_a_redis_url_with_a_trap_in_it_is_told(url: str, level: str, told: str):
    found = of_settings.redis_url(given(redis_url=url))

    assert found.level == level
    assert told in f"{found.value} {found.why}"


def test_no_variable_that_the_code_reads_is_a_stranger():
    assert names_in_code() - set(NAMES) == set()


def test_several_postgres_hosts_may_lead_to_a_standby():
    url = "postgresql://a,b/d"

    assert of_settings.database_url(given(database_url=url)).level == "fail"
    assert of_settings.database_url(given(database_url=f"{url}?target_session_attrs=read-write")).level == "ok"


@pytest.mark.parametrize(("host", "far"), [("127.0.0.1", False), ("10.1.2.3", False), ("8.8.8.8", True), ("", False),
                                           ("2001:4860:4860::8888", True), ("fe80::1%eth0", False)])  # fmt: skip
def test_only_public_addresses_are_far(host: str, far: bool):
    assert is_far(host) is far


def test_what_crosses_a_public_network_in_the_clear_is_told():
    assert of_redis.encryption(replace(REDIS, host="8.8.8.8")).level == "warn"
    assert of_redis.encryption(replace(REDIS, host="8.8.8.8", url="rediss://h/0")).level == "ok"
    assert of_postgres.encryption(replace(POSTGRES, host="8.8.8.8")).level == "warn"
    far = replace(POSTGRES, host="8.8.8.8", server=replace(SERVER, encrypted=True))
    assert of_postgres.encryption(far).level == "ok"


def test_servers_that_are_too_old_or_take_no_writes_are_told():
    assert (
        of_postgres.version(replace(POSTGRES, server=replace(SERVER, number=130011, version="13.11"))).level == "fail"
    )
    assert of_postgres.primary(replace(POSTGRES, server=replace(SERVER, standby=True))).level == "fail"
    assert of_redis.version(replace(REDIS, info={"redis_version": "6.0.16"})).level == "fail"
    assert of_redis.version(replace(REDIS, info={"redis_version": "7.2.4", "valkey_version": "9.0.1"})).level == "ok"


def test_a_cluster_that_is_not_whole_is_told():
    node = replace(REDIS, info={"cluster_enabled": 1}, node="h:7000")
    whole = Coverage(16_384, 3)

    def level(checkup: Checkup) -> str:
        return of_redis.cluster(checkup).level

    assert level(Checkup([REDIS])) == "ok"
    assert level(Checkup([node])) == "fail", "its URL names one node"
    assert level(Checkup([node], whole)) == "ok"
    assert level(Checkup([node], replace(whole, alone=["h:7000"]))) == "warn"
    assert level(Checkup([node], replace(whole, served=16_000))) == "fail"
    assert level(Checkup([node], whole, ["h:7001: no answer"])) == "fail"


@pytest.mark.parametrize("name", ["rdb_last_bgsave_status", "aof_last_write_status"])
def test_a_redis_that_refuses_writes_for_want_of_a_disk_is_told(name: str):
    assert of_redis.persistence(replace(REDIS, info={name: "err", "aof_enabled": 1})).level == "fail"


def test_the_commands_that_are_tried_are_those_of_the_manual():
    page = (DOCS / "operations.md").read_text()
    acl = re.findall(r"```acl\n(.*?)```", page, re.DOTALL)[0].split()

    assert sorted(NEEDED) == sorted(word[1:] for word in acl if word.startswith("+"))


def test_the_scripts_use_no_command_beside():
    scripts = "".join(path.read_text() for path in (DOCS.parent / "lua").rglob("*.lua"))

    assert {name.lower() for name in re.findall(r"redis\.p?call\('(\w+)'", scripts)} <= set(NEEDED)


def test_the_page_for_trouble_has_every_check_and_every_place():
    page = (DOCS / "troubleshooting.md").read_text()
    told = set(re.findall(r"^\| `([a-z_.]+)`", page, re.MULTILINE))

    assert told == {*CHECKS, *PLACES}
