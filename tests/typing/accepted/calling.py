"""A call has the parameters of the function, and its result has the function's type."""

from __future__ import annotations

from typing import assert_type

import psycopg

from redisjobs.call import Handle
from redisjobs.job import AsyncJob, SyncJob


def in_a_transaction(mail: AsyncJob[[str, int], bool], connection: psycopg.Connection) -> None:
    assert_type(mail.enqueue(connection, "a@example.com", 3), Handle[bool])
    assert_type(mail.using(queue="mail", delay=5).enqueue(connection, "a@example.com", 3), Handle[bool])


async def in_an_async_transaction(mail: AsyncJob[[str, int], bool], connection: psycopg.AsyncConnection) -> None:
    assert_type(await mail.enqueue(connection, "a@example.com", 3), Handle[bool])


async def here_and_now(mail: AsyncJob[[str, int], bool], report: SyncJob[[], str]) -> None:
    assert_type(await mail("a@example.com", 3), bool)
    assert_type(report(), str)
