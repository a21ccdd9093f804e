"""Hears the wake-ups of producers: LISTEN on a session of its own, with the relay's polls as the safety net."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

import psycopg
from psycopg import sql

from redisjobs.base import statements
from redisjobs.base.postgres import Connection, Database
from redisjobs.base.service import backoff
from redisjobs.errors import RedisjobsError
from redisjobs.logs import event

log = logging.getLogger("redisjobs.relay")

PROBE_S = 2.0
"""How long the ear waits for its own call before it says that it is deaf."""


def channel(schema: str) -> str:
    """The channel that the trigger of this schema notifies."""
    return statements.in_schema("redisjobs.wake", schema)


class Ear:
    """Listens for as long as it is started, through reconnects. Behind a transaction pooler it is deaf, and says so once.

    Args:
        heard: called in the loop with the name of each queue that was called.
    """

    def __init__(self, database: Database, schema: str, heard: Callable[[str], None]) -> None:
        self.hears = False
        self._database = database
        self._channel = channel(schema)
        self._heard = heard
        self._task: asyncio.Task[None] | None = None
        self._said = False

    async def start(self) -> None:
        """Begin to listen, in a task of its own."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen_on(), name="relay: listen")

    async def stop(self) -> None:
        """Listen no more."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.hears = False

    async def _listen_on(self) -> None:
        failures = 0
        while True:
            try:
                connection = await self._database.session()
                try:
                    failures = 0
                    await self._listen(connection)
                finally:
                    self.hears = False
                    await connection.close()
            except (RedisjobsError, psycopg.Error, OSError) as error:
                failures += 1
                event(log, logging.INFO, "relay.listen_interrupted", error=f"{type(error).__name__}: {error}".strip())
                await asyncio.sleep(backoff(failures))

    async def _listen(self, connection: Connection) -> None:
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        probe = f"?{secrets.token_hex(8)}"
        await self._database.run("probe LISTEN", b"SELECT pg_notify(%(channel)s, %(probe)s)",
                                 {"channel": self._channel, "probe": probe})  # fmt: skip
        while True:
            got = False
            async for notice in connection.notifies(timeout=PROBE_S if not self.hears else 60.0):
                got = True
                if notice.payload == probe:
                    self.hears = True
                elif not notice.payload.startswith("?"):
                    self._heard(notice.payload)
            if not self.hears and not got and not self._said:
                self._said = True
                event(log, logging.WARNING, "relay.deaf", effect="commits are found by polling alone",
                      remedy="give the relay a session connection, not one of a transaction pooler")  # fmt: skip
            if self.hears:
                await connection.execute("SELECT 1")  # a session that died without a word is found here
