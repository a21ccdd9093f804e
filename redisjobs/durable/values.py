"""What a body hands to its run, checked where it is handed over; and what an event is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from redisjobs.backoff import Backoff, RetryRule, Rule, check_retry
from redisjobs.base.durations import Duration, optional, whole
from redisjobs.errors import OptionError

T_co = TypeVar("T_co", covariant=True)

NAME_CHARS = 200
KEY_BYTES = 512
UNDO = "undo:"
"""What the record of an undo is named: this, and the name of its step."""
DEFAULT_TRIES = 5
"""Of a step that names a rule and no number, and of an undo."""

_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,200}\Z")


@dataclass(frozen=True, slots=True)
class Event(Generic[T_co]):
    """An event as the run that waited for it gets it.

    Args:
        data: what was sent with it; None: nothing.
        sent_at: when, by Postgres time.
    """

    name: str
    key: str
    data: T_co
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class Work:
    """A function, async or not, with what it is called with."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self) -> Any:
        """What it answers; for an async function something to await."""
        return self.function(*self.args, **self.kwargs)


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How a step is tried. Durations are seconds or timedeltas; after the checks they are seconds.

    Args:
        retry: a Backoff, a list of delays, or f(try, error) -> seconds; None: the job's own rule.
        tries: in all, the first one included. None: one, or with `retry` five, or as many as a list of delays has
            room for.
        timeout: of each try, for async functions: one in a thread cannot be ended.
        undo: called with the result if the run ends otherwise than done.

    Raises:
        OptionError: an option out of its range.
    """

    retry: RetryRule | None = None
    tries: int | None = None
    timeout: Duration | None = None
    undo: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.retry is not None:
            object.__setattr__(self, "retry", check_retry(self.retry))
        if self.tries is not None:
            whole("tries", self.tries, most=1000)
        object.__setattr__(self, "timeout", optional("timeout", self.timeout))
        if self.undo is not None and not callable(cast(object, self.undo)):
            raise OptionError("undo", self.undo, "is no function: pass one that takes the step's result")

    @property
    def rule(self) -> Backoff | tuple[float, ...] | Rule | None:
        """The rule of its own, with a list's delays in seconds."""
        return cast("Backoff | tuple[float, ...] | Rule | None", self.retry)

    @property
    def timeout_s(self) -> float | None:
        """The timeout in seconds."""
        return cast("float | None", self.timeout)

    @property
    def most_tries(self) -> int:
        """How often the step is tried at most."""
        if self.tries is not None:
            return self.tries
        if self.retry is None:
            return 1
        rule = self.rule
        return DEFAULT_TRIES if rule is None or isinstance(rule, Backoff) or callable(rule) else len(rule) + 1


PLAIN_STEP = StepOptions()
"""A step that is tried once."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a run waits for.

    Args:
        name, key: those of the event.
        timeout: seconds; None: for ever.
        of: the type of its data; None: plain data.
        step: the name of the record.
    """

    name: str
    key: str
    timeout: float | None = None
    of: Any = None
    step: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "the event's name")
        check_key(self.key)
        if not self.step:
            object.__setattr__(self, "step", _step_of(self.name, self.key))
        check_name(self.step)


def check_name(name: object, what: str = "step") -> str:
    """A name as a record may have it.

    Raises:
        OptionError: it may not.
    """
    if not isinstance(name, str) or not _NAME.match(name) or not name.strip():
        shown = name[:60] if isinstance(name, str) else name
        raise OptionError(what, shown, f"is no name: pass 1 to {NAME_CHARS} characters, none a control character")
    if name.startswith(UNDO):
        raise OptionError(what, name[:60], f"begins with {UNDO!r}, as the records of undos do: pass another name")
    return name


def check_key(key: object) -> str:
    """The key of an event.

    Raises:
        OptionError: no text, or one that no database can store, or a long one.
    """
    if not isinstance(key, str):
        raise OptionError("key", key, f"is a {type(key).__name__}: pass a text")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise OptionError("key", key[:60], "has a lone surrogate, which no database can store: leave it out") from None
    if "\0" in key:
        raise OptionError("key", key[:60], "has a NUL character, which no database can store: leave it out")
    if size > KEY_BYTES:
        raise OptionError("key", key[:60], f"has {size} bytes: pass at most {KEY_BYTES}")
    return key


def _step_of(name: str, key: str) -> str:
    step = f"{name}/{key}" if key else name
    if not _NAME.match(step):
        why = f"makes with its event no name of a step (1 to {NAME_CHARS} plain characters): pass step=… too"
        raise OptionError("key", key[:60], why)
    return step
