"""PgBouncer in transaction mode: producers with the settings of their own driver, and a relay behind it (case F02)."""

from __future__ import annotations

import asyncio
import logging

import asyncpg
import psycopg
import pytest
import redis as redis_py
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from redisjobs import App
from tests.support.eventually import eventually
from tests.support.pgbouncer import PgBouncer
from tests.support.relays import hand, in_line, relay_by_hand

CLIENTS, TIMES = 16, 12
"""More clients than server connections, and more calls of each than psycopg makes before it prepares one."""

app = App("shop")


@app.job
async def mail(client: int, number: int) -> None:
    del client, number


def produce(url: str, client: int) -> list[str]:
    with psycopg.connect(url) as producer:
        handles = []
        for number in range(TIMES):
            handles.append(mail.enqueue(producer, client, number))
            producer.commit()
        return [handle.id for handle in handles]


async def produce_on_asyncpg(url: str, client: int) -> None:
    url = url.partition("?")[0]  # options of libpq mean nothing to asyncpg
    engine = create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://"),
        poolclass=NullPool,
        connect_args={"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""},
    )
    async with AsyncSession(engine) as session:
        for number in range(TIMES):
            await mail.enqueue(session, client, number)
            await session.commit()
    producer = await asyncpg.connect(url, statement_cache_size=0)
    for number in range(TIMES):
        async with producer.transaction():
            await app.enqueue(producer, [mail.call(client, number), mail.call(client, number)])
    await producer.close()


async def test_producers_on_asyncpg_need_no_more_than_their_drivers_own_advice(pgbouncer: PgBouncer, database_url: str):
    await asyncio.gather(*(produce_on_asyncpg(pgbouncer.url, client) for client in range(CLIENTS // 2)))

    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT count(*) FROM redisjobs.outbox").fetchone() == (CLIENTS // 2 * TIMES * 3,)


async def test_many_clients_of_few_server_connections_meet_no_prepared_statement(
    redis_url: str, pgbouncer: PgBouncer, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
):
    async with relay_by_hand(pgbouncer.url, redis_url) as relay, hand(redis_url) as worker:
        await relay.relay.start()
        producing = [asyncio.to_thread(produce, pgbouncer.url, client) for client in range(CLIENTS)]
        jobs = [job for made in await asyncio.gather(*producing) for job in made]
        await eventually(lambda: len(in_line(redis)) == CLIENTS * TIMES, "all are published")
        assert {str(job) for job in in_line(redis)} == set(jobs)
        await worker.run(count=CLIENTS * TIMES)
        await eventually(lambda: relay.relay.settled == CLIENTS * TIMES, "all are settled")

    said = {record.getMessage().split()[0] for record in caplog.records if record.levelno >= logging.WARNING}
    assert said <= {"relay.deaf"}
