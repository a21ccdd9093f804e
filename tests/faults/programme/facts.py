"""All that is known of a trial once it is over: what invariants look at, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from tests.faults.programme.fault import Excuse
from tests.faults.programme.part import End
from tests.faults.programme.plan import Kind

Fate: TypeAlias = Literal["committed", "rolled_back", "unsure"]

MISSING = object()
"""In place of a value that never came."""


@dataclass(slots=True)
class Asked:
    """One call of a producer.

    Args:
        began: when its transaction began, and `ended`: when its end was known there; None: it never was.
    """

    id: str
    kind: Kind
    queue: str
    value: Any
    deal: str
    place: int
    began: float
    fate: Fate
    ended: float | None = None
    key: str | None = None
    delay: float | None = None
    more: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Run:
    """One start of a body.

    Args:
        number, start: its token. life: how often it was redriven. losses: leases lost in a row before it.
        left: when its body was over; None: it never was. how: returned, or the error's class.
        said: the outcome that Redis accepted, or lost; None: no answer came. heard: when.
        given: the value that its body was given.
    """

    run: str
    id: str
    job: str
    queue: str
    part: str
    pid: int
    began: float
    attempt: int = 1
    most: int = 20
    entry: str = "0-0"
    band: int = 1
    number: int = 1
    start: int = 1
    life: int = 0
    losses: int = 0
    left: float | None = None
    how: str | None = None
    said: str | None = None
    heard: float | None = None
    given: Any = MISSING


@dataclass(slots=True)
class StepLine:
    """A step's body that starts, or its record that stands, as the run saw it."""

    word: Literal["step", "recorded"]
    id: str
    run: str
    name: str
    at: float


@dataclass(slots=True)
class Staged:
    """A row that committed. occurrence: in seconds since 1970, of a schedule."""

    id: str
    job: str
    queue: str
    seq: int
    key: str | None = None
    occurrence: float | None = None


@dataclass(slots=True)
class Marked:
    """A row that a relay marked as published.

    Args:
        by: the part that did it. holder: who held the queue then, with its pid.
        late: seconds past the end of that lease.
    """

    id: str
    queue: str
    number: int
    by: str
    holder: str | None
    late: float


@dataclass(slots=True)
class Ended:
    """An end in Postgres. run: whose answer was accepted; value: what it was."""

    id: str
    state: str
    life: int = 0
    owner: str | None = None
    run: str | None = None
    value: Any = MISSING


@dataclass(slots=True)
class Window:
    """A strike that excuses something."""

    fault: str
    since: float
    until: float
    excuses: frozenset[Excuse]


@dataclass(slots=True)
class Stall:
    """A process did not run for so long, though nobody stopped it: the machine was busy with others."""

    book: str
    since: float
    until: float


@dataclass
class Facts:
    """One trial.

    Args:
        pids: of each part, all that it ever had. died: pids that one of their jobs killed.
        effects: of the job `paying`: how often each id's is there.
        hooks: ids of the webhooks that the receiver got.
        restless: what was still under way when patience was over; None: it came to rest.
        rest_s: how long it took after all was healed and committed, patience_s: how long it might.
        left: what Redis holds of jobs at the end, by key.
        odd: what is not as it was at the start: connections, memory.
        failed: what processes wrote before they ended though nobody ended them.
    """

    asked: list[Asked] = field(default_factory=list[Asked])
    runs: list[Run] = field(default_factory=list[Run])
    steps: list[StepLine] = field(default_factory=list[StepLine])
    staged: list[Staged] = field(default_factory=list[Staged])
    marked: list[Marked] = field(default_factory=list[Marked])
    ended: list[Ended] = field(default_factory=list[Ended])
    effects: dict[str, int] = field(default_factory=dict[str, int])
    hooks: set[str] = field(default_factory=set[str])
    windows: list[Window] = field(default_factory=list[Window])
    stalls: list[Stall] = field(default_factory=list[Stall])
    ends: list[End] = field(default_factory=list[End])
    pids: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    died: set[int] = field(default_factory=set[int])
    rest_s: float = 0.0
    patience_s: float = 15.0
    restless: str | None = None
    left: dict[str, object] = field(default_factory=dict[str, object])
    odd: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])

    @cached_property
    def asked_by_id(self) -> dict[str, Asked]:
        return {ask.id: ask for ask in self.asked}

    @cached_property
    def staged_ids(self) -> set[str]:
        """All jobs that committed, whoever asked for them."""
        return {row.id for row in self.staged}

    @cached_property
    def runs_by_job(self) -> dict[str, list[Run]]:
        """The runs of each job, in the order of their starts."""
        found: defaultdict[str, list[Run]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.began):
            found[run.id].append(run)
        return dict(found)

    @cached_property
    def runs_by_name(self) -> dict[str, Run]:
        return {run.run: run for run in self.runs}

    @cached_property
    def ended_by_id(self) -> dict[str, list[Ended]]:
        found: defaultdict[str, list[Ended]] = defaultdict(list)
        for end in self.ended:
            found[end.id].append(end)
        return dict(found)

    @cached_property
    def end_of_pid(self) -> dict[int, End]:
        return {end.pid: end for end in self.ends}

    def state(self, job_id: str) -> str | None:
        """How a job ended, by Postgres; None: it has not."""
        ends = self.ended_by_id.get(job_id)
        return ends[-1].state if ends else None

    def committed(self, *kinds: Kind) -> Iterator[Asked]:
        """The calls of these kinds whose rows are there."""
        return (ask for ask in self.asked if ask.id in self.staged_ids and (not kinds or ask.kind in kinds))

    def excused(self, excuse: Excuse, since: float, until: float, after: float) -> str | None:
        """The fault that gives this excuse and may have had its effect in this time; it goes on for `after` seconds."""
        for window in self.windows:
            if excuse in window.excuses and window.since <= until and since <= window.until + after:
                return window.fault
        return None

    def may_have_lost_keys(self) -> bool:
        """Whether single keys of Redis were lost, and with them what only they knew."""
        return any("lost_alone" in window.excuses for window in self.windows)


def told(items: Iterable[object], most: int = 3) -> str:
    """The first few of many, for a message."""
    listed = [str(item) for item in items]
    more = f" … and {len(listed) - most} more" if len(listed) > most else ""
    return "; ".join(listed[:most]) + more
