"""The table of all faults, for those who read. `python -m tests.faults.programme.table` writes it anew."""

from __future__ import annotations

from pathlib import Path

from tests.faults.programme.fault import Fault
from tests.faults.programme.faults import FAULTS

PAGE = Path(__file__).with_name("FAULTS.md")

_HEAD = """\
# The faults of the programme

Written by `python -m tests.faults.programme.table`; a test fails where it is stale. What a fault may explain is why a
body may start once more though nobody killed or stopped its process: a lease that lapsed, or data that Redis has lost.
Data that was lost alone, while nothing tells of it, may also explain a window of a key that is gone, or a permit. A
clock that was set ahead may explain a start before a delay was over.

| fault | what it does | may explain |
|---|---|---|
"""


def table() -> str:
    """The page as it should be."""
    return _HEAD + "".join(_row(fault) for fault in sorted(FAULTS.values(), key=_place))


def _row(fault: Fault) -> str:
    excuses = ", ".join(sorted(excuse.replace("_", " ") for excuse in fault.excuses)) or "nothing"
    return f"| `{fault.name}` | {fault.told} | {excuses} |\n"


def _place(fault: Fault) -> tuple[str, str]:
    return fault.strike.__module__, fault.name


if __name__ == "__main__":
    PAGE.write_text(table())
