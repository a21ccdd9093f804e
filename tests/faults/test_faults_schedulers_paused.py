"""H15: a scheduler that stands still in the midst of a dispatch holds up nobody, and dispatches nothing afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from redisjobs.errors import StoreUnavailable
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.schedules import dispatched, make, outage, rounds, scheduler_by_hand

Conn = psycopg.Connection[Any]


@pytest.mark.parametrize("place", ["look", "dispatch", "commit"])
async def test_h15_of_a_scheduler_that_stands_still_nothing_comes_later(
    conn: Conn, database_url: str, postgres_proxy: Proxy, place: str
):
    """The request is held on its way, as that of a process that was stopped there; another scheduler is there too."""
    statement = {"look": "max_catch_up", "dispatch": "SET watermark = m.watermark", "commit": "COMMIT"}[place]
    make(conn, "s", cron="0 0 * * *")
    outage(conn, "s", timedelta(hours=25))
    async with scheduler_by_hand(postgres_proxy.url) as paused, scheduler_by_hand(database_url) as other:
        await paused.database.open()
        held = postgres_proxy.hold_request(statement)
        standing = asyncio.create_task(paused.tick())
        await held.happened(10)

        async def is_dispatched() -> bool:
            await rounds(other)
            return len(dispatched(conn, "s")) == 1

        await eventually(is_dispatched, "the other one dispatches", within=10)
        conn.execute("DELETE FROM redisjobs.outbox")  # the job has ended, and its key is free
        conn.commit()
        held.release()
        with contextlib.suppress(StoreUnavailable):
            assert await standing == 0
        await rounds(paused)
        assert dispatched(conn, "s") == []
