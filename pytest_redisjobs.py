"""The pytest plugin of redisjobs: fixtures for its test kit.

Installed with redisjobs, and so loaded in every project that has it: nothing of redisjobs is imported before a test
asks for one of these fixtures.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from redisjobs import App
    from redisjobs.testing import AsyncMemoryConnection, Enqueued, MemoryConnection, World


@pytest.fixture
def redisjobs_app() -> App:
    """The app whose jobs are tested; each project says which, in its `conftest.py`."""
    pytest.fail(
        "the fixtures of redisjobs need to know the app: define in conftest.py a fixture redisjobs_app that returns it",
        pytrace=False,
    )


@pytest.fixture
def redisjobs_enqueued(redisjobs_app: App) -> Iterator[Enqueued]:
    """What the test enqueues, as `redisjobs.testing.capture` has it."""
    from redisjobs.testing import capture  # noqa: PLC0415 - see above

    with capture(redisjobs_app) as enqueued:
        yield enqueued


@pytest.fixture
def redisjobs_connection() -> Iterator[MemoryConnection]:
    """A connection in memory, for code that enqueues and runs no other statement; rolled back in the end."""
    from redisjobs.testing import MemoryConnection  # noqa: PLC0415 - see above

    connection = MemoryConnection()
    yield connection
    connection.close()


@pytest.fixture
def redisjobs_async_connection() -> AsyncMemoryConnection:
    """Likewise, for code that awaits."""
    from redisjobs.testing import AsyncMemoryConnection  # noqa: PLC0415 - see above

    return AsyncMemoryConnection()


def pytest_configure(config: pytest.Config) -> None:
    """Give async fixtures to projects whose tests pytest-asyncio runs."""
    asyncio_plugin = sys.modules.get("pytest_asyncio.plugin")
    if asyncio_plugin is not None and config.pluginmanager.is_registered(asyncio_plugin):
        config.pluginmanager.register(_for_asyncio(), "redisjobs-asyncio")


def _for_asyncio() -> object:
    import pytest_asyncio  # noqa: PLC0415 - it is not there everywhere

    class Fixtures:
        @pytest_asyncio.fixture
        async def redisjobs_world(self, redisjobs_app: App) -> AsyncIterator[World]:
            """The app with its stores in memory, as `redisjobs.testing.in_memory` has it."""
            from redisjobs.testing import in_memory  # noqa: PLC0415 - see above

            async with in_memory(redisjobs_app) as world:
                yield world

    return Fixtures()
