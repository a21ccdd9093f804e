"""The outbox in memory: the same rows from the same statements, without a Postgres.

It knows our statements by their names and nothing else of SQL, so the real relay runs on it unchanged.
"""

from redisjobs.testing.outbox.connection import AsyncMemoryConnection, MemoryConnection
from redisjobs.testing.outbox.database import MemoryDatabase
from redisjobs.testing.outbox.tables import DeadLetter, Finished, Row, Tables

__all__ = [
    "AsyncMemoryConnection",
    "DeadLetter",
    "Finished",
    "MemoryConnection",
    "MemoryDatabase",
    "Row",
    "Tables",
]
