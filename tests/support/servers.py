"""Servers of a test's own, on free ports, that it may stop, kill, freeze and start again.

The stores that most tests share are in `stores`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.binaries import version
from tests.support.eventually import PAUSE, eventually_now
from tests.support.net import free_port


class Server:
    """One server process: start, stop and the rougher ways to end it. Its data outlives a restart.

    Attributes:
        inside: a command in front of its own, from the next start on, such as that of a `SmallDisk`.
        env: what it gets on top of a clean environment, such as that of a `WallClock`.
    """

    name = "server"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.inside: list[str] = []
        self.env: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> Self:
        """Start it and wait until it answers. A no-op while it runs."""
        if self.process is None:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*self.inside, *self.command()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    env=_clean_env() | self.env,
                    start_new_session=True,
                )
            eventually_now(self._ready_or_ended, f"{self.name} answers on port {self.port}", within=60)
        return self

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, and wait until it has."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(sig)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:  # Redis refuses to end while it writes a first AOF
                self.process.kill()
                self.process.wait()
            self.process = None

    def kill(self) -> None:
        """SIGKILL."""
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        assert self.process is not None, f"{self.name} is not running"
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None, f"{self.name} is not running"
        self.process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _ready_or_ended(self) -> bool:
        if self.process is not None and (code := self.process.poll()) is not None:
            self.process = None
            raise RuntimeError(f"{self.name} ended with {code}:\n{self.log()[-2000:]}")
        return self.is_ready()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class RedisServer(Server):
    """A Redis or Valkey of its own.

    Args:
        folder: its data; kept over restarts.
        binary: the server program.
        options: its settings, `_` for `-`: `maxmemory="8mb"`, `appendonly="yes"`,
            `replicaof="127.0.0.1 7000"`, `user="limited on >pw ~rj:* +@all"`. By default
            nothing is persisted.
    """

    name = "redis"

    def __init__(self, folder: Path, binary: str | Path, **options: str) -> None:
        super().__init__(folder)
        self.binary = str(binary)
        modern = {"enable_debug_command": "local"} if int(version(binary).split(".")[0]) >= 7 else {}
        self.options = {"save": "", "appendonly": "no", "repl_diskless_sync_delay": "0", **modern, **options}

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        """A client without retries, for arranging and looking; close it or use `with`."""
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=5, retry=Retry(NoBackoff(), 0))

    def command(self) -> list[str]:
        settings = [part for key, value in self.options.items() for part in _redis_setting(key, value)]
        return [self.binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), *settings]

    def is_ready(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False


def cut_off_replicas(primary: RedisServer) -> None:
    """Close its connections to replicas, which are frozen: what is written from now on reaches none of them."""
    with primary.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")


class PostgresServer(Server):
    """A Postgres of its own, that accepts everyone on 127.0.0.1. What it acknowledged outlives its own SIGKILL.

    Args:
        folder: its data; kept over restarts.
        binaries: the folder of `postgres` and `initdb`.
        options: its settings, such as `max_connections="20"`.
    """

    name = "postgres"

    def __init__(self, folder: Path, binaries: str | Path, **options: str) -> None:
        super().__init__(folder)
        self.binaries = Path(binaries)
        self.options = {"fsync": "off", "shared_buffers": "32MB", **options}
        self.options |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": str(self.port)}

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        if not (self.folder / "data").exists():
            initdb = [str(self.binaries / "initdb"), "-D", str(self.folder / "data"), "-U", "postgres"]
            subprocess.run(
                [*not_as_root(), *initdb, "-E", "UTF8", "--no-locale", "-A", "trust", "-N"],
                check=True, capture_output=True, env=_clean_env(),
            )  # fmt: skip
        return self._start_once_its_memory_is_free()

    def _start_once_its_memory_is_free(self) -> Self:
        """The children of a killed postmaster, each in a session of its own, hold its shared memory for a moment."""
        end = time.monotonic() + 10
        while True:
            try:
                return super().start()
            except RuntimeError as error:
                if "pre-existing shared memory block" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(PAUSE)

    def stop(self, sig: signal.Signals = signal.SIGINT) -> None:
        """Fast shutdown: open transactions are rolled back."""
        super().stop(sig)

    def command(self) -> list[str]:
        settings = [part for key, value in self.options.items() for part in ("-c", f"{key}={value}")]
        return [*not_as_root(), str(self.binaries / "postgres"), "-D", str(self.folder / "data"), *settings]

    def is_ready(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False


def _redis_setting(key: str, value: str) -> list[str]:
    return [f"--{key.replace('_', '-')}", *(value.split() if value else [""])]


def not_as_root() -> list[str]:
    """In front of a command that refuses to run as root: a user namespace gives us another name, files stay ours."""
    if os.geteuid() != 0:
        return []
    unshare = shutil.which("unshare")
    assert unshare, (
        "running as root needs `unshare` (util-linux) for servers that refuse root; install it or run as another user"
    )
    return [unshare, "--map-user=65534", "--map-group=65534", "--"]


def _clean_env() -> dict[str, str]:
    """No PGPORT, PGHOST or locale of the caller."""
    kept = ("PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}
