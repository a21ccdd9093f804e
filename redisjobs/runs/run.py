"""One attempt's view of its run: the right to it, its records by name, and the one door through which it writes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from redisjobs.base.threads import Threads
from redisjobs.call import Call
from redisjobs.durable import StepOptions
from redisjobs.errors import (
    ConfigurationError,
    JobAbortedError,
    StepDuplicateError,
    StepRefused,
    StoreUnavailable,
    Suspend,
)
from redisjobs.job import Job
from redisjobs.lane import Attempt
from redisjobs.logs import event
from redisjobs.runs.ends import Rewound
from redisjobs.runs.failures import failed_steps
from redisjobs.runs.strands import Strands
from redisjobs.runs.values import Values
from redisjobs.steps import Claim, Ending, Kind, StepRecord, StepStore, Token

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long a store that does not answer is asked again before the run comes back later, uncounted."""
COME_BACK_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
LOOK_S = 0.05
REWIND_PATIENCE_S = 2.0
"""How long a rewound branch waits for others that still have undos to register."""
STRAY_S = 5.0

log = logging.getLogger("redisjobs.run")


@dataclass(slots=True)
class Means:
    """What runs need of their worker.

    Args:
        overtake: ask Redis for a token above this fence; None: it refuses, another holds the job.
        find: the job of a name.
        now: the moment, by the clock that the stores go by.
        monotonic: seconds of the clock by which waits are counted; it goes as that of the stores.
        in_place_s: how long a run may wait in its slot.
    """

    store: StepStore
    overtake: Callable[[Attempt, tuple[int, int]], Awaitable[tuple[int, int] | None]]
    threads: Threads
    find: Callable[[str], Job[..., Any] | None]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    in_place_s: float


@dataclass(frozen=True, slots=True)
class Undo:
    """An undo that the body has registered for a step that is done."""

    options: StepOptions
    values: Values


