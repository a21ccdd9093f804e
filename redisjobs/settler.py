"""Carries outcomes back to Postgres, in batches that may be repeated."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from uuid import UUID

import msgpack

from redisjobs.base import statements
from redisjobs.base.envelope import Envelope
from redisjobs.base.postgres import Connection, Database, array, attempt
from redisjobs.broker import Carrier, Outcome
from redisjobs.errors import DecodeError
from redisjobs.leases import Hold
from redisjobs.logs import event

_NAMES = ("settle", "settle_done", "bury_direct", "make_room", "drop_finished")
statements.load("settler").require(*_NAMES)

log = logging.getLogger("redisjobs.settler")

ENTRIES_AT_ONCE = 50
FAILURES_KEPT = 30
LONGEST_KEEP_S = 366 * 86_400.0
UNREADABLE = "(unreadable)"
LOST_LEASES = "the leases of this job were lost again and again: its worker died or hung while it ran"


@dataclass(slots=True)
class Settlement:
    """What one job's outcomes in a batch come to: the last word, and every failure on the way."""

    outcome: Outcome
    failures: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    error: str | None = None
    keep_s: float = 0.0
    result: bytes | None = None
    result_codec: str | None = None

    @property
    def id(self) -> UUID:
        """The job's id."""
        return UUID(bytes=self.outcome.job_id)

    @property
    def is_plain(self) -> bool:
        """It succeeded, and nothing else is to be written down."""
        return self.outcome.word == "done" and not self.failures and not self.keep_s and self.result is None


def fold(outcomes: Sequence[Outcome]) -> list[Settlement]:
    """One settlement a job and life: a statement changes a row once, and the last outcome in stream order counts.

    Outcomes of a former life are left out as soon as a later one is in the batch.
    """
    folded: dict[bytes, Settlement] = {}
    for outcome in outcomes:
        record = read_record(outcome.record)
        known = folded.get(outcome.job_id)
        if known is not None and known.outcome.life > outcome.life:
            continue
        if known is None or known.outcome.life < outcome.life:
            known = folded[outcome.job_id] = Settlement(outcome)
        known.outcome = outcome
        failure = record.get("e")
        if failure:
            known.failures = [*known.failures, failure][-FAILURES_KEPT:]
        known.error = reason(outcome, record) or known.error
        if record:
            known.keep_s = record.get("keep", 0.0)
            known.result, known.result_codec = record.get("r"), record.get("rc")
    return list(folded.values())


def read_record(record: bytes) -> dict[str, Any]:
    """The record of an outcome, made fit for Postgres; empty where there is none, or none that can be read.

    Whatever a foreign worker wrote, the outcome itself must settle.
    """
    if not record:
        return {}
    try:
        cleaned = _clean(msgpack.unpackb(record, unicode_errors="replace", strict_map_key=False))
    except Exception:  # noqa: BLE001 - no bytes, and no depth of nesting, may stop the settling
        return {}
    if not _is_map(cleaned):
        return {}
    return {key: cleaned[key] for key, fits in _FITS.items() if key in cleaned and fits(cleaned[key])}


