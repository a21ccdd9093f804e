"""Fills the outbox or Redis with jobs before something is measured."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from benchmarks import programs
from benchmarks.jobs import app, body, noop
from benchmarks.stores import Stores
from redisjobs import Job

AT_ONCE = 1000

_MANY = """INSERT INTO redisjobs.outbox (queue, job, input)
SELECT CASE %s::integer WHEN 1 THEN 'default' ELSE 'q' || n %% %s::integer END, 'noop',
    json_build_object('body', json_build_object(
    'i', n, 'user', 1000000 + n, 'address', 'somebody.with.a.name@example.com', 'template', 'order-confirmation',
    'language', 'en_GB', 'labels', json_build_array('first', 'second'), 'note', repeat('-', 44)))
FROM generate_series(%s::integer, %s::integer) AS n"""


def stage(stores: Stores, count: int, *, analyze: bool = True, job: Job[..., None] = noop) -> None:
    """Commit so many rows in batches, through the public call."""
    with stores.connect() as connection:
        for first in range(0, count, AT_ONCE):
            app.enqueue(connection, [job.call(body=body(n)) for n in range(first, min(count, first + AT_ONCE))])
            connection.commit()
    stores.sql("SELECT count(*) FROM redisjobs.outbox")  # whoever reads new rows first pays for it
    if analyze:
        stores.sql("ANALYZE redisjobs.outbox")
    stores.sql("CHECKPOINT")


def stage_in_sql(stores: Stores, count: int, *, queues: int = 1) -> None:
    """As `stage`, from within Postgres: for very many rows, or for many queues, `q0` and on, in turn."""
    with stores.connect(autocommit=True) as connection:
        for first in range(0, count, 10_000):
            insert(connection, first, min(count, first + 10_000) - 1, queues=queues)


def insert(connection: psycopg.Connection[Any], first: int, last: int, *, queues: int = 1) -> None:
    """The rows of these numbers, in one statement; whether they are committed is the caller's to say."""
    connection.execute(_MANY, (queues, queues, first, last))


def put_into_redis(count: int, job: Job[..., None] = noop) -> None:
    """Put so many jobs straight into Redis."""

    async def put() -> None:
        for first in range(0, count, AT_ONCE):
            await app.enqueue_direct([job.call(body=body(n)) for n in range(first, min(count, first + AT_ONCE))])
        await app.close()

    asyncio.run(put())


def is_published(stores: Stores) -> bool:
    """Redis holds every row."""
    return not stores.sql("SELECT EXISTS (SELECT FROM redisjobs.outbox WHERE state = 'staged')")[0][0]


def is_settled(stores: Stores) -> bool:
    """Nothing is under way any more."""
    return not stores.sql("SELECT EXISTS (SELECT FROM redisjobs.outbox)")[0][0]


def until_all_run(stores: Stores) -> None:
    """Relay and worker have started, for a first job has gone all the way."""
    with stores.connect(autocommit=True) as connection:
        noop.enqueue(connection, body=body(0))
    programs.wait_for(lambda: is_settled(stores), "the first job to be settled", 30)
