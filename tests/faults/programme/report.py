"""What a programme came to, for machines and for a page of the manual."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from tests.faults.programme.series import Row
from tests.faults.programme.trial import Verdict
from tests.support.processes import CHECKOUT


def as_json(rows: Sequence[Row], failed: Sequence[Verdict], *, seconds: float) -> str:
    """All of it, with the commit that was tried."""
    return json.dumps(
        {
            "commit": commit(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "seconds": round(seconds),
            "trials": sum(row.trials for row in rows),
            "broken": sum(len(row.broken) for row in rows),
            "errors": sum(len(row.errors) for row in rows),
            "faults": [asdict(row) | {"seeds": span(row.seeds)} for row in rows],
            "failed": [asdict(verdict) for verdict in failed],
        },
        indent=1,
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: a line for each fault, and one for all."""
    lines = [
        "| fault | what happens | broken | jobs | extra starts | at rest after (median, longest) | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row) for row in rows]
    trials, broken = sum(row.trials for row in rows), sum(len(row.broken) for row in rows)
    jobs, extra = sum(row.jobs for row in rows), sum(sum(row.extra.values()) for row in rows)
    lines.append(f"| **all** | | **{broken} in {trials} trials** | {jobs} | {extra} | | |")
    return "\n".join(lines)


def _line(row: Row) -> str:
    found = f"{len(row.broken)} in {row.trials} trials"
    if row.errors:
        found += f" ({len(row.errors)} could not be run)"
    rests = f"{median(row.rests_s):.1f} s, {max(row.rests_s):.1f} s" if row.rests_s else "–"
    extra = sum(row.extra.values())
    return f"| {row.fault} | {row.told} | {found} | {row.jobs} | {extra} | {rests} | {span(row.seeds)} |"


def span(seeds: Sequence[int]) -> str:
    """`1–20`, or `1–20 (18)` where some are missing."""
    first, last = min(seeds), max(seeds)
    told = str(first) if first == last else f"{first}–{last}"
    return told if len(set(seeds)) == last - first + 1 else f"{told} ({len(set(seeds))})"


def commit() -> str:
    """The commit of this checkout, with `+` where something has been changed since; empty without git."""
    asked = subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, cwd=CHECKOUT)
    return asked.stdout.strip()