def _clean(value: Any) -> Any:
    """Without what neither text nor jsonb can hold: NUL, lone surrogates, numbers that are none, bytes in a failure."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if _is_map(value):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if _is_list(value):
        return [_clean(item) for item in value]
    return value


def _is_map(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_failure(value: object) -> bool:
    try:
        return isinstance(value, dict) and bool(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return False


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= LONGEST_KEEP_S


_FITS: dict[str, Callable[[Any], bool]] = {
    "e": _is_failure,
    "r": lambda value: isinstance(value, bytes),
    "rc": lambda value: isinstance(value, str),
    "why": lambda value: isinstance(value, str),
    "keep": _is_duration,
}


def reason(outcome: Outcome, record: dict[str, Any]) -> str | None:
    """Why it ended or comes back, in one line."""
    if record.get("why"):
        return str(record["why"])[:2000]
    failure = record.get("e")
    if failure:
        return f"{failure.get('type')}: {failure.get('message')}"[:2000]
    return LOST_LEASES if outcome.word == "dead" else None


class Settler:
    """Settles the outcomes of queues that this relay holds.

    Args:
        retention: seconds for which a finished job is remembered; 0: not at all, unless the job asks for longer.
    """

    def __init__(
        self, database: Database, carrier: Carrier, *, retention: float = 3600.0, schema: str = "redisjobs"
    ) -> None:
        self._database = database
        self._carrier = carrier
        self._retention = retention
        self._sql = statements.load("settler", schema).require(*_NAMES)

    async def settle(self, hold: Hold) -> int:
        """One pass over a queue's outcomes, under its turn; answers how many it took in hand.

        The statement itself needs no token: an outcome is a fact. Moving the position does.

        Raises:
            Stale, OtherLife: the hold must be dropped, or the queue recovered.
            StoreUnavailable: a store is away; the same outcomes are read again, which changes nothing.
        """
        outcomes = await self._carrier.outcomes(hold.queue, hold.settled, ENTRIES_AT_ONCE)
        if not outcomes:
            return 0
        await self._settle(hold.queue, fold(outcomes))
        positions = list(dict.fromkeys(outcome.position for outcome in outcomes))
        await self._carrier.settled(hold.fence, positions)
        hold.settled = positions[-1]
        return len(outcomes)

    async def clean(self) -> int:
        """Make the partitions of `finished` that are needed soon, and drop those whose retention is over."""
        if self._retention:
            for ahead in (self._retention, self._retention + 3600):
                await self._database.alone("make a partition", self._sql.make_room, {"ahead": ahead})
        return int((await self._database.alone("drop finished partitions", self._sql.drop_finished, {}))[0][0])

    async def _settle(self, queue: str, settlements: Sequence[Settlement]) -> None:
        plain = [each for each in settlements if each.is_plain]
        other = [each for each in settlements if not each.is_plain]
        async with self._database.transaction("settle outcomes") as connection:
            if plain:
                await connection.execute(self._sql.settle_done, self._short(plain))
            if other:
                await connection.execute(self._sql.settle, self._whole(other))
            for each in other:
                if each.outcome.word == "dead" and each.outcome.envelope:
                    await self._bury_direct(connection, queue, each)
        for each in other:
            if each.outcome.word == "dead":
                event(log, logging.ERROR, "job.dead", queue=queue, job_id=each.id, attempts=each.outcome.attempts,
                      reason=each.error, remedy=f"redisjobs dead show {each.id}")  # fmt: skip

    def _short(self, settlements: Sequence[Settlement]) -> dict[str, Any]:
        outcomes = [each.outcome for each in settlements]
        return {
            "ids": array(outcome.job_id.hex() for outcome in outcomes),
            "lives": array(str(outcome.life) for outcome in outcomes),
            "attempts": array(str(outcome.attempts) for outcome in outcomes),
            "retention": self._retention,
        }

    def _whole(self, settlements: Sequence[Settlement]) -> dict[str, Any]:
        outcomes = [each.outcome for each in settlements]
        return self._short(settlements) | {
            "words": array(outcome.word for outcome in outcomes),
            "numbers": array(str(outcome.number) for outcome in outcomes),
            "delays": array(str(outcome.delay_s) for outcome in outcomes),
            "errors": [each.error for each in settlements],
            "failures": [json.dumps(each.failures) if each.failures else None for each in settlements],
            "keeps": array(str(each.keep_s) for each in settlements),
            "results": [each.result for each in settlements],
            "codecs": [each.result_codec for each in settlements],
        }

    async def _bury_direct(self, connection: Connection, queue: str, dead: Settlement) -> None:
        """The dead letter of a job without a row, from its envelope; kept whole where that cannot be read."""
        shared = {
            "id": dead.id,
            "queue": queue,
            "attempts": dead.outcome.attempts,
            "reason": dead.error or "unknown",
            "failures": json.dumps(dead.failures),
        }
        whole = Envelope(UNREADABLE, "unreadable", dead.outcome.envelope)
        try:
            if await attempt(connection, self._sql.bury_direct, _columns(Envelope.unpack(whole.payload)) | shared):
                return
        except DecodeError:
            pass
        await connection.execute(self._sql.bury_direct, _columns(whole) | shared)


def _columns(envelope: Envelope) -> dict[str, Any]:
    names = ("job", "payload", "codec", "idempotency_key", "key_window", "priority", "max_attempts", "tenant_id",
             "traceparent", "enqueued_by", "headers")  # fmt: skip
    return {name: getattr(envelope, name) for name in names}
