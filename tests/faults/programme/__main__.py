"""`python -m tests.faults.programme`: long programmes outside of pytest, and the replay of one trial."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from tests.faults.programme.faults import FAULTS
from tests.faults.programme.report import as_json, as_markdown
from tests.faults.programme.series import Case, cases, run_apart, run_here, tally
from tests.faults.programme.trial import Size, Verdict


def options() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.programme", description=__doc__)
    parser.add_argument("--fault", default="", help="names with commas between; by default all")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--trials", type=int, default=1, help="of each fault, with as many seeds")
    parser.add_argument("--shards", type=int, default=1, help="so many side by side, each with its own servers")
    parser.add_argument("--jobs", type=int, default=Size().jobs)
    parser.add_argument("--seconds", type=float, default=Size().seconds, help="for which producers commit")
    parser.add_argument("--folder", type=Path, help="for servers, and what failed trials leave; by default below /tmp")
    parser.add_argument("--json", type=Path, help="write all figures here too")
    parser.add_argument("--list", action="store_true", help="only tell which faults there are")
    parser.add_argument("--cases", help=argparse.SUPPRESS)  # of one shard: its share, and verdicts as lines of JSON
    return parser


def main() -> None:
    """Exit code 1 where something broke, 2 where a trial could not be run."""
    given = options().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and processes are ended on the way out
    if given.list:
        for name, fault in sorted(FAULTS.items()):
            say(f"{name:28} {fault.told}")
        return
    size = Size(jobs=given.jobs, seconds=given.seconds)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="redisjobs-programme-"))
    if given.cases is not None:
        wanted: list[Case] = [(fault, seed) for fault, seed in json.loads(given.cases)]
        run_here(
            wanted,
            size,
            Path(tempfile.mkdtemp(prefix="shard-", dir=folder)),
            lambda verdict: say(json.dumps(asdict(verdict))),
        )
        return
    named = given.fault.split(",") if given.fault else sorted(FAULTS)
    if unknown := [name for name in named if name not in FAULTS]:
        sys.exit(f"no such fault: {', '.join(unknown)}; --list tells which there are")
    sys.exit(_programme(cases(named, range(given.seed, given.seed + given.trials)), given, size, folder))


def _programme(wanted: list[Case], given: argparse.Namespace, size: Size, folder: Path) -> int:
    began = time.monotonic()
    verdicts: list[Verdict] = []

    def heard(verdict: Verdict) -> None:
        verdicts.append(verdict)
        _tell(verdict, len(verdicts), len(wanted))
        if given.json:  # after each, so that a programme that is cut short has its figures
            failed = [each for each in verdicts if not each.holds]
            given.json.write_text(as_json(tally(verdicts), failed, seconds=time.monotonic() - began))

    if given.shards == 1:
        run_here(wanted, size, folder, heard)
    else:
        kept = ["--jobs", str(size.jobs), "--seconds", str(size.seconds), "--folder", str(folder)]
        for verdict in run_apart(wanted, kept, given.shards):
            heard(verdict)
    say(as_markdown(tally(verdicts)))
    if any(verdict.broken for verdict in verdicts):
        return 1
    return 2 if any(verdict.error for verdict in verdicts) else 0


def _tell(verdict: Verdict, count: int, of: int) -> None:
    if not verdict.holds:
        say(verdict.told(), sys.stderr)
    found = "holds" if verdict.holds else "BROKEN" if verdict.broken else "ERROR"
    say(
        f"{count}/{of} {verdict.fault} seed {verdict.seed}: {found}; {verdict.jobs} jobs, {verdict.runs} starts, "
        f"extra {verdict.extra or 0}, rest {verdict.rest_s:.1f} s, load {verdict.load:.1f}, {verdict.seconds:.0f} s",
        sys.stderr,
    )


def say(text: str, to: TextIO | None = None) -> None:
    """One line now, to stdout by default."""
    out = to or sys.stdout
    out.write(f"{text}\n")
    out.flush()


if __name__ == "__main__":
    main()
