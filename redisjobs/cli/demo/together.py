"""Work side by side that ends together: the first trouble cancels the rest, and is raised as itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Return when all of them have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as troubles:
        raise troubles.exceptions[0] from None