class Run:
    """A run as one attempt has it. It is claimed at the first durable operation.

    Attributes:
        records: by name, as far as this attempt knows them.
        undos: those registered so far, by the name of their step.
        is_claimed: its records are known here.
        ending: the run is on its way to this end; its body is only rewound.
        refusal: why nothing can be written any more; empty: it can.
        aborted: something was to be written, and could not.
        undoing: the body is through, and only undos are run.
        is_over: its row is gone, or stands for a later life.
    """

    def __init__(self, attempt: Attempt, job: Job[..., Any], means: Means) -> None:
        self.attempt = attempt
        self.job = job
        self.means = means
        self.records: dict[str, StepRecord] = {}
        self.undos: dict[str, Undo] = {}
        self.ending: Ending | None = None
        self.refusal = ""
        self.aborted = self.undoing = self.is_claimed = self.is_over = False
        self.strands = Strands()
        self._token = _token(attempt, job)
        self._used: set[str] = set()
        self._read_at: dict[str, float] = {}
        self._claiming: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def token(self) -> Token:
        """The right to write."""
        return self._token

    @property
    def to_be_undone(self) -> list[StepRecord]:
        """What is done and has an undo, newest first."""
        done = [each for each in self.records.values() if each.undo and each.state == "done" and each.kind != "undo"]
        return done[::-1]

    # -- beginning
    async def begin(self, name: str, kind: Kind) -> StepRecord | None:
        """The record of this name, if there is one; from now on the name is used.

        Raises:
            StepDuplicateError: it was used before, or by something of another kind.
            ConfigurationError: an undo asks.
            JobAbortedError: the attempt may do nothing more.
            Rewound: of a run that ends, nothing new is begun.
        """
        self._note_task()
        if self.undoing:
            why = "is asked for by an undo, whose run goes no further: an undo is recorded and tried again as a whole"
            raise ConfigurationError(f"job {self.job.name!r}: {name!r} {why}")
        if self.strands.suspended is not None:  # the body was told to leave, and has caught that
            raise self.strands.suspended
        self.check(name)
        if name in self._used:
            why = "is used twice in one run: give each its own, and in a loop one with an index"
            raise StepDuplicateError(f"job {self.job.name!r}: the name {name!r} {why}")
        self._used.add(name)
        await self.claim(name)
        record = self.records.get(name)
        if record is not None and record.kind != kind:
            why = f"was recorded as a {record.kind} and is a {kind} now: give it a new name, for the old one is taken"
            raise StepDuplicateError(f"job {self.job.name!r}: {name!r} {why}")
        if self.ending is not None and not _is_settled(record, self.left(record)):
            await self.rewind()
        return record

    async def claim(self, step: str) -> None:
        """Make the run this attempt's, once.

        Raises:
            StepRefused: it is another's, or has ended.
        """
        if self._claiming is None:
            self._claiming = asyncio.ensure_future(self._claim(step))
        await asyncio.shield(self._claiming)

    async def read_again(self, step: str) -> None:
        """Read the records anew, behind whatever was under way in the store."""
        self._claiming = None
        await self.claim(step)

    async def _claim(self, step: str) -> None:
        while True:
            found = await self.persist(step, lambda: self.means.store.claim(self._token))
            if found.word == "ok":
                self._take(found)
                return
            if found.word == "gone" or found.fence is None:
                self.is_over = found.word == "gone"
                raise self._refused(step, "its run has ended, or lives on as a redriven job")
            higher = await self.persist(step, partial(self.means.overtake, self.attempt, found.fence))
            if higher is None:
                raise self._refused(step, "another attempt has taken over")
            self.attempt.delivery.number, self.attempt.delivery.start = higher
            self._token = _token(self.attempt, self.job)

    def _take(self, claim: Claim) -> None:
        now = self.means.monotonic()
        self.is_claimed, self.ending = True, claim.ending
        self.records = {each.name: each for each in claim.records}
        self._read_at = dict.fromkeys(self.records, now)

    # -- the one door
    def check(self, step: str) -> None:
        """Refuse an attempt that may write nothing any more.

        Raises:
            JobAbortedError: it was cancelled, lost or replaced, or has ended.
        """
        if self.refusal:
            raise StepRefused(self.job.name, step, self.refusal)
        ended = self.attempt.ended_by
        why = ended.value if ended is not None else "the attempt has ended" if self.attempt.over else ""
        if why:
            self.aborted = True
            raise JobAbortedError(self.job.name, step, why)

    async def persist(self, step: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the store, which may have to be asked again. All that is written goes through here.

        Raises:
            JobAbortedError: the attempt may write nothing any more.
            Suspend: the store has not answered for a minute; the run comes back later, uncounted.
        """
        pause, until = FIRST_PAUSE_S, time.monotonic() + PATIENCE_S
        while True:
            self.check(step)
            try:
                return await ask()
            except StepRefused as error:
                self.refusal, self.aborted = error.why, True
                raise
            except StoreUnavailable as error:
                if time.monotonic() > until:
                    raise Suspend(COME_BACK_S, waits=False) from error
                event(log, logging.WARNING, "run.store_silent", **self.attempt.told(), step=step, error=str(error))
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_S, 2 * pause)

    async def put(self, record: StepRecord, child: Call[Any] | None = None) -> None:
        """Write a record."""
        await self.persist(record.name, lambda: self.means.store.put(self._token, record, child))
        self.keep(record)

    def keep(self, record: StepRecord) -> None:
        """Know a record as it stands in the store now."""
        self.records[record.name] = record
        self._read_at[record.name] = self.means.monotonic()

    def left(self, record: StepRecord | None) -> float | None:
        """Seconds until a record is due; below 0: it was. None: never."""
        if record is None or record.due_in is None:
            return None
        return record.due_in - (self.means.monotonic() - self._read_at.get(record.name, 0.0))

    def new(self, name: str, kind: Kind, **fields: Any) -> StepRecord:
        """A record of this run, not written yet."""
        return StepRecord(self._token.run, name, kind, **fields)

    # -- what goes on
    async def trusted(self, step: str) -> None:
        """Return while the lease is sure to be ours, looked at last thing before a body starts.

        Raises:
            JobAbortedError: it is ours no more.
        """
        self.check(step)
        while time.monotonic() >= self.attempt.trusted_until:
            await asyncio.sleep(LOOK_S)
            self.check(step)

    async def wait(self, left: float | None, *, waits: bool) -> None:
        """Wait for a time, in the slot if it is short. Nothing but another attempt can see an event or a child's end.

        Raises:
            Suspend: the body is to leave its slot.
        """
        if not waits and left is not None and left <= self.means.in_place_s:
            await asyncio.sleep(max(0.0, left))
            return
        await self.strands.blocked(left, waits=waits)

    def register(self, record: StepRecord, options: StepOptions, values: Values) -> None:
        """A step that is done can be undone."""
        if record.undo and options.undo is not None:
            self.undos[record.name] = Undo(options, values)

    async def reopen(self, error: BaseException | None) -> None:
        """Let the next attempt try again what has failed for good in this one and led to its error."""
        for name in failed_steps(error):
            record = self.records.get(name)
            if record is not None and record.state == "failed" and record.kind != "undo":
                again = self.new(
                    name, record.kind, state="retrying", due_in=0.0, detail=record.detail, child=record.child,
                    awaited=record.awaited, tries=0,
                )  # fmt: skip
                await self.put(again)

    # -- ends
    async def quit(self) -> None:
        """End what the body has started and not awaited; nothing of it writes any more."""
        current = asyncio.current_task()
        stray = {each for each in self._tasks if not each.done() and each is not current}
        for each in stray:
            each.cancel()
        if not stray:
            return
        _, hanging = await asyncio.wait(stray, timeout=STRAY_S)
        for each in stray - hanging:
            if not each.cancelled():
                each.exception()  # it is known that it did not end well
        if hanging:
            event(log, logging.WARNING, "run.stray_tasks", **self.attempt.told(), tasks=len(hanging))

    def begin_undoing(self) -> None:
        """From now on the body is through, and only undos are written, whatever has ended it."""
        self.undoing = True
        self.strands = Strands()

    def _note_task(self) -> None:
        task = asyncio.current_task()
        if task is not None and task is not self.attempt.task:
            self._tasks.add(task)

    async def rewind(self) -> NoReturn:
        """The body of a run that ends has come to what is not there: it stops, once no undo is missing.

        Raises:
            Rewound: always.
        """
        for _ in range(round(REWIND_PATIENCE_S / LOOK_S)):  # other branches of the body register them, or none does
            if all(each.name in self.undos for each in self.to_be_undone):
                break
            await asyncio.sleep(LOOK_S)
        raise Rewound

    def _refused(self, step: str, why: str) -> StepRefused:
        self.refusal, self.aborted = why, True
        return StepRefused(self.job.name, step, why)


def _token(attempt: Attempt, job: Job[..., Any]) -> Token:
    delivery = attempt.delivery
    run = UUID(bytes=delivery.job_id)
    return Token(run, delivery.life, delivery.number, delivery.start, attempt.lane.consumer, job.name)


def _is_settled(record: StepRecord | None, left: float | None) -> bool:
    """Whether the body gets by without doing or waiting for anything."""
    if record is None:
        return False
    if record.kind == "child":  # it was started; whether it has ended is looked at where its result is asked for
        return record.state != "retrying"
    return record.state in ("done", "failed") or (record.kind == "sleep" and left is not None and left <= 0)
