"""The site of one trial: two servers, the processes of redisjobs and their producers, and a link for each pair of them.

Faults act on it. All that may explain what follows is written down here: the lives of processes and the notes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.programme.fault import Fault
from tests.faults.programme.part import PART, End, Part
from tests.faults.programme.plan import QUEUES
from tests.faults.programme.shard import Shard, as_user
from tests.support.eventually import eventually
from tests.support.net import Address
from tests.support.processes import CHECKOUT
from tests.support.proxy import Proxy, in_front_of_postgres, in_front_of_redis

EXIT_STORE_DOWN = 69
"""A process that is started while its store is away says so, and ends."""
START_S = 60
"""How long a process may take to say that it has started, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Note:
    """What happened when, by the machine's monotonic clock."""

    at: float
    text: str


@dataclass(slots=True)
class Struck:
    """A strike: while it lasted its fault may have had its effects. `until` is None as long as it lasts."""

    fault: Fault
    since: float
    until: float | None = None


@dataclass(slots=True)
class Crew:
    """How many of each there are."""

    relays: int = 2
    schedulers: int = 2
    workers: int = 4
    producers: int = 4


class Site:
    """Servers, links and parts of one trial.

    Attributes:
        postgres: the server; whoever replaces it calls `redirect_postgres`. Likewise `redis`.
        database_url: of the trial's database, past all links. Likewise `redis_url`.
        relays, schedulers, workers, producers: the parts by role; `parts` has all of them by name.
        links: the ways to the stores by name: `relay1.postgres`, `relay1.redis`, `worker1.redis`, ….
        folder: for what a fault has to keep; logs are here too.
        env: what every part gets.
        notes: what happened.
        struck: the strikes so far.
        at_end: ends what a fault has started and the trial needs until it is over.
    """

    def __init__(self, shard: Shard, folder: Path, crew: Crew, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.shard, self.folder, self.seed = shard, folder, seed
        self.postgres, self.redis, self.database_url = shard.servers()
        self.began = time.monotonic()
        self.env: dict[str, str] = {}
        self.notes: list[Note] = []
        self.struck: list[Struck] = []
        self.links: dict[str, Proxy] = {}
        self.relays = [self._relay(number) for number in range(1, crew.relays + 1)]
        self.schedulers = [self._scheduler(number) for number in range(1, crew.schedulers + 1)]
        self.workers = [self._worker(number) for number in range(1, crew.workers + 1)]
        self.producers = [self._producer(number) for number in range(1, crew.producers + 1)]
        self._spoiled = {"postgres": False, "redis": False}
        self.at_end = contextlib.ExitStack()

    @property
    def redis_url(self) -> str:
        return self.redis.url

    @property
    def parts(self) -> dict[str, Part]:
        """All parts by name."""
        return {part.name: part for part in (*self.relays, *self.schedulers, *self.workers, *self.producers)}

    def links_to(self, store: str) -> list[Proxy]:
        """All links to `postgres` or to `redis`."""
        return [link for name, link in self.links.items() if name.endswith(f".{store}")]

    # -- notes
    def note(self, text: str) -> None:
        """Write down what happens now; shown with its time where the trial fails."""
        self.notes.append(Note(time.monotonic(), text))

    def told(self) -> str:
        """The notes, with seconds from the beginning."""
        return "\n".join(f"  {note.at - self.began:7.2f} s  {note.text}" for note in self.notes)

    @contextlib.contextmanager
    def strike(self, fault: Fault) -> Iterator[None]:
        """While this lasts the fault may have its effects. The trial does this around `Fault.strike`."""
        struck = Struck(fault, time.monotonic())
        self.struck.append(struck)
        self.note(f"{fault.name} begins: {fault.told}")
        try:
            yield
        finally:
            struck.until = time.monotonic()
            self.note(f"{fault.name} is healed")

    @property
    def ends(self) -> list[End]:
        """All lives of processes that ended so far."""
        return [end for part in self.parts.values() for end in part.ends]

    # -- processes
    async def start(self, *parts: Part) -> None:
        """Start parts that do not run, and wait until they say so. They are kept running from now on."""
        begun = [part for part in parts if not part.is_running()]
        marks = {part.name: len(part.said()) for part in begun}
        for part in begun:
            self.launch(part)
        for part in begun:
            if part.role != "producer":
                await self._has_started(part, marks[part.name])

    def launch(self, part: Part) -> None:
        """Start a part without waiting for it, as where its store is away."""
        if part.process is not None:  # it has ended by itself
            self._over(part, "ended", time.monotonic())
        part.wanted = True
        part.started = time.monotonic()
        part.process = self.shard.starter.start(part.call, list(part.arguments), part.log, self._env(part))
        self.note(f"{part.name} starts (pid {part.pid})")

    async def kill(self, part: Part) -> None:
        """SIGKILL to a part; it stays down until it is started."""
        await self._end(part, signal.SIGKILL, "killed", 30)

    async def stop(self, part: Part, within: float = 60) -> None:
        """SIGTERM to a part, and wait for it; it stays down until it is started.

        Raises:
            AssertionError: it did not end in time.
        """
        await self._end(part, signal.SIGTERM, "stopped", within)

    def freeze(self, part: Part) -> None:
        """SIGSTOP: it stands still, its connections stay open."""
        self.note(f"{part.name} is frozen")
        part.frozen = True
        part.send(signal.SIGSTOP)

    def thaw(self, part: Part) -> None:
        """SIGCONT."""
        self.note(f"{part.name} is thawed")
        part.frozen = False
        part.send(signal.SIGCONT)

    async def lasts(self, seconds: float) -> None:
        """Let a fault last so long."""
        await asyncio.sleep(seconds)

    async def keep(self) -> None:
        """Start again, until cancelled, what ends by itself: a job has killed its worker, or a store was away."""
        while True:
            for part in self.parts.values():
                if part.wanted and part.process is not None and not part.is_running():
                    end = self._over(part, "ended", time.monotonic())
                    if part.role != "producer":
                        self.launch(part)
                    elif end.code:
                        self.note(f"{part.name} failed: {part.said()[-500:]}")
            await asyncio.sleep(0.02)

    # -- servers
    def redirect_redis(self, url: str) -> None:
        """From now on new connections of all parts go to this Redis; open ones are left as they are."""
        for link in self.links_to("redis"):
            link.redirect(Address.of_redis(url))

    def redirect_postgres(self, url: str) -> None:
        """Likewise for Postgres."""
        for link in self.links_to("postgres"):
            link.redirect(Address.of_postgres(url))

    def spoil(self, *, postgres: bool = False, redis: bool = False) -> None:
        """This server is not as it was, nor will be: the next trial gets a new one."""
        self._spoiled["postgres"] |= postgres
        self._spoiled["redis"] |= redis

    # -- the end
    async def heal(self) -> None:
        """Put right all that faults may have left: servers and parts run and are thawed, links pass everything on."""
        for server in (self.postgres, self.redis):
            if server.process is None or server.process.poll() is not None:
                self.note(f"{server.name} was left down")
                server.process = None
                await asyncio.to_thread(server.start)
            server.thaw()
        for link in self.links.values():
            link.heal()
        for part in self.parts.values():
            if part.frozen:
                self.thaw(part)
        stopped = (part for part in self.producers if part.ends and part.ends[-1].how != "ended")
        await self.start(*self.relays, *self.schedulers, *self.workers, *stopped)

    async def close(self) -> None:
        """End all processes and links of the trial, and drop its database."""
        for part in self.parts.values():
            part.wanted = False
            if part.is_running():
                part.send(signal.SIGKILL)
        for part in self.parts.values():
            await self._gone(part)
        for link in self.links.values():
            link.close()
        self.at_end.close()
        self.shard.spoil(**self._spoiled)
        if not self._spoiled["postgres"]:
            self.shard.drop(self.database_url)

    # -- making
    def _relay(self, number: int) -> Part:
        arguments = ["relay", "--interval", "100ms", "--lease", "4s", "--retention", "1h"]
        return self._part("relay", number, "redisjobs.cli:main", arguments, postgres=True, redis=True)

    def _scheduler(self, number: int) -> Part:
        arguments = ["scheduler", "tests.faults.programme.works:app", "--interval", "1s"]
        return self._part("scheduler", number, "redisjobs.cli:main", arguments, postgres=True)

    def _worker(self, number: int) -> Part:
        arguments = ["worker", "tests.faults.programme.works:app", "-q", ",".join(QUEUES), "-c", "5"]
        arguments += ["--visibility-timeout", "3s", "--max-losses", "50", "--shutdown-grace", "1s"]
        return self._part("worker", number, "tests.faults.programme.witness:work", arguments, postgres=True, redis=True)

    def _producer(self, number: int) -> Part:
        arguments = [str(number)]
        return self._part("producer", number, "tests.faults.programme.producer:main", arguments, postgres=True)

    def _part(
        self, role: str, number: int, call: str, arguments: list[str], *, postgres: bool = False, redis: bool = False
    ) -> Part:
        name = f"{role}{number}"
        part = Part(name, role, call, arguments, self.folder / f"{name}.log")  # type: ignore[arg-type]
        if postgres:
            part.postgres = self.links[f"{name}.postgres"] = in_front_of_postgres(as_user(self.database_url, name))
        if redis:
            part.redis = self.links[f"{name}.redis"] = in_front_of_redis(self.redis_url)
        return part

    def _env(self, part: Part) -> dict[str, str]:
        env = os.environ | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"} | self.env
        if part.postgres is not None:
            env["REDISJOBS_DATABASE_URL"] = part.postgres.url
        if part.redis is not None:
            env["REDISJOBS_REDIS_URL"] = part.redis.url
        return env | {PART: part.name} | part.env

    async def _has_started(self, part: Part, mark: int) -> None:
        """Wait until it says so; one that meets a store which is down ends, and is started again by `keep`."""

        def over() -> bool:
            code = None if part.process is None else part.process.code
            return ".started" in part.said()[mark:] or code not in (None, EXIT_STORE_DOWN)

        await eventually(over, f"{part.name} starts", START_S)
        told = part.said()[mark:]
        assert ".started" in told, f"{part.name} ended with {part.process and part.process.code}:\n{told[-2000:]}"

    async def _end(self, part: Part, sig: signal.Signals, how: str, within: float) -> None:
        part.wanted = False
        if part.process is None:
            return
        asked = time.monotonic()
        self.note(f"{part.name} gets {sig.name} (pid {part.pid})")
        if part.frozen and sig != signal.SIGKILL:
            self.thaw(part)
        part.asked |= sig != signal.SIGKILL
        part.send(sig)
        await self._gone(part, within)
        self._over(part, "stopped" if part.asked else how, asked)

    async def _gone(self, part: Part, within: float = 30) -> None:
        await eventually(lambda: not part.is_running(), f"{part.name} ends", within)

    def _over(self, part: Part, how: str, asked: float) -> End:
        end = part.over(how, asked)  # type: ignore[arg-type]
        self.note(f"{end.part} is gone (pid {end.pid}, {end.how}, exit code {end.code})")
        return end
