"""A run with a key whose Redis is emptied around its suspension: it is woken once, and holds its key until its end."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import redis

from tests.faults.test_faults_runs import life
from tests.support.builders import stage, states

Conn = psycopg.Connection[tuple[Any, ...]]


@pytest.mark.parametrize("sent", ["before", "after", "never"])
@pytest.mark.parametrize("emptied", ["before the suspension", "before it settles", "after it has settled"])
async def test_a_suspended_run_outlives_an_emptied_redis(
    conn: Conn, database_url: str, redis_url: str, emptied: str, sent: str
):
    def send() -> None:
        conn.execute("SELECT redisjobs.send_event('paid', '7')")
        conn.commit()

    with redis.Redis.from_url(redis_url) as store:
        async with life(conn, database_url, redis_url) as made:
            stage(conn, idempotency_key="k")
            conn.commit()
            run = await made.take()
            await run.wait()
            if sent == "before":
                send()
            if emptied == "before the suspension":
                store.flushall()
            await run.suspend()
            if emptied == "before it settles":
                store.flushall()
            await made.carried()
            if emptied == "after it has settled":
                store.flushall()
                await made.carried()
            if sent == "after":
                send()
            second = stage(conn, idempotency_key="k")
            conn.commit()
            await made.carried()
            assert states(conn)[second] == "deduplicated"

            if sent == "never":
                conn.execute("SELECT redisjobs.cancel(%s)", [run.id])
                conn.commit()
            else:
                again = await made.take()
                assert again.id == run.id
                assert (await again.wait()).state == "done"
                await again.end()
            await made.carried()
            third = stage(conn, idempotency_key="k")
            conn.commit()
            await made.carried()
            assert states(conn) == {
                run.id: "cancelled" if sent == "never" else "done", second: "deduplicated", third: "published"
            }  # fmt: skip
            assert conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)
