"""What a job declares about itself, checked where it is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from redisjobs.backoff import DEFAULT, Backoff, RetryRule, Rule, check_retry
from redisjobs.base.durations import Duration, optional
from redisjobs.call import check_job, check_max_attempts, check_priority, check_queue
from redisjobs.errors import OptionError

LONGEST_KEPT_S = 366 * 86_400.0
"""How long an ended job or its result can be kept."""

Errors = type[BaseException] | Sequence[type[BaseException]]


@dataclass(frozen=True, slots=True)
class Declaration:
    """The options of `@app.job(...)`. Durations are seconds or timedeltas; after the checks they are seconds.

    Args:
        name: under which rows and workers know it; by default the function's.
        queue: of calls that name none.
        max_attempts: in all, the first one included.
        retry: a Backoff, a list of delays (its last repeats), or f(attempt, error) -> seconds.
        retry_on: only these errors are retried; empty: all are.
        give_up_on: these errors never are.
        timeout: of each attempt; None: none.
        priority: of calls that name none, -100 to 100.
        result_ttl: how long the result is kept for `handle.result()`, at most 366 days; None: not at all.
        retention: how long the finished job stays visible, at most 366 days; None: as long as the relay keeps all.
        process: a plain function runs in a process of its own, which is killed where the attempt must end; not in a
            thread, which cannot be.

    Raises:
        OptionError: an option out of its range.
    """

    name: str
    queue: str = "default"
    max_attempts: int = 20
    retry: RetryRule = DEFAULT
    retry_on: Errors = ()
    give_up_on: Errors = ()
    timeout: Duration | None = None
    priority: int = 0
    result_ttl: Duration | None = None
    retention: Duration | None = None
    process: bool = False

    def __post_init__(self) -> None:
        check_job(self.name)
        check_queue(self.queue)
        check_max_attempts(self.max_attempts)
        check_priority(self.priority)
        if not isinstance(cast(object, self.process), bool):
            raise OptionError("process", self.process, "says neither yes nor no: pass True or False")
        self._put("retry", check_retry(self.retry))
        self._put("retry_on", _errors("retry_on", self.retry_on))
        self._put("give_up_on", _errors("give_up_on", self.give_up_on))
        self._put("timeout", optional("timeout", self.timeout))
        for option in ("result_ttl", "retention"):
            self._put(option, optional(option, getattr(self, option), most=LONGEST_KEPT_S))

    def _put(self, option: str, value: object) -> None:
        object.__setattr__(self, option, value)

    @property
    def retry_rule(self) -> Backoff | tuple[float, ...] | Rule:
        """The retry rule, with a list's delays in seconds."""
        return cast("Backoff | tuple[float, ...] | Rule", self.retry)

    @property
    def retried_errors(self) -> tuple[type[BaseException], ...]:
        """The errors of `retry_on`."""
        return cast("tuple[type[BaseException], ...]", self.retry_on)

    @property
    def fatal_errors(self) -> tuple[type[BaseException], ...]:
        """The errors of `give_up_on`."""
        return cast("tuple[type[BaseException], ...]", self.give_up_on)

    @property
    def timeout_s(self) -> float | None:
        """The timeout in seconds."""
        return cast("float | None", self.timeout)

    @property
    def result_ttl_s(self) -> float | None:
        """The time for which a result is kept, in seconds."""
        return cast("float | None", self.result_ttl)

    @property
    def retention_s(self) -> float | None:
        """The time for which the finished job stays visible, in seconds."""
        return cast("float | None", self.retention)

    @property
    def keep_s(self) -> float | None:
        """The time for which the ended job is kept, with its result: the longer of retention and result_ttl."""
        return max((each for each in (self.retention_s, self.result_ttl_s) if each is not None), default=None)


def _errors(name: str, errors: Errors) -> tuple[type[BaseException], ...]:
    return tuple([_error(name, each) for each in ([errors] if isinstance(errors, type) else errors)])


def _error(name: str, error: object) -> type[BaseException]:
    given = error
    if isinstance(error, type) and issubclass(error, BaseException):
        return error
    raise OptionError(name, given, "is no class of exceptions: pass for example ConnectionError, or a list of such")


class JobOptions(TypedDict, total=False):
    """What may be written in `@app.job(...)`; `Declaration` says what each means."""

    name: str
    queue: str
    max_attempts: int
    retry: RetryRule
    retry_on: Errors
    give_up_on: Errors
    timeout: Duration | None
    priority: int
    result_ttl: Duration | None
    retention: Duration | None
    process: bool


def declare(function: Callable[..., Any], options: JobOptions) -> Declaration:
    """The declaration of a function with these options; its own name is the job's, if no other is given.

    Raises:
        OptionError: an option that does not exist, or is out of its range.
    """
    for option in options.keys() - JobOptions.__annotations__.keys():
        known = ", ".join(JobOptions.__annotations__)
        raise OptionError(option, options.get(option), f"is no option of a job: pass one of {known}")
    given: dict[str, Any] = {"name": own_name(function), **options}
    return Declaration(**given)


def own_name(function: Callable[..., Any]) -> str:
    """The name of a job whose declaration gives none: the function's, with its class if it has one."""
    return getattr(function, "__qualname__", "").rpartition("<locals>.")[2] or type(function).__name__
