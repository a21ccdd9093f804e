"""Connections of the async client: a short way for scripts, and every end and cancellation heard."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from typing import Any, cast

import hiredis
import redis.asyncio as async_redis
from redis import exceptions

from redisjobs.broker.slots import Argument

_pack: Any = cast("Any", hiredis).pack_command
"""redis-py packs value by value, and for the thousands of a batch that takes as long as Redis takes for the batch."""
IDLE_S = 10.0
"""A connection at hand that was not called for so long is closed: calls that started together have ended."""


class Client(async_redis.Redis):
    """redis-py's client, with a short way for scripts.

    A call through its pool, its retries and its telemetry costs twice what the call itself does, and a worker makes
    two for each batch. The short way keeps connections of the pool at hand, made and closed by redis-py as ever.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        cast("Any", super()).__init__(*args, **options)
        self._at_hand: list[Any] = []

    async def once(self, *words: Argument) -> Any:
        """One command without a reply to parse, once; errors are redis-py's."""
        pool: Any = self.connection_pool
        connection = self._at_hand.pop() if self._at_hand else await pool.get_connection()
        try:
            if connection.has_ended():
                await connection.disconnect(nowait=True)
            await connection.send_packed_command([_pack(words)], check_health=False)
            return await connection.read_response()
        except exceptions.ResponseError:  # an answer like any other
            raise
        except BaseException:  # its reply may still come: closed, it opens again with its next use
            await connection.disconnect(nowait=True)
            raise
        finally:
            connection.called_at = time.monotonic()
            self._at_hand.append(connection)
            if self._at_hand[0].called_at < connection.called_at - IDLE_S:
                spare = self._at_hand.pop(0)  # the last one that was called is the next: the first is idle for longest
                await spare.disconnect(nowait=True)
                await pool.release(spare)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 - as redis-py has it
        """Close all connections; also those to sentinels, which redis-py leaves open."""
        await cast("Any", super()).aclose(close_connection_pool)
        manager: Any = getattr(self.connection_pool, "sentinel_manager", None)
        for each in manager.sentinels if manager else ():
            await each.aclose()


@cache
def our(connection: Any) -> Any:
    """This class of connections, with every cancellation heard, and able to tell that it has ended.

    redis-py sends inside of `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that comes as the
    sending ends: whoever called would go on as if nobody had asked him to stop. And it writes to connections whose loss
    asyncio knows of already; asyncio of Python 3.12 and 3.13 then goes on watching the number of that socket, and the
    next socket that gets this number never hears that it is connected.

    A server that says that it is a replica by now is left: the same name may lead to the primary, once it is looked up
    again.
    """

    def has_ended(self: Any) -> bool:
        return self._writer is not None and (self._writer.is_closing() or self._reader.at_eof())

    async def send_packed_command(self: Any, *args: Any, **options: Any) -> None:
        task = asyncio.current_task()
        asked_before = task.cancelling() if task else 0
        if self._writer is not None and self._writer.is_closing():
            await self.disconnect(nowait=True)
            raise exceptions.ConnectionError("the connection was closed")
        if not self.is_connected:  # redis-py would go where it was before, and not to whom sentinels name by now
            await self.connect()
        await connection.send_packed_command(self, *args, **options)
        if task and task.cancelling() > asked_before:
            await self.disconnect(nowait=True)
            raise asyncio.CancelledError

    async def read_response(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return await connection.read_response(self, *args, **options)
        except exceptions.ReadOnlyError:
            await self.disconnect(nowait=True)
            raise

    ours = {
        "has_ended": has_ended, "send_packed_command": send_packed_command, "read_response": read_response,
        "called_at": 0.0,
    }  # fmt: skip
    return type(f"Our{connection.__name__}", (connection,), ours)
