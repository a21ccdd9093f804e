"""PgBouncer in transaction mode: producers with the settings of their own driver, and a relay behind it (case F02)."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest
import redis as redis_py

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
