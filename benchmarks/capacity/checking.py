"""The simulation against this machine: what it predicts for a run lies near to what the run showed, or it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.bench import Bench
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.fleet_model import Fleet
from benchmarks.capacity.observing import observe
from benchmarks.capacity.resting import Rest
from benchmarks.capacity.simulation import predict

RUNS = {
    "1 relay, 1 worker": Fleet(jobs=10_000),
    "1 relay, 2 workers": Fleet(jobs=10_000, workers=2),
    "1 relay, 1 worker of 30 slots": Fleet(jobs=10_000, slots=30),
    "1 relay, 1 worker, 200 queues": Fleet(jobs=10_000, queues=200),
}
"""None of them is among what the costs were fitted to."""
RATE, SCRIPTS, REST = 0.4, 0.3, 0.1
"""How far a prediction may lie from what is observed. The machine has others on it, and CPU a job moves with them."""


@dataclass(frozen=True, slots=True)
class Check:
    """One figure of one run.

    Args:
        tolerance: the part of the observed figure by which the predicted one may differ; None: it is shown, and may be
            anything.
    """

    run: str
    what: str
    predicted: float
    observed: float
    tolerance: float | None

    @property
    def holds(self) -> bool:
        """Whether the prediction is near enough."""
        return self.tolerance is None or abs(self.predicted - self.observed) <= self.tolerance * self.observed


def check(bench: Bench, costs: Costs, tell: Callable[[str], None]) -> Iterator[Check]:
    """Each run, on the cores that it could have had."""
    for name, fleet in RUNS.items():
        observed = observe(bench, fleet)
        predicted = predict(replace(fleet, cores=observed.cores), costs)
        tell(f"{name}: {observed} against {predicted}")
        yield Check(name, "jobs/s", predicted.rate, observed.rate, RATE)
        for role in ("relay", "worker", "redis", "postgres"):
            yield Check(name, f"CPU of {role}, µs a job", predicted.cpu[role] * 1e6, observed.cpu[role] * 1e6, None)
        yield Check(name, "scripts a job", predicted.scripts, observed.scripts, SCRIPTS)


def check_rest(small: Rest, large: Rest, unit: str) -> Iterator[Check]:
    """What Redis is asked by many at rest, from what fewer of the same ask; nothing where those did not get to ask."""
    if small.starved or large.starved:
        return
    run = f"{large.count:,} {unit} at rest, from {small.count:,}"
    predicted = small.second["commands"] * large.count / small.count
    yield Check(run, "commands a second", predicted, large.second["commands"], REST)
