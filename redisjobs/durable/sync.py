"""The durable operations of a body in a thread: the same, and each returns its value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, cast, overload

import psycopg

from redisjobs.backoff import RetryRule
from redisjobs.base.durations import Duration
from redisjobs.call import Call
from redisjobs.durable.asking import Callee, a_wait, asked, check_moment, sleep_seconds, step_options, work_of
from redisjobs.durable.engine import Engine
from redisjobs.durable.transaction import SyncTransaction
from redisjobs.durable.values import Event, StepOptions, Work, check_name

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
T = TypeVar("T")
R = TypeVar("R")

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class SyncStepMaker:
    """Makes a step of the function that follows: `@ctx.sync.step("charge")`."""

    def __init__(self, engine: Engine, name: str, options: StepOptions) -> None:
        self._engine = engine
        self._name = name
        self._options = options

    def __call__(self, function: Callable[P, T], /) -> Callable[P, T]:
        def step(*args: P.args, **kwargs: P.kwargs) -> T:
            work = Work(function, args, kwargs)
            return cast("T", self._engine.perform(lambda: self._engine.step(self._name, work, self._options)))

        return step


@dataclass(frozen=True, slots=True)
class SyncChild(Generic[R]):
    """A child that was started.

    Args:
        id: its job id. name: its record in the run.
    """

    id: str
    name: str
    asked: Call[R] = field(repr=False, compare=False)
    engine: Engine = field(repr=False, compare=False)

    def result(self) -> R:
        """What it returned; until then the run is suspended.

        Raises:
            ChildFailed: it ended otherwise than done.
        """
        return cast("R", self.engine.perform(lambda: self.engine.result(self.asked, self.name)))


class SyncDurable:
    """`ctx.sync`: what `Durable` has, for a plain function. The functions of its steps run in the body's own thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @overload
    def step(
        self, name: str, /, *, retry: RetryRule | None = None, tries: int | None = None,
        undo: Callable[[Any], object] | None = None,
    ) -> SyncStepMaker: ...  # fmt: skip
    @overload
    def step(
        self, name: str, function: Callable[[*Ts], T], /, *args: *Ts,
        retry: RetryRule | None = None, tries: int | None = None, undo: Callable[[T], object] | None = None,
    ) -> T: ...  # fmt: skip
    def step(  # type: ignore[misc]  # pyright: ignore[reportInconsistentOverload]  # no checker follows *Ts into *Any
        self, name: str, /, *given: Any, retry: RetryRule | None = None, tries: int | None = None,
        undo: Callable[[Any], object] | None = None,
    ) -> Any:  # fmt: skip
        """As `ctx.step`; there is no timeout, for what runs in a thread cannot be ended."""
        work = work_of(name, given)
        options = step_options(name, retry=retry, tries=tries, timeout=None, undo=undo)
        if work is None:
            return SyncStepMaker(self._engine, name, options)
        return self._engine.perform(lambda: self._engine.step(name, work, options))

    def sleep(self, name: str, duration: Duration, /) -> None:
        """As `ctx.sleep`."""
        check_name(name)
        length = sleep_seconds(duration)
        self._engine.perform(lambda: self._engine.sleep(name, length))

    def sleep_until(self, name: str, moment: datetime, /) -> None:
        """As `ctx.sleep_until`."""
        check_name(name)
        check_moment(moment)
        self._engine.perform(lambda: self._engine.sleep_until(name, moment))

    @overload
    def wait_for_event(
        self, name: str, key: str = "", /, *, timeout: Duration | None = None, step: str = "", of: type[T]
    ) -> Event[T] | None: ...
    @overload
    def wait_for_event(
        self, name: str, key: str = "", /, *, timeout: Duration | None = None, step: str = "", of: None = None
    ) -> Event[Any] | None: ...
    def wait_for_event(
        self, name: str, key: str = "", /, *, timeout: Duration | None = None, step: str = "", of: Any = None
    ) -> Event[Any] | None:
        """As `ctx.wait_for_event`."""
        wait = a_wait(name, key, timeout, step, of)
        return self._engine.perform(lambda: self._engine.wait_for_event(wait))

    @overload
    def call(self, job: Callee[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, job: Call[R], /, *, name: str | None = None) -> R: ...
    def call(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As `ctx.call`."""
        call, name = asked(job, args, kwargs)
        self._engine.perform(lambda: self._engine.start(call, name, awaited=True))
        return self._engine.perform(lambda: self._engine.result(call, name))

    @overload
    def start(self, job: Callee[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncChild[R]: ...
    @overload
    def start(self, job: Call[R], /, *, name: str | None = None) -> SyncChild[R]: ...
    def start(self, job: Any, /, *args: Any, **kwargs: Any) -> SyncChild[Any]:
        """As `ctx.start`."""
        call, name = asked(job, args, kwargs)
        started = self._engine.perform(lambda: self._engine.start(call, name, awaited=False))
        return SyncChild(started, name, call, self._engine)

    def results(self, *children: SyncChild[R]) -> list[R]:
        """The results of several children; the run is suspended until the last has ended.

        Raises:
            ChildFailed: one ended otherwise than done.
        """

        async def all_of_them() -> list[Any]:
            branches: list[Awaitable[Any]] = [self._engine.result(each.asked, each.name) for each in children]
            return await self._engine.gather(branches, return_exceptions=False)

        return self._engine.perform(all_of_them)

    @overload
    def transaction(self, name: str, /) -> SyncTransaction: ...
    @overload
    def transaction(
        self, name: str, function: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    def transaction(self, name: str, function: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """As `ctx.transaction`, on a connection that is not async."""
        check_name(name)
        if function is None:
            return self._engine.sync_transaction(name)
        return self._engine.sync_transact(name, Work(function, args, kwargs))
