"""The way to Redis: scripts by their hash, no hidden repeats, and errors in our own words."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import redis as sync_redis
import redis.asyncio as async_redis
from redis import exceptions
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry as SyncRetry

from redisjobs.base.scripts import Script
from redisjobs.base.urls import REDIS, Servers, check_url, redis_servers
from redisjobs.broker.cluster import Cluster, SyncCluster
from redisjobs.broker.connection import Client, our
from redisjobs.broker.routing import LOST, Command
from redisjobs.broker.sentinel import watched, watched_sync
from redisjobs.broker.slots import Argument, Place
from redisjobs.errors import BrokerUnavailable, ConfigurationError, RedisjobsError, StoreRefused

COMMAND_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0

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


def connect(url: str, *, timeout: float = COMMAND_TIMEOUT_S, password: str | None = None) -> async_redis.Redis:
    """An async client that never repeats a command by itself: one lost reply must not become two entries.

    Raises:
        ConfigurationError: the URL cannot be read.
    """
    with _readable():
        servers = redis_servers(check_url("redis_url", url, REDIS))
        options = _options(url, timeout, password) | {"retry": AsyncRetry(NoBackoff(), 0)}
        if servers.kind == "sentinel":
            return _as_redis(watched(servers, Client, options, our))
        if servers.kind == "cluster":
            return _as_redis(Cluster(_places(servers), lambda place: _client(servers.url, options, place)))
        return _client(servers.url, options)


def _client(url: str, options: dict[str, Any], place: Place | None = None) -> async_redis.Redis:
    """Of one server: that of the URL, or another that is reached likewise."""
    client: async_redis.Redis = cast("Any", Client).from_url(url, **options)
    pool: Any = client.connection_pool
    pool.connection_class = our(pool.connection_class)
    _lead(pool, place)
    return client


def _lead(pool: Any, place: Place | None) -> None:
    if place is not None:
        pool.connection_kwargs.update(host=place.host, port=place.port)


def _places(servers: Servers) -> list[Place]:
    return [Place(*each) for each in servers.hosts]


def _as_redis(client: object) -> async_redis.Redis:
    """It has the face of one server, as far as we look at it."""
    return cast("async_redis.Redis", client)


def connect_sync(url: str, *, timeout: float = COMMAND_TIMEOUT_S, password: str | None = None) -> sync_redis.Redis:
    """As `connect`, for a thread of its own.

    Raises:
        ConfigurationError: the URL cannot be read.
    """
    with _readable():
        servers = redis_servers(check_url("redis_url", url, REDIS))
        options = _options(url, timeout, password) | {"retry": SyncRetry(NoBackoff(), 0)}
        if servers.kind == "sentinel":
            return watched_sync(servers, options)
        if servers.kind == "cluster":
            made: object = SyncCluster(_places(servers), lambda place: _sync_client(servers.url, options, place))
            return cast("sync_redis.Redis", made)
        return _sync_client(servers.url, options)


def _sync_client(url: str, options: dict[str, Any], place: Place | None = None) -> sync_redis.Redis:
    client: sync_redis.Redis = cast("Any", sync_redis.Redis).from_url(url, **options)
    _lead(client.connection_pool, place)
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
            "write redis+cluster:// for redis:// in redis_url"
        ) from error
    except exceptions.RedisError as error:
        raise _answered(command, error) from error


def _answered(command: str, error: exceptions.RedisError) -> RedisjobsError:
    text = str(error)
    if "cluster support disabled" in text:
        return ConfigurationError(
            f"Redis refuses {command}: it is one server and no cluster; write redis:// in redis_url"
        )
    if isinstance(error, _LATER_ERRORS) or any(word in text for word in _LATER):
        return BrokerUnavailable(f"Redis cannot do {command} now: {text}")
    if "NOPERM" in text or "ACL" in text:
        return StoreRefused(f"Redis refuses {command}: {text}; grant the user this command and key pattern")
    return StoreRefused(f"Redis refuses {command}: {text}")


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


AWAY = (*LOST, exceptions.ClusterDownError, exceptions.TryAgainError)
"""What says that a node, or a slot, has nobody who answers for it now."""


async def nodes_of(redis: async_redis.Redis) -> list[async_redis.Redis]:
    """The client of each primary, for what is every server's own matter; of one server, itself.

    Raises:
        BrokerUnavailable, StoreRefused: as `run`; no node of the cluster tells who they are.
    """
    client = _plain(redis)
    if not isinstance(client, Cluster):
        return [redis]
    with in_our_words("CLUSTER SLOTS"):
        return await client.nodes()


async def on_each_node(redis: async_redis.Redis, *words: Argument) -> list[Any]:
    """One command to every primary: the replies of those that answer.

    Raises:
        BrokerUnavailable: none does. StoreRefused: as `run`.
    """
    nodes = await nodes_of(redis)
    replies: list[Any] = []
    for left, node in zip(range(len(nodes) - 1, -1, -1), nodes, strict=True):
        try:
            replies.append(await command(node, *words))
        except BrokerUnavailable:
            if not (replies or left):
                raise
    return replies


async def together(redis: async_redis.Redis, commands: Sequence[Sequence[Argument]]) -> list[Any]:
    """Commands in one round trip to each node; None for those whose node does not answer, where another one does.

    Raises:
        BrokerUnavailable, StoreRefused: as `run`.
    """
    if not commands:
        return []
    client = _plain(redis)
    with in_our_words(str(commands[0][0])):
        if not isinstance(client, Cluster):
            pipeline = client.pipeline(transaction=False)
            for words in commands:
                pipeline.execute_command(*words)
            answered: list[Any] = await pipeline.execute()
            return answered
        replies = await client.send([Command(words) for words in commands], apart=True)
        away = [reply for reply in replies if isinstance(reply, AWAY)]
        for reply in replies:
            if isinstance(reply, BaseException) and (len(away) == len(replies) or not isinstance(reply, AWAY)):
                raise reply
    return [None if isinstance(reply, AWAY) else reply for reply in replies]


def is_cluster(redis: async_redis.Redis) -> bool:
    """Whether this client has several servers behind it."""
    return isinstance(_plain(redis), Cluster)


def sync_nodes_of(redis: sync_redis.Redis) -> list[sync_redis.Redis]:
    """As `nodes_of`, for a thread."""
    client = _plain(redis)
    if not isinstance(client, SyncCluster):
        return [redis]
    with in_our_words("CLUSTER SLOTS"):
        return client.nodes()


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
