"""As `transactions`, for bodies in threads: the connection is used in the thread, the run is asked in the loop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import psycopg

from redisjobs.durable import SyncTransaction, Work
from redisjobs.errors import StoreUnavailable, Suspend
from redisjobs.runs.left import Left, LeftSync
from redisjobs.runs.run import Run
from redisjobs.runs.transactions import LONGEST_PAUSE_S, MOST_MEETINGS, Held, Met, OneTry, pause
from redisjobs.runs.values import Values

T = TypeVar("T")
Asks = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]


class SyncBlock(Held, SyncTransaction):
    """`with ctx.sync.transaction("debit") as tx:`

    Args:
        ask: has a coroutine run in the loop.
    """

    def __init__(self, one: OneTry, ask: Asks) -> None:
        super().__init__(one)
        self._ask = ask

    def __enter__(self) -> psycopg.Connection[tuple[Any, ...]]:
        self._one.opened.begin()
        try:
            if not self._ask(self._one.begin):
                self._is_replay = True
                return LeftSync()
            return self.open()
        except BaseException:
            self._one.opened.end()
            raise

    def open(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Begin another transaction."""
        record, run = self._ask(self._one.fresh), self._one.run
        inner = run.means.store.transaction_sync(run.token, record)
        try:
            self._connection = inner.__enter__()
        except StoreUnavailable as error:
            raise Suspend(LONGEST_PAUSE_S, waits=False) from error
        self._inner = inner
        connection: psycopg.Connection[tuple[Any, ...]] = self._connection
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            if self._is_replay:
                return isinstance(error, (Left, Exception))
            self.close(error)
        except Met as why:
            self._ask(partial(self._one.again, why))
            raise Suspend(random.uniform(0, LONGEST_PAUSE_S), waits=False) from why
        finally:
            self._one.opened.end()
        return False

    def close(self, error: BaseException | None) -> None:
        """As `Block.close`."""
        if error is None:
            try:
                self._one.run.check(self._one.name)
                self._one.fill()
            except BaseException as late:
                self._roll_back(late)
                raise
            self._commit()
            self._one.committed()
            return
        self._roll_back(error)
        if not isinstance(error, Exception):
            return
        if (met := Met.by(error, self._connection)) is not None:
            raise met from error
        raise self._failed(error) from error

    def _commit(self) -> None:
        try:
            self._inner.__exit__(None, None, None)
        except StoreUnavailable as error:
            unsure = error
            self._ask(lambda: self._one.unsure(unsure))
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> BaseException:
        failed: BaseException = self._ask(lambda: self._one.failed(error))
        return failed

    def _roll_back(self, error: BaseException) -> None:
        try:
            self._inner.__exit__(type(error), error, error.__traceback__)
        except BaseException as again:
            if again is not error:
                raise


def transact_sync(run: Run, name: str, work: Work, ask: Asks) -> Any:
    """As `transact`."""
    one = OneTry(run, name, Values.of(run.job.door.codecs, work.function))
    one.opened.begin()
    try:
        return _until_committed(one, work, ask)
    finally:
        one.opened.end()


def _until_committed(one: OneTry, work: Work, ask: Asks) -> Any:
    if not ask(one.begin):
        return one.value
    for meeting in range(MOST_MEETINGS):
        block = SyncBlock(one, ask)
        tx = block.open()
        try:
            try:
                one.keep(work.function(tx, *work.args, **work.kwargs))
            except BaseException as error:
                block.close(error)
                raise
            block.close(None)
        except Met as why:
            ask(partial(one.again, why))
            time.sleep(pause(meeting))
        else:
            return one.value
    raise Suspend(LONGEST_PAUSE_S, waits=False)
