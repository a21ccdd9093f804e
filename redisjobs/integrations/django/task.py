"""A task with the options of a job besides Django's own: `@task(queue_name="mail", max_attempts=5, timeout=30)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

from redisjobs.backoff import RetryRule
from redisjobs.base.durations import Duration
from redisjobs.declaration import Errors, JobOptions
from redisjobs.integrations.django import framework
from redisjobs.policy import Debounce, KeyRule, Mode, Singleton, Throttle

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:

    class _Base(framework.Task[P, R]): ...

else:

    class _Base(framework.Task):  # Django's own is not generic when it runs
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


class TaskOptions(TypedDict, total=False):
    """What may be written in `@task(...)`."""

    priority: int
    queue_name: str
    backend: str
    max_attempts: int
    timeout: Duration
    retry: RetryRule
    retry_on: Errors
    give_up_on: Errors
    result_ttl: Duration
    lane: KeyRule
    share: KeyRule
    throttle: Throttle
    debounce: Debounce
    singleton: Singleton | Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(_Base[P, R]):
    """What is None is left to the backend. The options mean what they mean in `Declaration` and `Options`."""

    max_attempts: int | None = None
    timeout: Duration | None = None
    retry: RetryRule | None = None
    retry_on: Errors = ()
    give_up_on: Errors = ()
    result_ttl: Duration | None = None
    idempotency_key: str | None = None
    window: Duration | None = None
    expires: Duration | datetime | None = None
    tenant: str | None = None
    headers: Mapping[str, Any] | None = None
    lane: KeyRule | None = None
    share: KeyRule | None = None
    throttle: Throttle | None = None
    debounce: Debounce | None = None
    singleton: Singleton | Mode | None = None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        max_attempts: int | None = None,
        idempotency_key: str | None = None,
        window: Duration | None = None,
        expires: Duration | datetime | None = None,
        tenant: str | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Task[P, R]:
        """The task with other options for its next calls."""
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        return replace(self, **given)

    def options(self) -> dict[str, Any]:
        """The options of its calls, by the names of `Options`."""
        names = ("max_attempts", "idempotency_key", "window", "expires", "tenant", "headers")
        return {name: getattr(self, name) for name in names}

    def declared(self) -> JobOptions:
        """What its job declares."""
        found = JobOptions(retry_on=self.retry_on, give_up_on=self.give_up_on)
        if self.timeout is not None:
            found["timeout"] = self.timeout
        if self.retry is not None:
            found["retry"] = self.retry
        if self.max_attempts is not None:
            found["max_attempts"] = self.max_attempts
        if self.result_ttl is not None:
            found["result_ttl"] = self.result_ttl
        if self.lane is not None:
            found["lane"] = self.lane
        if self.share is not None:
            found["share"] = self.share
        if self.throttle is not None:
            found["throttle"] = self.throttle
        if self.debounce is not None:
            found["debounce"] = self.debounce
        if self.singleton is not None:
            found["singleton"] = self.singleton
        return found


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[TaskOptions]
) -> Callable[[Callable[Concatenate[Any, P], R]], Task[P, R]]: ...
@overload
def task(
    *, takes_context: Literal[False] = False, **options: Unpack[TaskOptions]
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(*functions: Callable[..., Any], **options: Any) -> Any:
    """Django's decorator `task`, with the options of a job besides its own; on a backend of redisjobs."""
    decorate: Any = framework.task
    return decorate(*functions, **options)
