"""Which live jobs a command on many means: how many there are, and their ids."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from uuid import UUID

from redisjobs.cli import bulk
from redisjobs.cli.listing import lines
from redisjobs.search import JobFilter, Search
from redisjobs.settings import Settings


def count(settings: Settings, which: JobFilter) -> bulk.Found:
    """How many fit, and the first of them."""
    if which.where is not None:
        with ids(settings, which) as found:
            return bulk.count(found)
    with Search(settings.need_database_url(), settings.schema) as search:
        return bulk.count(search.live(which), lambda: search.count_live(which))


@contextmanager
def ids(settings: Settings, which: JobFilter) -> Generator[Iterator[UUID]]:
    """The jobs that fit, each once, for as long as the block lasts; what moves in Redis meanwhile may be met twice."""
    if which.where is not None:
        with lines(settings, which, rows_only=True) as found:
            yield _once(each.id for each in found)
        return
    with Search(settings.need_database_url(), settings.schema) as search:
        yield search.live(which)


def _once(found: Iterator[UUID]) -> Iterator[UUID]:
    seen = set[bytes]()
    for each in found:
        if each.bytes not in seen:
            seen.add(each.bytes)
            yield each
