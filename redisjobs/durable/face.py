"""The durable operations of an async body, with the types of what it passes and gets."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    cast,
    overload,
)

import psycopg

from redisjobs.backoff import RetryRule
from redisjobs.base.durations import Duration
from redisjobs.call import Call
from redisjobs.durable.asking import Callee, a_wait, asked, check_moment, sleep_seconds, step_options, work_of
from redisjobs.durable.engine import Engine
from redisjobs.durable.sync import SyncDurable
from redisjobs.durable.transaction import Transaction
from redisjobs.durable.values import Event, StepOptions, Work, check_name
from redisjobs.errors import ConfigurationError

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
T = TypeVar("T")
R = TypeVar("R")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")

Async: TypeAlias = Coroutine[Any, Any, T]
Connection: TypeAlias = "psycopg.AsyncConnection[tuple[Any, ...]]"


class StepMaker:
    """Makes a step of the function that follows: `@ctx.step("charge")`."""

    def __init__(self, engine: Engine, name: str, options: StepOptions) -> None:
        self._engine = engine
        self._name = name
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Awaitable[T]], /) -> Callable[P, Async[T]]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Callable[P, Async[T]]: ...
    def __call__(self, function: Callable[P, Any], /) -> Callable[P, Async[Any]]:
        def step(*args: P.args, **kwargs: P.kwargs) -> Async[Any]:
            return self._engine.step(self._name, Work(function, args, kwargs), self._options)

        return step


@dataclass(frozen=True, slots=True)
class Child(Generic[R]):
    """A child that was started.

    Args:
        id: its job id. name: its record in the run.
    """

    id: str
    name: str
    _call: Call[R] = field(repr=False, compare=False)
    _engine: Engine = field(repr=False, compare=False)

    async def result(self) -> R:
        """What it returned; until then the run is suspended.

        Raises:
            ChildFailed: it ended otherwise than done.
        """
        return cast("R", await self._engine.result(self._call, self.name))


class Durable:
    """What a body may ask of its run. A worker that runs it again goes on behind what is recorded.

    Each takes a name of its own within the run, 1 to 200 characters; in a loop, make one with an index.

    Raises (each method, where it is awaited):
        StepDuplicateError: the run has used the name already.
        JobAbortedError: this attempt was cancelled or replaced, and may record nothing more.
        ConfigurationError: there is no run here: the body was called directly, or runs in a process of its own, or its
            job was enqueued by `enqueue_direct`; or nothing can be awaited here, in the thread of a plain function.
    """

    __slots__ = ()

    @abstractmethod
    def _durable(self) -> Engine:
        """Its run, or what refuses it."""

    def _awaiting(self, what: str) -> Engine:
        """Its run, for an operation that is awaited: in the thread of a plain function it would silently do nothing."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            why = f"ctx.{what}(…) is awaited, which a plain function cannot do: write ctx.sync.{what}(…) there"
            raise ConfigurationError(why) from None
        return self._durable()

    # -- steps
    @overload
    def step(
        self, name: str, /, *, retry: RetryRule | None = None, tries: int | None = None,
        timeout: Duration | None = None, undo: Callable[[Any], object] | None = None,
    ) -> StepMaker: ...  # fmt: skip
    @overload
    def step(
        self, name: str, function: Callable[[*Ts], Awaitable[T]], /, *args: *Ts,
        retry: RetryRule | None = None, tries: int | None = None, timeout: Duration | None = None,
        undo: Callable[[T], object] | None = None,
    ) -> Async[T]: ...  # fmt: skip
    @overload
    def step(
        self, name: str, function: Callable[[*Ts], T], /, *args: *Ts,
        retry: RetryRule | None = None, tries: int | None = None, timeout: Duration | None = None,
        undo: Callable[[T], object] | None = None,
    ) -> Async[T]: ...  # fmt: skip
    def step(  # type: ignore[misc]  # pyright: ignore[reportInconsistentOverload]  # no checker follows *Ts into *Any
        self, name: str, /, *given: Any, retry: RetryRule | None = None, tries: int | None = None,
        timeout: Duration | None = None, undo: Callable[[Any], object] | None = None,
    ) -> Async[Any] | StepMaker:  # fmt: skip
        """Do something once: `value = await ctx.step("charge", charge, order)`; or write `@ctx.step("charge")` over it.

        Its result is recorded before the next begins, and a run that comes back gets it from there, equal in value and
        type: annotate what the function returns. The function itself may run again if the worker dies before the
        record: at least once, and never after the record.

        Args:
            function: async, or a plain one, which runs in a thread.
            retry, tries, timeout, undo: as `StepOptions` says.

        Raises:
            StepFailed: its last try failed, now or in an earlier attempt; the first time `__cause__` is what it raised.
            OptionError: a name or an option that cannot work.
        """
        work = work_of(name, given)
        options = step_options(name, retry=retry, tries=tries, timeout=timeout, undo=undo)
        if work is None:
            return StepMaker(self._awaiting("step"), name, options)
        return self._awaiting("step").step(name, work, options)

    # -- time and events
    def sleep(self, name: str, duration: Duration, /) -> Async[None]:
        """Go on so long after this was first asked for, in seconds or a timedelta, whatever happens meanwhile.

        A long sleep gives the slot back, and costs nothing until its end.
        """
        return self._awaiting("sleep").sleep(check_name(name), sleep_seconds(duration))

    def sleep_until(self, name: str, moment: datetime, /) -> Async[None]:
        """As `sleep`, to an aware moment."""
        return self._awaiting("sleep_until").sleep_until(check_name(name), check_moment(moment))

    @overload
    def wait_for_event(
        self, name: str, key: str = "", /, *, timeout: Duration | None = None, step: str = "", of: type[T]
    ) -> Async[Event[T] | None]: ...
    @overload
    def wait_for_event(
        self, name: str, key: str = "", /, *, timeout: Duration | None = None, step: str = "", of: None = None
    ) -> Async[Event[Any] | None]: ...
    def wait_for_event(
        self, name: str, key: str = "", /, *, timeout: Duration | None = None, step: str = "", of: Any = None
    ) -> Async[Event[Any] | None]:
        """The next event of this name and key, or None at the timeout. It may have been sent before.

        Each event is taken once, by one wait. Who waits holds no slot.

        Args:
            timeout: seconds or a timedelta from the first time this is asked for; None: it waits for ever.
            step: the name of the record, where one event and key is awaited twice; else it is made of both.
            of: the type of the event's data; else it is plain data.
        """
        return self._awaiting("wait_for_event").wait_for_event(a_wait(name, key, timeout, step, of))

    # -- children
    @overload
    def call(self, job: Callee[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Async[R]: ...
    @overload
    def call(self, job: Call[R], /, *, name: str | None = None) -> Async[R]: ...
    def call(self, job: Any, /, *args: Any, **kwargs: Any) -> Async[Any]:
        """The result of another job, enqueued as a child of this run: it is cancelled with it.

        `await ctx.call(add, 1, 2)`, named after its job; or with a name of its own, and options, as
        `await ctx.call(add.using(queue="bulk").call(1, 2), name="add-7")`.

        Raises:
            ChildFailed: it ended otherwise than done.
            EnqueueError: the call cannot be made.
        """
        return _call(self._awaiting("call"), *asked(job, args, kwargs))

    @overload
    def start(self, job: Callee[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Async[Child[R]]: ...
    @overload
    def start(self, job: Call[R], /, *, name: str | None = None) -> Async[Child[R]]: ...
    def start(self, job: Any, /, *args: Any, **kwargs: Any) -> Async[Child[Any]]:
        """As `call`, without waiting for its end: `await child.result()` does."""
        return _start(self._awaiting("start"), *asked(job, args, kwargs))

    # -- side by side
    @overload
    def gather(self, a: Awaitable[T1], /, *, return_exceptions: Literal[False] = False) -> Async[tuple[T1]]: ...
    @overload
    def gather(
        self, a: Awaitable[T1], b: Awaitable[T2], /, *, return_exceptions: Literal[False] = False
    ) -> Async[tuple[T1, T2]]: ...
    @overload
    def gather(
        self, a: Awaitable[T1], b: Awaitable[T2], c: Awaitable[T3], /, *, return_exceptions: Literal[False] = False
    ) -> Async[tuple[T1, T2, T3]]: ...
    @overload
    def gather(
        self, a: Awaitable[T1], b: Awaitable[T2], c: Awaitable[T3], d: Awaitable[T4], /, *,
        return_exceptions: Literal[False] = False,
    ) -> Async[tuple[T1, T2, T3, T4]]: ...  # fmt: skip
    @overload
    def gather(
        self, a: Awaitable[T1], b: Awaitable[T2], c: Awaitable[T3], d: Awaitable[T4], e: Awaitable[T5], /, *,
        return_exceptions: Literal[False] = False,
    ) -> Async[tuple[T1, T2, T3, T4, T5]]: ...  # fmt: skip
    @overload
    def gather(self, /, *branches: Awaitable[T], return_exceptions: Literal[False] = False) -> Async[tuple[T, ...]]: ...
    @overload
    def gather(
        self, /, *branches: Awaitable[T], return_exceptions: Literal[True]
    ) -> Async[tuple[T | Exception, ...]]: ...
    def gather(self, /, *branches: Awaitable[Any], return_exceptions: bool = False) -> Async[tuple[Any, ...]]:
        """Steps, sleeps, waits and children side by side; their results in this order.

        The run is suspended once no branch can go on by itself. All branches are waited for, then the first error is
        raised; with `return_exceptions` errors are answered among the results.
        """
        return _gathered(self._awaiting("gather"), branches, return_exceptions=return_exceptions)

    # -- transactions
    @overload
    def transaction(self, name: str, /) -> Transaction: ...
    @overload
    def transaction(
        self, name: str, function: Callable[Concatenate[Connection, P], Awaitable[T]], /,
        *args: P.args, **kwargs: P.kwargs,
    ) -> Async[T]: ...  # fmt: skip
    def transaction(
        self, name: str, function: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any
    ) -> Transaction | Async[Any]:
        """Writes in redisjobs' own database that commit together with the record: their effect is there exactly once.

        As a block, `async with ctx.transaction("debit") as tx:`, which a replay leaves at its first use of `tx`; what
        comes before that runs again. `keep(value)` of the block records a result, `value` answers it.

        Or with a function, `await ctx.transaction("debit", move, a, b)`, which is called with `tx` first. It is called
        again where Postgres says that two transactions met, and never on a replay.

        Raises:
            StepFailed: the block or the function raised; nothing of it was committed.
        """
        check_name(name)
        if function is None:
            return self._awaiting("transaction").transaction(name)
        return self._awaiting("transaction").transact(name, Work(function, args, kwargs))

    @property
    def tx(self) -> Any:
        """The transaction of a job with `transactional=True`: a psycopg connection, async for async bodies."""
        return self._durable().tx

    @property
    def sync(self) -> SyncDurable:
        """The same for a plain function, which runs in a thread: without awaiting."""
        return SyncDurable(self._durable())


async def _call(engine: Engine, call: Call[Any], name: str) -> Any:
    await engine.start(call, name, awaited=True)
    return await engine.result(call, name)


async def _start(engine: Engine, call: Call[Any], name: str) -> Child[Any]:
    return Child(await engine.start(call, name, awaited=False), name, call, engine)


async def _gathered(
    engine: Engine, branches: tuple[Awaitable[Any], ...], *, return_exceptions: bool
) -> tuple[Any, ...]:
    return tuple(await engine.gather(branches, return_exceptions=return_exceptions))
