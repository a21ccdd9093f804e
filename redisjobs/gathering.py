"""Which calls make a batch together. Pure: the caller says what time it is."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Hashable)

MOST_GATHERING = 1000
"""So many items gather at most, whatever their keys are: each of them is a lease, which the heartbeat renews."""


@dataclass(slots=True, eq=False)
class _Open(Generic[K, T]):
    """A batch that gathers: its items in the order in which they came, and when it goes at the latest."""

    key: K
    due: float
    items: dict[T, None] = field(default_factory=dict[T, None])


class Gatherer(Generic[K, T]):
    """Gathers items by key, one batch a key. A batch goes with its last item, at its time, or to make room.

    Args:
        most: items that may gather at once; one more has the batch go that would be the next to go by its time.
    """

    def __init__(self, most: int = MOST_GATHERING) -> None:
        self._most = most
        self._open: dict[K, _Open[K, T]] = {}
        self._of: dict[T, _Open[K, T]] = {}
        self._line: list[tuple[float, int, _Open[K, T]]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._of)

    def add(self, key: K, item: T, *, size: int, within: float, now: float) -> list[list[T]]:
        """Take an item; answers the batches that go now.

        Args:
            size: with so many items the batch of this key goes.
            within: seconds after its first item the batch goes as it is.
        """
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Open(key, now + within)
            heapq.heappush(self._line, (batch.due, next(self._numbers), batch))
        batch.items[item] = None
        self._of[item] = batch
        if len(batch.items) >= size:
            return [self._take(batch)]
        if len(self._of) > max(self._most, 2 * size):
            return [self._take(self._first())]
        return []

    def remove(self, item: T) -> bool:
        """Take an item out of its batch; False where it gathers no more."""
        batch = self._of.pop(item, None)
        if batch is None:
            return False
        del batch.items[item]
        if not batch.items:
            del self._open[batch.key]
        return True

    def due(self, now: float) -> list[list[T]]:
        """The batches whose time has come."""
        found: list[list[T]] = []
        while (next_at := self.next_at) is not None and next_at <= now:
            found.append(self._take(self._first()))
        return found

    def take(self, where: Callable[[K], bool]) -> list[list[T]]:
        """The batches of these keys, as they are now."""
        return [self._take(batch) for key, batch in list(self._open.items()) if where(key)]

    @property
    def next_at(self) -> float | None:
        """When the next batch goes by its time; None: nothing gathers."""
        while self._line and self._open.get(self._line[0][2].key) is not self._line[0][2]:
            heapq.heappop(self._line)  # it went before its time
        return self._line[0][0] if self._line else None

    def _first(self) -> _Open[K, T]:
        if self.next_at is None:
            raise AssertionError("nothing gathers")
        return self._line[0][2]

    def _take(self, batch: _Open[K, T]) -> list[T]:
        del self._open[batch.key]
        for item in batch.items:
            del self._of[item]
        return list(batch.items)
