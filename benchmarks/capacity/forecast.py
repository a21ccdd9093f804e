"""How far it goes: fleets that do not fit on this machine, simulated with its costs, a core for each process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.capacity.costs import Costs
from benchmarks.capacity.fleet_model import Fleet
from benchmarks.capacity.resting import Rest
from benchmarks.capacity.simulation import predict

FLEETS = {
    "1 worker": Fleet(jobs=20_000),
    "4 workers": Fleet(jobs=40_000, workers=4),
    "10 workers": Fleet(jobs=40_000, queues=4, relays=2, workers=10, serves=1),
    "100 workers": Fleet(jobs=20_000, queues=100, relays=2, workers=100, slots=10, serves=1, body_s=0.1),
    "1 000 workers": Fleet(jobs=20_000, queues=1_000, relays=2, workers=1_000, slots=10, serves=1, body_s=0.1),
    "1 000 workers, 10 000 queues": Fleet(
        jobs=20_000, queues=10_000, relays=2, workers=1_000, slots=10, serves=10, body_s=0.1
    ),
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a fleet comes to, each process on its own core.

    Args:
        rate: jobs a second at most.
        busiest: what was used most, and for which part of the time.
        redis_rest: the part of a core that Redis needs while nothing goes on.
        connections: to Redis.
    """

    name: str
    workers: int
    queues: int
    slots: int
    body_s: float
    rate: float
    busiest: str
    load: float
    redis_rest: float
    connections: float


def forecasts(costs: Costs, one: Rest, ten: Rest) -> list[Forecast]:
    """All of them.

    Args:
        one, ten: workers at rest that serve few queues, and more.
    """
    found: list[Forecast] = []
    for name, fleet in FLEETS.items():
        came_to = predict(fleet, costs)
        each, lane = connections([one, ten])
        found.append(
            Forecast(
                name, fleet.workers, fleet.queues, fleet.slots, fleet.body_s, came_to.rate, *came_to.busiest,
                fleet.lanes * costs.redis_rest, fleet.workers * each + fleet.lanes * lane,
            )
        )  # fmt: skip
    return found


def connections(rests: Sequence[Rest]) -> tuple[float, float]:
    """Redis connections of a worker without its queues, and of each queue that it serves."""
    few, many = rests
    lane = (many.redis_connections / many.count - few.redis_connections / few.count) / (many.each - few.each)
    return few.redis_connections / few.count - lane * few.each, lane


def of_a_look(few: Rest, many: Rest, name: str) -> float:
    """What one queue more adds to a look of a relay: at rest there is one a second."""
    return max(0.0, (many.second[name] - few.second[name]) / (many.count - few.count))


def at_rest(few: Rest, many: Rest, name: str) -> float:
    """What a queue that a worker serves adds to a second of rest."""
    return max(0.0, (many.second[name] / many.count - few.second[name] / few.count) / (many.each - few.each))
