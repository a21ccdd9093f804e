"""Takes the demo's own things out of given servers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import psycopg
from psycopg import sql

from redisjobs.base.postgres import in_our_words, options
from redisjobs.broker.client import command, connect
from redisjobs.broker.keys import Keys
from redisjobs.cli.demo.jobs import QUEUE
from redisjobs.cli.demo.ledger import schema_of
from redisjobs.settings import Settings


async def forget(redis: object, keys: Keys) -> None:
    """Delete all that Redis holds of the demo, by name and in one command.

    Looked for with SCAN first, keys that are made meanwhile would stay: a state that no fault leaves.
    """
    await command(cast("Any", redis), "DEL", keys.queues, keys.dirty, *keys.all_of(QUEUE))


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
    redis = cast("Any", connect(settings.need_redis_url()))
    try:
        names = [name async for name in redis.scan_iter(match=f"{settings.prefix}:*", count=1000)]
        if names:
            await command(redis, "DEL", *names)
    finally:
        await redis.aclose()
