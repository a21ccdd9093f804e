"""The processes of the demo: a relay and workers, as in production, each with its own log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from redisjobs.cli import exits
from redisjobs.settings import Settings

START_S = 60.0
STOP_S = 20.0
TAIL = 2000
"""Characters of a log in an error."""
_RUN = "import sys; sys.path.append(sys.argv.pop(1)); from redisjobs.cli.demo.child import run; run()"
_PACKAGES = str(Path(__file__).absolute().parents[3])


class Child:
    """One process, with a log in an unnamed file."""

    def __init__(self, name: str, arguments: list[str], env: dict[str, str]) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-c", _RUN, _PACKAGES, *arguments],
            stdin=subprocess.PIPE, stdout=self._log, stderr=self._log, env=env, cwd="/", start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid

    def log(self) -> str:
        """What it has written."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    async def says(self, word: str) -> None:
        """Return when this is in its log.

        Raises:
            Fault: it ended, or took too long.
        """
        try:
            async with asyncio.timeout(START_S):
                while word not in self.log():
                    self.must_run()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise exits.Fault(f"{self.name} did not say {word} within {START_S:g} s:\n{self._tail()}") from None

    def must_run(self) -> None:
        """Raise a Fault if it has ended."""
        if self._process.poll() is not None:
            raise exits.Fault(f"{self.name} ended with {self._process.returncode}:\n{self._tail()}")

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    async def stop(self) -> None:
        """SIGTERM, and wait.

        Raises:
            Fault: it did not end well, or not in time.
        """
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            raise exits.Fault(f"{self.name} did not end within {STOP_S:g} s of SIGTERM:\n{self._tail()}") from None
        if self._process.returncode:
            self.must_run()

    def close(self) -> None:
        """End it at once, if it runs, and reap it."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        self._log.close()

    def _tail(self) -> str:
        return self.log()[-TAIL:]


class Crew:
    """All processes of the demo.

    Args:
        lease_s: the workers' visibility timeout; None: as it is by default.
    """

    def __init__(self, settings: Settings, lease_s: float | None) -> None:
        self._settings = settings
        self._lease = [] if lease_s is None else ["--visibility-timeout", f"{lease_s:g}s"]
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("REDISJOBS_")} | {
            "REDISJOBS_DATABASE_URL": settings.need_database_url(),
            "REDISJOBS_REDIS_URL": settings.need_redis_url(),
        }
        self._children: list[Child] = []
        self._workers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.close()

    def relay(self) -> Child:
        """Start a relay."""
        return self._start("relay", ["relay"])

    def worker(self) -> Child:
        """Start one more worker."""
        self._workers += 1
        place = ["--app", "redisjobs.cli.demo.jobs:app", "--queues", "mail"]
        return self._start(f"worker {self._workers}", ["worker", *place, *self._lease, "--shutdown-grace", "5s"])

    def must_run(self) -> None:
        """Raise a Fault if one of them has ended without being told to."""
        for child in self._children:
            child.must_run()

    def dismiss(self, child: Child) -> None:
        """It was killed: its end is no fault."""
        self._children.remove(child)
        child.close()

    async def stop(self) -> None:
        """Stop all of them: the workers first, so that the relay can settle what they end with."""
        for child in reversed(self._children):
            await child.stop()

    def _start(self, name: str, arguments: list[str]) -> Child:
        names = ["--schema", self._settings.schema, "--prefix", self._settings.prefix]
        child = Child(name, [*names, *arguments], self._env)
        self._children.append(child)
        return child
