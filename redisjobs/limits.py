"""How many jobs run at once, and how many start in a period, over the whole fleet. Values, checked when made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TypeAlias, cast

from redisjobs.base.durations import Duration, positive, whole
from redisjobs.call import check_queue
from redisjobs.errors import OptionError
from redisjobs.policy import LONGEST_S, KeyRule, check_rule

MOST = 1_000_000_000
"""At once, or in a period."""

WeightRule: TypeAlias = int | str | Callable[..., int]
"""A whole number, the name of an argument that is one, or a function of arguments by their names."""

_NAME = re.compile(r"[!-9;-~]{1,80}")


@dataclass(frozen=True, slots=True)
class Limit:
    """So many at once, over the whole fleet. A job that finds none free waits in line, and occupies no slot.

    Args:
        most: how many; where jobs have a weight, how much in all.
        key: the name of an argument, or a function of arguments: each value that it answers is counted apart. Where it
            answers None, the call is not limited.
        name: jobs that name the same limit share it; None: the name of the job.
        weight: how much of `most` a call takes, 1 or more; what is above the whole takes the whole.

    Raises:
        OptionError: an option out of its range.
    """

    most: int
    _: KW_ONLY
    key: KeyRule | None = None
    name: str | None = None
    weight: WeightRule = 1

    def __post_init__(self) -> None:
        whole("most", self.most, most=MOST)
        check_rule("key", self.key)
        _check_name(self.name)
        _check_weight(self.weight)


@dataclass(frozen=True, slots=True)
class Rate:
    """So many starts in a period, over the whole fleet, evenly spaced. A job that is too soon occupies no slot.

    Args:
        count: how many.
        per: the period: seconds or a timedelta, at most 366 days.
        burst: how many may start sooner than evenly spaced, after a time of rest. In any period there are at most
            `count` + `burst` starts.
        key, name: as for a `Limit`; the name of a job's own is that of the job with `/rate` behind it.

    Raises:
        OptionError: an option out of its range.
    """

    count: int
    per: Duration
    _: KW_ONLY
    burst: int = 0
    key: KeyRule | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        whole("count", self.count, most=MOST)
        per = positive("per", self.per, most=LONGEST_S)
        if round(per * 1000) < 1:
            raise OptionError("per", self.per, "is below a millisecond: pass a longer period, and a higher count")
        object.__setattr__(self, "per", per)
        whole("burst", self.burst, least=0, most=MOST)
        check_rule("key", self.key)
        _check_name(self.name)

    @property
    def per_ms(self) -> int:
        """The period in ms."""
        return round(cast(float, self.per) * 1000)


AnyLimit: TypeAlias = Limit | Rate


def check_limit_name(name: object) -> str:
    """The name of a limit.

    Raises:
        OptionError: it cannot be one.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            "name", name, "is no name of a limit: pass 1 to 80 printable ASCII characters without : or space"
        )
    return name


def limit_name(name: str) -> str:
    """A name as that of a limit: itself, or where it cannot be one, a digest that stands for it."""
    return name if _NAME.fullmatch(name) else f"~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def gathered(limit: object, rate: object, limits: object) -> tuple[AnyLimit, ...]:
    """What was given by these three options of a job, in this order. A number is a limit of so many.

    Raises:
        OptionError: something is no limit, or no rate.
    """
    found: list[AnyLimit] = []
    if limit is not None:
        found.append(_limit(limit))
    if rate is not None:
        if not isinstance(rate, Rate):
            raise OptionError("rate", rate, f"is a {type(rate).__name__}: pass Rate(…), such as Rate(100, per=60)")
        found.append(rate)
    return (*found, *as_limits("limits", limits))


def as_limits(option: str, given: object) -> tuple[AnyLimit, ...]:
    """Limits and rates in a list, or one alone.

    Raises:
        OptionError: something else.
    """
    shown: object = given
    if isinstance(given, (Limit, Rate)):
        return (given,)
    if isinstance(given, (list, tuple)):
        items = cast("list[object]", given)
        if all(isinstance(each, (Limit, Rate)) for each in items):
            return tuple(cast("list[AnyLimit]", items))
    raise OptionError(option, shown, "is no list of limits: pass for example [Limit(3), Rate(100, per=60)]")


def named(limits: Iterable[AnyLimit], owner: str) -> tuple[AnyLimit, ...]:
    """The limits, each under its name: those that have none get that of their owner.

    Raises:
        OptionError: two have the same name, or an owner's name can be none.
    """
    found: dict[str, AnyLimit] = {}
    for each in limits:
        name = each.name or (owner if isinstance(each, Limit) else f"{owner}/rate")
        if not _NAME.fullmatch(name):
            why = "cannot name a limit, which takes 1 to 80 printable ASCII characters without : or space: pass name=…"
            raise OptionError("name", name, why)
        if name in found:
            raise OptionError("name", name, "is the name of two limits here: give one of them another, by name=…")
        found[name] = replace(each, name=name)
    return tuple(found.values())


def of_queues(given: Mapping[str, AnyLimit | Sequence[AnyLimit]]) -> dict[str, tuple[AnyLimit, ...]]:
    """The limits of queues, each under its name, by default `queue/` and the queue's.

    Raises:
        OptionError: something is no limit, or has a key or a weight: what stands in a queue has no arguments in common.
    """
    found: dict[str, tuple[AnyLimit, ...]] = {}
    for queue, limits in given.items():
        found[check_queue(queue)] = named(as_limits("queue_limits", limits), f"queue/{queue}")
        for each in found[queue]:
            if each.key is not None or (isinstance(each, Limit) and each.weight != 1):
                why = f"has a key or a weight, and the jobs of queue {queue!r} share no arguments: leave it out"
                raise OptionError("queue_limits", each, why)
    return found


def told_apart(one: AnyLimit, other: AnyLimit) -> str | None:
    """In what two limits of one name differ, in words; None: they are the same limit."""
    if type(one) is not type(other):
        return "one is a Limit and the other a Rate"
    if (one.key is None) != (other.key is None):
        return "one has a key and the other none"
    names = ("most",) if isinstance(one, Limit) else ("count", "per", "burst")
    for name in names:
        if getattr(one, name) != getattr(other, name):
            return f"{name} is {getattr(one, name):g} and {getattr(other, name):g}"
    return None


def _limit(given: object) -> Limit:
    if isinstance(given, Limit):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return Limit(given)
    raise OptionError("limit", given, f"is a {type(given).__name__}: pass a whole number or Limit(…)")


def _check_weight(weight: object) -> None:
    if isinstance(weight, int):
        whole("weight", weight, most=MOST)
    elif not callable(weight) and not (isinstance(weight, str) and weight.isidentifier()):
        why = "is no weight: pass a whole number, the name of an argument, or a function of arguments"
        raise OptionError("weight", weight, why)


def _check_name(name: object) -> None:
    if name is not None:
        check_limit_name(name)
