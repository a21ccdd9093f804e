"""The calls that went in while somebody listened, and which of them no rollback has taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from redisjobs.base import connections
from redisjobs.broker import Broker, Heart
from redisjobs.call import Call
from redisjobs.errors import RedisjobsError
from redisjobs.settings import Settings
from redisjobs.stores import Stores, Words
from redisjobs.testing.kept import kept, kept_async, needs_await


@dataclass(frozen=True, slots=True)
class Noted:
    """A call, and the connection that it was staged on; None: it went straight to Redis."""

    call: Call[Any]
    connection: object | None


class Notes:
    """What was noted, in its order."""

    def __init__(self, settings: Settings) -> None:
        self.noted: list[Noted] = []
        self._settings = settings
        self._looked: dict[int, tuple[list[UUID], set[UUID]]] = {}

    def there(self) -> set[UUID]:
        """The ids of the calls that no rollback has taken back.

        Raises:
            RedisjobsError: a connection must be awaited, and was not since its last call.
        """
        there = {each.call.id for each in self.noted if each.connection is None}
        for connection, ids in self._of_connections():
            if not needs_await(connection):
                there |= kept(connection, ids, self._settings.schema, self._settings.database_url)
                continue
            asked, found = self._looked.get(id(connection), ([], set[UUID]()))
            if asked != ids:
                raise RedisjobsError("an async connection of this driver must be awaited: first await enqueued.look()")
            there |= found
        return there

    async def look(self) -> None:
        """Ask the connections that must be awaited."""
        for connection, ids in self._of_connections():
            if needs_await(connection):
                there = await kept_async(connection, ids, self._settings.schema, self._settings.database_url)
                self._looked[id(connection)] = (ids, there)

    def _of_connections(self) -> list[tuple[object, list[UUID]]]:
        """Each connection with the ids of its calls."""
        found: dict[int, tuple[object, list[UUID]]] = {}
        for each in self.noted:
            if each.connection is not None:
                found.setdefault(id(each.connection), (each.connection, []))[1].append(each.call.id)
        return list(found.values())


class Recording(Stores):
    """Notes what goes through to the stores below. A direct call goes no further, unless those are in memory."""

    def __init__(self, under: Stores, notes: Notes) -> None:
        super().__init__(under.settings)
        self._under = under
        self._notes = notes

    def stage(self, connection: connections.Sync, calls: Sequence[Call[Any]]) -> None:
        self._under.stage(connection, calls)
        self._note(calls, connection)

    async def stage_async(self, connection: connections.Async, calls: Sequence[Call[Any]]) -> None:
        await self._under.stage_async(connection, calls)
        self._note(calls, connection)

    async def put(self, broker: Callable[[], Broker], queue: str, calls: Sequence[Call[Any]]) -> Words:
        words: Words = [("new", None)] * len(calls)
        if type(self._under) is not Stores:
            words = await self._under.put(broker, queue, calls)
        self._note(calls, None)
        return words

    def broker(self) -> Broker:
        return self._under.broker()

    def heart(self, timeout: float) -> Heart:
        return self._under.heart(timeout)

    def _note(self, calls: Sequence[Call[Any]], connection: object | None) -> None:
        self._notes.noted += [Noted(call, connection) for call in calls]
