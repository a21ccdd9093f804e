"""S7, H12, H14, H15: schedulers on one host, killed and paused around the ticks: each occurrence once, none early."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from tests.faults.road import sized
from tests.support.eventually import eventually
from tests.support.processes import Processes, Program
from tests.support.schedules import dispatched, make

Conn = psycopg.Connection[Any]
TICKS = sized(20, 500)
"""Seconds, each of which is an occurrence of every schedule."""
SCHEDULES = 5
TICK = timedelta(seconds=1)


def now(conn: Conn) -> datetime:
    row = conn.execute("SELECT clock_timestamp()").fetchone()
    conn.commit()
    assert row is not None
    assert isinstance(row[0], datetime)
    return row[0].astimezone(UTC)


def has_come(conn: Conn, moment: datetime) -> bool:
    return now(conn) >= moment


def has_more(conn: Conn, before: int) -> bool:
    return len(dispatched(conn, "s")) > before


class Troop:
    """Three schedulers, of which one at a time is killed or stands still."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self._processes = processes
        self._random = random.Random(seed)
        self.running = [self._start() for _ in range(3)]
        self.frozen: Program | None = None
        self.disturbed = 0

    def _start(self) -> Program:
        return self._processes.redisjobs("scheduler", "--interval", "1s")

    async def ready(self) -> None:
        for program in self.running:
            await program.says("scheduler.started", within=60)

    def disturb(self) -> None:
        """Thaw who stands still; then kill one and start another, or let one stand still until the next time."""
        self.thaw()
        self.disturbed += 1
        chosen = self._random.randrange(3)
        if self._random.random() < 0.4:
            self.running[chosen].send(signal.SIGKILL)
            self.running[chosen] = self._start()
        else:
            self.frozen = self.running[chosen]
            self.frozen.freeze()

    def thaw(self) -> None:
        if self.frozen is not None:
            self.frozen.thaw()
            self.frozen = None

    def moments(self, begin: datetime) -> Iterator[datetime]:
        """Within 500 ms of each tick."""
        for tick in range(1, TICKS + 1):
            whole = begin.replace(microsecond=0) + tick * TICK
            yield whole + timedelta(seconds=self._random.uniform(-0.5, 0.5))


def gaps(ats: list[datetime]) -> list[datetime]:
    """Occurrences between the first and the last that are not there."""
    there = set(ats)
    number = (ats[-1] - ats[0]) // TICK if ats else 0
    return [ats[0] + each * TICK for each in range(number) if ats[0] + each * TICK not in there]


@pytest.mark.timeout(sized(240, 3000))
async def test_through_kills_and_pauses_around_the_ticks_each_occurrence_is_dispatched_once_and_none_early(
    processes: Processes, conn: Conn
):
    names = [f"s{number}" for number in range(SCHEDULES)]
    for name in names:
        make(conn, name, every=TICK, catch_up="run_all", max_catch_up=1000)
    troop = Troop(processes, seed=20261130)
    await troop.ready()
    begin = now(conn)
    for moment in troop.moments(begin):
        await eventually(partial(has_come, conn, moment), "the moment has come", within=30)
        troop.disturb()
    troop.thaw()
    end = begin + (TICKS + 1) * TICK
    await eventually(
        lambda: all((found := dispatched(conn, name)) and found[-1]["at"] >= end for name in names),
        "all schedules are past the last disturbance", within=120,
    )  # fmt: skip

    assert troop.disturbed == TICKS
    for name in names:
        marks = dispatched(conn, name)
        ats = [mark["at"] for mark in marks]
        assert len(ats) == len(set(ats)), "an occurrence was dispatched twice"
        assert gaps(ats) == []
        assert ats[0] <= begin + 5 * TICK
        early = [mark for mark in marks if mark["staged_at"] < mark["at"]]
        assert early == []


@pytest.mark.timeout(sized(240, 3000))
async def test_h12_one_scheduler_that_is_killed_and_started_again_around_its_ticks_repeats_nothing(
    processes: Processes, conn: Conn
):
    make(conn, "s", cron="*/10 * * * * *", catch_up="run_all", max_catch_up=1000)
    for _ in range(sized(3, 100)):
        program = processes.redisjobs("scheduler")
        before = len(dispatched(conn, "s"))
        await eventually(partial(has_more, conn, before), "a dispatch", within=60)
        program.send(signal.SIGKILL)  # within moments of the commit
    ats = [mark["at"] for mark in dispatched(conn, "s")]
    assert len(ats) == len(set(ats))
    assert ats == sorted(ats)
    assert all(later - earlier == timedelta(seconds=10) for earlier, later in pairwise(ats))
