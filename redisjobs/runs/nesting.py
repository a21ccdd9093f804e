"""Which transaction a body is in: another one inside of it would be on another connection, and is refused."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from redisjobs.errors import ConfigurationError
from redisjobs.runs.run import Run

OF_THE_JOB = "that of the job itself (transactional=True)"


@dataclass(slots=True, eq=False)
class Open:
    """A transaction of a run. Side by side, as in the branches of a gather, there may be several.

    Args:
        run: whose; None: the transaction is over.
        what: its name, as an error tells it.
    """

    run: Run | None
    what: str

    def begin(self) -> None:
        """From here on it is the one that is open.

        Raises:
            ConfigurationError: one of the same run is open here already.
        """
        outer = _last.get()
        if outer is not None and self.run is not None and outer.run is self.run:
            raise ConfigurationError(
                f"job {self.run.job.name!r}: transaction {self.what} is begun inside of {outer.what}: it would be "
                "another one, on a connection of its own, that commits though the outer one may roll back, and may "
                "wait for it for ever. Use the connection of the outer one, whose `transaction()` is a savepoint, or "
                "begin it later"
            )
        _last.set(self)

    def end(self) -> None:
        """It is over, wherever it is looked at from."""
        self.run = None


_last: ContextVar[Open | None] = ContextVar("redisjobs_transaction", default=None)
"""The one that was begun last here, or in what has begun this task or thread."""
