"""What code under test has enqueued, and assertions about it that show what was enqueued instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar
from uuid import UUID

from redisjobs.app import App
from redisjobs.base import connections
from redisjobs.broker import Broker, Heart
from redisjobs.call import Call
from redisjobs.job import Caller, Job
from redisjobs.stores import Stores, Words
from redisjobs.testing.inline import Inline
from redisjobs.testing.kept import kept
from redisjobs.testing.matching import check_names, differences
from redisjobs.testing.outcomes import Outcome, Retried, Snoozed

P = ParamSpec("P")
R = TypeVar("R")

MOST = 1000


@dataclass(frozen=True, slots=True)
class EnqueuedCall(Generic[R]):
    """One call as it was enqueued.

    Args:
        arguments: by name, as the body will be given them: through the codec and back.
        headers: what was put beside the arguments.
        direct: it went straight to Redis, in no transaction.
        call: all of its options.
    """

    job: str
    arguments: dict[str, Any]
    headers: dict[str, Any]
    direct: bool
    call: Call[R] = field(repr=False)

    @property
    def id(self) -> str:
        """The job's id, as its handle has it."""
        return str(self.call.id)

    @property
    def queue(self) -> str:
        """Where it will run."""
        return self.call.queue

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.job}({shown})"


@dataclass(frozen=True, slots=True)
class Ran:
    """One call that was run inline, attempt by attempt until its end."""

    enqueued: EnqueuedCall[Any]
    outcomes: list[Outcome[Any]]


@dataclass(slots=True)
class _Noted:
    call: Call[Any]
    connection: object | None  # None: direct


