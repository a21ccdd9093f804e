"""What a queue costs a relay: to be opened, and to be looked at for a single job."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import filling
from benchmarks.bench import Bench
from benchmarks.capacity.meters import Counters, Meter, spent

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Turning:
    """So many queues with one job each, twice: first they are new, then they are known.

    Args:
        opened, known: CPU seconds of relay, postgres and redis, and turns, until the relay was quiet again.
    """

    queues: int
    opened: Counters
    known: Counters


def turning(bench: Bench, queues: int) -> Turning:
    """One relay, which counts its turns."""
    stores = bench.stores
    stores.clear()
    filling.stage_in_sql(stores, queues, queues=queues)
    stores.sql("ANALYZE redisjobs.outbox")
    meter = Meter(stores)
    words = [sys.executable, "-m", "benchmarks.capacity.relayed", str(queues), str(2 * queues)]
    before = meter.look()
    with subprocess.Popen(words, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None
            first = json.loads(relay.stdout.readline())
            between = meter.look()
            filling.stage_in_sql(stores, queues, queues=queues)
            second = json.loads(relay.stdout.readline())
            after = meter.look()
        finally:
            relay.terminate()
    opened = _servers(before, between) | {"cpu relay": first["cpu"], "turns": first["turns"]}
    known = _servers(between, after) | {
        "cpu relay": second["cpu"] - first["cpu"],
        "turns": second["turns"] - first["turns"],
    }
    return Turning(queues, opened, known)


def _servers(before: Counters, after: Counters) -> Counters:
    used = spent(before, after)
    return {
        name: used[name] for name in ("cpu postgres", "cpu redis", "scripts", "commands", "transactions", "seconds")
    }
