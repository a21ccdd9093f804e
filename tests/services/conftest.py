"""What only tests of one module on real stores need."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.crew import Crew
from tests.support.queue import QueueByHand


@pytest.fixture
async def q(redis_url: str) -> AsyncIterator[QueueByHand]:
    """A queue on the shared Redis, opened; scripts are called as the stations call them."""
    async with QueueByHand(redis_url) as opened:
        yield opened


@pytest.fixture
async def crew(redis_url: str) -> AsyncIterator[Crew]:
    """An app and its workers on the shared Redis, all ended with the test."""
    made = Crew(redis_url)
    yield made
    await made.close()
