"""Tells Redis of jobs that wait there and were given another priority or time; Redis knows whether they still wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redisjobs.base import statements
from redisjobs.base.postgres import Database, array, id_array
from redisjobs.broker import Carrier, Move
from redisjobs.leases import Hold
from redisjobs.staged import StagedRow, pieces, publications

_NAMES = ("moves", "moved")
statements.load("mover").require(*_NAMES)

MOVES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """A job whose place was changed in Postgres.

    Args:
        time: from when on it may start, in µs since 1970; None: its priority alone was changed.
        run_in: the same, in ms from now by Postgres' clock.
    """

    time: int | None
    run_in: int | None
    row: StagedRow


class Mover:
    """Moves the jobs of queues that this relay holds.

    The row has the new values since its commit, so what Redis has lost is published with them in any case.
    """

    def __init__(self, database: Database, carrier: Carrier, schema: str = "redisjobs") -> None:
        self._database = database
        self._carrier = carrier
        self._sql = statements.load("mover", schema).require(*_NAMES)

    async def move(self, hold: Hold) -> int:
        """One pass over a queue, under its turn; answers how many jobs Redis was told of.

        Raises:
            Stale, OtherLife: the hold must be dropped, or the queue recovered.
            StoreUnavailable: a store is away; what is not noted is told again, which changes nothing.
        """
        given = {"queue": hold.queue, "limit": MOVES_AT_ONCE}
        found = await self._database.run("look for moves", self._sql.moves, given)
        if not found:
            return 0
        asked = [Asked(time, run_in, StagedRow._make(row)) for time, run_in, *row in found]
        words = await self._tell(hold, asked)
        await self._note(hold, asked[: len(words)], words)
        return len(words)

    async def _tell(self, hold: Hold, asked: Sequence[Asked]) -> list[str]:
        made, unreadable = publications([each.row for each in asked])
        if unreadable and not made:
            raise unreadable
        words: list[str] = []
        for piece, _ in pieces(made):
            first = len(words)
            moves = [
                Move(
                    job.job_id, job.life, job.after, job.band, None if each.time is None else each.run_in, job.envelope
                )
                for job, each in zip(piece, asked[first : first + len(piece)], strict=True)
            ]
            words += await self._carrier.move(hold.fence, moves)
        return words

    async def _note(self, hold: Hold, asked: Sequence[Asked], words: Sequence[str]) -> None:
        parameters = {
            "queue": hold.queue,
            "token": hold.token,
            "epoch": hold.epoch,
            "ids": id_array(each.row.id for each in asked),
            "lives": array(str(each.row.redrives) for each in asked),
            "priorities": array(str(each.row.priority) for each in asked),
            "times": array("NULL" if each.time is None else str(each.time) for each in asked),
            "taken": array("true" if word in ("moved", "unknown") else "false" for word in words),
        }
        await self._database.change("note what was moved", self._sql.moved, parameters)
