"""The race: `python -m benchmarks.peers`, or `make peers ONLY=arq,saq ROUNDS=3 JOBS=10000`.

Makes an environment for each peer, starts a Postgres and a Redis of its own, measures, and keeps all that it found as
JSON. `--into-page` puts it into docs/peers.md besides, in the place of what that had of the same pairs; `--page` writes
the tables and drawings there from files of results, and measures nothing.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from benchmarks.peers import page
from benchmarks.peers.plan import MEASURES, Measure, Scale
from benchmarks.peers.race import run
from benchmarks.peers.results import Results, merged
from benchmarks.peers.table import peers
from benchmarks.peers.venvs import cache_folder

RESULTS = Path(__file__).parents[1] / "results"


def main(words: Sequence[str] | None = None) -> int:
    """Race, or write the page; the exit code: 1 where a measurement failed."""
    given = _arguments(words)
    logging.disable(logging.INFO)
    if given.page:
        page.write(merged([Results.read(path) for path in given.page]))
        return 0
    path = given.results / f"peers-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json"
    with tempfile.TemporaryDirectory(prefix="rj-peers-") as name:
        results = run(peers(given.only), given.measures, _scale(given), folder=Path(name), cache=given.cache, kept=path)
    print(f"\n{page.tables(results)}\n{path}")
    if given.into_page:
        page.write(merged([Results.read(page.KEPT), results]))
    failed = [each for each in results.records if each.failed]
    for each in failed:
        print(f"failed: {each.measure} of {each.contestant}: {each.failed}", file=sys.stderr)
    return 1 if failed else 0


def _scale(given: argparse.Namespace) -> Scale:
    changes = {name: value for name, value in vars(given).items() if name in Scale.__slots__ and value is not None}
    return replace(Scale(), **changes)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=_names, default=[], help="peers by name, with commas between; all of them")
    parser.add_argument("--measures", type=_measures, default=list(MEASURES), help=f"of {', '.join(MEASURES)}; all")
    for name, kind in (("rounds", int), ("jobs", int), ("large", int), ("runs", int), ("slots", int), ("samples", int)):
        parser.add_argument(f"--{name}", type=kind, help=f"{getattr(Scale(), name):,} by default")
    for name in ("seconds", "fill_s", "patience_s", "lease_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, help=f"{getattr(Scale(), name):g} by default")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="the folder for the peers' environments")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for what was found")
    parser.add_argument("--into-page", action="store_true", help="put what was found into docs/peers.md as well")
    parser.add_argument("--page", type=Path, nargs="+", metavar="FILE", help="write docs/peers.md from these results")
    return parser.parse_args(words)


def _names(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _measures(text: str) -> list[Any]:
    names = _names(text)
    if unknown := [name for name in names if name not in get_args(Measure)]:
        raise argparse.ArgumentTypeError(f"no measure: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    return names


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and workers end with it
    sys.exit(main())
