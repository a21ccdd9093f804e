"""What becomes of a schedule at a moment: which occurrences are dispatched or passed over, and when it is due next.

Pure: a scheduler reads what is known, and does what is decided here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, TypeAlias

from redisjobs.cron import Cadence, Every
from redisjobs.timing import Timing

MOST_COUNTED = 1000
"""Missed occurrences that one dispatch stands for are counted up to this."""
INSTANT = timedelta(microseconds=1)

Why: TypeAlias = Literal["misfire_grace", "overlap"]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One job to be staged.

    Args:
        at: the occurrence that it is for; the last, where it stands for several.
        delay: seconds from now after which the job may start.
        first, count: what it stands for, `count` no higher than `MOST_COUNTED`.
    """

    at: datetime
    delay: float = 0.0
    catch_up: bool = False
    first: datetime | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a schedule now.

    Args:
        watermark: up to here all occurrences are dealt with.
        next_run: when to look again; None: it is never due again.
        passed_over: the latest occurrence that was due and is not dispatched, and why.
        cancels: the last job must make room.
    """

    watermark: datetime
    next_run: datetime | None
    dispatches: tuple[Dispatch, ...] = ()
    passed_over: tuple[datetime, Why] | None = None
    cancels: bool = False


def plan(
    name: str,
    timing: Timing,
    watermark: datetime,
    now: datetime,
    *,
    first: datetime | None = None,
    running: bool = False,
) -> Plan:
    """Decide about the occurrences in (watermark, now].

    Args:
        now: by the clock of Postgres, as all moments here.
        first: the first occurrence behind the watermark, where it is known.
        running: the job of the last dispatch has not ended.
    """
    cadence = timing.cadence()
    low, high = _bounds(timing, watermark, now)
    first = first or cadence.next(low)
    if first is None or first > high:
        return Plan(watermark, _within(timing, first))
    due_from = low if timing.grace_s is None else max(low, now - timedelta(seconds=timing.grace_s) - INSTANT)
    chosen = tuple(_choose(name, timing, cadence, (first, due_from, high), now))
    if not chosen:
        return _passed_over(timing, cadence, low, high, "misfire_grace")
    if running and timing.overlap == "skip":
        return _passed_over(timing, cadence, low, high, "overlap")
    reached = chosen[-1].at
    following = _within(timing, cadence.next(reached))
    return Plan(reached, following, chosen, cancels=running and timing.overlap == "cancel")


def next_run(timing: Timing, after: datetime) -> datetime | None:
    """When it is due next; None: never again."""
    return _within(timing, timing.cadence().next(_bounds(timing, after, after)[0]))


def delay_of(name: str, timing: Timing, at: datetime) -> float:
    """The seconds by which an occurrence is put off, the same whoever asks."""
    return timing.jitter_s * zlib.crc32(f"{name} {at.isoformat()}".encode()) / 2**32


def _bounds(timing: Timing, low: datetime, high: datetime) -> tuple[datetime, datetime]:
    if timing.starts_at is not None:
        low = max(low, timing.starts_at - INSTANT)
    if timing.ends_at is not None:
        high = min(high, timing.ends_at)
    return low, high


def _within(timing: Timing, moment: datetime | None) -> datetime | None:
    ended = moment is not None and timing.ends_at is not None and moment > timing.ends_at
    return None if ended else moment


def _choose(
    name: str, timing: Timing, cadence: Cadence, window: tuple[datetime, datetime, datetime], now: datetime
) -> Iterator[Dispatch]:
    """The dispatches for a window (first missed, from, until], by the policy."""
    first, low, high = window

    def put_off(at: datetime) -> float:
        return max(0.0, (at - now).total_seconds() + delay_of(name, timing, at)) if timing.jitter_s else 0.0

    if timing.catch_up == "run_all":
        for at in islice(cadence.occurrences(low, high), timing.max_catch_up):
            following = cadence.next(at)
            yield Dispatch(at, put_off(at), catch_up=following is not None and following <= now)
        return
    latest = cadence.latest(low, high, first=first if first > low else None)
    if latest is None:
        return
    if timing.catch_up == "run_once":
        begin = cadence.next(low)
        yield Dispatch(latest, put_off(latest), first != latest, begin, _count(cadence, low, latest))
    else:
        following = cadence.next(latest)
        late = following is not None and following <= now  # its end came before a later occurrence
        yield Dispatch(latest, put_off(latest), catch_up=first != latest or late)


def _count(cadence: Cadence, low: datetime, high: datetime) -> int:
    if isinstance(cadence, Every):
        last = cadence.latest(low, high)
        begin = cadence.next(low)
        return 0 if last is None or begin is None else min(MOST_COUNTED, (last - begin) // cadence.interval + 1)
    return cadence.count(low, high, MOST_COUNTED)


def _passed_over(timing: Timing, cadence: Cadence, low: datetime, high: datetime, why: Why) -> Plan:
    latest = cadence.latest(low, high)
    reached = high if latest is None else latest
    return Plan(reached, _within(timing, cadence.next(reached)), passed_over=(reached, why))
