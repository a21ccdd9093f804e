"""python -m tests.model run|ablate|show|seen: explores the model for long. `make model` runs the first.

run     plays runs from SEED on, all moods, and says which promise broke where
ablate  takes each rule away in turn: after how many runs is it missed?
seen    says that the model does what the scripts and statements now do: writes their marks down
show    the shortest trace of one failing run; --without RULE takes rules away, --mood MOOD as in `ablation.py`
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.model import marks
from tests.model.ablation import CASES, search
from tests.model.explore import Played, Setting, play_all, trace_of
from tests.model.rules import RULES, without
from tests.model.world import MOODS


def run(first: int, runs: int, processes: int | None) -> int:
    broken: dict[str, Played] = {}
    counts, actions, calm = Counter[str](), 0, 0
    for played in play_all(range(first, first + runs), Setting(), processes):
        actions += played.actions
        calm += not played.faulty
        if played.promise:
            counts[played.promise] += 1
            broken.setdefault(played.promise, played)
            sys.stdout.write(f"seed {played.seed}: {played.promise}: {played.text}\n")
    sys.stdout.write(
        f"{runs} runs from seed {first}, {calm} without a fault, {actions} actions: {counts.total()} broke\n"
    )
    for promise, count in counts.most_common():
        sys.stdout.write(f"  {promise} {count}: python -m tests.model show {broken[promise].seed}\n")
    return bool(counts)


def ablate(first: int, runs: int, only: list[str]) -> int:
    missed = 0
    for case in CASES:
        if only and case.rule not in only:
            continue
        found, count = search(case, range(first, first + runs))
        missed += found is None
        told = f"{found.promise} in run {count}, seed {found.seed}: {found.text}" if found else f"not in {count} runs"
        sys.stdout.write(f"{RULES[case.rule].finding:2} {case.rule:22} {told}\n")
        sys.stdout.flush()
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="Explores the model of the protocol.")
    parser.add_argument("what", choices=("run", "ablate", "show", "seen"))
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--without", action="append", default=[], choices=sorted(RULES))
    parser.add_argument("--mood", choices=MOODS)
    args = parser.parse_args()
    if args.what == "run":
        return run(args.seed, args.runs, args.processes)
    if args.what == "ablate":
        return ablate(args.seed, args.runs, args.without)
    if args.what == "seen":
        sys.stdout.write("".join(f"{name}\n" for name in marks.write()))
        return 0
    sys.stdout.write("\n".join(trace_of(args.seed, Setting(without(*args.without), mood=args.mood))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
