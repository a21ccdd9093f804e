"""The interface of a step store. Two there are, in Postgres and in memory; one suite tells them the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any
from uuid import UUID

from redisjobs.call import Call
from redisjobs.steps.records import Claim, Ending, JobDone, StepRecord, Token


class StepStore(ABC):
    """Keeps the records of runs. What it has answered is committed.

    Every write shows the token of its attempt and is refused where that does not stand in the run's row any more:
    another attempt has claimed the run, or it has ended.

    Raises (each method):
        StepRefused: from those that write: the token does not stand any more; nothing was written.
        StoreUnavailable: no answer; whether it was written is not known, and the same call may be made again.
    """

    @abstractmethod
    async def claim(self, token: Token) -> Claim:
        """Make the run this attempt's, and read all its records: one query. The same again is answered the same."""

    @abstractmethod
    async def put(self, token: Token, record: StepRecord, child: Call[Any] | None = None) -> None:
        """Write one record, new or anew; one that is done is never changed. `due_in` counts from now.

        Args:
            child: staged in the same commit, as a child of the run; its id is the record's. A repeat stages none.

        Raises:
            EncodeError: the value has more than 1 MiB.
            OptionError: a name that no record can have.
        """

    @abstractmethod
    async def wait(self, token: Token, record: StepRecord) -> StepRecord:
        """Record a wait for an event (`event`, `key`; `due_in`: its timeout), or come back to one.

        What is there is taken at once.

        Answers the record as it stands: waiting, or done with the event, or done and `timed_out`.
        """

    @abstractmethod
    async def begin_ending(self, token: Token, ending: Ending) -> None:
        """The run is on its way to this end; from now on only its undos are run."""

    @abstractmethod
    async def undone(self, token: Token, undo: StepRecord, name: str) -> None:
        """An undo has run: in one commit its record is written, and that of the step `name` is deleted."""

    @abstractmethod
    def transaction(self, token: Token, record: StepRecord | JobDone) -> AbstractAsyncContextManager[Any]:
        """A transaction on an async connection of its own; at the end of the block the record is written in it.

        `codec` and `value` of the record may be set inside of the block. An error that leaves the block rolls all of
        it back, and comes through as it is. The end of a job takes the run's row and its records away, and tells its
        parent.

        Raises:
            StepRefused: at the end of the block: nothing of it is there.
            StoreRefused: a statement in the block failed, and its error did not leave the block.
            StoreUnavailable: whether it was committed is not known, unless it `was_rolled_back`.
        """

    @abstractmethod
    def transaction_sync(self, token: Token, record: StepRecord | JobDone) -> AbstractContextManager[Any]:
        """As `transaction`, on a sync connection, for a body in a thread."""

    @abstractmethod
    async def ended(self, token: Token) -> str | None:
        """How a job of this life has ended, where its run is gone; None: not known, or not ended well."""

    @abstractmethod
    async def get(self, run: UUID, name: str) -> StepRecord | None:
        """One record."""

    @abstractmethod
    async def list(self, run: UUID) -> Sequence[StepRecord]:
        """All records of a run, in the order of their beginning."""

    @abstractmethod
    async def delete(self, run: UUID, name: str) -> bool:
        """Delete one record, by an operator's hand; whether it was there."""

    @abstractmethod
    async def clear(self, run: UUID) -> int:
        """Delete all records of a run; how many there were."""

    @abstractmethod
    async def close(self) -> None:
        """Give the connections back, after what is under way has been written."""
