"""What every measurement is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Scale
from benchmarks.stores import Stores


@dataclass(frozen=True, slots=True)
class Bench:
    """The stores, how much is to be measured, and a folder for what lies between processes."""

    stores: Stores
    scale: Scale
    folder: Path

    @property
    def rounds(self) -> range:
        """The rounds in which things alternate."""
        return range(self.scale.rounds)
