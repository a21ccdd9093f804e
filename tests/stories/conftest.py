"""The whole road inside of the test: an app, its Postgres, its Redis, a relay and workers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.stories.road import Road


@pytest.fixture
async def road(database_url: str, redis_url: str) -> AsyncIterator[Road]:
    """A relay that runs, an app to declare jobs on, and what a program does with them."""
    async with Road(database_url, redis_url) as made:
        yield made
