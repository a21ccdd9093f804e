"""Transactions of bodies: what a block writes commits together with its record, or is not there."""

from __future__ import annotations

import asyncio
import random
from types import TracebackType
from typing import Any

import psycopg

from redisjobs.durable import Transaction, Work
from redisjobs.errors import StepFailed, StepRefused, StoreUnavailable, Suspend
from redisjobs.runs.failures import detail_of, failure_of
from redisjobs.runs.left import Left, LeftAsync
from redisjobs.runs.nesting import Open
from redisjobs.runs.run import Run
from redisjobs.runs.values import Values
from redisjobs.steps import StepRecord

MOST_MEETINGS = 10
"""How often a function is called again in the slot when its transaction met another."""
LONGEST_PAUSE_S = 1.0
MOST_LOST = 10
"""How often a transaction may lose its connection: a block can be what ends it, and would be run again for ever."""

ROLLED_BACK = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_LOST = (psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown, psycopg.errors.CannotConnectNow)


class Met(Exception):
    """Nothing was committed, for no fault of the block: it met another transaction, or lost its connection.

    Args:
        lost: its connection.
    """

    def __init__(self, why: str, *, lost: bool) -> None:
        super().__init__(why)
        self.lost = lost

    @classmethod
    def by(cls, error: BaseException, connection: Any) -> Met | None:
        """What an error in a block tells of this; None: it is the block's own, as is having kept Postgres waiting."""
        if isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout):
            return None
        if isinstance(error, ROLLED_BACK):
            return cls(str(error), lost=False)
        broken = isinstance(error, psycopg.OperationalError) and connection.broken
        return cls(str(error), lost=True) if broken or isinstance(error, _LOST) else None


class OneTry:
    """A transaction that takes the record of a step with it; nothing here says how its block is run.

    Args:
        values: for what the block keeps.
    """

    def __init__(self, run: Run, name: str, values: Values) -> None:
        self.run = run
        self.name = name
        self.values = values
        self.value: Any = None
        self.record: StepRecord | None = None
        self.opened = Open(run, repr(name))
        self._kept: Any = None
        self._lost = 0

    async def begin(self) -> bool:
        """Whether the block is to be run; else its value is there.

        Raises:
            StepFailed: it failed for good, in an earlier attempt.
        """
        known = await self.run.begin(self.name, "transaction")
        if known is not None and known.state == "done":
            self.value = self.values.read(known)
            return False
        if known is not None and known.state == "failed":
            raise failure_of(known)
        self._lost = 0 if known is None else known.tries
        return True

    async def fresh(self) -> StepRecord:
        """The record of another try."""
        await self.run.trusted(self.name)
        self._kept = None
        self.record = self.run.new(self.name, "transaction", state="done", tries=self._lost + 1)
        return self.record

    def keep(self, value: Any) -> None:
        """Record this."""
        self._kept = value

    def fill(self) -> None:
        """Put what was kept into the record, last thing in the transaction."""
        assert self.record is not None  # noqa: S101 - `fresh` has made it
        self.values.write(self.record, self._kept)
        self.values.read(self.record)

    def committed(self) -> None:
        """The record is in the store, and so is all else."""
        assert self.record is not None  # noqa: S101 - `fresh` has made it
        self.run.keep(self.record)
        self.value = self.values.read(self.record)

    async def unsure(self, error: StoreUnavailable) -> None:
        """The commit was not answered: return if it is there.

        Raises:
            Met: it is not.
        """
        await self.run.read_again(self.name)
        known = self.run.records.get(self.name)
        if known is None or known.state != "done":
            waited = (*ROLLED_BACK, psycopg.errors.LockNotAvailable)  # for the row of the run
            raise Met(str(error), lost=not isinstance(error.__cause__, waited)) from error
        self.record = known

    async def again(self, why: Met) -> None:
        """Note a connection that was lost, before the block is run again.

        Raises:
            StepFailed: there were too many.
        """
        if not why.lost:
            return
        if self._lost + 1 >= MOST_LOST:
            raise await self.failed(why) from why.__cause__
        self._lost += 1
        detail = detail_of(why)
        await self.run.put(self.run.new(self.name, "transaction", state="retrying", tries=self._lost, detail=detail))

    async def failed(self, error: Exception) -> StepFailed:
        """Record that the block has failed, and answer what leaves it."""
        if isinstance(error, StepRefused):
            self.run.refusal, self.run.aborted = error.why, True
            raise error
        record = self.run.new(self.name, "transaction", state="failed", tries=self._lost + 1, detail=detail_of(error))
        await self.run.put(record)
        return failure_of(record)


