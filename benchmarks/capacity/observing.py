"""Runs a fleet on this machine, as the simulation would, and says what came of it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import filling, programs
from benchmarks.bench import Bench
from benchmarks.capacity.fleet_model import Fleet
from benchmarks.capacity.meters import Meter, spent, supply
from benchmarks.probe import probing
from benchmarks.stores import Stores
from redisjobs.broker import presence
from redisjobs.broker.keys import Keys

LONGEST_S = 300.0
NEARLY = 0.9
"""The share of jobs from which on Postgres is asked whether all have settled: asking costs it, too."""
_OPEN = """INSERT INTO redisjobs.queues (queue)
SELECT CASE %s::integer WHEN 1 THEN 'default' ELSE 'q' || n END FROM generate_series(0, %s) n"""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run came to, in the words of `Prediction`.

    Args:
        cores: that its processes could have had: what they used, and what nobody did.
    """

    rate: float
    cpu: dict[str, float]
    scripts: float
    cores: float


def observe(bench: Bench, fleet: Fleet) -> Observed:
    """Start its processes, commit its jobs in one transaction, and wait until all are settled.

    All is counted from just before that commit: no process is at its start then, and every queue is open.
    """
    stores = bench.stores
    stores.clear()
    with probing(bench.folder, fleet.jobs) as probe, ExitStack() as running:
        serves = ("--queues", "default" if fleet.queues == 1 else "q*")
        relays = [running.enter_context(programs.relay()) for _ in range(fleet.relays)]
        _open_queues(stores, fleet.queues)
        workers = [running.enter_context(programs.worker(fleet.slots, *serves)) for _ in range(fleet.workers)]
        _until_served(stores, fleet)
        meter = Meter(stores, {"relay": relays, "worker": workers})
        with stores.connect() as connection:
            filling.insert(connection, 0, fleet.jobs - 1, queues=fleet.queues)
            before = meter.look()
            connection.commit()
        probe.wait_for(int(NEARLY * fleet.jobs), LONGEST_S)  # a hint: two workers may count over each other
        end = _until_settled(stores)
        used = spent(before, meter.look())
        first = min(moment for moment in probe.starts() if moment)
    cpu = {role: used[f"cpu {role}"] / fleet.jobs for role in ("relay", "worker", "redis", "postgres")}
    return Observed(fleet.jobs / (end - first), cpu, used["scripts"] / fleet.jobs, supply(used))


def _until_settled(stores: Stores) -> float:
    """When it was; over one connection, and not often, for Postgres' CPU is counted."""
    with stores.connect(autocommit=True) as connection:

        def is_settled() -> bool:
            return connection.execute("SELECT NOT EXISTS (SELECT FROM redisjobs.outbox)").fetchone() == (True,)

        return programs.wait_for(is_settled, "all rows to be settled", LONGEST_S, step=0.1)


def _open_queues(stores: Stores, count: int) -> None:
    """Have the relay open so many queues, and have done with them."""
    stores.sql(_OPEN, count, count - 1)
    programs.wait_for(lambda: stores.redis.scard("rj:queues") >= count, "the queues to be opened", LONGEST_S)


def _until_served(stores: Stores, fleet: Fleet) -> None:
    """All workers say that they are there and serve every queue."""

    def all_serve() -> bool:
        told = presence.look(stores.redis, Keys())
        return sum(len(each.slots) for each in told if each.is_there) >= fleet.lanes

    programs.wait_for(all_serve, "the workers to serve the queues", LONGEST_S, step=0.1)
