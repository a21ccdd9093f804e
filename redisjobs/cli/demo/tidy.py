"""Takes the demo's own things out of given servers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import psycopg
from psycopg import sql

from redisjobs.base.postgres import in_our_words, options
from redisjobs.broker.client import command, connect
from redisjobs.cli.demo.ledger import schema_of
from redisjobs.settings import Settings


async def forget(redis: object, prefix: str) -> None:
    """Delete every key with this prefix, at once: what is left of them is no state that a fault could leave."""
    client = cast("Any", redis)
    names = [name async for name in client.scan_iter(match=f"{prefix}:*", count=1000)]
    if names:
        await command(client, "DEL", *names)


def leave_nothing(settings: Settings) -> None:
    """Drop both schemas, and delete the keys."""
    with (
        in_our_words("drop the demo's schemas"),
        psycopg.connect(settings.need_database_url(), **options()) as connection,
    ):
        for schema in (schema_of(settings), settings.schema):
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
    asyncio.run(_forget(settings))


async def _forget(settings: Settings) -> None:
    redis = connect(settings.need_redis_url())
    try:
        await forget(redis, settings.prefix)
    finally:
        await redis.aclose()