class Held:
    """What a block has in hand, however it is run."""

    def __init__(self, one: OneTry) -> None:
        self._one = one
        self._is_replay = False
        self._connection: Any = None
        self._inner: Any = None

    @property
    def value(self) -> Any:
        """What was kept, once the block has ended."""
        return self._one.value

    def keep(self, value: Any) -> None:
        """Record this."""
        self._one.keep(value)


class Block(Held, Transaction):
    """`async with ctx.transaction("debit") as tx:`"""

    async def __aenter__(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        self._one.opened.begin()
        try:
            if not await self._one.begin():
                self._is_replay = True
                return LeftAsync()
            return await self.open()
        except BaseException:
            self._one.opened.end()
            raise

    async def open(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        """Begin another transaction."""
        record, run = await self._one.fresh(), self._one.run

        async def enter() -> Any:
            self._inner = run.means.store.transaction(run.token, record)
            return await self._inner.__aenter__()

        self._connection = await run.persist(self._one.name, enter)
        connection: psycopg.AsyncConnection[tuple[Any, ...]] = self._connection
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            if self._is_replay:
                return isinstance(error, (Left, Exception))
            await self.close(error)
        except Met as why:
            await self._one.again(why)
            raise Suspend(random.uniform(0, LONGEST_PAUSE_S), waits=False) from why
        finally:
            self._one.opened.end()
        return False

    async def close(self, error: BaseException | None) -> None:
        """Commit, or roll back what has failed.

        Raises:
            Met: nothing was committed, for no fault of the block.
            StepFailed: it is the block's.
        """
        if error is None:
            try:
                self._one.run.check(self._one.name)
                self._one.fill()
            except BaseException as late:
                await self._roll_back(late)
                raise
            await self._commit()
            self._one.committed()
            return
        await self._roll_back(error)
        if not isinstance(error, Exception):
            return
        if (met := Met.by(error, self._connection)) is not None:
            raise met from error
        raise await self._one.failed(error) from error

    async def _commit(self) -> None:
        try:
            await self._inner.__aexit__(None, None, None)
        except StoreUnavailable as error:
            await self._one.unsure(error)
        except Exception as error:
            raise await self._one.failed(error) from error

    async def _roll_back(self, error: BaseException) -> None:
        try:
            await self._inner.__aexit__(type(error), error, error.__traceback__)
        except BaseException as again:
            if again is not error:
                raise


async def transact(run: Run, name: str, work: Work) -> Any:
    """Call a function with a transaction until that is committed; answers what it returned."""
    one = OneTry(run, name, Values.of(run.job.door.codecs, work.function))
    one.opened.begin()
    try:
        return await _until_committed(one, work)
    finally:
        one.opened.end()


async def _until_committed(one: OneTry, work: Work) -> Any:
    if not await one.begin():
        return one.value
    for meeting in range(MOST_MEETINGS):
        block = Block(one)
        tx = await block.open()
        try:
            try:
                one.keep(await work.function(tx, *work.args, **work.kwargs))
            except BaseException as error:
                await block.close(error)
                raise
            await block.close(None)
        except Met as why:
            await one.again(why)
            await asyncio.sleep(pause(meeting))
        else:
            return one.value
    raise Suspend(LONGEST_PAUSE_S, waits=False)


def pause(meeting: int) -> float:
    """How long to wait before two transactions that met are made again; by chance, so that they part."""
    return random.uniform(0, min(LONGEST_PAUSE_S, 0.02 * 2**meeting))
