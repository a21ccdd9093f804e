"""Carries outcomes back to Postgres, in batches that may be repeated."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgpack

from redisjobs.base import statements
from redisjobs.base.envelope import Envelope
from redisjobs.base.postgres import Connection, Database, array
from redisjobs.broker import Carrier, Outcome
from redisjobs.errors import DecodeError
from redisjobs.leases import Hold
from redisjobs.logs import event

_NAMES = ("settle", "settle_done", "bury_direct", "make_room", "drop_finished")
statements.load("settler").require(*_NAMES)

log = logging.getLogger("redisjobs.settler")

ENTRIES_AT_ONCE = 50
FAILURES_KEPT = 30
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
            known.keep_s = float(record.get("keep", 0))
            known.result, known.result_codec = record.get("r"), record.get("rc")
    return list(folded.values())


def read_record(record: bytes) -> dict[str, Any]:
    """The record of an outcome; empty where there is none, or none that can be read."""
    if not record:
        return {}
    try:
        read = msgpack.unpackb(record)
    except Exception:  # noqa: BLE001 - whatever bytes a foreign worker wrote, the outcome itself must settle
        return {}
    return read if isinstance(read, dict) else {}


def reason(outcome: Outcome, record: dict[str, Any]) -> str | None:
    """Why it ended or comes back, in one line."""
    if record.get("why"):
        return str(record["why"])
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
        self._keeps: set[float] = set()

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
        for keep in {self._retention, *self._keeps} - {0.0}:
            for ahead in (keep, keep + 3600):
                await self._database.run("make a partition", self._sql.make_room, {"ahead": ahead})
        self._keeps.clear()
        return int((await self._database.run("drop finished partitions", self._sql.drop_finished))[0][0])

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
        self._keeps.update(each.keep_s for each in other)
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
        try:
            envelope = Envelope.unpack(dead.outcome.envelope)
        except DecodeError:
            envelope = Envelope("(unreadable)", "unreadable", dead.outcome.envelope)
        await connection.execute(
            self._sql.bury_direct,
            {
                "id": dead.id,
                "job": envelope.job,
                "queue": queue,
                "payload": envelope.payload,
                "codec": envelope.codec,
                "idempotency_key": envelope.idempotency_key,
                "key_window": envelope.key_window,
                "priority": envelope.priority,
                "max_attempts": envelope.max_attempts,
                "tenant_id": envelope.tenant_id,
                "traceparent": envelope.traceparent,
                "enqueued_by": envelope.enqueued_by,
                "headers": envelope.headers,
                "attempts": dead.outcome.attempts,
                "reason": dead.error or "unknown",
                "failures": json.dumps(dead.failures),
            },
        )