class Enqueued:
    """The calls of an app that are enqueued in a block; `capture` makes one.

    A call counts for as long as its row is there: one whose transaction, or savepoint, was rolled back does not. The
    row is looked for where it was written, in the very transaction, so a test may roll everything back in the end.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self._noted: list[_Noted] = []
        self._under = app.stores
        self._tolerance = timedelta(0)
        self._run: set[str] = set()

    def __enter__(self) -> Self:
        self._under = self.app.stores
        self.app.stores = _Recording(self._under, self._noted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app.stores = self._under

    def __call__(self, job: Caller[P, R] | None = None) -> list[EnqueuedCall[Any]]:
        """The calls of a job, or of all, in the order in which they were enqueued."""
        there = self._there()
        name = None if job is None else job.declared.name
        return [self._shown(each) for each in self._noted if each.call.id in there and name in (None, each.call.job)]

    def within(self, seconds: float) -> Enqueued:
        """The same calls; assertions then take moments that lie so close to the expected one."""
        loose = Enqueued(self.app)
        loose._noted, loose._tolerance = self._noted, timedelta(seconds=seconds)
        return loose

    def assert_enqueued(self, job: Caller[..., R], /, **arguments: Any) -> EnqueuedCall[R]:
        """A call of this job was enqueued: with these arguments, whatever others it has; answers the first such.

        Of `job.using(queue="bulk", delay=60)` the options that it names are looked at too.

        Raises:
            AssertionError: there is none; tells what there is and how it differs.
            ArgumentsError: the job has no such parameter.
        """
        check_names(job.declared, arguments)
        for each in self(job):
            if not self._differences(job, each, arguments):
                return each
        raise AssertionError(self._report(job, arguments))

    def refute_enqueued(self, job: Caller[..., Any], /, **arguments: Any) -> None:
        """No such call was enqueued.

        Raises:
            AssertionError: there is one.
            ArgumentsError: the job has no such parameter.
        """
        check_names(job.declared, arguments)
        found = [each for each in self(job) if not self._differences(job, each, arguments)]
        if found:
            calls = "".join(f"\n  {each}" for each in found)
            raise AssertionError(f"{_wanted(job, arguments)} was enqueued {len(found)} time(s):{calls}")

    async def run(self, *, raises: bool = True, most: int = MOST) -> list[Ran]:
        """Run inline what is enqueued, and what that enqueues here, until nothing is left. Each call is run once.

        No time passes: due times are not waited for, and a job that is retried or snoozed goes on at once.

        Args:
            raises: raise the first error of a body; else it is retried as its job says.
            most: attempts in all.

        Raises:
            AssertionError: they were not enough, for jobs bring forth jobs, or come back, without end.
        """
        ran: list[Ran] = []
        attempts = 0
        while todo := [each for each in self() if each.id not in self._run]:
            for each in todo:
                self._run.add(each.id)
                done = await self._run_to_its_end(each, most - attempts, raises=raises)
                attempts += len(done.outcomes)
                ran.append(done)
        return ran

    async def _run_to_its_end(self, call: EnqueuedCall[Any], most: int, *, raises: bool) -> Ran:
        job: Job[..., Any] = self.app.find(call.job)
        outcomes: list[Outcome[Any]] = []
        number = 1
        while len(outcomes) < most:
            outcome = await Inline(attempt=number, raises=raises).run_call(job, call.call)
            outcomes.append(outcome)
            if not isinstance(outcome, (Retried, Snoozed)):
                return Ran(call, outcomes)
            number += isinstance(outcome, Retried)
        raise AssertionError(f"so many attempts were not enough: {call} still runs; do jobs bring forth each other?")

    def _there(self) -> set[UUID]:
        """The ids of the calls that no rollback has taken back."""
        there = {each.call.id for each in self._noted if each.connection is None}
        connections_of = {id(each.connection): each.connection for each in self._noted if each.connection is not None}
        for key, connection in connections_of.items():
            ids = [each.call.id for each in self._noted if id(each.connection) == key]
            settings = self.app.settings
            there |= kept(connection, ids, settings.schema, settings.database_url)
        return there

    def _shown(self, noted: _Noted) -> EnqueuedCall[Any]:
        call = noted.call
        arguments = self.app.find(call.job).arguments(call.codec, call.payload)
        headers: dict[str, Any] = json.loads(call.headers or "{}")
        return EnqueuedCall(call.job, arguments, headers, noted.connection is None, call)

    def _differences(self, job: Caller[..., Any], found: EnqueuedCall[Any], arguments: dict[str, Any]) -> list[str]:
        return differences(job, found.call, found.arguments, arguments, self._tolerance)

    def _report(self, job: Caller[..., Any], arguments: dict[str, Any]) -> str:
        lines = [f"{_wanted(job, arguments)} was not enqueued"]
        there = self()
        for each in there:
            told = self._differences(job, each, arguments) if each.job == job.declared.name else ["another job"]
            lines.append(f"  {each}: {'; '.join(told)}")
        ids = {each.id for each in there}
        lines += [f"  {self._shown(each)}: was rolled back" for each in self._noted if str(each.call.id) not in ids]
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}, and nothing else was"


class _Recording(Stores):
    """Notes what goes through to the stores below. A direct call goes no further, unless those are in memory."""

    def __init__(self, under: Stores, noted: list[_Noted]) -> None:
        super().__init__(under.settings)
        self._under = under
        self._noted = noted

    def stage(self, connection: connections.Sync, calls: Sequence[Call[Any]]) -> None:
        self._under.stage(connection, calls)
        self._noted += [_Noted(call, connection) for call in calls]

    async def stage_async(self, connection: connections.Async, calls: Sequence[Call[Any]]) -> None:
        await self._under.stage_async(connection, calls)
        self._noted += [_Noted(call, connection) for call in calls]

    async def put(self, broker: Callable[[], Broker], queue: str, calls: Sequence[Call[Any]]) -> Words:
        words: Words = [("new", None)] * len(calls)
        if type(self._under) is not Stores:
            words = await self._under.put(broker, queue, calls)
        self._noted += [_Noted(call, None) for call in calls]
        return words

    def broker(self) -> Broker:
        return self._under.broker()

    def heart(self, timeout: float) -> Heart:
        return self._under.heart(timeout)


def capture(app: App) -> Enqueued:
    """Note what the app's jobs are enqueued with in a block.

        with capture(app) as enqueued:
            place_order(connection, "a@b.example")
        enqueued.assert_enqueued(send_mail, to="a@b.example")

    Calls go on to the connection that they are given: a real one, or a `MemoryConnection`. Direct calls are only noted.
    """
    return Enqueued(app)


def _wanted(job: Caller[..., Any], arguments: dict[str, Any]) -> str:
    shown = ", ".join([f"{name}={value!r}" for name, value in arguments.items()] or ["…"])
    given = {each.name: getattr(job.options, each.name) for each in fields(job.options)}
    options = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    return f"{job.declared.name}({shown})" + (f" with {options}" if options else "")
