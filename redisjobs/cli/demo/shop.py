"""The shop: commits orders and enqueues their mails, both in one transaction, and rolls some of them back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import psycopg

from redisjobs.base import statements
from redisjobs.base.postgres import in_our_words, options
from redisjobs.cli.demo.jobs import send_confirmation
from redisjobs.cli.demo.ledger import Connection, schema_of
from redisjobs.cli.demo.plan import Order, Sale
from redisjobs.cli.demo.together import together
from redisjobs.settings import Settings

CLERKS = 4


class DeclinedError(Exception):
    """The payment was declined; the transaction is rolled back."""


class WithdrawnError(Exception):
    """The customer withdrew a part; its savepoint is rolled back."""


class Shop:
    """Some clerks with a connection each.

    Args:
        pace: sales a second, as long as the clerks keep up.

    Attributes:
        sent_ns: an order's commit, by the host's clock just before COMMIT was sent.
        committed: orders. rolled_back: orders too, by an exception or by a savepoint.
    """

    def __init__(self, settings: Settings, sales: Sequence[Sale], pace: float) -> None:
        self._settings = settings
        self._place = statements.load("demo", schema_of(settings)).place_order
        self._sales: Iterator[tuple[int, Sale]] = iter(enumerate(sales))
        self._pace = pace
        self._opened_at = 0.0
        self.sent_ns: dict[int, int] = {}
        self.committed = self.rolled_back = 0
        self._marks: dict[int, asyncio.Event] = {}

    async def sell(self) -> None:
        """Make all sales."""
        self._opened_at = time.monotonic()
        await together(*(self._clerk() for _ in range(CLERKS)))

    async def reached(self, committed: int) -> None:
        """Return when so many orders are committed."""
        if self.committed < committed:
            await self._marks.setdefault(committed, asyncio.Event()).wait()

    async def _clerk(self) -> None:
        with in_our_words("sell"):
            async with await psycopg.AsyncConnection.connect(
                self._settings.need_database_url(), **options()
            ) as connection:
                await connection.set_autocommit(False)
                for number, sale in self._sales:
                    due = self._opened_at + number / self._pace - time.monotonic()
                    if due > 0:
                        await asyncio.sleep(due)
                    await self._make(connection, sale)

    async def _make(self, connection: Connection, sale: Sale) -> None:
        try:
            await self._order(connection, sale.order)
            if sale.withdrawn:
                await self._withdraw(connection, sale.withdrawn)
            if sale.declined:
                raise DeclinedError(sale.order.id)  # noqa: TRY301 - as it happens in a program
        except DeclinedError:
            await connection.rollback()
            self.rolled_back += 1
            return
        self.sent_ns[sale.order.id] = time.time_ns()
        await connection.commit()
        self.committed += 1
        if self.committed in self._marks:
            self._marks[self.committed].set()

    async def _withdraw(self, connection: Connection, order: Order) -> None:
        try:
            async with connection.transaction():
                await self._order(connection, order)
                raise WithdrawnError(order.id)  # noqa: TRY301 - as it happens in a program
        except WithdrawnError:
            self.rolled_back += 1

    async def _order(self, connection: Connection, order: Order) -> None:
        await connection.execute(self._place, {"id": order.id, "address": order.address, "total": order.total})
        await send_confirmation.enqueue(
            connection, order.id, order.address, order.total, mood=order.mood.value, takes_ms=order.takes_ms
        )
