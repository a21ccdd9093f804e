"""Carries outcomes back to Postgres, in batches that may be repeated."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from uuid import UUID

import msgpack

from redisjobs.aftermath import Aftermath, End, Told
from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.envelope import Envelope
from redisjobs.base.postgres import Connection, Database, Row, array, attempt, fetch, id_array, was_locked
from redisjobs.broker import Carrier, Outcome
from redisjobs.errors import DecodeError, StoreUnavailable
from redisjobs.leases import WARY_S, Hold
from redisjobs.logs import event

_NAMES = ("settle", "settle_done", "suspend", "look_again", "bury_direct", "make_room", "drop_finished")
statements.load("settler").require(*_NAMES)

log = logging.getLogger("redisjobs.settler")

ENTRIES_AT_ONCE = 50
POSITIONS_AT_ONCE = 5_000
SAY_AGAIN_S = 60.0
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
    waits: bool = False
    undone: bool = False
    owner: bytes | None = None

    @property
    def id(self) -> UUID:
        """The job's id."""
        return UUID(bytes=self.outcome.job_id)

    @property
    def is_plain(self) -> bool:
        """It succeeded, and nothing else is to be written down."""
        return self.outcome.word == "done" and not self.failures and not self.keep_s and self.result is None

    @property
    def is_suspension(self) -> bool:
        """The run has let go of its worker, and goes on later."""
        return self.outcome.word == "suspended"

    @property
    def told(self) -> Told:
        """What the parent of this job hears of its end."""
        if self.outcome.word == "done":
            return Told(self.result_codec, self.result)
        last = self.failures[-1] if self.failures else {}
        return Told(type=_text(last.get("type")), message=_text(last.get("message")) or self.error or "")


