"""The way to Redis: scripts by their hash, no hidden repeats, and errors in our own words."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias, cast

import hiredis
import redis as sync_redis
import redis.asyncio as async_redis
from redis import exceptions
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry as SyncRetry

from redisjobs.base.scripts import Script
from redisjobs.base.urls import REDIS, check_url
from redisjobs.errors import BrokerUnavailable, ConfigurationError, StoreRefused

Argument: TypeAlias = bytes | str | int

COMMAND_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0

_pack: Any = cast("Any", hiredis).pack_command
"""redis-py packs value by value, and for the thousands of a batch that takes as long as Redis takes for the batch."""

_LATER = (
    "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "OOM", "MISCONF", "BUSY ", "NOREPLICAS",
    "UNBLOCKED",
)  # fmt: skip
"""What Redis answers while it cannot, rather than will not, do it."""
_LATER_ERRORS = (
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)
"""Likewise, where the client has taken the first word off the text."""


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
            self._at_hand.append(connection)


def connect(url: str, *, timeout: float = COMMAND_TIMEOUT_S, password: str | None = None) -> async_redis.Redis:
    """An async client that never repeats a command by itself: one lost reply must not become two entries.

    Raises:
        ConfigurationError: the URL cannot be read.
    """
    with _readable():
        client: async_redis.Redis = cast("Any", Client).from_url(
            check_url("redis_url", url, REDIS), retry=AsyncRetry(NoBackoff(), 0), **_options(url, timeout, password)
        )
    pool: Any = client.connection_pool
    pool.connection_class = _our(pool.connection_class)
    return client


@cache
def _our(connection: Any) -> Any:
    """This class of connections, with every cancellation heard, and able to tell that it has ended.

    redis-py sends inside of `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that comes as the
    sending ends: whoever called would go on as if nobody had asked him to stop. And it writes to connections whose loss
    asyncio knows of already; asyncio of Python 3.12 and 3.13 then goes on watching the number of that socket, and the
    next socket that gets this number never hears that it is connected.
    """

    def has_ended(self: Any) -> bool:
        return self._writer is not None and (self._writer.is_closing() or self._reader.at_eof())

    async def send_packed_command(self: Any, *args: Any, **options: Any) -> None:
        task = asyncio.current_task()
        asked_before = task.cancelling() if task else 0
        if self._writer is not None and self._writer.is_closing():
            await self.disconnect(nowait=True)
            raise exceptions.ConnectionError("the connection was closed")
        await connection.send_packed_command(self, *args, **options)
        if task and task.cancelling() > asked_before:
            await self.disconnect(nowait=True)
            raise asyncio.CancelledError

    ours = {"has_ended": has_ended, "send_packed_command": send_packed_command}
    return type(f"Our{connection.__name__}", (connection,), ours)


def connect_sync(url: str, *, timeout: float = COMMAND_TIMEOUT_S, password: str | None = None) -> sync_redis.Redis:
    """As `connect`, for a thread of its own.

    Raises:
        ConfigurationError: the URL cannot be read.
    """
    with _readable():
        client: sync_redis.Redis = cast("Any", sync_redis.Redis).from_url(
            check_url("redis_url", url, REDIS), retry=SyncRetry(NoBackoff(), 0), **_options(url, timeout, password)
        )
    return client


def _options(url: str, timeout: float, password: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {} if password is None else {"password": password}
    if not url.startswith("unix:"):  # a socket file has neither a handshake to wait for nor a peer to lose
        given |= {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_keepalive": True}
    return given | {"protocol": 2, "socket_timeout": timeout, "health_check_interval": 0, "max_connections": 2000}


@contextmanager
def _readable() -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise ConfigurationError(f"redis_url cannot be read: {error}") from None


@contextmanager
def in_our_words(command: str) -> Generator[None]:
    """Turns the client's errors into ours: once, here, and nowhere else."""
    try:
        yield
    except exceptions.AuthenticationError as error:
        said = str(error).rstrip(".")
        raise ConfigurationError(f"Redis refuses the login: {said}; check user and password of redis_url") from error
    except exceptions.NoPermissionError as error:
        raise StoreRefused(f"Redis refuses {command}: {error}; grant the user this command and key pattern") from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        raise BrokerUnavailable(f"Redis does not answer {command}: {str(error) or type(error).__name__}") from error
    except RuntimeError as error:
        if "handler is closed" not in str(error):
            raise
        # uvloop's word for a connection that its peer has closed
        raise BrokerUnavailable(f"Redis does not answer {command}: the connection was closed") from error
    except exceptions.AskError as error:
        raise StoreRefused(
            f"Redis refuses {command}: this is one node of a cluster, and the keys are on another ({error}); "
            "redis_url must name a server that holds all keys"
        ) from error
    except exceptions.RedisError as error:
        text = str(error)
        if isinstance(error, _LATER_ERRORS) or any(word in text for word in _LATER):
            raise BrokerUnavailable(f"Redis cannot do {command} now: {text}") from error
        if "NOPERM" in text or "ACL" in text:
            raise StoreRefused(
                f"Redis refuses {command}: {text}; grant the user this command and key pattern"
            ) from error
        raise StoreRefused(f"Redis refuses {command}: {text}") from error


async def command(redis: async_redis.Redis, *words: Argument) -> Any:
    """One command, once.

    Raises:
        BrokerUnavailable, StoreRefused: as `run`.
    """
    with in_our_words(str(words[0])):
        return await _plain(redis).execute_command(*words)


async def run(redis: async_redis.Redis, script: Script, keys: Sequence[bytes], arguments: Sequence[Argument]) -> Any:
    """Run a script once. Where its cache was emptied, its text goes along.

    Raises:
        BrokerUnavailable: no answer, or not now; whether it ran is not known.
        StoreRefused: an error that a repeat does not heal.
    """
    call = redis.once if isinstance(redis, Client) else _plain(redis).execute_command
    with in_our_words(script.name):
        try:
            return await call("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except exceptions.NoScriptError:
            return await call("EVAL", script.text, len(keys), *keys, *arguments)


def run_sync(redis: sync_redis.Redis, script: Script, keys: Sequence[bytes], arguments: Sequence[Argument]) -> Any:
    """As `run`, for a thread of its own."""
    with in_our_words(script.name):
        try:
            return _plain(redis).execute_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except exceptions.NoScriptError:
            return _plain(redis).execute_command("EVAL", script.text, len(keys), *keys, *arguments)


def _plain(redis: async_redis.Redis | sync_redis.Redis) -> Any:
    """The client without its types: a reply is whatever the command says."""
    return cast("Any", redis)
