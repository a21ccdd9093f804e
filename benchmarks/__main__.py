"""The benchmark: `python -m benchmarks`, in full or, with --quick, in about two minutes.

Measures enqueuing, the relay, the worker and the whole road on real servers, small prototypes beside them. Figures
of machines that do other things too mean little; ratios of the same run mean more. Ends with 1 where a target that
even a busy machine reaches was missed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import carrying, flow, machine, producing, report, runs, whole, working
from benchmarks.bench import Bench
from benchmarks.figures import FULL, QUICK, Figure
from benchmarks.jobs import app
from benchmarks.stores import Stores
from redisjobs.settings import Settings

MEASUREMENTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "enqueue": producing.enqueue,
    "publish": carrying.publish,
    "drain": working.drain,
    "shares": flow.shares,
    "limits": flow.limits,
    "settle": carrying.settle,
    "road": whole.road,
    "latency": whole.latency,
    "due": whole.due_at_once,
    "idle": whole.idle,
    "memory": working.memory,
    "writers": producing.wake_up,
    "backlogs": working.backlogs,
    "snapshot": carrying.held_snapshot,
    "runs": runs.five_steps,
    "replay": runs.replay,
    "waking": runs.waking,
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure what was asked for; the exit code."""
    given = _arguments()
    logging.disable(logging.INFO)
    scale = QUICK if given.quick else FULL
    with tempfile.TemporaryDirectory(prefix="rj-bench-") as name:
        stores = Stores(Path(name), given.database_url, given.redis_url)
        try:
            app.settings = Settings.load()
            facts = machine.facts() | stores.versions()
            figures = list(_measure(Bench(stores, scale, Path(name)), given.only or list(MEASUREMENTS)))
        finally:
            stores.close()
    path = report.write(given.results, figures, facts, "quick" if given.quick else "full")
    print(f"\n{report.table(figures, facts)}\n{path}")
    broken = [each for each in figures if each.target and not each.target.is_reached(each.median, loosely=True)]
    for each in broken:
        print(f"far from its target: {report.line(each)}", file=sys.stderr)
    return 1 if broken else 0


def _measure(bench: Bench, names: list[str]) -> Iterator[Figure]:
    for name in names:
        began = time.monotonic()
        for figure in MEASUREMENTS[name](bench):
            print(report.line(figure), flush=True)
            yield figure
        print(f"({name} took {time.monotonic() - began:.0f} s)", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small amounts, one round")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, metavar="NAME", help=" ".join(MEASUREMENTS))
    parser.add_argument(
        "--database-url", help="a Postgres to use instead of starting one; its schema redisjobs is dropped"
    )
    parser.add_argument("--redis-url", help="a Redis to use instead of starting one; it is emptied")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the tables")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
