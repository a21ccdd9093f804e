"""The places of the run, a road in each, and the page of a run over all of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.everywhere.place import EVERYWHERE, PLACES, Place, Places
from tests.everywhere.stories import STORIES
from tests.everywhere.table import PAGE, Table
from tests.stories.road import Road
from tests.support.stores import Stores

_CELL = re.compile(r"test_everywhere\[(.+)-(\w+)\]$")
TABLE = Table()


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> Iterator[Places]:
    """Starts each place when it is first asked for."""
    made = Places(tmp_path_factory.mktemp("everywhere"), stores)
    yield made
    made.close()


@pytest.fixture
def place(request: pytest.FixtureRequest, places: Places) -> Iterator[Place]:
    """The place of this test's parameter."""
    with places.at(str(request.param)) as found:
        request.node.user_properties.append(("server", found.server))
        yield found


@pytest.fixture
async def road(place: Place) -> AsyncIterator[Road]:
    """A relay that runs there, and an app to declare jobs on."""
    async with Road(place.database_url, place.redis_url) as made:
        yield made


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes down how each cell ended; with several processes, in the one that hears of all."""
    if not (cell := _CELL.search(report.nodeid)):
        return
    at = (cell[1], cell[2])
    if report.when == "call" or report.failed:
        TABLE.ends[at] = report.outcome if TABLE.ends.get(at) != "failed" else "failed"
    for name, value in report.user_properties:
        if name == "server":
            TABLE.servers[cell[1]] = str(value)


def pytest_sessionfinish() -> None:
    """Writes the page anew; what this run has not tried stays as it was."""
    words = {name: str(story.__doc__) for name, story in STORIES.items()}
    if not (EVERYWHERE and TABLE.ends):
        return
    if PAGE.exists():
        TABLE.keep(PAGE.read_text(), words)
    if TABLE.is_whole(PLACES, list(words)):
        PAGE.write_text(TABLE.text(PLACES, words))
