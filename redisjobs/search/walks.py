"""Walks over the jobs that Postgres knows, stretch by stretch, each in a short transaction of its own."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeAlias, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from redisjobs.base import statements
from redisjobs.base.postgres import check_database_url, in_our_words, options
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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A walk's way: which statements, and how a place is written in their parameters."""

    edge: bytes
    find: bytes
    parameters: dict[str, Any]


class Search:
    """Finds jobs in Postgres, over one connection.

    No statement looks at more than 50 000 rows; how many there are to look at decides how many statements it takes.
    Its role needs what `redisjobs.grant_operator` gives.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._sql = statements.load("search", schema).require(*_NAMES)
        with in_our_words("connect"):
            self._connection = psycopg.connect(check_database_url(url), **options())

    def __enter__(self) -> Self:
        self.began: datetime = self._rows("look at the time", self._sql.now, {})[0][0]
        """Postgres' time at the beginning: ages count from it, and what dies later is not found."""
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def jobs(self, which: JobFilter, *, after: UUID | None = None, page: int = PAGE) -> Iterator[UUID]:
        """The jobs that fit, by their ids downwards: the youngest first.

        Args:
            after: go on behind this one.
        """
        parameters = which.parameters(self.began) | {"limit": page}
        wanted = set(which.states)
        places = (("live", LIVE), ("dead", ("dead",)), ("finished", ENDED))
        before = after or _LAST_ID
        walks = [
            self._walk(name, parameters, before) for name, states in places if not wanted or wanted.intersection(states)
        ]
        return heapq.merge(*walks, reverse=True)

    def live(self, which: JobFilter) -> Iterator[UUID]:
        """Those that have not ended; the youngest first, so that what is committed meanwhile is left alone."""
        return self._walk("live", which.parameters(self.began) | {"limit": PAGE}, _LAST_ID)

    def deaths(self, which: JobFilter, *, until: datetime | None = None) -> Iterator[Death]:
        """The dead letters that fit, in the order in which they died, up to `until` or to the beginning."""
        parameters: dict[str, Any] = which.parameters(self.began) | {"limit": PAGE, "until": until or self.began}
        place: Death = (parameters["newer"], _FIRST_ID) if parameters["newer"] else _BEFORE_ALL
        stretch = FIRST_STRETCH
        while True:
            here = {"after": place[0], "after_id": place[1]}
            found = self._rows("find dead letters", self._sql.edge_deaths, parameters | here | {"stretch": stretch})
            edge: Death = found[0] if found else _AFTER_ALL
            bounds = parameters | {"edge": edge[0], "edge_id": edge[1]}
            while rows := self._rows(
                "find dead letters", self._sql.deaths, bounds | {"after": place[0], "after_id": place[1]}
            ):
                yield from rows
                place = rows[-1]
                if len(rows) < PAGE:
                    break
            if not found:
                return
            place, stretch = edge, min(4 * stretch, LONGEST_STRETCH)

    def dead_letters(self, which: JobFilter, limit: int, after: UUID | None = None) -> list[DeadLetter]:
        """The youngest dead letters that fit, behind `after`; one that is dead no more counts as the youngest."""
        found: list[DeadLetter] = []
        place, stretch = self._place(after), FIRST_STRETCH
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

    def _walk(self, name: str, parameters: dict[str, Any], before: UUID) -> Generator[UUID]:
        edges, finds, stretch = self._sql[f"edge_{name}"], self._sql[name], FIRST_STRETCH
        while True:
            found = self._rows("find jobs", edges, {"before": before, "stretch": stretch})
            edge = found[0][0] if found else _FIRST_ID
            while rows := self._rows("find jobs", finds, parameters | {"before": before, "edge": edge}):
                yield from (row[0] for row in rows)
                before = rows[-1][0]
                if len(rows) < parameters["limit"]:
                    break
            if not found:
                return
            before, stretch = edge, min(4 * stretch, LONGEST_STRETCH)

    def _place(self, after: UUID | None) -> Death:
        rows = self._rows("look at a dead letter", self._sql.death, {"id": after}) if after else []
        return (rows[0][0], after) if rows and after else _AFTER_ALL

    def _rows(self, what: str, statement: bytes, parameters: dict[str, Any]) -> list[Any]:
        with in_our_words(what), self._connection.transaction():
            self._connection.execute(self._sql.plans)
            return self._connection.execute(statement, parameters, binary=True).fetchall()

    def _all(self, what: str, kind: type[T], statement: bytes, parameters: dict[str, Any]) -> list[T]:
        with in_our_words(what), self._connection.transaction():
            self._connection.execute(self._sql.plans)
            with self._connection.cursor(row_factory=class_row(kind)) as cursor:
                return cursor.execute(statement, parameters).fetchall()
