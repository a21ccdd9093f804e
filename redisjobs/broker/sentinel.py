"""The primary that sentinels name: asked for at each new connection, so that a failover is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import redis as sync_redis
import redis.asyncio as async_redis
import redis.asyncio.sentinel as async_sentinel
import redis.sentinel as sync_sentinel

from redisjobs.base.urls import Servers

SENTINEL_TIMEOUT_S = 2.0
"""Sentinels answer at once, or the next one is asked."""

_LOGIN = {"sentinel_username": "username", "sentinel_password": "password"}


def watched(
    servers: Servers, client: type[async_redis.Redis], options: dict[str, Any], ours: Callable[[Any], Any]
) -> async_redis.Redis:
    """A client of whoever is primary.

    Args:
        client: its class. options: as for one server.
        ours: makes of redis-py's class of connections the one that is used.
    """
    kwargs, of_sentinels = _read(async_redis.ConnectionPool, servers, options)
    sentinel = cast("Any", async_sentinel.Sentinel)(servers.hosts, sentinel_kwargs=of_sentinels)
    plain, encrypted = async_sentinel.SentinelManagedConnection, async_sentinel.SentinelManagedSSLConnection
    kwargs["connection_class"] = ours(encrypted if _is_encrypted(servers) else plain)
    return cast("async_redis.Redis", sentinel.master_for(servers.service, redis_class=client, **kwargs))


def watched_sync(servers: Servers, options: dict[str, Any]) -> sync_redis.Redis:
    """As `watched`, for a thread."""
    kwargs, of_sentinels = _read(sync_redis.ConnectionPool, servers, options)
    sentinel = cast("Any", sync_sentinel.Sentinel)(servers.hosts, sentinel_kwargs=of_sentinels)
    plain, encrypted = sync_sentinel.SentinelManagedConnection, sync_sentinel.SentinelManagedSSLConnection
    kwargs["connection_class"] = encrypted if _is_encrypted(servers) else plain
    return cast("sync_redis.Redis", sentinel.master_for(servers.service, redis_class=_Watched, **kwargs))


class _Watched(sync_redis.Redis):
    def close(self) -> None:
        """Close all connections; also those to sentinels, which redis-py leaves open."""
        super().close()
        manager: Any = cast("Any", self.connection_pool).sentinel_manager
        for each in manager.sentinels:
            each.close()


def _is_encrypted(servers: Servers) -> bool:
    return servers.url.startswith("rediss:")


def _read(pool: Any, servers: Servers, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of connections to the primary, and of those to sentinels; these have a login of their own, or none."""
    kwargs: dict[str, Any] = dict(pool.from_url(servers.url, **options).connection_kwargs)
    max_connections = options["max_connections"]
    login = {theirs: kwargs.pop(name) for name, theirs in _LOGIN.items() if name in kwargs}
    for name in ("host", "port", "connection_class"):
        kwargs.pop(name, None)
    tls = {name: value for name, value in kwargs.items() if name.startswith("ssl_")}
    waits = {"socket_timeout": SENTINEL_TIMEOUT_S, "socket_connect_timeout": SENTINEL_TIMEOUT_S}
    of_sentinels = tls | waits | login | {"ssl": _is_encrypted(servers), "retry": options["retry"]}
    return kwargs | {"max_connections": max_connections}, of_sentinels
