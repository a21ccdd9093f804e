"""One process of a site: a relay, a scheduler, a worker or a producer, with a link of its own to each store."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from tests.support.proxy import Proxy

PART = "PROGRAMME_PART"
"""The variable that tells a process which part it is."""

Role: TypeAlias = Literal["relay", "scheduler", "worker", "producer"]


class Running(Protocol):
    """A process that was started, by a fork or anew."""

    pid: int

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of one process.

    Args:
        how: killed (by a fault), stopped (asked to end, and perhaps killed while it drained), or ended (by itself, or
            by one of its jobs).
        asked: when, by the machine's monotonic clock, and `at`: when it was gone.
    """

    part: str
    pid: int
    how: Literal["killed", "stopped", "ended"]
    asked: float
    at: float
    code: int | None


@dataclass(slots=True)
class Part:
    """One process of a site, in all its lives. A fault acts on it by the methods of `Site`.

    Args:
        name: relay1, relay2, scheduler1, worker1 …, producer1 ….
        call: what its process runs, `module:function`.
        arguments: of its command line, for its next start.
        env: on top of the site's, for its next start. One with LD_PRELOAD makes it start as a new interpreter.
        postgres: its link to Postgres; None: it has none.
        redis: its link to Redis; likewise.
        wanted: it shall run, so it is started again when it ends by itself.
        frozen: it was stopped by SIGSTOP.
        asked: it was asked to end.
        ends: of its lives so far.
    """

    name: str
    role: Role
    call: str
    arguments: Sequence[str]
    log: Path
    postgres: Proxy | None = None
    redis: Proxy | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    process: Running | None = None
    started: float = 0.0
    wanted: bool = False
    frozen: bool = False
    asked: bool = False
    ends: list[End] = field(default_factory=list[End])

    @property
    def links(self) -> list[Proxy]:
        """Its own ways to the stores."""
        return [link for link in (self.postgres, self.redis) if link is not None]

    @property
    def pid(self) -> int:
        """Of its process now, or of the last one."""
        return self.process.pid if self.process else self.ends[-1].pid

    def is_running(self) -> bool:
        return self.process is not None and self.process.code is None

    def send(self, sig: signal.Signals) -> None:
        """A signal to its process, if it runs."""
        if self.process is not None and self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, sig)

    def said(self) -> str:
        """All that it has written so far, in all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def over(self, how: Literal["killed", "stopped", "ended"], asked: float) -> End:
        """Write down that its process is gone."""
        assert self.process is not None
        end = End(self.name, self.process.pid, how, asked, time.monotonic(), self.process.code)
        self.ends.append(end)
        self.process, self.frozen, self.asked = None, False, False
        return end
