"""Many trials: which ones, side by side in shards, and what came of each fault."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tests.faults.programme.faults import FAULTS
from tests.faults.programme.shard import Shard
from tests.faults.programme.trial import Size, Verdict, run_trial
from tests.support.processes import CHECKOUT

Case: TypeAlias = tuple[str, int]
"""A fault and a seed."""


def cases(faults: Iterable[str], seeds: Iterable[int]) -> list[Case]:
    """Every fault with every seed; seed by seed, so that a programme that is cut short has tried all faults."""
    named = list(faults)
    return [(fault, seed) for seed in seeds for fault in named]


def run_here(wanted: Iterable[Case], size: Size, folder: Path, tell: Callable[[Verdict], None]) -> None:
    """One trial after the other, on one shard's servers."""
    with Shard(folder) as shard:
        for fault, seed in wanted:
            tell(asyncio.run(run_trial(shard, FAULTS[fault], seed, size)))
    shard.tidy()


def run_apart(wanted: Sequence[Case], options: Sequence[str], shards: int) -> Iterator[Verdict]:
    """The trials in so many processes, each with servers of its own; verdicts as they come.

    Args:
        options: of the programme's command, which each shard is given too.

    Raises:
        RuntimeError: a shard ended before its trials were through.
    """
    command = [sys.executable, "-m", "tests.faults.programme", *options]
    running: list[subprocess.Popen[str]] = []
    told: queue.Queue[str | None] = queue.Queue()
    try:
        for place in range(min(shards, len(wanted))):
            share = json.dumps(wanted[place::shards])
            running.append(
                subprocess.Popen([*command, "--cases", share], stdout=subprocess.PIPE, cwd=CHECKOUT, text=True)
            )
            threading.Thread(target=_forward, args=[running[-1], told], daemon=True).start()
        through = 0
        while through < len(running):
            line = told.get()
            if line is None:
                through += 1
            else:
                yield verdict_of(line)
    finally:
        for process in running:
            process.terminate()
        codes = [process.wait() for process in running]
    if any(codes):
        raise RuntimeError(f"shards ended with {codes}")


def _forward(process: subprocess.Popen[str], told: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            told.put(line)
    told.put(None)


def verdict_of(line: str) -> Verdict:
    """The verdict in a line of JSON."""
    said = json.loads(line)
    return Verdict(**said | {"broken": [(name, why) for name, why in said["broken"]]})


@dataclass(slots=True)
class Row:
    """What came of one fault.

    Args:
        broken: trials in which something did not hold, by seed. errors: trials that could not be run, likewise.
        extra: extra starts by their explanation.
    """

    fault: str
    told: str
    trials: int = 0
    broken: list[int] = field(default_factory=list[int])
    errors: list[int] = field(default_factory=list[int])
    jobs: int = 0
    starts: int = 0
    extra: dict[str, int] = field(default_factory=dict[str, int])
    rests_s: list[float] = field(default_factory=list[float])
    seeds: list[int] = field(default_factory=list[int])


def tally(verdicts: Iterable[Verdict]) -> list[Row]:
    """A row for each fault, by name."""
    rows: dict[str, Row] = {}
    for verdict in verdicts:
        row = rows.setdefault(verdict.fault, Row(verdict.fault, FAULTS[verdict.fault].told))
        row.trials += 1
        row.seeds.append(verdict.seed)
        row.jobs += verdict.jobs
        row.starts += verdict.runs
        for reason, count in verdict.extra.items():
            row.extra[reason] = row.extra.get(reason, 0) + count
        if verdict.error is not None:
            row.errors.append(verdict.seed)
        else:
            row.rests_s.append(verdict.rest_s)
            if verdict.broken:
                row.broken.append(verdict.seed)
    return [rows[name] for name in sorted(rows)]
