"""What a job declares about itself, checked where it is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, cast

from redisjobs.backoff import DEFAULT, Backoff, RetryRule, Rule, check_retry
from redisjobs.base.durations import Duration, optional
from redisjobs.batching import Batching
from redisjobs.call import check_job, check_max_attempts, check_priority, check_queue, check_version
from redisjobs.errors import OptionError
from redisjobs.limits import AnyLimit, Limit, Rate, gathered, named
from redisjobs.policy import Debounce, KeyRule, Mode, Policy, Singleton, Throttle, check_rule, one_of

LONGEST_KEPT_S = 366 * 86_400.0
"""How long an ended job or its result can be kept."""

OnFailure: TypeAlias = Literal["block", "skip"]
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
        version: of the body's code: calls carry it, and only workers that know it run them, others park them. A call
            without one is run by all.
        also_runs: versions of calls made by other releases that this body can run too.
        transactional: the body gets a transaction, `ctx.tx`, that commits what it writes together with its end.
        lane: the name of an argument, or a function of arguments: jobs for which it answers the same run one after
            another, within their queue. Where it answers None, the job is in no lane.
        lane_on_failure: block: while a failed job of a lane waits for its retry, so do those behind it. skip: they go
            on meanwhile, and it comes back before those that still wait. A dead letter lets its lane go on.
        share: likewise; jobs of a queue are taken in turn by it.
        throttle: of the calls with its key the first runs, and none of the others for a while.
        debounce: the last of the calls with its key runs, when no further one has come for a while.
        singleton: at most one job of its key lives at a time. One of these three.
        batching: how calls are gathered, for a job that `@app.batch_job(...)` declares.
        limit: so many run at once in the whole fleet; a number is `Limit(number)`.
        rate: so many start in a period.
        limits: several limits and rates; a job begins when all of them let it.

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
    version: str | None = None
    also_runs: Sequence[str] = ()
    transactional: bool = False
    lane: KeyRule | None = None
    lane_on_failure: OnFailure = "block"
    share: KeyRule | None = None
    throttle: Throttle | None = None
    debounce: Debounce | None = None
    singleton: Singleton | Mode | None = None
    batching: Batching | None = None
    limit: Limit | int | None = None
    rate: Rate | None = None
    limits: Sequence[AnyLimit] = ()

    def __post_init__(self) -> None:
        check_job(self.name)
        check_queue(self.queue)
        check_max_attempts(self.max_attempts)
        check_priority(self.priority)
        for option in ("process", "transactional"):
            if not isinstance(getattr(self, option), bool):
                raise OptionError(option, getattr(self, option), "says neither yes nor no: pass True or False")
        self._check_versions()
        if self.transactional and self.process:
            why = "gives the body a transaction, and process=True a process that cannot have it: leave one of them out"
            raise OptionError("transactional", self.transactional, why)
        check_rule("lane", self.lane)
        if self.lane_on_failure not in ("block", "skip"):
            raise OptionError("lane_on_failure", self.lane_on_failure, "is unknown: pass 'block' or 'skip'")
        check_rule("share", self.share)
        one_of(self.throttle, self.debounce, self.singleton)
        self._put("limits", named(gathered(self.limit, self.rate, self.limits), self.name))
        self._put("retry", check_retry(self.retry))
        self._put("retry_on", _errors("retry_on", self.retry_on))
        self._put("give_up_on", _errors("give_up_on", self.give_up_on))
        self._put("timeout", optional("timeout", self.timeout))
        for option in ("result_ttl", "retention"):
            self._put(option, optional(option, getattr(self, option), most=LONGEST_KEPT_S))

    def _check_versions(self) -> None:
        if self.version is not None:
            check_version(self.version)
        if isinstance(self.also_runs, str):
            raise OptionError("also_runs", self.also_runs, "is one text: pass a list of versions, such as ['1']")
        self._put("also_runs", tuple(check_version(each) for each in self.also_runs))
        if self.also_runs and self.version is None:
            why = "names other versions of a job that has none itself: pass version=… too"
            raise OptionError("also_runs", self.also_runs, why)

    def _put(self, option: str, value: object) -> None:
        object.__setattr__(self, option, value)

    def knows(self, version: str | None) -> bool:
        """Whether a call of this version is run here."""
        return version is None or version == self.version or version in self.also_runs

    @property
    def policy(self) -> Policy | None:
        """What becomes of calls that have the same key; None: nothing is declared."""
        return one_of(self.throttle, self.debounce, self.singleton)

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


class CommonOptions(TypedDict, total=False):
    """What may be written at jobs and batch jobs alike; `Declaration` says what each means."""

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
    version: str | None
    also_runs: Sequence[str]
    lane: KeyRule | None
    lane_on_failure: OnFailure
    share: KeyRule | None
    throttle: Throttle | None
    debounce: Debounce | None
    singleton: Singleton | Mode | None


class JobOptions(CommonOptions, total=False):
    """What may be written in `@app.job(...)`; `Declaration` says what each means."""

    process: bool
    transactional: bool
    limit: Limit | int | None
    rate: Rate | None
    limits: Sequence[AnyLimit]


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
