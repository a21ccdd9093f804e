"""Queues of one worker: each has its own lease, and its depth is known (W1, W5, A09)."""

from __future__ import annotations

import asyncio

import pytest

from redisjobs.errors import OptionError
from redisjobs.settings import WorkerSettings
from tests.support.crew import Crew
from tests.support.eventually import always, eventually


async def test_a_queue_with_a_short_lease_keeps_it_beside_one_with_a_long_lease(crew: Crew) -> None:
    @crew.app.job(name="long")
    async def long() -> None:
        crew.starts["long"] += 1
        await asyncio.Event().wait()

    for _ in range(2):
        await crew.start(queues=["short", "patient"], visibility_timeout={"short": 6, "patient": 60})
    await crew.put("long", queue="short")
    await eventually(lambda: crew.starts["long"] == 1, "it runs")
    stream = crew.broker.keys.key("short", "ready1")

    async def is_renewed_in_time() -> bool:
        (pending,) = await crew.broker.redis.xpending_range(stream, "workers", "-", "+", 1)
        return int(pending["time_since_delivered"]) < 4000

    await always(is_renewed_in_time, "the remaining lease never falls below a third", lasting=5)
    assert crew.starts["long"] == 1


async def test_the_depth_of_each_queue_is_among_the_figures(crew: Crew) -> None:
    @crew.app.job(name="wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    await crew.put("wait", 7)
    worker = await crew.start(concurrency=3)
    await eventually(lambda: worker.stats()["queue_depth"] == {"default": 4}, "four wait behind three that run")


def test_a_lease_of_no_queue_or_a_heartbeat_too_slow_for_the_shortest_lease_is_refused() -> None:
    with pytest.raises(OptionError, match="names no queue"):
        WorkerSettings(visibility_timeout={})
    with pytest.raises(OptionError, match=r"below half of visibility_timeout \(2 s\)"):
        WorkerSettings(visibility_timeout={"a": 2, "b": 60}, heartbeat_interval=5)
    settings = WorkerSettings(visibility_timeout={"mail": 2, "m*": 60})
    assert [settings.lease_of(queue) for queue in ("mail", "mine", "other")] == [2, 60, 30]


async def test_an_unknown_name_is_told_of_once_and_not_at_every_try(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    await crew.put("nobody_knows", 20)
    worker = await crew.start()
    await eventually(lambda: worker.stats()["parked"] >= 20, "all are parked")
    told = [record for record in caplog.records if record.getMessage().startswith("job.parked")]
    assert [record.levelname for record in told] == ["WARNING"]