def fold(outcomes: Sequence[Outcome]) -> list[Settlement]:
    """One settlement a job and life: a statement changes a row once, and the last outcome in stream order counts.

    Outcomes of a former life are left out as soon as a later one is in the batch; of a former publication the failures
    count, and the rest does not.
    """
    folded: dict[bytes, Settlement] = {}
    for outcome in outcomes:
        record = read_record(outcome.record)
        known = folded.get(outcome.job_id)
        if known is not None and known.outcome.life > outcome.life:
            continue
        if known is None or known.outcome.life < outcome.life:
            known = folded[outcome.job_id] = Settlement(outcome)
        failure = record.get("e")
        if failure:
            known.failures = [*known.failures, failure][-FAILURES_KEPT:]
        if outcome.number < known.outcome.number:
            continue
        known.outcome = outcome
        known.waits, known.undone = bool(record.get("w")), bool(record.get("u"))
        known.error = reason(outcome, record) or known.error
        known.owner = record.get("by")
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
    "by": lambda value: isinstance(value, bytes) and len(value) == 16,
    "keep": _is_duration,
    "w": lambda value: isinstance(value, int),
    "u": lambda value: isinstance(value, int),
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
        horizon: seconds; a run that sleeps for longer waits in Postgres.

    Attributes:
        told: events are to be handed out once more, for runs that were suspended meanwhile.
    """

    def __init__(
        self,
        database: Database,
        carrier: Carrier,
        *,
        retention: float = 3600.0,
        horizon: float = 3600.0,
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.told = False
        self._clock = clock
        self._database = database
        self._carrier = carrier
        self._retention = retention
        self._horizon = horizon
        self._aftermath = Aftermath(schema)
        self._sql = statements.load("settler", schema).require(*_NAMES)

    async def settle(self, hold: Hold) -> int:
        """One pass over a queue's outcomes, under its turn; answers how many it took in hand.

        The statement itself needs no token: an outcome is a fact. Moving the position does. What waits for a row that
        somebody holds is tried again with the next pass, and those behind it settle meanwhile.

        Raises:
            Stale, OtherLife: the hold must be dropped, or the queue recovered.
            StoreUnavailable: a store is away; the same outcomes are read again, which changes nothing.
        """
        before, new = hold.held_up, list[Outcome]()
        if not before.is_full:
            new = await self._carrier.outcomes(hold.queue, before.read or hold.settled, ENTRIES_AT_ONCE)
        if not new and not before.outcomes:
            return 0
        line = before.joined_by(new, self._clock.monotonic())
        after, through = line.settled_but(await self._settle_free(hold, fold(line.outcomes)))
        for first in range(0, len(through), POSITIONS_AT_ONCE):
            await self._carrier.settled(hold.fence, through[first : first + POSITIONS_AT_ONCE])
        if through:
            hold.settled = through[-1]
        hold.held_up = after
        if after.outcomes:
            self._say_held(hold)
        return len(line.outcomes) - len(after.outcomes)

    async def clean(self) -> int:
        """Make the partitions of `finished` that are needed soon, and drop those whose retention is over."""
        if self._retention:
            for ahead in (self._retention, self._retention + 3600):
                await self._database.alone("make a partition", self._sql.make_room, {"ahead": ahead})
        return int((await self._database.alone("drop finished partitions", self._sql.drop_finished, {}))[0][0])

    async def _settle_free(self, hold: Hold, settlements: Sequence[Settlement]) -> set[bytes]:
        """Settle all but the jobs whose rows somebody holds, and answer these.

        A user's transaction that cancels a job, and stays open, must not hold up the others.
        """
        if self._clock.monotonic() >= hold.wary_until:
            try:
                await self._settle(hold.queue, settlements)
            except StoreUnavailable as error:
                if not was_locked(error):
                    raise
            else:
                return set()
        held = await self._aftermath.held(self._database, (each.outcome.job_id for each in settlements), ends=True)
        free = [each for each in settlements if each.outcome.job_id not in held]
        held |= await self._settle_some(hold.queue, free)
        if held:
            hold.wary_until = self._clock.monotonic() + WARY_S
        return held

    async def _settle_some(self, queue: str, settlements: Sequence[Settlement]) -> set[bytes]:
        """Settle what can be, and find what cannot by halves: a lock may also lie on what follows from an end."""
        if not settlements:
            return set()
        try:
            await self._settle(queue, settlements, quickly=True)
        except StoreUnavailable as error:
            if not was_locked(error):
                raise
        else:
            return set()
        if len(settlements) == 1:
            return {settlements[0].outcome.job_id}
        half = len(settlements) // 2
        return await self._settle_some(queue, settlements[:half]) | await self._settle_some(queue, settlements[half:])

    def _say_held(self, hold: Hold) -> None:
        now, waiting = self._clock.monotonic(), hold.held_up
        if now - waiting.said_at < SAY_AGAIN_S:
            return
        waiting.said_at = now
        event(
            log, logging.WARNING, "outcomes.held_up", queue=hold.queue, outcomes=len(waiting.outcomes),
            first=UUID(bytes=waiting.outcomes[0].job_id), remedy="end the transaction that has locked their rows",
        )  # fmt: skip

    async def _settle(self, queue: str, settlements: Sequence[Settlement], *, quickly: bool = False) -> None:
        """One transaction; rows are locked in the order of their ids, as everybody does who locks more than one.

        Args:
            quickly: wait for no lock.
        """
        settlements = sorted(settlements, key=lambda each: each.outcome.job_id)
        plain, pausing, other = list[Settlement](), list[Settlement](), list[Settlement]()
        for each in settlements:
            (plain if each.is_plain else pausing if each.is_suspension else other).append(each)
        async with self._database.transaction("settle outcomes", quickly=quickly) as connection:
            ends, kept = list[Row](), list[tuple[bytes, int]]()
            if plain:
                ends += await fetch(connection, self._sql.settle_done, self._short(plain))
            if other:
                settled = await fetch(connection, self._sql.settle, self._whole(other))
                ends += [row[:5] for row in settled]
                kept = [(row[0], row[5]) for row in settled if row[5]]
            if pausing:
                await connection.execute(self._sql.suspend, self._pauses(pausing))
            for each in other:
                if each.outcome.word == "dead" and each.outcome.envelope:
                    await self._bury_direct(connection, queue, each)
            if ends:
                told = {each.outcome.job_id: each.told for each in settlements}
                await self._aftermath.follow(connection, [End._make(row) for row in ends], told)
        owners = {each.outcome.job_id: each.owner for each in other}
        await self._carrier.tell_duplicates(queue, [(job, owner, ms) for job, ms in kept if (owner := owners[job])])
        await self._look_again([each for each in pausing if each.waits])
        for each in other:
            if each.outcome.word == "dead":
                event(log, logging.ERROR, "job.dead", queue=queue, job_id=each.id, attempts=each.outcome.attempts,
                      reason=each.error, remedy=f"redisjobs dead show {each.id}")  # fmt: skip

    async def _look_again(self, waiting: Sequence[Settlement]) -> None:
        """Only once their suspension is committed: whoever hands out events now sees that they wait.

        An event that was looked at before a wait was recorded would else be handed to nobody. In a transaction of its
        own, for who hands out events holds them and waits for rows.
        """
        if waiting:
            ids = {"ids": id_array(each.outcome.job_id for each in waiting)}
            if await self._database.change("look at events again", self._sql.look_again, ids):
                self.told = True

    def _short(self, settlements: Sequence[Settlement]) -> dict[str, Any]:
        outcomes = [each.outcome for each in settlements]
        return {
            "ids": id_array(outcome.job_id for outcome in outcomes),
            "lives": array(str(outcome.life) for outcome in outcomes),
            "numbers": array(str(outcome.number) for outcome in outcomes),
            "attempts": array(str(outcome.attempts) for outcome in outcomes),
            "retention": self._retention,
        }

    def _pauses(self, settlements: Sequence[Settlement]) -> dict[str, Any]:
        delays = [each.outcome.delay_s for each in settlements]
        return self._short(settlements) | {
            "delays": array("NULL" if delay < 0 else str(delay) for delay in delays),
            "waits": array("true" if each.waits else "false" for each in settlements),
            "errors": [each.error for each in settlements],
            "failures": _failures(settlements),
            "horizon": self._horizon,
        }

    def _whole(self, settlements: Sequence[Settlement]) -> dict[str, Any]:
        outcomes = [each.outcome for each in settlements]
        return self._short(settlements) | {
            "words": array(outcome.word for outcome in outcomes),
            "undones": array("true" if each.undone else "false" for each in settlements),
            "delays": array(str(outcome.delay_s) for outcome in outcomes),
            "errors": [each.error for each in settlements],
            "failures": _failures(settlements),
            "keeps": array(str(each.keep_s) for each in settlements),
            "results": [each.result for each in settlements],
            "codecs": [each.result_codec for each in settlements],
            "owners": array("NULL" if each.owner is None else each.owner.hex() for each in settlements),
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


def _failures(settlements: Sequence[Settlement]) -> list[str | None]:
    return [json.dumps(each.failures) if each.failures else None for each in settlements]


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:2000]


def _columns(envelope: Envelope) -> dict[str, Any]:
    names = ("job", "payload", "codec", "idempotency_key", "key_window", "priority", "max_attempts", "tenant_id",
             "traceparent", "enqueued_by", "headers", "version", "lane", "share_key", "key_policy", "key_wait",
             "key_longest")  # fmt: skip
    return {name: getattr(envelope, name) for name in names}
