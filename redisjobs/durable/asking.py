"""What a body asks for, checked and put in order before its run hears of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ParamSpec, Protocol, TypeVar

from redisjobs.backoff import RetryRule
from redisjobs.base.durations import Duration, seconds
from redisjobs.call import Call
from redisjobs.durable.values import NAME_CHARS, PLAIN_STEP, UNDO, StepOptions, Wait, Work, check_name
from redisjobs.errors import OptionError

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

LONGEST_SLEEP_S = 10 * 366 * 86_400.0


class Callee(Protocol[P, R_co]):
    """What makes calls: a job, or one with options by `using`."""

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]: ...


def work_of(name: str, given: tuple[Any, ...]) -> Work | None:
    """The work of a step: its function, and what that is called with; None: no function was given.

    Raises:
        OptionError: a name or a function that cannot work.
    """
    check_name(name)
    if given and not callable(given[0]):
        why = f"of step {name!r} is no function: pass it uncalled, and its arguments after it"
        raise OptionError("function", given[0], why)
    return Work(given[0], given[1:]) if given else None


def step_options(
    name: str,
    *,
    retry: RetryRule | None,
    tries: int | None,
    timeout: Duration | None,
    undo: Callable[[Any], object] | None,
) -> StepOptions:
    """How a step is tried.

    Raises:
        OptionError: an option that cannot work.
    """
    if retry is None and tries is None and timeout is None and undo is None:
        return PLAIN_STEP
    if undo is not None and len(UNDO + name) > NAME_CHARS:
        why = f"is too long for a step with an undo: pass at most {NAME_CHARS - len(UNDO)} characters"
        raise OptionError("step", name[:60], why)
    return StepOptions(retry, tries, timeout, undo)


def asked(job: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call[Any], str]:
    """The call of a child, and the name of its record.

    Raises:
        EnqueueError: the call cannot be made.
        OptionError: it is no job, or a call with arguments beside it.
    """
    if isinstance(job, Call):
        call: Call[Any] = job  # pyright: ignore[reportUnknownVariableType]  # of whatever result
        name = kwargs.pop("name", None)
        if args or kwargs:
            raise OptionError("call", call.job, "is a call already, with its arguments: pass only name=… beside it")
        return call, check_name(call.job if name is None else name)
    if not hasattr(job, "declared"):
        raise OptionError("job", getattr(job, "__name__", job), "is no job: pass a job and its arguments, or a call")
    made: Call[Any] = job.call(*args, **kwargs)
    return made, check_name(made.job)


def sleep_seconds(duration: Duration) -> float:
    """The seconds of a sleep."""
    return seconds("duration", duration, most=LONGEST_SLEEP_S)


def a_wait(name: str, key: str, timeout: Duration | None, step: str, of: Any) -> Wait:
    """A wait for an event."""
    return Wait(name, key, None if timeout is None else seconds("timeout", timeout, most=LONGEST_SLEEP_S), of, step)


def check_moment(moment: object) -> datetime:
    """An aware moment.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise OptionError("moment", moment, "is no aware datetime: pass one with a time zone")
    return moment
