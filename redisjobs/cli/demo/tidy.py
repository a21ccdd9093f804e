"""Takes the demo's own things out of given servers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import psycopg
from psycopg import sql

from redisjobs.base.postgres import in_our_words, options
from redisjobs.broker.client import command, connect, nodes_of
from redisjobs.broker.keys import Keys
from redisjobs.cli.demo.jobs import QUEUE
from redisjobs.cli.demo.ledger import schema_of
from redisjobs.settings import Settings


async def forget(redis: object, keys: Keys) -> None:
    """Delete all that Redis holds of the demo, by name, and of its queue in one command.

    Looked for with SCAN first, keys that are made meanwhile would stay: a state that no fault leaves.
    """
    for names in (keys.all_of(QUEUE), [keys.queues], [keys.dirty]):
        await command(cast("Any", redis), "DEL", *names)


async def flush(redis: object) -> None:
    """FLUSHALL, of every server."""
    for node in await nodes_of(cast("Any", redis)):
        await command(node, "FLUSHALL")


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
        for node in await nodes_of(redis):
            async for name in cast("Any", node).scan_iter(match=f"{settings.prefix}:*", count=1000):
                await command(redis, "DEL", name)
    finally:
        await redis.aclose()
