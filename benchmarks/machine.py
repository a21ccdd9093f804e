"""What the machine is, and what processes use of it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def facts() -> dict[str, str]:
    """The machine in words; figures mean nothing without it."""
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "redisjobs": metadata.version("redisjobs-pg"),
        "psycopg": metadata.version("psycopg"),
        "redis-py": metadata.version("redis"),
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def cpu_seconds(pid: int) -> float:
    """What a process and its children have used so far, those that have ended included."""
    total = 0.0
    for each in (pid, *below(pid)):
        try:
            words = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, words[11:15]))
    return total / _TICK


def resident_mb(pid: int, *, children: bool = False) -> float:
    """The memory that a process has in use, and with `children` those below it."""
    each = (pid, *below(pid)) if children else (pid,)
    return sum(int(_field(f"/proc/{one}/status", "VmRSS").split()[0]) for one in each) / 1024


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found: list[int] = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, children):
        found += [child, *below(child)]
    return found
