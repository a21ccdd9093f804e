"""Walks over the jobs that Postgres knows, stretch by stretch, each in a short transaction of its own."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeAlias, TypeVar
from uuid import UUID

from psycopg.rows import class_row

from redisjobs.base import statements
from redisjobs.base.asking import Asking
from redisjobs.base.postgres import Row, in_our_words
from redisjobs.operator import DeadLetter, JobLine
from redisjobs.search.filters import ENDED, LIVE, JobFilter

_NAMES = (
    "now", "plans", "edge_live", "live", "edge_finished", "finished", "edge_dead", "dead", "lines", "fitting",
    "edge_deaths", "deaths", "edge_youngest_deaths", "youngest_deaths", "death", "fates",
)  # fmt: skip
statements.load("search").require(*_NAMES)

T = TypeVar("T")
Death: TypeAlias = tuple[datetime | str, UUID]
"""When a dead letter died, and its id: its place among them."""

FIRST_STRETCH, LONGEST_STRETCH = 2_000, 50_000
"""Rows that one statement looks at: few at first, for most lists are short."""
PAGE = 5_000
"""Ids in one answer."""
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
_BEFORE_ALL: Death = ("-infinity", _FIRST_ID)
_AFTER_ALL: Death = ("infinity", _LAST_ID)


class Search(Asking):
    """Finds jobs in Postgres, over one connection.

    No statement looks at more than 50 000 rows; how many there are to look at decides how many statements it takes.
    Its role needs what `redisjobs.grant_operator` gives.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._sql = statements.load("search", schema).require(*_NAMES)
        super().__init__(url)

    def __enter__(self) -> Self:
        self.began: datetime = self._rows("look at the time", self._sql.now, {})[0][0]
        """Postgres' time at the beginning: ages count from it, and what dies later is not found."""
        return self

    def jobs(self, which: JobFilter, *, after: UUID | None = None, page: int = PAGE) -> Iterator[UUID]:
        """The jobs that fit, by their ids downwards: the youngest first.

        Args:
            after: go on behind this one.
        """
        walks = [self._walk(name, which, after or _LAST_ID, page) for name in _places(which)]
        return heapq.merge(*walks, reverse=True)

    def count_jobs(self, which: JobFilter) -> int:
        """How many `jobs` there are."""
        return sum(self._count(name, which) for name in _places(which))

    def live(self, which: JobFilter) -> Iterator[UUID]:
        """Those that have not ended; the youngest first, so that what is committed meanwhile is left alone."""
        return self._walk("live", which, _LAST_ID, PAGE)

    def count_live(self, which: JobFilter) -> int:
        """How many are `live`."""
        return self._count("live", which)

    def deaths(self, which: JobFilter, *, until: datetime | None = None) -> Iterator[Death]:
        """The dead letters that fit, in the order in which they died, up to `until` or to the beginning."""
        for bounds in self._stretches_of_deaths(which, until):
            while rows := self._rows("find dead letters", self._sql.deaths, bounds | {"limit": PAGE}):
                yield from rows
                bounds |= {"after": rows[-1][0], "after_id": rows[-1][1]}
                if len(rows) < PAGE:
                    break

    def count_deaths(self, which: JobFilter, *, until: datetime | None = None) -> int:
        """How many `deaths` there are."""
        return sum(
            self._number("count dead letters", self._sql.deaths, bounds | {"limit": LONGEST_STRETCH})
            for bounds in self._stretches_of_deaths(which, until)
        )

    def place_of(self, job_id: UUID) -> Death | None:
        """The place of a dead letter among the others; None: it is dead no more."""
        rows = self._rows("look at a dead letter", self._sql.death, {"id": job_id})
        return (rows[0][0], job_id) if rows else None

    def dead_letters(self, which: JobFilter, limit: int, after: Death | None = None) -> list[DeadLetter]:
        """The youngest dead letters that fit, behind a place."""
        found: list[DeadLetter] = []
        place, stretch = after or _AFTER_ALL, FIRST_STRETCH
        parameters = which.parameters(self.began)
        while True:
            here = {"before": place[0], "before_id": place[1], "stretch": stretch}
            rows = self._rows("list dead letters", self._sql.edge_youngest_deaths, parameters | here)
            edge: Death = rows[0] if rows else _BEFORE_ALL
            here |= {"edge": edge[0], "edge_id": edge[1], "limit": limit - len(found)}
            found += self._all("list dead letters", DeadLetter, self._sql.youngest_deaths, parameters | here)
            if not rows or len(found) >= limit:
                return found
            place, stretch = edge, min(4 * stretch, LONGEST_STRETCH)

    def lines(self, ids: Sequence[UUID]) -> list[JobLine]:
        """What a list shows of these jobs, in their order; one that is nowhere any more is left out."""
        lines = self._all("list jobs", JobLine, self._sql.lines, {"ids": list(ids)})
        known = {line.id: line for line in lines}
        return [known[each] for each in ids if each in known]

    def fitting(self, ids: Sequence[UUID], which: JobFilter) -> set[UUID]:
        """Which of these have a row that fits, whatever state that is in."""
        parameters = which.parameters(self.began) | {"ids": list(ids)}
        return {row[0] for row in self._rows("look at jobs", self._sql.fitting, parameters)}

    def fates(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """What became of jobs that were redriven: dead, failing, or under way; what is left out has ended otherwise."""
        return dict(self._rows("look at redriven jobs", self._sql.fates, {"ids": list(ids)}))

    def _walk(self, name: str, which: JobFilter, before: UUID, page: int) -> Generator[UUID]:
        for bounds in self._stretches(name, which, before):
            while rows := self._rows("find jobs", self._sql[name], bounds | {"limit": page}):
                yield from (row[0] for row in rows)
                bounds |= {"before": rows[-1][0]}
                if len(rows) < page:
                    break

    def _count(self, name: str, which: JobFilter) -> int:
        return sum(
            self._number("count jobs", self._sql[name], bounds | {"limit": LONGEST_STRETCH})
            for bounds in self._stretches(name, which, _LAST_ID)
        )

    def _stretches(self, name: str, which: JobFilter, before: UUID) -> Generator[dict[str, Any]]:
        """The parameters for each stretch of an index of ids, downwards."""
        parameters, stretch = which.parameters(self.began), FIRST_STRETCH
        while True:
            found = self._rows("find jobs", self._sql[f"edge_{name}"], {"before": before, "stretch": stretch})
            edge = found[0][0] if found else _FIRST_ID
            yield parameters | {"before": before, "edge": edge}
            if not found:
                return
            before, stretch = edge, min(4 * stretch, LONGEST_STRETCH)

    def _stretches_of_deaths(self, which: JobFilter, until: datetime | None) -> Generator[dict[str, Any]]:
        """The parameters for each stretch of the dead letters, from the first death on."""
        parameters: dict[str, Any] = which.parameters(self.began) | {"until": until or self.began}
        place: Death = (parameters["newer"], _FIRST_ID) if parameters["newer"] else _BEFORE_ALL
        stretch = FIRST_STRETCH
        while True:
            parameters |= {"after": place[0], "after_id": place[1], "stretch": stretch}
            found = self._rows("find dead letters", self._sql.edge_deaths, parameters)
            edge: Death = found[0] if found else _AFTER_ALL
            yield parameters | {"edge": edge[0], "edge_id": edge[1]}
            if not found:
                return
            place, stretch = edge, min(4 * stretch, LONGEST_STRETCH)

    def _rows(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        with in_our_words(what), self._connection.transaction():
            self._connection.execute(self._sql.plans)
            return self._connection.execute(statement, parameters or {}, binary=True).fetchall()

    def _number(self, what: str, statement: bytes, parameters: dict[str, Any]) -> int:
        """How many rows there are, none of which is made into an object."""
        with in_our_words(what), self._connection.transaction():
            self._connection.execute(self._sql.plans)
            return self._connection.execute(statement, parameters, binary=True).rowcount

    def _all(self, what: str, kind: type[T], statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[T]:
        with in_our_words(what), self._connection.transaction():
            self._connection.execute(self._sql.plans)
            with self._connection.cursor(row_factory=class_row(kind)) as cursor:
                return cursor.execute(statement, parameters or {}).fetchall()


def _places(which: JobFilter) -> list[str]:
    """Where jobs in these states stand."""
    wanted, places = set(which.states), (("live", LIVE), ("dead", ("dead",)), ("finished", ENDED))
    return [name for name, states in places if not wanted or wanted.intersection(states)]
