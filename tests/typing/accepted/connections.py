"""Each driver's connection is known for what it is: an async one's answer is to be awaited."""

from __future__ import annotations

from typing import assert_type

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from django.db import connection as django_connection
from django.db import connections as django_connections
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from redisjobs import App
from redisjobs.call import Handle
from redisjobs.job import AsyncJob


def sync(mail: AsyncJob[[str], bool], session: Session, scope: scoped_session[Session], connection: Connection) -> None:
    assert_type(mail.enqueue(session, "a@example.com"), Handle[bool])
    assert_type(mail.enqueue(scope, "a@example.com"), Handle[bool])
    assert_type(mail.enqueue(connection, "a@example.com"), Handle[bool])
    assert_type(mail.using(delay=5).enqueue(session, "a@example.com"), Handle[bool])
    assert_type(mail.enqueue(django_connection, "a@example.com"), Handle[bool])
    assert_type(mail.enqueue(django_connections["default"], "a@example.com"), Handle[bool])


async def of_sqlalchemy(
    mail: AsyncJob[[str], bool],
    session: AsyncSession,
    scope: async_scoped_session[AsyncSession],
    connection: AsyncConnection,
) -> None:
    assert_type(await mail.enqueue(session, "a@example.com"), Handle[bool])
    assert_type(await mail.enqueue(scope, "a@example.com"), Handle[bool])
    assert_type(await mail.enqueue(connection, "a@example.com"), Handle[bool])


async def of_asyncpg(
    mail: AsyncJob[[str], bool],
    connection: asyncpg.Connection[asyncpg.Record],
    pooled: PoolConnectionProxy[asyncpg.Record],
) -> None:
    assert_type(await mail.enqueue(connection, "a@example.com"), Handle[bool])
    assert_type(await mail.enqueue(pooled, "a@example.com"), Handle[bool])


async def cancelling(app: App, session: Session, other: AsyncSession) -> None:
    assert_type(app.cancel(session, "…"), str)
    assert_type(await app.cancel(other, "…"), str)
