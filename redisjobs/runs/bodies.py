"""Bodies that need their run from the start: those of transactional jobs, and those that are only rewound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redisjobs.errors import StepRefused, StoreUnavailable, Suspend
from redisjobs.runs.ends import Rewound
from redisjobs.runs.live import Live
from redisjobs.runs.nesting import OF_THE_JOB, Open
from redisjobs.runs.transactions import LONGEST_PAUSE_S, MOST_LOST, ROLLED_BACK, Met
from redisjobs.steps import JobDone

END = "the job's end"


async def rewound(live: Live, call: Callable[[], Awaitable[Any]]) -> Any:
    """Run a body of which only what is recorded is wanted."""
    await live.run.claim(END)
    return await call()


async def in_transaction(live: Live, call: Callable[[], Awaitable[Any]]) -> Any:
    """Run a body whose writes commit together with its end.

    Raises:
        Suspend: nothing was committed, for no fault of the body: it met another transaction, or lost its connection.
    """
    try:
        await live.run.claim(END)
    except StepRefused:
        return await _committed_before(live)
    transaction = _Transaction(live)
    await transaction.open()
    opened = Open(live.run, OF_THE_JOB)
    opened.begin()
    try:
        value = await call()
        _leave_if_ending(live)
        transaction.fill(value)
        live.run.check(END)
    except BaseException as error:
        await transaction.roll_back(error)
        if isinstance(error, Exception) and Met.by(error, live.held) is not None and _may_come_back(live, error):
            raise Suspend(LONGEST_PAUSE_S, waits=False) from error
        raise
    finally:
        opened.end()
    await transaction.commit()
    return value


def _may_come_back(live: Live, error: Exception) -> bool:
    """Uncounted. There is no record to count lost connections in; each made another publication of the job."""
    return isinstance(error, ROLLED_BACK) or live.run.attempt.delivery.number < MOST_LOST


def _leave_if_ending(live: Live) -> None:
    if live.run.ending is not None:  # nothing of it is to be there
        raise Rewound


async def _committed_before(live: Live) -> None:
    """The row is gone: an earlier attempt may have ended the job, and its finish got lost.

    Raises:
        StepRefused: it has not.
    """
    run = live.run
    why, run.refusal = run.refusal, ""
    if await run.persist(END, lambda: run.means.store.ended(run.token)) != "done":
        run.refusal = why
        raise StepRefused(run.job.name, END, why)
    live.is_committed = True


class _Transaction:
    """That of a job: async for async bodies, else one that is opened and closed in threads."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._run = live.run
        declared = live.run.job.declaration
        self._done = JobDone(live.run.attempt.delivery.attempts + 1, declared.keep_s or 0.0)
        store, token = live.run.means.store, live.run.token
        self._is_async = live.run.job.is_async
        self._inner: Any = (store.transaction if self._is_async else store.transaction_sync)(token, self._done)

    async def open(self) -> None:
        """Begin; the body finds it as `ctx.tx`."""
        try:
            self._live.held = await self._enter()
        except StoreUnavailable as error:
            raise Suspend(LONGEST_PAUSE_S, waits=False) from error

    def fill(self, value: Any) -> None:
        """Put the result into the record of the end, where somebody asks for it."""
        job, envelope = self._run.job, self._live.envelope
        if job.declaration.result_ttl is not None or envelope.has_parent:
            self._done.codec, self._done.value = job.encode_result(value)

    async def commit(self) -> None:
        """Commit; where that is not answered, look whether it is there."""
        try:
            await self._exit(None)
        except StepRefused as error:
            self._run.refusal, self._run.aborted = error.why, True
            raise
        except StoreUnavailable as error:
            try:
                await self._run.read_again(END)
            except StepRefused:
                await _committed_before(self._live)
                return
            raise Suspend(LONGEST_PAUSE_S, waits=False) from error
        self._live.is_committed = True

    async def roll_back(self, error: BaseException) -> None:
        """Nothing of it is to be there."""
        try:
            await self._exit(error)
        except BaseException as again:
            if again is not error:
                raise

    async def _enter(self) -> Any:
        if self._is_async:
            return await self._inner.__aenter__()
        return await self._run.means.threads.call(self._inner.__enter__)

    async def _exit(self, error: BaseException | None) -> None:
        told = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        if self._is_async:
            await self._inner.__aexit__(*told)
        else:
            await self._run.means.threads.call(lambda: self._inner.__exit__(*told))
