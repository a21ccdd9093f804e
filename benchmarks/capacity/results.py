"""All that a run found, as a file that people can compare and a test can read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.capacity.checking import Check, check_rest
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.forecast import Forecast
from benchmarks.capacity.kinds import Kind
from benchmarks.capacity.resting import Rest
from benchmarks.capacity.roles import Connections
from benchmarks.capacity.turning import Turning

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Results:
    """What was found on one machine, part by part.

    Args:
        machine: what it is, and its servers.
        taken: of each part, when, of which commit, beside which load.
        relays, workers: at rest, from few to many.
        costs: None: not yet known.
    """

    machine: dict[str, str] = field(default_factory=dict[str, str])
    taken: dict[str, str] = field(default_factory=dict[str, str])
    kinds: list[Kind] = field(default_factory=list[Kind])
    connections: list[Connections] = field(default_factory=list[Connections])
    turned: list[Turning] = field(default_factory=list[Turning])
    relays: list[Rest] = field(default_factory=list[Rest])
    workers: list[Rest] = field(default_factory=list[Rest])
    costs: Costs | None = None
    checks: list[Check] = field(default_factory=list[Check])
    forecasts: list[Forecast] = field(default_factory=list[Forecast])

    def need_costs(self) -> Costs:
        """What the simulation is told.

        Raises:
            ValueError: it was not measured yet.
        """
        if self.costs is None:
            raise ValueError("the costs are not measured yet: run python -m benchmarks.capacity")
        return self.costs

    def all_checks(self) -> list[Check]:
        """Those of runs, and of many at rest against fewer."""
        found = list(self.checks)
        if len(self.workers) > 2:
            found += check_rest(self.workers[0], self.workers[-1], "workers")
        if len(self.relays) > 1:
            smaller, larger = self.relays[-2:]
            found += check_rest(smaller, larger, "queues of a pair of relays")
        return found

    def write(self, path: Path = RESULTS) -> None:
        """Put them into the file."""
        path.write_text(json.dumps(asdict(self), indent=1, default=float) + "\n")


def read(path: Path = RESULTS) -> Results:
    """What stands in the file."""
    told: dict[str, Any] = json.loads(path.read_text())
    return Results(
        machine=told["machine"],
        taken=told["taken"],
        kinds=[Kind(**each) for each in told["kinds"]],
        connections=[Connections(**each) for each in told["connections"]],
        turned=[Turning(**each) for each in told["turned"]],
        relays=[Rest(**each) for each in told["relays"]],
        workers=[Rest(**each) for each in told["workers"]],
        costs=None if told["costs"] is None else Costs.of_json(told["costs"]),
        checks=[Check(**each) for each in told["checks"]],
        forecasts=[Forecast(**each) for each in told["forecasts"]],
    )
