"""Measures what redisjobs costs here, checks the simulation, and fills the tables of docs/capacity.md.

    python -m benchmarks.capacity                # measure all, about 12 minutes on a machine of its own
    python -m benchmarks.capacity --only check   # measure a part of it again; --help names them
    python -m benchmarks.capacity --small        # few jobs, workers and queues; writes nothing
    python -m benchmarks.capacity --tables       # only fill the tables from the results that are there

Ends with 1 where a prediction of the simulation lies further from what was observed than it may.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from benchmarks import machine
from benchmarks.bench import Bench
from benchmarks.capacity import calibrating, checking, forecast, kinds, resting, roles, tables, turning
from benchmarks.capacity.results import RESULTS, Results, read
from benchmarks.figures import QUICK
from benchmarks.jobs import app
from benchmarks.stores import Stores
from redisjobs.settings import Settings

T = TypeVar("T")
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Args:
        jobs: of each kind; of durable runs a fifth.
        turned: queues with one job each; costs are fitted to the first.
        relays: queues of a pair of relays at rest.
        workers: how many, and queues each; the first two tell what a worker and what a queue of it costs, and from the
            first the others are predicted.
        seconds: of each rest.
        calibrated: jobs that the stations are measured with; the more, the less their start counts.
    """

    jobs: int
    turned: tuple[int, ...]
    relays: tuple[int, ...]
    workers: tuple[tuple[int, int], ...]
    seconds: float
    calibrated: int

    def up_to(self, most: int) -> Size:
        """Without those at rest that are more, but for what the others are compared with."""
        workers = tuple(each for each in self.workers if each[0] <= most)
        relays = tuple(count for count in self.relays if count <= most)
        return replace(self, workers=workers or self.workers[:2], relays=relays or self.relays[:2])


SMALL = Size(500, (50,), (50, 100), ((10, 1), (10, 5), (30, 1)), 10.0, 10_000)
WHOLE = Size(10_000, (200, 2_000), (100, 1_000, 10_000), ((100, 1), (100, 5), (1_000, 1)), 20.0, 20_000)


def main() -> int:
    """Measure, check, write; the exit code."""
    given = _arguments()
    logging.disable(logging.INFO)
    results = read() if RESULTS.exists() and not given.small else Results()
    if not given.tables:
        names, size = given.only or list(PARTS), (SMALL if given.small else WHOLE).up_to(given.most)
        with tempfile.TemporaryDirectory(prefix="rj-capacity-") as folder:
            for each in measured(Path(folder), results, names, size):
                results = each
                if not given.small:
                    results.write()
    if given.small:
        print(tables.checks(results))
    elif results.costs is not None:  # else parts are still missing
        tables.PAGE.write_text(tables.filled(tables.PAGE.read_text(), results))
    wrong = [each for each in results.all_checks() if not each.holds]
    for one in wrong:
        print(f"too far apart: {one}", file=sys.stderr)
    return 1 if wrong else 0


def measured(folder: Path, results: Results, names: Sequence[str], size: Size) -> Iterator[Results]:
    """The results after each part, on servers that are started here."""
    stores = Stores(folder)
    try:
        app.settings = Settings.load()
        bench = Bench(stores, replace(QUICK, jobs=size.calibrated), folder)
        results = replace(results, machine=machine.facts() | stores.versions())
        results.machine.pop("load before")
        for name in names:
            load, began = machine.facts()["load before"], time.monotonic()
            results = PARTS[name](bench, results, size)
            when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {_commit()}, load {load}"
            results = replace(results, taken=results.taken | {name: when})
            _tell(f"{name} took {time.monotonic() - began:.0f} s")
            yield results
    finally:
        stores.close()


def _kinds(bench: Bench, results: Results, size: Size) -> Results:
    kinds.measure(bench, "plain", 100)  # Redis keeps the scripts' text from now on
    return replace(
        results, kinds=[_told(kinds.measure(bench, name, kinds.share(name, size.jobs))) for name in kinds.KINDS]
    )


def _connections(bench: Bench, results: Results, _: Size) -> Results:
    return replace(results, connections=[_told(each) for each in roles.by_role(bench)])


def _turns(bench: Bench, results: Results, size: Size) -> Results:
    return replace(results, turned=[_told(turning.turning(bench, count)) for count in size.turned])


def _workers(bench: Bench, results: Results, size: Size) -> Results:
    found = [_told(resting.workers(bench, count, queues, size.seconds)) for count, queues in size.workers]
    return replace(results, workers=found)


def _relays(bench: Bench, results: Results, size: Size) -> Results:
    return replace(results, relays=[_told(resting.relays(bench, count, size.seconds)) for count in size.relays])


def _check(bench: Bench, results: Results, size: Size) -> Results:
    """The costs, a turn's measured anew, for the load moves them; and runs against what they predict."""
    if len(results.workers) < 2 or len(results.relays) < 2:
        raise ValueError("measure the parts workers and relays first: what they do at rest is among the costs")
    few, many, *_ = results.workers
    some, more = results.relays[0], results.relays[-1]
    costs = replace(
        calibrating.calibrate(bench, turning.turning(bench, size.turned[0]), _tell),
        relay_look=forecast.of_a_look(some, more, "cpu relay"),
        postgres_look=forecast.of_a_look(some, more, "cpu postgres"),
        worker_rest=forecast.at_rest(few, many, "cpu worker"),
        redis_rest=forecast.at_rest(few, many, "cpu redis"),
    )
    checks = [_told(each) for each in checking.check(bench, costs, _tell)]
    return replace(results, costs=costs, checks=checks, forecasts=forecast.forecasts(costs, few, many))


PARTS: dict[str, Callable[[Bench, Results, Size], Results]] = {
    "kinds": _kinds, "connections": _connections, "turns": _turns, "workers": _workers, "relays": _relays,
    "check": _check,
}  # fmt: skip


def _commit() -> str:
    """The last one that changed what is measured."""
    git = ["git", "log", "-1", "--format=%h", "--", "redisjobs", "lua"]
    return subprocess.run(git, cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip() or "no commit"


def _told(found: T) -> T:
    _tell(str(found))
    return found


def _tell(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--most", type=int, default=10_000, metavar="N", help="queues, or workers, at rest at most")
    parser.add_argument("--small", action="store_true", help="few jobs, workers and queues; writes nothing")
    parser.add_argument("--tables", action="store_true", help="only fill the tables from the results that are there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
