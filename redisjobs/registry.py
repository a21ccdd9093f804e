"""The registry: which jobs there are, each under its name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from redisjobs.context import Context, State_co
from redisjobs.declaration import JobOptions, declare
from redisjobs.errors import ConfigurationError, UnknownJobError
from redisjobs.job import AsyncJob, Door, Job, SyncJob

P = ParamSpec("P")
R = TypeVar("R")


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


class Registry(ABC, Generic[State_co]):
    """The jobs of a program, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job[Any, Any]] = {}

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

    def declare(self, function: Callable[..., Any], options: JobOptions) -> Job[Any, Any]:
        """What `job` does, for a function whose types do not matter."""
        is_async = inspect.iscoroutinefunction(function)
        job = _KINDS[is_async](function, declare(function, options), self.door)
        known = self._jobs.get(job.name)
        if known is not None and _place(known.function) != _place(function):
            raise ConfigurationError(
                f"two jobs are named {job.name!r}, {_place(known.function)} and {_place(function)}: "
                "a worker finds a job by its name, so give one of them name=…"
            )
        self._jobs[job.name] = job
        return job

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
