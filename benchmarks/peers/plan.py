"""The plan of a race: how much is measured, and who comes when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.peers.table import OURS, Contestant, ours_beside

Measure = Literal["drain", "flow", "latency", "steps", "backlog", "kill", "restart", "wipe"]

BESIDE: tuple[Measure, ...] = ("drain", "flow", "latency", "steps")
"""Measured with redisjobs right after each peer, in every round: their ratios count."""
ALONE: tuple[Measure, ...] = ("backlog", "kill", "restart", "wipe")
"""Measured once for each contestant: whether and when, not how fast."""
MEASURES = BESIDE + ALONE


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured.

    Args:
        rounds: of what alternates.
        jobs: in a drain.
        seconds: after which a drain is cut off.
        fill_s: after which filling a queue is cut off.
        flow_s: how long a producer produces in "flow".
        samples: of the latency, at `rate` a second.
        runs: durable runs in "steps", `slots` of them at once.
        small, large: the two backlogs.
        held: jobs in "kill", "restart" and "wipe", each of which takes `hold` seconds.
        patience_s: after which what has not come back counts as missing.
        lease_s: how long the job of a dead worker is left alone, where that can be set.
    """

    rounds: int = 3
    jobs: int = 10_000
    seconds: float = 6.0
    fill_s: float = 60.0
    flow_s: float = 3.0
    samples: int = 120
    rate: float = 20.0
    runs: int = 300
    slots: int = 10
    small: int = 1_000
    large: int = 100_000
    held: int = 60
    hold: float = 0.1
    patience_s: float = 90.0
    lease_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One measurement.

    Args:
        beside: whom its figure is set against; for a peer itself: its own name. None: nobody.
    """

    round: int
    measure: Measure
    contestant: Contestant
    beside: str | None


def turns(peers: Sequence[Contestant], measures: Sequence[Measure], rounds: int) -> Iterator[Turn]:
    """Everything in its order: peer, redisjobs, peer, redisjobs …, the two changing places from round to round."""
    for number in range(rounds):
        for measure in (each for each in BESIDE if each in measures):
            for peer in (each for each in peers if takes_part(each, measure)):
                pair = (peer, ours_beside(peer))
                for contestant in pair if number % 2 == 0 else reversed(pair):
                    yield Turn(number, measure, contestant, peer.name)
    for measure in (each for each in ALONE if each in measures):
        for contestant in (*peers, *OURS):
            if takes_part(contestant, measure):
                yield Turn(0, measure, contestant, None)


def takes_part(contestant: Contestant, measure: Measure) -> bool:
    """Whether a contestant is measured so; only who uses Redis can lose it."""
    if measure == "steps":
        return "steps" in contestant.takes_part
    if "jobs" not in contestant.takes_part:
        return False
    return measure != "wipe" or contestant.serves == "redis"
