"""What code under test has enqueued, and assertions about it that show what was enqueued instead."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from redisjobs.app import App
from redisjobs.call import Call
from redisjobs.job import Caller, Job
from redisjobs.testing.inline import Inline
from redisjobs.testing.matching import check_names, differences
from redisjobs.testing.notes import Noted, Notes, Recording
from redisjobs.testing.outcomes import Outcome, Retried, Snoozed, Suspended

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


class Enqueued:
    """The calls of an app that are enqueued in a block; `capture` makes one.

    A call counts for as long as its row is there: one whose transaction, or savepoint, was rolled back does not. The
    row is looked for where it was written, in the very transaction, so a test may roll everything back in the end.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self._notes = Notes(app.settings)
        self._under = app.stores
        self._tolerance = timedelta(0)
        self._run: set[str] = set()

    def __enter__(self) -> Self:
        self._under = self.app.stores
        self.app.stores = Recording(self._under, self._notes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app.stores = self._under

    @overload
    def __call__(self, job: Caller[P, R], /) -> list[EnqueuedCall[R]]: ...
    @overload
    def __call__(self, /) -> list[EnqueuedCall[Any]]: ...
    def __call__(self, job: Caller[P, R] | None = None, /) -> list[EnqueuedCall[Any]]:
        """The calls of a job, or of all, in the order in which they were enqueued."""
        there = self._notes.there()
        name = None if job is None else job.declared.name
        return [
            self._shown(each) for each in self._notes.noted if each.call.id in there and name in (None, each.call.job)
        ]

    def within(self, seconds: float) -> Enqueued:
        """The same calls; assertions then take moments that lie so close to the expected one."""
        loose = Enqueued(self.app)
        loose._notes, loose._tolerance = self._notes, timedelta(seconds=seconds)
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

        No time passes: due times are not waited for, and a job that is retried, snoozed or sleeps goes on at once. One
        that waits for an event or a child stays `Suspended`: a world (`in_memory`) has both.

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
        inline = Inline(raises=raises)
        while len(outcomes) < most:
            outcome = await inline.run_call(job, call.call)
            outcomes.append(outcome)
            if isinstance(outcome, Suspended) and outcome.after is not None and not outcome.waits:
                inline.pass_time(outcome.after)
            elif not isinstance(outcome, (Retried, Snoozed)):
                return Ran(call, outcomes)
            inline.attempt += isinstance(outcome, Retried)
        raise AssertionError(f"so many attempts were not enough: {call} still runs; do jobs bring forth each other?")

    async def look(self) -> Self:
        """Ask the async connections of asyncpg and SQLAlchemy, which cannot be asked without awaiting.

        Await it after the code under test and before the first assertion; with other connections it is not needed.
        """
        await self._notes.look()
        return self

    def _shown(self, noted: Noted) -> EnqueuedCall[Any]:
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
        lines += [
            f"  {self._shown(each)}: was rolled back" for each in self._notes.noted if str(each.call.id) not in ids
        ]
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}, and nothing else was"


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
