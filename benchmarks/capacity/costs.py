"""What each station pays for each job, call and turn: the parameters of the simulation, fitted to measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Fit:
    """A cost that has two parts, in seconds of CPU.

    Args:
        each: of every job.
        call: of every call or turn, however many jobs it is for.
    """

    each: float
    call: float

    def of(self, jobs: float, calls: float = 1.0) -> float:
        """The cost of so many jobs in so many calls."""
        return jobs * self.each + calls * self.call


@dataclass(frozen=True, slots=True)
class Costs:
    """In seconds of CPU of this machine: `_row` to publish a row, `_outcome` to settle one, `_work` what a worker does.

    Args:
        relay_row, postgres_row, redis_row: each row, and each turn on a queue.
        relay_outcome, postgres_outcome, redis_outcome: each outcome; its turn is paid for already.
        worker_work, redis_work: each job, and each call of take or finish.
        commit: seconds that a commit waits for the disk, without CPU.
        relay_look, postgres_look: each queue, at each look of a relay at all that it holds.
        worker_rest, redis_rest: each second of a queue that a worker serves, for looking whether something is due.
    """

    relay_row: Fit
    postgres_row: Fit
    redis_row: Fit
    relay_outcome: float
    postgres_outcome: float
    redis_outcome: float
    worker_work: Fit
    redis_work: Fit
    commit: float
    relay_look: float = 0.0
    postgres_look: float = 0.0
    worker_rest: float = 0.0
    redis_rest: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For the file of results."""
        return asdict(self)

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> Self:
        """From the file of results."""
        fitted: dict[str, Any] = {name: Fit(**value) for name, value in told.items() if isinstance(value, dict)}
        return cls(**(told | fitted))


def fit(points: Sequence[tuple[float, float]]) -> Fit:
    """The two parts, from what a job cost at several numbers of calls for each job; neither is below 0.

    Least squares of relative errors, so that a costly point counts no more than a cheap one.

    Args:
        points: calls a job, and seconds of CPU a job.

    Raises:
        ValueError: there is no point with a cost.
    """
    told = [(calls, cost) for calls, cost in points if cost > 0]
    if not told:
        raise ValueError("a cost can be fitted to measurements only, and there are none above 0")
    # minimise sum((each + call * x) / y - 1)²: two normal equations
    aa = sum(1 / y**2 for _, y in told)
    ab = sum(x / y**2 for x, y in told)
    bb = sum((x / y) ** 2 for x, y in told)
    a, b = sum(1 / y for _, y in told), sum(x / y for x, y in told)
    det = aa * bb - ab**2
    if det > 1e-9 * aa * bb:
        each, call = (a * bb - b * ab) / det, (b * aa - a * ab) / det
        if each >= 0 and call >= 0:
            return Fit(each, call)
        if each < 0:
            return Fit(0.0, b / bb)
    return Fit(a / aa, 0.0)
