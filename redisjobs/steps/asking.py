"""How runs speak to Postgres: what a statement is given for some of them, and what its answer says of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from redisjobs import outbox
from redisjobs.base import statements
from redisjobs.base.postgres import Row, array
from redisjobs.call import Call
from redisjobs.errors import StepRefused
from redisjobs.steps.checks import storable
from redisjobs.steps.records import Claim, Ending, JobDone, StepRecord, Token
from redisjobs.steps.writer import BUSY, Busy

T = TypeVar("T")

statements.load("steps").require(
    "claim", "ended", "put", "call", "wait", "begin_ending", "hold", "lock", "end_done", "tell_parent",
    "get", "list", "delete", "clear",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    """A record on its way, with what goes with it.

    Args:
        child: to be staged. undone: the name of a record to be deleted.
    """

    token: Token
    record: StepRecord
    child: Call[Any] | None = None
    undone: str | None = None

    @property
    def key(self) -> tuple[UUID, str]:
        """No two with the same may be in one statement."""
        return self.token.run, self.record.name

    @property
    def size(self) -> int:
        """Its bytes, about."""
        payload = self.child.payload if self.child is not None else b""
        return 500 + len(self.record.value or b"") + len(payload)


def of_tokens(tokens: Sequence[Token]) -> dict[str, Any]:
    """The columns that every statement has."""
    return {
        "runs": array(each.run.hex for each in tokens),
        "lives": array(str(each.life) for each in tokens),
        "numbers": array(str(each.number) for each in tokens),
        "starts": array(str(each.start) for each in tokens),
        "holders": [each.holder for each in tokens],
    }


def of_token(token: Token) -> dict[str, Any]:
    """The same of one, for statements that take no lists."""
    return asdict(token)


def of_puts(writes: Sequence[Write]) -> dict[str, Any]:
    """The columns of the statement `put`."""
    records = [write.record for write in writes]
    return of_tokens([write.token for write in writes]) | {
        "names": [each.name for each in records],
        "kinds": array(each.kind for each in records),
        "states": array(each.state for each in records),
        "tries": array(str(each.tries) for each in records),
        "dues": [None if each.due is None else each.due.astimezone(UTC) for each in records],
        "dues_in": _numbers(each.due_in for each in records),
        "awaited": array(str(each.awaited) for each in records),
        "children": array("NULL" if each.child is None else each.child.hex for each in records),
        "undos": array(str(each.undo) for each in records),
        "codecs": [each.codec for each in records],
        "values": [each.value for each in records],
        "details": [None if each.detail is None else _json(each.detail) for each in records],
        "took": _numbers(each.took for each in records),
        "undone": [write.undone for write in writes],
    }


def of_calls(writes: Sequence[Write]) -> dict[str, Any]:
    """The columns of the statement `call`."""
    calls = [write.child for write in writes if write.child is not None]
    records = [write.record for write in writes]
    return (
        outbox.columns(calls)
        | of_tokens([write.token for write in writes])
        | {
            "names": [each.name for each in records],
            "tries": array(str(each.tries) for each in records),
            "awaited": array(str(each.awaited) for each in records),
        }
    )


def of_waits(waits: Sequence[Write]) -> dict[str, Any]:
    """The columns of the statement `wait`."""
    records = [wait.record for wait in waits]
    return of_tokens([wait.token for wait in waits]) | {
        "names": [each.name for each in records],
        "events": [each.event for each in records],
        "keys": [each.key for each in records],
        "dues_in": _numbers(each.due_in for each in records),
    }


def refused(token: Token, what: str) -> StepRefused:
    """The error of an attempt whose token does not stand any more."""
    return StepRefused(token.job or str(token.run), what, "another attempt has claimed the run, or it has ended")


def of_ending(token: Token, ending: Ending) -> dict[str, Any]:
    """The parameters of the statement `begin_ending`."""
    return of_token(token) | {"ending": _json(write_ending(ending))}


def of_end(token: Token, done: JobDone, keep: float) -> dict[str, Any]:
    """The parameters of the statement `end_done`."""
    known = {"attempts": done.attempts, "keep": max(done.keep, keep), "codec": done.codec, "value": done.value}
    return of_token(token) | known


def answers(rows: Iterable[Row], count: int) -> list[bool | Busy]:
    """Of so many writes, which were taken; those that were not are named."""
    told: list[bool | Busy] = [True] * count
    for place, word in rows:
        told[place - 1] = BUSY if word == "busy" else False
    return told


def claims(rows: Sequence[Row], tokens: Sequence[Token]) -> list[Claim | Busy]:
    """What became of claims, each with its records."""
    found: dict[UUID, Claim | Busy] = {}
    for row in rows:
        run, word, fence, ending, version, staged_at, name = row[:7]
        if name is None:
            known = None if fence is None else (fence[0], fence[1])
            found[run] = BUSY if word == "busy" else Claim(word, known, read_ending(ending), version, in_utc(staged_at))
        elif isinstance(claim := found[run], Claim):
            claim.records.append(read_record((run, *row[6:])))
    return [found[token.run] for token in tokens]


def waited(rows: Iterable[Row], waits: Sequence[Write]) -> list[StepRecord | Busy | None]:
    """What became of waits: the records as they stand; None: refused."""
    told: list[StepRecord | Busy | None] = [None] * len(waits)
    for place, word, due_in, codec, value, detail, started_at, ended_at, seq in rows:
        if word == "busy":
            told[place - 1] = BUSY
        elif word != "refused":
            record = waits[int(place) - 1].record
            told[place - 1] = replace(
                record, state=word, due_in=due_in, awaited=True, codec=codec, value=value,
                detail=detail, started_at=in_utc(started_at), ended_at=in_utc(ended_at), seq=seq,
            )  # fmt: skip
    return told


def read_record(row: Row) -> StepRecord:
    """A row of the statements `get` and `list`."""
    (run, name, seq, kind, state, tries, due_in, awaited, event, key, child, undo, codec, value, detail, started_at,
     ended_at) = row  # fmt: skip
    return StepRecord(
        run, name, kind, state, tries, due_in, awaited, event, key, child, undo, codec, value, detail, seq,
        in_utc(started_at), in_utc(ended_at),
    )  # fmt: skip


def write_ending(ending: Ending) -> dict[str, Any]:
    """How a run is to end, as its row says it."""
    told: dict[str, Any] = storable(asdict(ending) | {"failures": list(ending.failures)})
    return told


def read_ending(told: Mapping[str, Any] | None) -> Ending | None:
    """How a run is to end, as its row says it."""
    if told is None:
        return None
    failures = tuple(told.get("failures") or ())
    return Ending(told["word"], told.get("reason") or "", failures, told.get("attempts") or 0)


def in_utc(moment: datetime | None) -> datetime | None:
    """The moment, whatever the time zone of the session."""
    return None if moment is None else moment.astimezone(UTC)


def pieces(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """The items, some at a time."""
    return (items[first : first + most] for first in range(0, len(items), most))


def _numbers(numbers: Iterable[float | None]) -> str:
    return array("NULL" if each is None else repr(float(each)) for each in numbers)


def _json(value: Any) -> str:
    return json.dumps(storable(value), ensure_ascii=False)
