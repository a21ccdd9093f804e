"""The step store in Postgres. It is opened at the first question, and each write is one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any
from uuid import UUID

from redisjobs.base import statements
from redisjobs.base.postgres import Database, Row
from redisjobs.call import Call
from redisjobs.errors import DatabaseUnavailable
from redisjobs.steps import asking
from redisjobs.steps.asking import Write
from redisjobs.steps.checks import check_record
from redisjobs.steps.records import Claim, Ending, JobDone, StepRecord, Token
from redisjobs.steps.store import StepStore
from redisjobs.steps.transactions import Transactions
from redisjobs.steps.writer import Busy, Writer

CONNECTIONS = 4
"""At most: one for each kind of write that can be under way."""
CLAIMS_AT_ONCE = 50
"""Their answer holds all records of all these runs."""


class PostgresSteps(StepStore):
    """Keeps records in the table `steps`; for one event loop.

    Args:
        url: the Postgres URL. Nothing connects before the first question.
        schema: that of the tables.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._sql = statements.load("steps", schema)
        self._database = Database(url, size=CONNECTIONS)
        self._opened: asyncio.Future[None] | None = None
        self._closed = False
        self._claims = Writer[Token, Claim]("claim", self._send_claims, lambda token: token.run, most=CLAIMS_AT_ONCE)
        self._puts = self._writer("write a step", "put", asking.of_puts)
        self._calls = self._writer("call a child", "call", asking.of_calls)
        self._waits = Writer[Write, StepRecord | None](
            "wait for an event", self._send_waits, lambda write: write.key, lambda write: write.size
        )
        self._transactions = Transactions(url, self._sql)

    async def claim(self, token: Token) -> Claim:
        return await self._claims.ask(token)

    async def put(self, token: Token, record: StepRecord, child: Call[Any] | None = None) -> None:
        check_record(record)
        if child is None:
            await self._write(self._puts, Write(token, record))
        else:
            await self._write(self._calls, Write(token, record, child))

    async def wait(self, token: Token, record: StepRecord) -> StepRecord:
        check_record(record)
        found = await self._waits.ask(Write(token, record))
        if found is None:
            raise asking.refused(token, record.name)
        return found

    async def begin_ending(self, token: Token, ending: Ending) -> None:
        if not await self._ask("begin the end", "begin_ending", asking.of_ending(token, ending)):
            raise asking.refused(token, f"the end as {ending.word}")

    async def undone(self, token: Token, undo: StepRecord, name: str) -> None:
        check_record(undo)
        await self._write(self._puts, Write(token, undo, undone=name))

    def transaction(self, token: Token, record: StepRecord | JobDone) -> AbstractAsyncContextManager[Any]:
        return self._transactions.open(token, record)

    def transaction_sync(self, token: Token, record: StepRecord | JobDone) -> AbstractContextManager[Any]:
        return self._transactions.open_sync(token, record)

    async def ended(self, token: Token) -> str | None:
        rows = await self._ask("look for an end", "ended", asking.of_token(token))
        return str(rows[0][0]) if rows else None

    async def get(self, run: UUID, name: str) -> StepRecord | None:
        rows = await self._ask("get a step", "get", {"run": run, "name": name})
        return asking.read_record(rows[0]) if rows else None

    async def list(self, run: UUID) -> Sequence[StepRecord]:
        return [asking.read_record(row) for row in await self._ask("list steps", "list", {"run": run})]

    async def delete(self, run: UUID, name: str) -> bool:
        return bool(await self._ask("delete a step", "delete", {"run": run, "name": name}))

    async def clear(self, run: UUID) -> int:
        return len(await self._ask("clear steps", "clear", {"run": run}))

    async def close(self) -> None:
        await self._claims.drained()
        for writer in (self._puts, self._calls, self._waits):
            await writer.drained()
        self._closed = True
        await self._transactions.close()
        await self._database.close()

    # -- statements
    def _writer(
        self, what: str, name: str, columns: Callable[[Sequence[Write]], dict[str, Any]]
    ) -> Writer[Write, bool]:
        async def send(writes: Sequence[Write]) -> Sequence[bool | Busy]:
            return asking.answers(await self._ask(what, name, columns(writes)), len(writes))

        return Writer(what, send, lambda write: write.key, lambda write: write.size)

    async def _write(self, writer: Writer[Write, bool], write: Write) -> None:
        if not await writer.ask(write):
            raise asking.refused(write.token, write.record.name)

    async def _send_claims(self, tokens: Sequence[Token]) -> Sequence[Claim | Busy]:
        return asking.claims(await self._ask("claim runs", "claim", asking.of_tokens(tokens)), tokens)

    async def _send_waits(self, waits: Sequence[Write]) -> Sequence[StepRecord | Busy | None]:
        return asking.waited(await self._ask("wait for events", "wait", asking.of_waits(waits)), waits)

    async def _ask(self, what: str, name: str, parameters: dict[str, Any]) -> Sequence[Row]:
        await self._open()
        return await self._database.alone(what, self._sql[name], parameters)

    async def _open(self) -> None:
        if self._closed:
            raise DatabaseUnavailable("the step store is closed")
        if self._opened is None:
            self._opened = asyncio.ensure_future(self._database.open())
        await asyncio.shield(self._opened)
