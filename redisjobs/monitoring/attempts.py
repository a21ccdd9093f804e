"""Counts what becomes of a worker's attempts, by queue and job: a few additions for each, without any library."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager, nullcontext

from redisjobs.admission import FRONT
from redisjobs.context import Context
from redisjobs.lane import Attempt
from redisjobs.monitoring.family import OTHER, Histogram
from redisjobs.outcome import Outcome

DURATIONS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
WAITS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
MOST_SERIES = 500
"""Pairs of queue and job that are counted apart; those that come later are counted together."""
UNKNOWN = "unknown"
REASONS = ("lease_lost", "republished")
"""The faults that explain another start."""


class Series:
    """The figures of one job in one queue.

    Attributes:
        redelivered: starts that a fault explains, by its name; each may repeat an earlier one.
        limited: waits of starts that a limit or a rate had held back; None: there were none.
        sizes: of the runs of a batch job's body; None: there were none.
    """

    __slots__ = ("durations", "ended", "limited", "redelivered", "sizes", "started", "waits")

    def __init__(self) -> None:
        self.started = 0
        self.ended: Counter[str] = Counter()
        self.redelivered: Counter[str] = Counter()
        self.durations = Histogram(DURATIONS_S)
        self.waits = Histogram(WAITS_S)
        self.limited: Histogram | None = None
        self.sizes: Histogram | None = None


class Attempts:
    """An observer that counts. The loop writes, and any thread may read.

    Args:
        known: the names of jobs; others are counted together, for anybody may put any name into a row.
    """

    def __init__(self, known: Container[str]) -> None:
        self._known = known
        self.series: dict[tuple[str, str], Series] = {}

    def began(self, attempt: Attempt, context: Context) -> None:
        """Count a start: how long the job waited for it, in its queue or a limit's line, or which fault explains it."""
        series = self._of(attempt)
        series.started += 1
        delivery = attempt.delivery
        if delivery.losses:
            series.redelivered["lease_lost"] += 1
        elif delivery.start == 1 and delivery.number > 2 * delivery.life + 1:  # each new life takes two numbers
            series.redelivered["republished"] += 1
        elif delivery.start == 1:
            series.waits.observe(_waited(context))
        elif attempt.permit is not None and delivery.band == FRONT and not delivery.attempts:
            if series.limited is None:
                series.limited = Histogram(WAITS_S)
            series.limited.observe(_waited(context))

    def ended(self, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
        """Note how long the body ran."""
        if attempt.began_at is not None:
            self._of(attempt).durations.observe(time.monotonic() - attempt.began_at)

    def answered(self, attempt: Attempt, word: str) -> None:
        """Count an end as Redis knows it."""
        self._of(attempt).ended[word] += 1

    def batch(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        """Note how many calls it has."""
        series = self._of(attempts[0])
        if series.sizes is None:
            series.sizes = Histogram(SIZES)
        series.sizes.observe(len(attempts))
        return nullcontext()

    def _of(self, attempt: Attempt) -> Series:
        key = (attempt.delivery.queue, attempt.job)
        found = self.series.get(key)
        return found or self._new(*key)

    def _new(self, queue: str, job: str) -> Series:
        key = (queue, job if job in self._known else UNKNOWN)
        if key not in self.series and len(self.series) >= MOST_SERIES:
            key = (OTHER, OTHER)
        return self.series.setdefault(key, Series())


def _waited(context: Context) -> float:
    """Seconds since the job could have begun: two clocks are compared here, that of Postgres and our own."""
    ready, due = context.staged_at, context.run_at
    if due is not None and (ready is None or due > ready):
        ready = due
    return 0.0 if ready is None else max(0.0, time.time() - ready.timestamp())
