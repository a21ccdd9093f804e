"""A server process: how it is started, and the signals that end it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .identity import Identity
from .plan import Binary, Refused
from .watch import Watch

PR_SET_PDEATHSIG = 1
LOG = 2  # standard error of the host is the log by now


@dataclass(frozen=True, slots=True)
class Place:
    """Where and as whom servers run.

    Attributes:
        data: the parent of their data folders.
        sockets: a folder of theirs with a short path.
        told: the name of that folder for others.
    """

    data: Path
    sockets: Path
    told: Path
    identity: Identity
    durable: bool


class Server(ABC):
    """One server, from its preparation to its end."""

    name: ClassVar[str]
    death: ClassVar[signal.Signals]
    """What it gets when the host is killed."""
    stops: ClassVar[Sequence[tuple[float, signal.Signals]]]
    """Seconds after the begin of a stop, and the signal then. The last one ends it for sure."""

    def __init__(self, binary: Binary, place: Place) -> None:
        self.binary = binary
        self.place = place
        self.folder = place.data / binary.flavour
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self, folder: str) -> list[str]:
        """Its command line.

        Args:
            folder: how it reaches its data folder.
        """

    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    def socket_path(self) -> Path:
        """The file of its unix socket."""

    @abstractmethod
    def url(self) -> str:
        """Where others reach it."""

    def prepare(self, watch: Watch) -> None:
        """Make its data if there are none yet."""

    def start(self) -> None:
        with self.place.identity.way_to(self.folder) as (folder, kept):
            self.process = spawn(self.command(folder), self.place.identity, self.death, kept)

    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    def is_to_be_tried_again(self) -> bool:
        """Whether an end before it was ready is a passing one."""
        return False


def spawn(
    command: list[str],
    identity: Identity,
    death: signal.Signals,
    kept: Sequence[int] = (),
    *,
    own_group: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program as the identity.

    Args:
        death: the signal that it gets when this process ends, on Linux.
        kept: descriptors of ours that it keeps.
        own_group: it and its children can be signalled together.
    """
    return subprocess.Popen(  # noqa: S603  our own programs
        command,
        stdin=subprocess.DEVNULL,
        stdout=LOG,
        stderr=LOG,
        cwd="/",
        pass_fds=kept,
        env=_environment(),
        process_group=0 if own_group else None,
        preexec_fn=_setup(identity, death),  # noqa: PLW1509  the host has one thread
    )


def stop_all(servers: Sequence[Server]) -> None:
    """End all of them at the same time, gently first. Redis may refuse a signal ("Writing initial AOF, can't exit")."""
    begun = time.monotonic()
    running = [server for server in servers if server.process]
    steps = [(after, number, sig) for number, server in enumerate(running) for after, sig in server.stops]
    for after, number, sig in sorted(steps):
        while time.monotonic() < begun + after and any(server.exit_code() is None for server in running):
            time.sleep(0.01)
        if (process := running[number].process) and running[number].exit_code() is None:
            process.send_signal(sig)
    for server in running:
        if server.process:
            server.process.wait()


def wait_until_ready(servers: Sequence[Server], watch: Watch, seconds: float) -> None:
    """Return when every server answers.

    Raises:
        Refused: one has ended, or does not answer in time.
        Unwanted: the application has ended.
    """
    begun = time.monotonic()
    waiting = list(servers)
    while waiting := [server for server in waiting if not server.is_ready()]:
        for server in waiting:
            if (code := server.exit_code()) is None:
                continue
            if not server.is_to_be_tried_again() or time.monotonic() > begun + 10:
                raise Refused(f"{server.binary} ended with {code} while it started")
            watch.wait(0.1)
            server.start()
        if time.monotonic() > begun + seconds:
            raise Refused(f"{' and '.join(str(server.binary) for server in waiting)} did not answer in {seconds:g} s")
        watch.wait(0.005)


def _setup(identity: Identity, death: signal.Signals) -> Callable[[], None]:
    host = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None

    def setup() -> None:
        identity.become()  # first: a change of uid clears the death signal
        if libc:
            libc.prctl(PR_SET_PDEATHSIG, int(death))
            if os.getppid() != host:
                os._exit(1)

    return setup


def _environment() -> dict[str, str]:
    """No PGPORT, PGDATA or locale from outside."""
    kept = ("PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}
