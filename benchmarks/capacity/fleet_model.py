"""The stations of a fleet, its queues, and what stands in them, as the simulation knows them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from benchmarks.capacity.engine import Signal, Station


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated: so many jobs that are staged when it begins, and who carries and runs them.

    Args:
        jobs: spread evenly over the queues.
        serves: queues that each worker serves; 0: all of them.
        body_s: seconds that a body waits, without CPU; the mean of an exponential distribution.
        cores: of the machine that all share; 0: each process has one of its own.
        arriving: jobs a second that are staged while it runs; 0: all are there at the beginning.
    """

    jobs: int
    queues: int = 1
    relays: int = 1
    workers: int = 1
    slots: int = 100
    serves: int = 0
    body_s: float = 0.0
    cores: float = 0.0
    arriving: float = 0.0
    seed: int = 1

    @property
    def lanes(self) -> int:
        """Queues as they are served, over all workers."""
        return self.workers * (min(self.serves, self.queues) or self.queues)


@dataclass(eq=False, slots=True)
class Queue:
    """One queue: rows that are staged, jobs that are ready, outcomes by the entry.

    Args:
        active_until: until when a relay looks at it in every round.
        polled_until: until when it is looked at without a pause, for a pass over it was full.
        large: its last pass was full of small rows, so that the next one is twice as large.
    """

    number: int
    staged: int = 0
    ready: int = 0
    outcomes: deque[int] = field(default_factory=deque[int])
    active_until: float = 0.0
    polled_until: float = 0.0
    large: bool = False
    news: Signal = field(default_factory=Signal)


@dataclass(eq=False, slots=True)
class Lane:
    """A queue as one worker serves it."""

    queue: Queue
    slots: int
    running: int = 0
    ended: int = 0
    flying: bool = False
    freed: Signal = field(default_factory=Signal)

    @property
    def free(self) -> int:
        """Slots that may be filled: finishes that are under way hold none until there are as many as slots."""
        return min(self.slots - self.running, 2 * self.slots - self.running - self.ended)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What came of it.

    Args:
        rate: jobs a second, from the first start to the last outcome in Postgres.
        cpu: seconds a job, by role.
        scripts: that Redis was asked to run, a job.
        turns: of relays on queues.
        busiest: the station that was used most, and for which part of the time.
    """

    rate: float
    cpu: dict[str, float]
    scripts: float
    turns: int
    busiest: tuple[str, float]


def stations(prefix: str, count: int) -> list[Station]:
    """So many processes of one role, each with one thread."""
    return [Station(f"{prefix} {number + 1}") for number in range(count)]
