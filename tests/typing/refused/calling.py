"""What does not fit the function's parameters is refused where it is written."""

from __future__ import annotations

import psycopg

from redisjobs.job import AsyncJob, SyncJob


def in_a_transaction(mail: AsyncJob[[str, int], bool], connection: psycopg.Connection) -> None:
    mail.enqueue(connection, "a@example.com")  # refused
    mail.enqueue(connection, 3, "a@example.com")  # refused
    mail.enqueue("a@example.com", 3)  # refused
    mail.enqueue(connection, "a@example.com", 3, delay=5)  # refused
    mail.using(later=5)  # refused


async def here_and_now(mail: AsyncJob[[str, int], bool], report: SyncJob[[], str]) -> None:
    sent: str = await mail("a@example.com", 3)  # refused
    lines: int = report()  # refused
    print(sent, lines)
