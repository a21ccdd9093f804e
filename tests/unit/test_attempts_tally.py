"""What is counted of attempts, and how many series that may make (rule P4; CONVENTIONS of Prometheus)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from redisjobs.base.envelope import Envelope
from redisjobs.context import micros
from redisjobs.monitoring import attempts as attempts_module
from redisjobs.monitoring.attempts import Attempts
from redisjobs.monitoring.family import MOST_QUEUES, Family, Histogram
from tests.support.metrics import told
from tests.support.stage import Stage, delivery


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()

    @made.app.job(name="add")
    async def add() -> None: ...

    made.lane.send = lambda attempt: made.lane.forget(attempt, "ok")
    yield made
    made.runner.close()


def counting(stage: Stage) -> Attempts:
    made = Attempts(stage.app.jobs)
    stage.lane.observer = made
    return made


async def test_names_that_no_worker_knows_make_one_series(stage: Stage):
    counted = counting(stage)
    for n in range(50):
        await stage.run(f"of_tomorrow_{n}")

    assert list(counted.series) == [("default", "unknown")]
    assert counted.series["default", "unknown"].ended == {"parked": 50}


async def test_series_beyond_the_limit_are_counted_together(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempts_module, "MOST_SERIES", 3)
    counted = counting(stage)
    for n in range(10):
        await stage.run(delivery("add", queue=f"tenant-{n}"))

    assert len(counted.series) == 4
    assert counted.series["other", "other"].ended == {"done": 7}
    assert counted.series["tenant-0", "add"].ended == {"done": 1}


async def test_a_wait_is_counted_from_the_moment_at_which_the_job_could_run(stage: Stage):
    counted = counting(stage)
    now = datetime.now(UTC)
    long_ago, lately = micros(now - timedelta(hours=1)), micros(now - timedelta(seconds=20))
    await stage.run(delivery(Envelope("add", "json", b"{}", staged_at=long_ago, run_at=lately)))
    await stage.run(delivery(Envelope("add", "json", b"{}", staged_at=micros(now + timedelta(seconds=90)))))

    waits = counted.series["default", "add"].waits
    assert 20 <= waits.total < 30
    assert waits.counts[0] == 1, "a clock that is behind makes no wait below 0"


async def test_a_start_that_a_fault_explains_has_its_reason_and_no_wait(stage: Stage):
    counted = counting(stage)
    await stage.run(delivery("add", losses=1, start=2))
    await stage.run(delivery("add", number=2))
    await stage.run(delivery("add", number=3, life=1))  # redriven
    await stage.run(delivery("add", start=2, attempts=1))  # retried

    assert counted.series["default", "add"].redelivered == {"lease_lost": 1, "republished": 1}
    assert sum(counted.series["default", "add"].waits.counts) == 1


async def test_what_never_began_has_no_duration(stage: Stage):
    counted = counting(stage)
    await stage.run(delivery("add", cancel=True))
    stage.lane.hand_back(delivery("add"), time.monotonic())

    assert sum(counted.series["default", "add"].durations.counts) == 0
    assert counted.series["default", "unknown"].ended == {"released": 1}, "its name was not read"


def test_a_bound_belongs_to_its_bucket():
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(seconds)

    scrape = told([Family("t_seconds", "histogram", "t", ("a",), [(("x",), histogram)])])

    assert [scrape.value("t_seconds_bucket", le=le) for le in ("1.0", "2.0", "+Inf")] == [2, 4, 5]
    assert (scrape.value("t_seconds_count"), scrape.value("t_seconds_sum")) == (5, 14)


def test_queues_beyond_the_limit_are_told_together():
    values = {f"q{n:04}": 1.0 for n in range(MOST_QUEUES + 7)}

    scrape = told([Family.by_queue("redisjobs_slots", "Slots.", values)])

    assert len(scrape.values("redisjobs_slots")) == MOST_QUEUES + 1
    assert scrape.value("redisjobs_slots", queue="other") == 7
