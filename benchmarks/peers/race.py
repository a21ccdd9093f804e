"""Runs the plan: one measurement after the other, each found or failed, kept after every one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.peers import growth, safety, speed
from benchmarks.peers.fleet import Programs
from benchmarks.peers.plan import Measure, Scale, Turn, turns
from benchmarks.peers.results import Record, Results
from benchmarks.peers.servers import RaceServers
from benchmarks.peers.stage import Found, Stage
from benchmarks.peers.table import OURS, Contestant
from benchmarks.peers.venvs import python_of, versions_in

_MEASURED: Mapping[Measure, Callable[[Stage], Found]] = {
    "drain": speed.drain,
    "flow": speed.flow,
    "latency": speed.latency,
    "steps": speed.steps,
    "backlog": growth.backlog,
    "kill": safety.kill,
    "restart": safety.restart,
    "wipe": safety.wipe,
}


def run(
    peers: Sequence[Contestant], measures: Sequence[Measure], scale: Scale, *, folder: Path, cache: Path, kept: Path
) -> Results:
    """Race these.

    Args:
        folder: for the servers' data and what lies between processes.
        cache: for the environments.
        kept: the file for the results, written anew after each measurement.

    Raises:
        RuntimeError: an environment could not be made, or a driver could not be asked.
    """
    pythons = {each.name: python_of(each, cache) for each in (*peers, *OURS)}
    with RaceServers(folder) as servers:
        results = Results(machine.facts() | servers.versions(), asdict(scale), {})
        for each in (*peers, *OURS):
            programs = Programs(each, pythons[each.name], servers.environment(), folder / "facts.log")
            results.drivers[each.name] = programs.ask("facts") | {"packages": _packages(each, pythons[each.name])}
        for turn in turns(peers, measures, scale.rounds):
            facts = results.drivers[turn.contestant.name]
            stage = Stage(servers, scale, turn.contestant, pythons[turn.contestant.name], facts, folder)
            results.records.append(_take(turn, stage))
            results.write(kept)
    return results


def _take(turn: Turn, stage: Stage) -> Record:
    began = time.monotonic()
    found: Found = {}
    failed = None
    try:
        found = _MEASURED[turn.measure](stage)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # TimeoutError is an OSError
        failed = str(error)
    record = Record(turn.round, turn.measure, turn.contestant.name, turn.beside, found, failed, os.getloadavg()[0])
    said = failed or ", ".join(f"{word} {_shown(value)}" for word, value in found.items())
    beside = f" beside {turn.beside}" if turn.beside not in (None, turn.contestant.name) else ""
    print(
        f"[{turn.round}] {turn.measure} {turn.contestant.name}{beside}, {time.monotonic() - began:.0f} s: {said}",
        flush=True,
    )
    return record


def _shown(value: float | str | None) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _packages(contestant: Contestant, python: Path) -> dict[str, Any]:
    """What was measured: its own packages with their exact versions; of redisjobs those that it stands on."""
    if not contestant.packages:
        facts = machine.facts()
        return {name: facts[name] for name in ("redisjobs", "psycopg", "redis-py")}
    wanted = {each.split("==")[0].split("[")[0].lower() for each in contestant.packages}
    return {name: version for name, version in versions_in(python).items() if name.lower() in wanted}
