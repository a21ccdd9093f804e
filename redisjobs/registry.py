"""The registry: which jobs there are, each under its name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, Unpack, cast, overload

from redisjobs.batch import BatchCall, BatchContext
from redisjobs.batch_job import BATCH_KINDS, AsyncBatchJob, BatchJob, BatchOptions, SyncBatchJob, declare_batch
from redisjobs.context import Context, State_co
from redisjobs.declaration import Declaration, JobOptions, declare
from redisjobs.errors import ConfigurationError, UnknownJobError
from redisjobs.job import AsyncJob, Door, Job, SyncJob
from redisjobs.limits import AnyLimit, told_apart

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
J = TypeVar("J", bound=Job[Any, Any])

Calls: TypeAlias = list[BatchCall[A]]


class Anything:
    """What only a parameter for anything takes, `object` or `Any`.

    To a type checker such a parameter takes a `Context` too. A function that begins with one is therefore looked
    for first, and the arguments of its calls are checked when they are made.
    """


_KINDS: dict[bool, type[Job[Any, Any]]] = {True: AsyncJob, False: SyncJob}


class Declarer(Generic[State_co]):
    """`@app.job(...)` with its options: makes a job of the function that follows."""

    def __init__(self, registry: Registry[State_co], options: JobOptions) -> None:
        self._registry = registry
        self._options = options

    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits
        self, function: Callable[Concatenate[Anything, ...], Coroutine[Any, Any, R]], /
    ) -> AsyncJob[..., R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits
        self, function: Callable[Concatenate[Context[State_co], P], Coroutine[Any, Any, R]], /
    ) -> AsyncJob[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJob[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Anything, ...], R], /) -> SyncJob[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context[State_co], P], R], /) -> SyncJob[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncJob[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Job[Any, Any]:
        return self._registry.declare(function, self._options)


class BatchDeclarer(Generic[State_co]):
    """`@app.batch_job(...)` with its options: makes a batch job of the function that follows."""

    def __init__(self, registry: Registry[State_co], options: BatchOptions) -> None:
        self._registry = registry
        self._options = options

    @overload
    def __call__(self, function: Callable[[Calls[A]], Coroutine[Any, Any, None]], /) -> AsyncBatchJob[[A], None]: ...
    @overload
    def __call__(
        self, function: Callable[[Calls[A]], Coroutine[Any, Any, Sequence[R] | None]], /
    ) -> AsyncBatchJob[[A], R]: ...
    @overload
    def __call__(
        self, function: Callable[[BatchContext[State_co], Calls[A]], Coroutine[Any, Any, None]], /
    ) -> AsyncBatchJob[[A], None]: ...
    @overload
    def __call__(
        self, function: Callable[[BatchContext[State_co], Calls[A]], Coroutine[Any, Any, Sequence[R] | None]], /
    ) -> AsyncBatchJob[[A], R]: ...
    @overload
    def __call__(self, function: Callable[[Calls[A]], None], /) -> SyncBatchJob[[A], None]: ...
    @overload
    def __call__(self, function: Callable[[Calls[A]], Sequence[R] | None], /) -> SyncBatchJob[[A], R]: ...
    @overload
    def __call__(self, function: Callable[[BatchContext[State_co], Calls[A]], None], /) -> SyncBatchJob[[A], None]: ...
    @overload
    def __call__(
        self, function: Callable[[BatchContext[State_co], Calls[A]], Sequence[R] | None], /
    ) -> SyncBatchJob[[A], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> BatchJob[Any, Any]:
        return self._registry.declare_batch(function, self._options)


class Registry(ABC, Generic[State_co]):
    """The jobs of a program, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job[Any, Any]] = {}
        self._limits: dict[str, dict[str, AnyLimit]] = {}

    @property
    @abstractmethod
    def door(self) -> Door:
        """Where the calls of its jobs go in."""

    @overload
    def job(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits
        self, function: Callable[Concatenate[Anything, ...], Coroutine[Any, Any, R]], /
    ) -> AsyncJob[..., R]: ...
    @overload
    def job(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits
        self, function: Callable[Concatenate[Context[State_co], P], Coroutine[Any, Any, R]], /
    ) -> AsyncJob[P, R]: ...
    @overload
    def job(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJob[P, R]: ...
    @overload
    def job(self, function: Callable[Concatenate[Anything, ...], R], /) -> SyncJob[..., R]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context[State_co], P], R], /) -> SyncJob[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> SyncJob[P, R]: ...
    @overload
    def job(self, **options: Unpack[JobOptions]) -> Declarer[State_co]: ...
    def job(self, *functions: Callable[..., Any], **options: Any) -> Job[Any, Any] | Declarer[State_co]:
        """Declare a function as a job: `@app.job`, or `@app.job(queue="mail", timeout=30)`.

        The options are those of `Declaration`. A first parameter annotated `Context` is given the attempt's.

        Raises:
            ConfigurationError: an option, a name or a parameter that cannot work.
        """
        given = cast(JobOptions, options)
        return self.declare(functions[0], given) if functions else Declarer(self, given)

    def batch_job(self, **options: Unpack[BatchOptions]) -> BatchDeclarer[State_co]:
        """Declare a function as a batch job: `@app.batch_job(size=100, within=2.0)`.

        Its calls are enqueued one by one, with one argument each; the function is given those that gathered, as
        `list[BatchCall[T]]`. The options are those of `Batching` and of `Declaration`, save what fits one job alone.
        A first parameter annotated `BatchContext` is given that of the run.

        Raises:
            ConfigurationError: an option, a name or a parameter that cannot work.
        """
        return BatchDeclarer(self, options)

    def declare(self, function: Callable[..., Any], options: JobOptions) -> Job[Any, Any]:
        """What `job` does, for a function whose types do not matter."""
        return self._add(_KINDS, function, declare(function, options))

    def declare_batch(self, function: Callable[..., Any], options: BatchOptions) -> BatchJob[Any, Any]:
        """What `batch_job` does, for a function whose types do not matter."""
        return self._add(BATCH_KINDS, function, declare_batch(function, options))

    def _add(self, kinds: Mapping[bool, type[J]], function: Callable[..., Any], declaration: Declaration) -> J:
        job = kinds[inspect.iscoroutinefunction(function)](function, declaration, self.door)
        known = self._jobs.get(job.name)
        if known is not None and _place(known.function) != _place(function):
            raise ConfigurationError(
                f"two jobs are named {job.name!r}, {_place(known.function)} and {_place(function)}: "
                "a worker finds a job by its name, so give one of them name=…"
            )
        self._note_limits(f"job {job.name!r}", job.declaration.limits)
        self._jobs[job.name] = job
        return job

    @property
    def limited(self) -> bool:
        """Whether anything here has a limit or a rate."""
        return bool(self._limits)

    def _note_limits(self, owner: str, limits: Iterable[AnyLimit]) -> None:
        """Raises ConfigurationError where somebody else has a limit of the same name that is another."""
        for limit in limits:
            owners = self._limits.get(str(limit.name), {})
            for other, theirs in owners.items():
                if other != owner and (difference := told_apart(theirs, limit)) is not None:
                    raise ConfigurationError(
                        f"two limits are named {limit.name!r}, of {other} and of {owner}: {difference}. One name is "
                        "one limit: declare the same, or give one of them name=…"
                    )
        for limit in limits:
            self._limits.setdefault(str(limit.name), {})[owner] = limit

    @property
    def jobs(self) -> Mapping[str, Job[Any, Any]]:
        """The declared jobs, by name."""
        return MappingProxyType(self._jobs)

    def find(self, name: str) -> Job[Any, Any]:
        """The job of this name.

        Raises:
            UnknownJobError: there is none here.
        """
        try:
            return self._jobs[name]
        except KeyError:
            raise UnknownJobError(f"no job {name[:200]!r} is declared here: import its module") from None


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
