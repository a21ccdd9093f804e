"""Hashes read by the commands that the documented rights have."""

from __future__ import annotations

from typing import Any

AT_ONCE = 1000


def whole_hash(redis: Any, key: bytes) -> dict[bytes, bytes]:
    """All of a hash; of one that changes meanwhile, what stood in it all the time."""
    found, cursor = dict[bytes, bytes](), 0
    while True:
        place, part = redis.execute_command("HSCAN", key, cursor, "COUNT", AT_ONCE)
        found.update(part)
        cursor = int(place)
        if not cursor:
            return found
