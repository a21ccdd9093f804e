"""The records of a durable run, and the token under which they may be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

Kind: TypeAlias = Literal["step", "transaction", "sleep", "event", "child", "undo"]
State: TypeAlias = Literal["waiting", "retrying", "done", "failed"]
ClaimWord: TypeAlias = Literal["ok", "behind", "gone"]

KEPT_S = 3600.0
"""How long a transactional job stays visible after its end, at least: its worker does not know what the relay keeps."""


@dataclass(frozen=True, slots=True)
class Token:
    """The right of one attempt to write records of its run. It grows with every publication and every start.

    Args:
        run: the job's id.
        life: how often it was redriven.
        number: how often it was published. start: how often this publication was started.
        holder: the worker.
        job: its name, for messages.
    """

    run: UUID
    life: int
    number: int
    start: int
    holder: str
    job: str = field(default="", compare=False)


@dataclass(slots=True)
class StepRecord:
    """One thing that a run did or waits for.

    Args:
        name: no two of a run share one.
        state: waiting: a sleep, an event or a child that is not there yet. retrying: a try failed, the next is due.
        tries: how often its body was started.
        due_in: seconds until a sleep, the deadline of a wait, or the next try is due, by the store's clock when it was
            read; below 0: it was. None: never. That of a sleep is not moved by a later write.
        due: to write a moment instead of a distance; never read.
        awaited: the run has come to the place where it needs it; a child that was only started is not.
        event, key: what a wait is for.
        child: the job that it started.
        undo: an undo was registered with it.
        codec, value: its encoded result; both None where it has none.
        detail: of what failed the error (`type`, `message`, and for a child its `word`); of an event its `id` and
            `sent_at`; of a wait that ran out `timed_out`.
        took: seconds that it has been under way when it is first written; never read.
    """

    run: UUID
    name: str
    kind: Kind = "step"
    state: State = "done"
    tries: int = 0
    due_in: float | None = None
    awaited: bool = False
    event: str | None = None
    key: str | None = None
    child: UUID | None = None
    undo: bool = False
    codec: str | None = None
    value: bytes | None = field(default=None, repr=False)
    detail: dict[str, Any] | None = None
    seq: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    due: datetime | None = None
    took: float = 0.0


@dataclass(slots=True)
class JobDone:
    """The end of a transactional job, written in the transaction of its effects.

    Args:
        attempts: how many were counted, this one among them.
        keep: seconds for which the result is kept; at least `KEPT_S` are.
        codec, value: its encoded result; both None where nobody asks for it.
    """

    attempts: int
    keep: float = 0.0
    codec: str | None = None
    value: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends once its undos have run.

    Args:
        word: dead, cancelled or expired.
        reason: why, in words.
        failures: the errors that led to it, as the settler writes them.
        attempts: how many were counted on the way to it. Those that only run undos are not.
    """

    word: str
    reason: str = ""
    failures: tuple[dict[str, Any], ...] = ()
    attempts: int = 0


@dataclass(slots=True)
class Claim:
    """What a claim was answered.

    Args:
        word: ok: the run is this attempt's, and these are its records in the order of their beginning. behind: a
            higher token stands in the store (`fence`), or the same of another holder. gone: there is no such run, or
            another life of it.
        ending: the run is on its way to this end; only its undos are left to be run.
    """

    word: ClaimWord
    fence: tuple[int, int] | None = None
    ending: Ending | None = None
    version: str | None = None
    staged_at: datetime | None = None
    records: list[StepRecord] = field(default_factory=list[StepRecord])
