"""The end of an attempt that has a run: what is written of it before Redis hears how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisjobs.base.clock import Clock
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Finish
from redisjobs.ending import AnyJob, conclude, failed, judge, succeeded
from redisjobs.errors import JobAbortedError, Suspend
from redisjobs.lane import Attempt
from redisjobs.outcome import RELEASED, Ended, Outcome, suspended
from redisjobs.record import describe, let_go
from redisjobs.runs import Live, Run, suspension_in, undo_all
from redisjobs.steps import Ending


class Closing:
    """Ends attempts with a run, in the task that ran their body. The lease goes on being renewed meanwhile.

    Args:
        forget: the attempt's deadline means nothing any more.
    """

    def __init__(self, clock: Clock, forget: Callable[[Attempt], None]) -> None:
        self._clock = clock
        self._forget = forget

    async def returned(self, attempt: Attempt, envelope: Envelope, job: AnyJob, value: object) -> Finish | None:
        """The finish of an attempt whose body returned. Never raises."""
        return await self._guarded(_End(attempt, envelope, job, self._clock, value=value))

    async def raised(self, attempt: Attempt, envelope: Envelope, job: AnyJob, error: BaseException) -> Finish | None:
        """The finish of an attempt whose body raised. Never raises."""
        try:
            return await self._guarded(_End(attempt, envelope, job, self._clock, error=error))
        finally:
            let_go(error)

    async def _guarded(self, end: _End) -> Finish | None:
        self._forget(end.attempt)
        try:
            return await end.finish()
        except BaseException as late:  # noqa: BLE001 - the drain cancels this too, and a store may stay away
            return end.cut_short(late)


class _End:
    """One end on its way."""

    def __init__(
        self,
        attempt: Attempt,
        envelope: Envelope,
        job: AnyJob,
        clock: Clock,
        *,
        value: object = None,
        error: BaseException | None = None,
    ) -> None:
        self.attempt = attempt
        self._clock = clock
        self._envelope = envelope
        self._job = job
        self._value = value
        self._error = error
        live: Live = attempt.live
        self._live = live
        self._run: Run = live.run

    async def finish(self) -> Finish | None:
        """What is sent to Redis; None: nothing."""
        run = self._run
        await run.quit()
        if self._live.is_committed:  # in Postgres it has ended
            return self._succeeded()
        if run.refusal:
            self.attempt.ended_by = Ended.LOST
        if self.attempt.ended_by is Ended.LOST:
            return self._lost(self._error)
        if run.ending is not None:
            drained = self.attempt.ended_by is Ended.DRAINED
            return self._conclude(RELEASED) if drained else await self._undo(run.ending, None)
        if (suspension := self._suspension()) is not None:
            return self._conclude(suspended(suspension))
        if self._error is None and self._counts_as_returned():
            return self._succeeded()
        return await self._after_failure()

    def cut_short(self, late: BaseException) -> Finish | None:
        """The finish where this end itself was ended."""
        if self._run.refusal:
            self.attempt.ended_by = Ended.LOST
        if self._run.undoing and self.attempt.ended_by is not Ended.LOST:
            if isinstance(late, Suspend):
                return self._conclude(suspended(late))
            return self._conclude(RELEASED)
        if isinstance(late, Suspend) and self.attempt.ended_by is None:
            return self._conclude(suspended(late))
        if self._run.is_over:
            return self._lost(self._error or late)
        return failed(self.attempt, self._envelope, self._job, self._error or late, self._clock)

    def _lost(self, error: BaseException | None) -> Finish | None:
        """Nothing; of a run that is over, as where Redis went back to a moment before its end, that it is to go.

        Else it would be given out anew with each lease, as nobody could end it.
        """
        told = failed(self.attempt, self._envelope, self._job, error, self._clock)
        return Finish(self.attempt.delivery, "over") if self._run.is_over else told

    def _suspension(self) -> Suspend | None:
        if self.attempt.ended_by is not None:
            return None
        return self._run.strands.suspended or suspension_in(self._error)

    def _counts_as_returned(self) -> bool:
        """A body in a thread that came to its end counts, though it was to stop, unless it was refused a record."""
        return self.attempt.ended_by is None or (self.attempt.in_thread and not self._run.aborted)

    async def _after_failure(self) -> Finish | None:
        run = self._run
        outcome, cause = judge(self.attempt, self._envelope, self._job, self._error)
        if outcome.word in ("dead", "cancelled") and run.is_claimed and run.to_be_undone:
            return await self._undo(await self._begin_ending(outcome, cause), outcome)
        if outcome.word in ("dead", "retry"):
            self.attempt.ended_by = None  # it is decided how it ends; what is written now is no longer the body's
            await run.reopen(self._error)
        return self._conclude(outcome, cause)

    # -- compensation
    async def _begin_ending(self, outcome: Outcome, cause: BaseException | None) -> Ending:
        run = self._run
        self._begin_undoing()
        failures: tuple[Any, ...] = ()
        if cause is not None and outcome.word == "dead":
            failures = (describe(cause, self.attempt.delivery.attempts + 1, self._clock.now()),)
            await run.reopen(self._error)
        ending = Ending(outcome.word, outcome.why, failures, self.attempt.delivery.attempts + outcome.counted)
        await run.persist("its end", lambda: run.means.store.begin_ending(run.token, ending))
        return ending

    def _begin_undoing(self) -> None:
        """From now on only a lost lease or a drain ends this: what had ended the body has been heard."""
        self._run.begin_undoing()
        self.attempt.ended_by = None
        self.attempt.in_thread = False

    async def _undo(self, ending: Ending, outcome: Outcome | None) -> Finish | None:
        """Undo what is done, then end as decided.

        Args:
            outcome: of this attempt; None: an earlier one has decided, and the body was only rewound.
        """
        run = self._run
        if outcome is None:
            self._begin_undoing()
        elif any(each.name not in run.undos for each in run.to_be_undone):  # the body has not come so far this time
            return self._conclude(Outcome("suspended"))
        try:
            failures = await undo_all(run)
        except JobAbortedError as aborted:
            return self.cut_short(aborted)
        why = "; ".join([ending.reason, *failures] if ending.reason else failures)
        word: Any = "dead" if failures else ending.word
        counted = ending.attempts > self.attempt.delivery.attempts  # the one that decided may have been cut short
        return self._conclude(Outcome(word, counted=counted, why=why, undone=True))

    # -- finishes
    def _succeeded(self) -> Finish | None:
        return succeeded(self.attempt, self._job, self._value, self._clock, has_parent=self._envelope.has_parent)

    def _conclude(self, outcome: Outcome, cause: BaseException | None = None) -> Finish | None:
        return conclude(self.attempt, self._job, outcome, cause, self._clock)
