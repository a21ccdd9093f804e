"""What the limiter in Redis holds, as plain values. How its texts are written says `lua/lib/permit.lua`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_PERMIT = re.compile(rb"([hrx]) (\d+) (\S+) (\S+) (\d+) (\d+) (\d+)\n(.*)", re.DOTALL)
TICKET = re.compile(rb"(\d+) (\S+) (\d+)\n([^\n]*)\n(.*)", re.DOTALL)
_WANT = re.compile(r"([lr]) (\d+) (\d+) (\d+) (\S+) ([^\n]*)\n")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A limit that a job takes a share of, as its code says; what is set at run time counts instead.

    Args:
        most: at once; None: it is a rate. count, period_s, burst: of a rate. weight: the share.
    """

    key: str
    name: str
    weight: int = 1
    most: int | None = None
    count: int = 0
    period_s: float = 0.0
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Permit:
    """What a job has of its limits.

    Args:
        state: held: its attempt runs. reserved: kept until it asks for it. lapsed: its lease ended while it ran.
        consumer: the worker that runs it, or that told it to come.
        since_s: how long it has had it. starts_in_s: of a reserved one: from when on it may begin, 0 or less: now.
        left_s: until its lease ends, unless it is renewed; of a reserved one: until it is kept no longer.
    """

    job_id: bytes
    state: str
    consumer: str
    queue: str
    since_s: float
    starts_in_s: float
    left_s: float | None
    wants: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that stands in the line of a limit key."""

    job_id: bytes
    queue: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What was set at run time for all keys of a name; `most` 0: nothing begins."""

    most: int | None = None
    count: int | None = None
    period_s: float | None = None
    burst: int | None = None

    @property
    def is_paused(self) -> bool:
        """Nothing begins."""
        return self.most == 0

    def __str__(self) -> str:
        if self.is_paused:
            return "PAUSED"
        if self.most is not None:
            return f"{self.most} at once"
        return rate_words(self.count or 0, self.period_s or 0.0, self.burst or 0)


@dataclass(slots=True)
class LimitKey:
    """One limit key now.

    Args:
        most: at once, as it counts now; None: it is a rate, or nobody who has it or waits says so.
        rate: in words, as it counts now.
        used: weights in use; of a rate: starts that are reserved.
        waiting: jobs in its line. heads: some of them, first come first.
        passed_over: queues in its line that did not come for what was kept for their jobs.
        held: permits that have a share of it.
        closed_s: for so long nothing of it starts, as a body asked for.
    """

    key: str
    name: str
    most: int | None = None
    rate: str | None = None
    used: int = 0
    waiting: int = 0
    heads: list[Waiter] = field(default_factory=list[Waiter])
    passed_over: list[str] = field(default_factory=list[str])
    held: list[Permit] = field(default_factory=list[Permit])
    closed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What the limiter knows of one job.

    Args:
        key: the limit that it waits for, or waited for. limit: the state of that key. rule: what was set for its name.
        place: its place in the line of that key, from 1; 0: it stands in no line, and was told to come.
        permit: what it has, or what is kept for it.
    """

    key: str = ""
    place: int = 0
    permit: Permit | None = None
    limit: LimitKey | None = None
    rule: Rule | None = None


def rate_words(count: int, period_s: float, burst: int) -> str:
    """A rate as a person writes it: `100 in 60 s`."""
    early = f", {burst} early" if burst else ""
    return f"{count} in {period_s:g} s{early}"


def name_of(key: str) -> str:
    """The name of the limit that a key belongs to."""
    return key.partition(":")[0]


def read_rule(text: bytes) -> Rule:
    """What was set at run time."""
    word, *numbers = text.decode().split(" ")
    if word == "max" and len(numbers) == 1:
        return Rule(most=int(numbers[0]))
    if word == "rate" and len(numbers) == 3:
        return Rule(count=int(numbers[0]), period_s=int(numbers[1]) / 1000, burst=int(numbers[2]))
    return Rule()


def read_wants(text: bytes) -> tuple[Wanted, ...]:
    """The lines of what a job wants."""
    found: list[Wanted] = []
    for kind, a, b, c, name, key in _WANT.findall(text.decode(errors="replace")):
        if kind == "l":
            found.append(Wanted(key, name, int(a), most=int(b)))
        else:
            found.append(Wanted(key, name, count=int(a), period_s=int(b) / 1000, burst=int(c)))
    return tuple(found)


def read_permit(job_id: bytes, text: bytes, end: float | str | bytes | None, now_ms: float) -> Permit | None:
    """A permit; None: no script wrote this.

    Args:
        end: its score in `expiry`, if it has one.
    """
    found = _PERMIT.fullmatch(text)
    if found is None:
        return None
    state = {b"h": "held", b"r": "reserved", b"x": "lapsed"}[found[1]]
    left_s = None if end is None else (float(end) - now_ms) / 1000
    since_s, starts_in_s = (now_ms - int(found[6])) / 1000, (int(found[7]) - now_ms) / 1000
    return Permit(
        job_id, state, found[3].decode(), found[4].decode(), since_s, starts_in_s, left_s, read_wants(found[8])
    )


def say(limit: LimitKey, want: Wanted) -> None:
    """What the limit is, as this job says."""
    if want.most is not None:
        limit.most = want.most
    else:
        limit.rate = rate_words(want.count, want.period_s, want.burst)


def add(limit: LimitKey, want: Wanted, permit: Permit) -> None:
    """This permit has a share of the limit."""
    say(limit, want)
    if want.most is not None or permit.state == "reserved":
        limit.held.append(permit)


def override(limit: LimitKey, rule: Rule | None) -> None:
    """What was set at run time counts, for limits of its kind; a `most` of 0 for all."""
    if rule is None:
        return
    if rule.most is not None and (limit.rate is None or rule.is_paused):
        limit.most = rule.most
    elif rule.count is not None and limit.rate is not None:
        limit.rate = str(rule)


def by_name(keys: Iterable[LimitKey], rules: Iterable[str]) -> dict[str, list[LimitKey]]:
    """The keys of each limit, by its name; a name for which something was set is there without keys too."""
    found: dict[str, list[LimitKey]] = {name: [] for name in rules}
    for each in keys:
        found.setdefault(each.name, []).append(each)
    return dict(sorted(found.items()))
