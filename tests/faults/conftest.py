"""The road of these tests, on the shared stores or on servers of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import shop
from tests.faults.journal import Journal
from tests.faults.road import Road
from tests.support.processes import Processes


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """What bodies write down, also those that run inside of the test."""
    opened = Journal(tmp_path / "journal")
    for name, value in opened.env.items():
        monkeypatch.setenv(name, value)
    shop.journal.cache_clear()
    yield opened
    shop.journal.cache_clear()


@pytest.fixture
def make_road(
    database_url: str, redis_url: str, processes: Processes, journal: Journal
) -> Iterator[Callable[..., Road]]:
    """Makes the road on stores that may be of the test's own: `make_road(redis_url=server.url)`."""
    with contextlib.ExitStack() as stack:

        def make(*, database: str = database_url, redis: str = redis_url) -> Road:
            road = Road(database, redis, processes, journal)
            stack.callback(road.close)
            return road

        yield make


@pytest.fixture
def road(make_road: Callable[..., Road]) -> Road:
    """The road on the shared stores."""
    return make_road()
