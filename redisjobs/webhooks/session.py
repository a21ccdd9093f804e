"""What the deliveries of one event loop share: the connections out, and those to the endpoints' store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from redisjobs.app import App
from redisjobs.base.postgres import Database
from redisjobs.errors import ConfigurationError
from redisjobs.webhooks.memory import MemoryEndpoints
from redisjobs.webhooks.options import WebhookOptions
from redisjobs.webhooks.postgres import PostgresEndpoints
from redisjobs.webhooks.sender import Sender
from redisjobs.webhooks.store import EndpointStore

CONNECTIONS = 4
"""To Postgres, for each worker process; a statement takes less than a millisecond, and a delivery much longer."""


@dataclass(frozen=True, slots=True)
class Session:
    """Open for as long as a worker works."""

    sender: Sender
    store: EndpointStore


@dataclass(slots=True, eq=False)
class _Place:
    """Where a worker's session is, once its first delivery has made it."""

    session: Session | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    """One session for each event loop whose worker delivers. A worker of other queues opens nothing.

    Attributes:
        sender: stands for HTTP, in tests; the states of endpoints are in memory then.
        memory: the states of endpoints, where the app has no database of ours.
    """

    def __init__(self, app: App, options: WebhookOptions) -> None:
        self._app = app
        self._options = options
        self._places: dict[asyncio.AbstractEventLoop, list[_Place]] = {}
        self.sender: Sender | None = None
        self.memory = MemoryEndpoints()

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """Keep what the first delivery in this loop opens, and close it at the end of the block."""
        here, place = asyncio.get_running_loop(), _Place()
        self._places.setdefault(here, []).append(place)
        try:
            yield
        finally:
            self._places[here].remove(place)
            if not self._places[here]:
                del self._places[here]
            if place.session is not None:
                await _close(place.session)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Session]:
        """The session of this loop; where no worker keeps one, as in a test of the body alone, a passing one.

        Raises:
            ConfigurationError: the library is not installed.
        """
        if places := self._places.get(asyncio.get_running_loop()):
            yield await self._in(places[-1])
            return
        session = await self._make()
        try:
            yield session
        finally:
            await _close(session)

    async def _in(self, place: _Place) -> Session:
        async with place.lock:
            if place.session is None:
                place.session = await self._make()
            return place.session

    async def _make(self) -> Session:
        sender = self.sender
        if sender is not None:
            return Session(sender, self.memory)
        sender = await asyncio.to_thread(_http, self._options)
        url = self._app.stores.database_url
        if url is None:
            return Session(sender, self.memory)
        database = Database(url, size=CONNECTIONS)
        await database.open()
        return Session(sender, PostgresEndpoints(database, self._options.seal, self._app.settings.schema))


async def _close(session: Session) -> None:
    await session.sender.close()
    await session.store.close()


def _http(options: WebhookOptions) -> Sender:
    """Reads the machine's authorities, which takes its time: not to be called in an event loop."""
    try:
        from redisjobs.webhooks.http import HttpSender  # noqa: PLC0415 - its library is an extra
    except ImportError:
        raise ConfigurationError("webhooks need the extra: pip install 'redisjobs-pg[webhooks]'") from None
    return HttpSender(options.allowed, options.tls)
