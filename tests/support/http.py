"""What a monitor answers over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Status and text. It blocks: in an event loop that shall turn meanwhile use `fetch`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        with connection.getresponse() as response:
            return response.status, response.read().decode()
    finally:
        connection.close()


async def fetch(port: int, path: str) -> tuple[int, str]:
    """`get`, while the event loop turns."""
    return await asyncio.to_thread(get, port, path)


async def told(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Status and document."""
    status, text = await fetch(port, path)
    return status, json.loads(text)
