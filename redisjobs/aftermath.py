"""What the end of a job means for others, in the transaction that ends it: its records, its parent, its children."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redisjobs.base import statements
from redisjobs.base.postgres import Connection, Database, array, id_array

_NAMES = ("clear", "tell_parents", "cancel_children", "held")
statements.load("aftermath").require(*_NAMES)

VALUE_BYTES = 1_048_576
"""What a record holds at most."""


class End(NamedTuple):
    """A run or a child that a statement ended.

    Args:
        word: how, as its parent hears it.
        is_run: it has records. is_child: another run waits for it.
        ended: its row has gone; else it is published once more, for its undos.
    """

    id: bytes
    word: str
    is_run: bool
    is_child: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What a parent hears of a child beside its word: a result, or an error of `type` and `message`."""

    codec: str | None = None
    result: bytes | None = None
    type: str | None = None
    message: str | None = None

    def fits(self) -> Told:
        """The same, or an error in place of a result that no record can hold."""
        size = len(self.result or b"")
        if size <= VALUE_BYTES:
            return self
        why = f"the result of the child has {size} bytes: return at most {VALUE_BYTES}, or where to find it"
        return Told(type="redisjobs.errors.EncodeError", message=why)

    def detail(self) -> str | None:
        """As JSON; None where there is no error."""
        if self.message is None:
            return None
        return json.dumps({"type": self.type, "message": self.message.replace("\0", "\ufffd")})


class Aftermath:
    """Follows up on ends."""

    def __init__(self, schema: str = "redisjobs") -> None:
        self._sql = statements.load("aftermath", schema).require(*_NAMES)

    async def held(self, database: Database, ids: Iterable[bytes], *, ends: bool) -> set[bytes]:
        """Which of these jobs cannot be changed just now, because somebody has locked what must be written.

        Args:
            ends: they are to end, of which others hear.
        """
        given = {"ids": id_array(ids), "ends": ends}
        return {row[0] for row in await database.run("look for rows that are held", self._sql.held, given)}

    async def follow(self, connection: Connection, ends: Sequence[End], told: Mapping[bytes, Told]) -> None:
        """Clear the records of what has ended, tell the parents, cancel the children of what was cancelled.

        Args:
            connection: in the transaction whose last statement ended these jobs.
            told: of children, by id; one that is not there had nothing to say.
        """
        over = [end.id for end in ends if end.is_run and end.ended and end.word != "dead"]
        if over:  # no writer of records is left: each holds the row that has gone
            await connection.execute(self._sql.clear, {"ids": id_array(over)})
        children = sorted(end for end in ends if end.is_child and end.ended)
        if children:
            await connection.execute(self._sql.tell_parents, _columns(children, told))
        cancelled = [end.id for end in ends if end.is_run and end.word == "cancelled"]
        if cancelled:
            await connection.execute(self._sql.cancel_children, {"ids": id_array(cancelled)})


def _columns(children: Sequence[End], told: Mapping[bytes, Told]) -> dict[str, Any]:
    each = [told.get(end.id, Told()).fits() for end in children]
    words = [
        "dead" if one.message and end.word == "done" else end.word for end, one in zip(children, each, strict=True)
    ]
    return {
        "ids": id_array(end.id for end in children),
        "words": array(words),
        "codecs": [one.codec for one in each],
        "results": [one.result for one in each],
        "details": [one.detail() for one in each],
    }
