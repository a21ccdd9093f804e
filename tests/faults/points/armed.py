"""The command `redisjobs`, in a process with points."""

from __future__ import annotations

from tests.faults.points.arms import Arms
from tests.faults.points.table import POINTS
from tests.faults.points.weave import Finder


def install() -> None:
    """Put the points in, before anything of the package is imported."""
    Finder(POINTS, Arms(POINTS).reach).install()


def main() -> None:
    """As the command's own."""
    install()
    from redisjobs.cli import main as run  # noqa: PLC0415 - see `install`

    run()
