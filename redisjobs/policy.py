"""What happens where a live job has the same key: throttle, debounce, singleton. Values, checked when made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from redisjobs.base.durations import Duration, positive
from redisjobs.errors import OptionError

LONGEST_S = 366 * 86_400.0
"""How long a period or a wait can be."""

KeyRule: TypeAlias = str | Callable[..., object]
"""The name of an argument, or a function of arguments by their names: `lambda tenant, region: f"{tenant}/{region}"`."""
Mode: TypeAlias = Literal["skip", "replace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The first call runs, and for a while none of the others does.

    Args:
        period: seconds or a timedelta, at most 366 days, from when the first was published (or is due, if that is
            later).
        key: whose calls these are; None: all calls of the job.

    Raises:
        OptionError: an option out of its range.
    """

    period: Duration
    key: KeyRule | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", positive("period", self.period, most=LONGEST_S))
        check_rule("key", self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """The last call of a burst runs, when no further one has come for a while.

    Args:
        wait: seconds or a timedelta after the last call, at most 366 days.
        longest: after the first call of the burst it runs in any case; None: a burst may last without end.
        key: whose calls these are; None: all calls of the job.

    Raises:
        OptionError: an option out of its range.
    """

    wait: Duration
    longest: Duration | None = None
    key: KeyRule | None = None

    def __post_init__(self) -> None:
        wait = positive("wait", self.wait, most=LONGEST_S)
        object.__setattr__(self, "wait", wait)
        if self.longest is not None:
            longest = positive("longest", self.longest, most=LONGEST_S)
            if longest < wait:
                raise OptionError("longest", self.longest, f"is below wait ({wait:g} s): pass that or more")
            object.__setattr__(self, "longest", longest)
        check_rule("key", self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Singleton:
    """At most one job of a key lives at a time.

    Args:
        mode: skip: a call that comes while one lives is not run. replace: the one that lives is cancelled, and the
            new one takes its place.
        key: whose calls these are; None: all calls of the job.

    Raises:
        OptionError: an option out of its range.
    """

    mode: Mode = "skip"
    key: KeyRule | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("skip", "replace"):
            raise OptionError("mode", self.mode, "is unknown: pass 'skip' or 'replace'")
        check_rule("key", self.key)


Policy: TypeAlias = Throttle | Debounce | Singleton
_KINDS: dict[str, type[Throttle | Debounce | Singleton]] = {
    "throttle": Throttle,
    "debounce": Debounce,
    "singleton": Singleton,
}


@dataclass(frozen=True, slots=True)
class Columns:
    """What a policy is in a row. Seconds."""

    key_policy: str
    key_window: float | None = None
    key_wait: float | None = None
    key_longest: float | None = None


def columns_of(policy: Policy) -> Columns:
    """The columns of a row that carry it."""
    if isinstance(policy, Throttle):
        return Columns("throttle", key_window=cast(float, policy.period))
    if isinstance(policy, Debounce):
        return Columns("debounce", key_wait=cast(float, policy.wait), key_longest=cast("float | None", policy.longest))
    return Columns(policy.mode)


def one_of(throttle: object, debounce: object, singleton: object) -> Policy | None:
    """The policy that was given; None: none was. A text for a singleton is its mode.

    Raises:
        OptionError: two of them, or what is none.
    """
    given = {"throttle": throttle, "debounce": debounce, "singleton": singleton}
    found = [name for name, value in given.items() if value is not None]
    if not found:
        return None
    if len(found) > 1:
        why = f"says what becomes of another call, and so does {found[1]}: pass one of them"
        raise OptionError(found[0], given[found[0]], why)
    name, value = found[0], given[found[0]]
    if name == "singleton" and isinstance(value, str):
        return Singleton(mode=cast(Mode, value))
    kind = _KINDS[name]
    if isinstance(value, kind):
        return value
    raise OptionError(name, value, f"is a {type(value).__name__}: pass {kind.__name__}(…)")


def check_rule(name: str, rule: object) -> None:
    """A rule by which a key is computed, or None.

    Raises:
        OptionError: it is none.
    """
    if rule is not None and not callable(rule) and not (isinstance(rule, str) and rule.isidentifier()):
        raise OptionError(name, rule, "computes no key: pass the name of an argument, or a function of arguments")
