"""What is no connection, and an answer that is not awaited, is refused where it is written."""

from __future__ import annotations

import asyncpg
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from redisjobs.job import AsyncJob


async def in_a_transaction(
    mail: AsyncJob[[str], bool],
    engine: Engine,
    session: Session,
    other: AsyncSession,
    pool: asyncpg.Pool[asyncpg.Record],
) -> None:
    mail.enqueue(engine, "a@example.com")  # refused
    mail.enqueue(session, 3)  # refused
    print(mail.enqueue(other, "a@example.com").id)  # refused
    print((await mail.enqueue(session, "a@example.com")).id)  # refused
    mail.enqueue(None, "a@example.com")  # refused
