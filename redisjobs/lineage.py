"""What an operator asks of durable runs: their records, their children's, and a new run from an old one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from redisjobs.base import statements
from redisjobs.base.asking import Asking
from redisjobs.steps import StepRecord
from redisjobs.steps.asking import read_record

statements.load("lineage").require("family", "jobs", "delete", "fork")

MOST_RECORDS = 10_000
"""Records that are read at once; more are not shown."""


@dataclass(frozen=True, slots=True)
class Known:
    """A job, as far as a tree needs it."""

    job: str
    state: str


class Lineage(Asking):
    """Asks and acts, over one connection; every call is a transaction of its own.

    Its role needs what `redisjobs.grant_operator` gives.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._sql = statements.load("lineage", schema)
        super().__init__(url)

    def family(self, run: UUID, *, depth: int = 0, values: bool = False) -> dict[UUID, list[StepRecord]]:
        """The records of a run, in the order of their beginning, and those of its children.

        Args:
            depth: how many levels of children are looked at.
            values: read the values too.
        """
        given = {"run": run, "depth": depth, "values": values, "limit": MOST_RECORDS}
        found: dict[UUID, list[StepRecord]] = {run: []}
        for row in self._rows("look at steps", self._sql.family, given):
            record = read_record(row)
            found.setdefault(record.run, []).append(record)
        return found

    def jobs(self, ids: Iterable[UUID]) -> dict[UUID, Known]:
        """Which jobs these are; what no table knows any more is left out."""
        rows = self._rows("look at jobs", self._sql.jobs, {"ids": list(ids)})
        return {row[0]: Known(row[1], row[2]) for row in rows}

    def delete(self, run: UUID, names: Sequence[str] | None = None) -> int:
        """Delete records of a run: those of these names, or all; how many there were. A suspended run is woken."""
        given = {"run": run, "names": None if names is None else list(names)}
        return int(self._one("delete steps", self._sql.delete, given))

    def fork(self, run: UUID, step: str) -> UUID | None:
        """A new run with the records before this step; None: no such run lives or is dead, or it has no such step."""
        found: UUID | None = self._one("fork a run", self._sql.fork, {"run": run, "step": step})
        return found
