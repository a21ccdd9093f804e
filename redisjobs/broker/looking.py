"""A sync connection of one's own to Redis, for those who look at it."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from redisjobs.broker.client import connect_sync
from redisjobs.broker.keys import Keys


class Looking:
    """Base of what looks into Redis; closed by `close`, or at the end of a `with`.

    Args:
        url: the Redis URL. Nothing connects before the first question.
        prefix: what every key begins with.
        timeout: seconds for each answer; None: as the class says.
    """

    timeout: ClassVar[float] = 2.0

    def __init__(self, url: str, prefix: str = "rj", *, timeout: float | None = None) -> None:
        self._redis: Any = connect_sync(url, timeout=self.timeout if timeout is None else timeout)
        self._keys = Keys(prefix)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        self._redis.close()
