"""However the application or its servers end, no server stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisjobs.embedded import Embedded, Servers, folders
from tests.support.embedded import (
    Application,
    all_gone,
    ask,
    forget_settings,
    hanging_postgres,
    is_alive,
    processes_of,
    program,
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


@pytest.mark.parametrize("killed", ["application", "host", "application and host", "postgres", "redis"])
def test_whoever_is_killed_no_server_stays_behind(killed: str, tmp_path: Path) -> None:
    with Application(data=tmp_path) as application:
        started = application.servers()
        pids = {
            "application": application.process.pid,
            "host": started.host_pid,
            "postgres": started.postgres_pid,
            "redis": started.redis_pid,
        }
        for name in killed.split(" and "):
            os.kill(pids[name] or 0, signal.SIGKILL)
        eventually_now(lambda: all_gone(started, tmp_path, but=application.process.pid), "no server runs", 30)
    with Embedded(tmp_path) as started:
        assert started.attached is False
        assert ask(started.database_url, "SELECT 1") == 1


def test_a_forked_worker_does_not_keep_the_servers_of_a_killed_application() -> None:
    fork = "worker = os.fork()\n    while worker == 0: signal.pause()"
    with Application(first=fork, then="print(worker, flush=True); sys.stdin.read()") as application:
        started = application.servers()
        assert application.process.stdout
        worker = int(application.process.stdout.readline())
        application.process.kill()
        try:
            eventually_now(lambda: all_gone(started), "no server runs", 30)
            assert is_alive(worker)
        finally:
            os.kill(worker, signal.SIGKILL)
    assert started.run
    assert not started.run.exists()


def test_a_fork_that_stops_them_does_not_end_the_servers_of_its_parent() -> None:
    embedded = Embedded()
    with embedded as started:
        pid = os.fork()
        if pid == 0:
            embedded.stop()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert ask(started.database_url, "SELECT 1") == 1


@pytest.mark.parametrize("killed", ["application", "host"])
def test_a_kill_during_the_start_leaves_nothing_running(killed: str, tmp_path: Path) -> None:
    def host() -> int | None:
        found = [line for line in processes_of(tmp_path) if "host.main" in line]
        return int(found[0].split()[0]) if found else None

    with Application(data=tmp_path / "data", pg_bin=hanging_postgres(tmp_path)) as application:
        eventually_now((tmp_path / "data/pg18.new/begun").exists, "initdb has begun", 30)
        os.kill(application.process.pid if killed == "application" else host() or 0, signal.SIGKILL)
        application.process.wait()
        eventually_now(lambda: not processes_of(tmp_path), "nothing runs any longer")


def test_ctrl_c_reaches_the_application_first_which_can_still_use_them() -> None:
    then = (
        "import psycopg, time\n"
        "    try:\n        print('waiting', flush=True)\n"
        "        while True: time.sleep(0.05)\n"  # not signal.pause: a signal just before it would wait for another
        "    except KeyboardInterrupt:\n"
        "        print(psycopg.connect(servers.database_url).execute(\"SELECT 'drained'\").fetchone()[0])"
    )
    with Application(then=then) as application:
        started = application.servers()
        assert application.process.stdout
        assert application.process.stdout.readline() == "waiting\n"
        os.killpg(application.process.pid, signal.SIGINT)
        assert application.ended().startswith("drained")
    assert all_gone(started)


def test_a_redis_that_refuses_the_first_signal_gets_another(tmp_path: Path) -> None:
    stub = f"""#!{sys.executable}
import signal, socket, sys
if "--version" in sys.argv:
    print("Redis server v=7.2.0 sha=0")
    sys.exit()
signals = []
def heard(*_):
    signals.append(1)
    if len(signals) == 2:
        open({str(tmp_path / "ended")!r}, "w").close()
        sys.exit()
signal.signal(signal.SIGTERM, heard)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index("--unixsocket") + 1])
server.listen()
while True:
    client = server.accept()[0]
    client.sendall(b"+PONG\\r\\n")
    client.close()
"""
    embedded = Embedded(database_url="postgresql://given", redis_bin=program(tmp_path / "redis-server", stub))
    started = embedded.start()
    begun = time.monotonic()
    embedded.stop()
    assert time.monotonic() - begun > 0.4
    assert (tmp_path / "ended").exists(), "it was not killed"
    assert all_gone(started)


def test_sigterm_to_the_host_ends_them_too(tmp_path: Path) -> None:
    embedded = Embedded(tmp_path)
    with embedded as started:
        os.kill(started.host_pid or 0, signal.SIGTERM)
        eventually_now(lambda: not is_alive(started.host_pid), "the host has ended", 30)
        assert all_gone(started)
    assert not (tmp_path / "state.json").exists()
    assert f"host {started.host_pid}: stopping: SIGTERM" in (tmp_path / "servers.log").read_text()


def test_what_a_killed_host_left_behind_is_removed_by_a_later_start(pair: Servers) -> None:
    with Application() as application:
        started = application.servers()
        os.kill(started.host_pid or 0, signal.SIGKILL)
        eventually_now(lambda: all_gone(started), "no server runs", 30)
    assert started.run
    assert pair.run
    not_ours = started.run.with_name(f"rj-other-{os.getpid()}")
    not_ours.mkdir()
    long_ago = time.time() - 3600
    for folder in (started.run, pair.run, not_ours):
        os.utime(folder, (long_ago, long_ago))

    shutil.rmtree(folders.make_run_folder())

    assert not started.run.exists()
    assert pair.run.exists()
    assert not_ours.exists()
    not_ours.rmdir()
    assert ask(pair.database_url, "SELECT 1") == 1
