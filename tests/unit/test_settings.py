"""Settings: where they come from, and their ranges."""

from __future__ import annotations

from datetime import timedelta

import pytest

from redisjobs.errors import ConfigurationError, OptionError
from redisjobs.settings import RelaySettings, Settings, WorkerSettings


def test_what_is_given_goes_before_the_environment():
    environ = {"REDISJOBS_REDIS_URL": "redis://env", "REDIS_URL": "redis://common", "DATABASE_URL": "postgres://common"}

    settings = Settings.load(redis_url="redis://given", environ=environ)

    assert (settings.redis_url, settings.database_url) == ("redis://given", "postgres://common")
    assert Settings.load(environ=environ).redis_url == "redis://env"
    assert Settings.load(environ={}).redis_url is None


def test_a_password_apart_is_put_into_the_url():
    settings = Settings.load(
        redis_url="redis://h:1", database_url="postgresql://u@h/d", redis_password="p@ss/w#%+:?",
        environ={"REDISJOBS_DATABASE_PASSWORD": "a:b"},
    )  # fmt: skip

    assert settings.redis_url == "redis://:p%40ss%2Fw%23%25%2B%3A%3F@h:1"
    assert settings.database_url == "postgresql://u:a%3Ab@h/d"
    assert settings.shown() == {
        "redis_url": "redis://:***@h:1",
        "database_url": "postgresql://u:***@h/d",
        "schema": "redisjobs",
        "prefix": "rj",
    }
    assert "p%40ss" not in repr(settings)


def test_an_error_names_where_the_url_came_from():
    with pytest.raises(ConfigurationError, match=r"^REDIS_URL cannot be read") as refused:
        Settings.load(environ={"REDIS_URL": "redis://:se/cret@h"})

    assert "cret" not in str(refused.value)


def test_what_is_needed_and_not_there_says_how_to_set_it():
    with pytest.raises(ConfigurationError, match="database_url is not set: pass it, or set REDISJOBS_DATABASE_URL"):
        Settings().need_database_url()
    with pytest.raises(ConfigurationError, match="REDISJOBS_REDIS_URL"):
        Settings().need_redis_url()


@pytest.mark.parametrize("schema", ["", "a.b", 'a"b', "1a", "pg_x", "x" * 64, "a\n"])
def test_a_schema_is_a_plain_name(schema: str):
    with pytest.raises(OptionError, match="schema"):
        Settings(schema=schema)


@pytest.mark.parametrize("prefix", ["", "a{b}", "a b", "x" * 65])
def test_a_prefix_has_no_braces(prefix: str):
    with pytest.raises(OptionError, match="prefix"):
        Settings(prefix=prefix)


def test_a_worker_has_defaults():
    settings = WorkerSettings()

    assert (settings.queues, settings.concurrency, settings.max_losses) == (("default",), 10, 3)
    assert (settings.lease, settings.heartbeat, settings.grace) == (30.0, 10.0, 25.0)
    assert settings.worker_id != WorkerSettings().worker_id


def test_the_heartbeat_is_a_third_of_the_lease():
    assert WorkerSettings(visibility_timeout=timedelta(minutes=1)).heartbeat == 20.0


@pytest.mark.parametrize("interval", [15, 15.0, 30, timedelta(seconds=20)])
def test_a_heartbeat_not_below_half_the_lease_is_refused(interval):
    with pytest.raises(
        OptionError, match=r"heartbeat_interval \(.*\) must be below half of visibility_timeout \(30 s\)"
    ):
        WorkerSettings(heartbeat_interval=interval)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": []}, {"queues": "default"}, {"queues": ["a b"]}, {"queues": [1]}, {"queues": [""]},
        {"concurrency": 0}, {"concurrency": True}, {"concurrency": 2.0}, {"concurrency": {}},
        {"concurrency": {"default": 0}}, {"visibility_timeout": 0}, {"visibility_timeout": float("inf")},
        {"heartbeat_interval": 0}, {"heartbeat_interval": float("nan")}, {"drain_grace": -1}, {"max_losses": 0},
        {"max_losses": 1.5}, {"worker_id": "a\nb"}, {"worker_id": 5},
    ],
)  # fmt: skip
def test_a_workers_option_out_of_range_is_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong)).replace("[", r"\[")):
        WorkerSettings(**wrong)


def test_globs_and_slots_by_queue_are_taken():
    settings = WorkerSettings(queues=["mail.*", "a?[bc]", "mail.*"], concurrency={"mail.*": 5})

    assert settings.queues == ("mail.*", "a?[bc]")
    assert settings.concurrency == {"mail.*": 5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0}, {"batch_size": 1.0}, {"batch_size": True}, {"interval": -0.1}, {"interval": float("inf")},
        {"lease": 0}, {"horizon": float("nan")}, {"memory_budget": 0}, {"memory_budget": 1.1}, {"memory_budget": True},
        {"retention": -1},
    ],
)  # fmt: skip
def test_a_relays_option_out_of_range_is_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        RelaySettings(**wrong)


def test_a_relay_has_defaults_and_its_durations_are_seconds():
    settings = RelaySettings(horizon=timedelta(hours=2))

    assert (settings.batch_size, settings.interval, settings.lease) == (500, 0.2, 15.0)
    assert (settings.horizon, settings.memory_budget, settings.retention) == (7200.0, 0.8, 3600.0)
