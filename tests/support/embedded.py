"""Other processes that use the embedded servers, and what is left of them."""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest
import redis

from redisjobs.embedded import Servers

SETTINGS = ("DATABASE_URL", "REDIS_URL", "PG_BIN", "REDIS_BIN", "ROOT")

APPLICATION = """
import dataclasses, json, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit it ignored
from redisjobs.embedded import Embedded
options = json.loads(sys.argv[1])
with Embedded(**options) as servers:
    {first}
    print(json.dumps(dataclasses.asdict(servers), default=str), flush=True)
    {then}
"""


class Application:
    """Another process that starts the servers, and holds them until its standard input ends."""

    def __init__(
        self,
        first: str = "pass",
        then: str = "sys.stdin.read()",
        env: dict[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        code = APPLICATION.format(first=first, then=then)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(options, default=str)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (env or {}),
            preexec_fn=preexec,  # noqa: PLW1509  no other thread runs
            start_new_session=True,
        )

    def servers(self) -> Servers:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.ended())
        parts = json.loads(line)
        return Servers(**parts | {"run": Path(parts["run"])})

    def ended(self) -> str:
        """What it had to say when it ended."""
        out, err = self.process.communicate(timeout=30)
        return out + err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.process.poll() is None:
                self.process.communicate(timeout=60)  # closes its standard input, and so ends it
        finally:
            self.process.kill()
            self.process.wait()
            self._close()

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def ask(url: str, query: str) -> Any:
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(query.encode())
        row = cursor.fetchone() if cursor.description is not None else None
        return row[0] if row else None


def redis_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def is_alive(pid: int | None) -> bool:
    """Running, and not only waiting for somebody to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def processes_of(*folders: Path | None, but: int = 0) -> list[str]:
    """The processes that work in a folder or name it, but for one."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().replace("\0", " ") + " " + str((entry / "cwd").readlink())
        except OSError:
            continue
        if (
            int(entry.name) != but
            and is_alive(int(entry.name))
            and any(str(folder) in words for folder in folders if folder)
        ):
            found.append(f"{entry.name} {words}")
    return found


def all_gone(started: Servers, *others: Path, but: int = 0) -> bool:
    pids = (started.host_pid, started.postgres_pid, started.redis_pid)
    return not any(map(is_alive, pids)) and not processes_of(started.run, *others, but=but)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def hanging_postgres(folder: Path) -> Path:
    """A folder of binaries whose initdb says that it has begun, and never ends."""
    program(folder / "bin/postgres", "#!/bin/sh\necho 'postgres (PostgreSQL) 18.6'\n")
    program(folder / "bin/initdb", '#!/bin/sh\ncd "$2" && touch begun && exec sleep 987\n')
    return folder / "bin"


def called(inside: int) -> Callable[[], None]:
    """Puts a new process into a user namespace where its uid is called so."""
    uid, gid = os.geteuid(), os.getegid()

    def enter() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) != 0:
            raise OSError(ctypes.get_errno(), "user namespaces are refused")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{inside} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{inside} {gid} 1")

    return enter


def namespaces_are_allowed() -> bool:
    try:
        return subprocess.run(["true"], preexec_fn=called(0)).returncode == 0
    except subprocess.SubprocessError:
        return False


def forget_settings(patch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set some."""
    for name in SETTINGS:
        patch.delenv(f"REDISJOBS_{name}", raising=False)


def unprivileged() -> pwd.struct_passwd:
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
