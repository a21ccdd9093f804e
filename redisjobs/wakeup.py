"""Hears wake-ups: LISTEN on a session of its own, with polls as the safety net."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from psycopg import sql

from redisjobs.base import statements
from redisjobs.base.postgres import Connection, Database, cut_when_stalled
from redisjobs.base.service import backoff
from redisjobs.logs import event

log = logging.getLogger("redisjobs.relay")

PROBE_S = 2.0
"""How long the ear waits for its own call before it says that it is deaf."""
STILL_THERE_S = 20.0
"""Between two looks whether the session is still there."""
WAKE = "redisjobs.wake"
"""What the producers' trigger notifies."""
CALL = "!"
"""What an operator's function notifies when leases must be looked at again."""
EVENTS = "*"
"""What the trigger of the events notifies; no queue has this name."""


_INTERRUPTED = {
    "relay": (logging.INFO, "relay.listen_interrupted"),
    "scheduler": (logging.INFO, "scheduler.listen_interrupted"),
}
_DEAF = {"relay": (logging.WARNING, "relay.deaf"), "scheduler": (logging.WARNING, "scheduler.deaf")}


def channel(schema: str, call: str = WAKE) -> str:
    """The channel that a trigger of this schema notifies."""
    return statements.in_schema(call, schema)


class Ear:
    """Listens for as long as it is started, through reconnects. Behind a transaction pooler it is deaf, and says so.

    Args:
        heard: called in the loop with the name of each queue that was named, or EVENTS.
        called: called in the loop when more may have happened than was heard: at each new beginning, and by operators.
        call: which trigger notifies.
        part: whose ear it is, for logs.
    """

    def __init__(
        self,
        database: Database,
        schema: str,
        heard: Callable[[str], None],
        called: Callable[[], None],
        *,
        call: str = WAKE,
        part: str = "relay",
    ) -> None:
        self.hears = False
        self._database = database
        self._channel = channel(schema, call)
        self._part = part
        self._heard = heard
        self._called = called
        self._task: asyncio.Task[None] | None = None
        self._said = False

    async def start(self) -> None:
        """Begin to listen, in a task of its own."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen_on(), name=f"{self._part}: listen")

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
                    await self._listen(connection)
                finally:
                    failures = 0 if self.hears else failures
                    self.hears = False
                    await connection.close()
            except Exception as error:  # noqa: BLE001 - whatever ends a session, the next one is tried
                failures += 1
                event(
                    log,
                    *_INTERRUPTED[self._part],
                    error=f"{type(error).__name__}: {error}".strip(),
                )
                await asyncio.sleep(backoff(failures))

    async def _listen(self, connection: Connection) -> None:
        with cut_when_stalled(connection):
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        probe = f"?{secrets.token_hex(8)}"
        await self._database.run("probe LISTEN", b"SELECT pg_notify(%(channel)s, %(probe)s)",
                                 {"channel": self._channel, "probe": probe})  # fmt: skip
        while True:
            async for notice in connection.notifies(timeout=STILL_THERE_S if self.hears else PROBE_S):
                self._take(notice.payload, probe)
            if not self.hears and not self._said:
                self._said = True
                event(log, *_DEAF[self._part], effect="changes are found by polling alone",
                      remedy=f"give the {self._part} a session, not a transaction pooler")  # fmt: skip
            with cut_when_stalled(connection):  # a session that died without a word is found here
                await connection.execute("SELECT 1")

    def _take(self, payload: str, probe: str) -> None:
        if payload == probe:
            self.hears = True
            self._called()
        elif payload == CALL:
            self._called()
        elif not payload.startswith("?"):
            self._heard(payload)
