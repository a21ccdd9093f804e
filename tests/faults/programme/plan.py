"""What the producers of a trial ask for: all of it from the trial's seed, before anything starts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

QUEUES = tuple(f"q{number}" for number in range(1, 7))
LIMIT = 2
"""Of the job `limited`."""
STEPS = ("one", "two", "three")
"""Of the job `durable`."""
WINDOW_S = 900
"""Of keys: longer than any trial."""
LONGEST_S = 6.0
"""After its commit no job waits or runs for longer than this of its own."""

Kind: TypeAlias = Literal[
    "plain", "threaded", "delayed", "failing", "doomed", "snoozing", "durable", "paying", "awaiting", "parent",
    "long", "keyed", "limited", "unknown", "dying", "hook",
]  # fmt: skip

SHARES: dict[Kind, int] = {
    "plain": 38, "threaded": 6, "delayed": 8, "failing": 6, "doomed": 2, "snoozing": 3, "durable": 6, "paying": 4,
    "awaiting": 2, "parent": 2, "long": 3, "keyed": 10, "limited": 6, "unknown": 2, "dying": 1, "hook": 2,
}  # fmt: skip
"""How many of a hundred jobs are of which kind."""


@dataclass(slots=True)
class Ask:
    """One call of a transaction.

    Args:
        job: the job's name.
        value: travels there and back.
        more: the body's other arguments.
        key: an idempotency key, and `delay`, in seconds.
        undone: it is behind a savepoint that is rolled back.
    """

    kind: Kind
    job: str
    queue: str
    value: Any
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    key: str | None = None
    delay: float | None = None
    undone: bool = False


@dataclass(slots=True)
class Deal:
    """One transaction of a producer.

    Args:
        pause: seconds before it.
        commits: else it is rolled back.
    """

    number: int
    pause: float
    commits: bool
    asks: list[Ask]


@dataclass(slots=True)
class Plan:
    """The deals of each producer, by its number from 1."""

    seed: int
    deals: dict[int, list[Deal]]

    @property
    def asks(self) -> Iterator[Ask]:
        return (ask for deals in self.deals.values() for deal in deals for ask in deal.asks)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Plan:
        told = json.loads(path.read_text())
        deals = {
            int(producer): [Deal(**deal | {"asks": [Ask(**ask) for ask in deal["asks"]]}) for deal in of_producer]
            for producer, of_producer in told["deals"].items()
        }
        return cls(told["seed"], deals)


def make_plan(seed: int, *, jobs: int, producers: int, seconds: float, dying: bool = True) -> Plan:
    """So many jobs, spread over so many seconds of commits.

    Args:
        dying: some jobs kill the process that runs them, once.
    """
    rng = random.Random(f"plan {seed}")
    kinds: list[Kind] = [kind for kind, share in SHARES.items() if dying or kind != "dying" for _ in range(share)]
    asks = [_ask(rng, rng.choice(kinds), number) for number in range(jobs)]
    plan = Plan(seed, {producer: [] for producer in range(1, producers + 1)})
    number = 0
    while asks:
        number += 1
        size = min(len(asks), rng.choice((1, 1, 1, 2, 3, 5, 8)))
        taken, asks = asks[:size], asks[size:]
        plan.deals[rng.randrange(producers) + 1].append(_deal(rng, number, taken))
    for deals in plan.deals.values():
        for deal in deals:
            deal.pause = rng.uniform(0, 2 * seconds / len(deals))
    return plan


def _deal(rng: random.Random, number: int, asks: list[Ask]) -> Deal:
    commits = True
    if rng.random() < 0.2:
        commits = len(asks) > 1 and rng.random() < 0.4
        if commits:  # a part of it is rolled back, to a savepoint
            for ask in rng.sample(asks, rng.randint(1, len(asks) - 1)):
                ask.undone = True
            asks.sort(key=lambda ask: ask.undone)
    return Deal(number, 0.0, commits, asks)


def _ask(rng: random.Random, kind: Kind, number: int) -> Ask:
    ask = Ask(kind, kind, rng.choice(QUEUES), value(rng))
    if kind == "delayed":
        ask.job, ask.delay = "plain", round(rng.uniform(0.2, 4), 2)
    elif kind == "failing":
        ask.more = {"failures": rng.randint(1, 3)}
    elif kind == "durable":
        ask.more = {"rest": rng.choice((0.3, 3.5))}
    elif kind in ("long", "limited"):
        ask.more = {"seconds": round(rng.uniform(3.5, 4.5) if kind == "long" else rng.uniform(0.02, 0.3), 2)}
    elif kind == "keyed":
        ask.key = f"key {rng.randrange(max(2, number // 10 + 2))}"
    elif kind == "hook":
        ask.job, ask.more = "webhook", {"refused": rng.random() < 0.2}
    return ask


def value(rng: random.Random, depth: int = 0) -> Any:
    """Something that a call may carry, of every type that JSON has."""
    pick = rng.randrange(9 if depth < 2 else 7)
    if pick == 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if pick == 8:
        return {rng.choice("abcdeé∆") * rng.randint(1, 3): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    plain: list[Any] = [
        None, rng.random() < 0.5, rng.randint(-(2**53), 2**53), rng.randint(0, 9), rng.uniform(-1e9, 1e9),
        "".join(rng.choice("abc \\\"'\n\té∆😀") for _ in range(rng.randrange(12))), "x" * rng.choice((0, 1, 300)),
    ]  # fmt: skip
    return plain[pick]
