"""`trade`, in a process with points."""

from __future__ import annotations

from tests.faults.points.armed import install


def main() -> None:
    install()
    from tests.faults.points import trade  # noqa: PLC0415 - see `install`

    trade.main()
