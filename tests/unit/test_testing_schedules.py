"""Schedules in a world in memory, where `advance` runs them: S4, S8, H11, H20 by a clock that a test turns."""

from __future__ import annotations

from datetime import timedelta

import pytest

from redisjobs import App, Context, Occurrence, Snooze
from redisjobs.testing import in_memory
from redisjobs.timing import CatchUp


class Ticking:
    """An app whose job writes down the occurrences that it ran for."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.ran: list[Occurrence] = []

        @self.app.job
        async def tick(ctx: Context, note: str = "") -> None:
            assert ctx.schedule is not None
            self.ran.append(ctx.schedule)

        self.tick = tick


async def test_advance_runs_each_occurrence_at_its_own_moment():
    ticking = Ticking()
    ticking.app.schedule("*/10 * * * *")(ticking.tick)
    async with in_memory(ticking.app) as world:
        await world.advance(hours=1)
    assert len(ticking.ran) == 6
    assert all(
        later.at - earlier.at == timedelta(minutes=10)
        for earlier, later in zip(ticking.ran, ticking.ran[1:], strict=False)
    )
    assert not any(each.catch_up for each in ticking.ran)


async def test_h11_an_hourly_interval_comes_24_times_a_day_however_often_the_scheduler_restarts():
    ticking = Ticking()
    ticking.app.schedule(every=3600)(ticking.tick)
    async with in_memory(ticking.app) as world:
        await world.settle()
        for _ in range(24 * 72):
            world._scheduler._began = False  # as a new process begins
            world.clock.advance(50)
            await world._scheduler.tick()
        await world.settle()
        assert world.tables.schedules["tick"].dispatches == 24


@pytest.mark.parametrize(("catch_up", "number"), [("skip", 1), ("run_once", 1), ("run_all", 180)])
async def test_a_leap_of_the_clock_is_an_outage_of_three_hours(catch_up: CatchUp, number: int):
    ticking = Ticking()
    ticking.app.schedule("* * * * *", catch_up=catch_up, max_catch_up=100)(ticking.tick)
    async with in_memory(ticking.app) as world:
        await world.settle()
        world.clock.advance(hours=3)
        await world.settle()
    assert len(ticking.ran) == number
    assert ticking.ran[0].catch_up
    if catch_up == "run_once":
        [found] = ticking.ran
        assert found.first is not None
        assert (found.last - found.first, found.count) == (timedelta(minutes=179), 180)


async def test_s8_a_body_knows_its_occurrence_on_the_clocks_of_its_zone():
    ticking = Ticking()
    ticking.app.schedule("45 9 * * *", zone="Europe/Moscow", name="morning", call=ticking.tick.call("x"))
    async with in_memory(ticking.app) as world:
        await world.advance(days=1)
    [found] = ticking.ran
    assert (found.schedule, found.local.hour, found.local.minute) == ("morning", 9, 45)
    assert (found.at.hour, found.at.minute) == (6, 45)
    assert found.local == found.at


async def test_schedules_are_made_changed_and_triggered_in_a_transaction():
    ticking = Ticking()
    schedules = ticking.app.schedules
    async with in_memory(ticking.app) as world:
        async with world.connect() as connection:
            assert await schedules.create(connection, "s", ticking.tick.call("a"), "* * * * *")
            assert not await schedules.create(connection, "s", ticking.tick.call("a"), "* * * * *")
            await connection.rollback()
            assert not await schedules.pause(connection, "s")
            await schedules.create(connection, "s", ticking.tick.call("a"), "0 * * * *")
            assert await schedules.trigger(connection, "s")
        await world.settle()
        assert [each.triggered for each in ticking.ran] == [True]
        async with world.connect() as connection:
            assert await schedules.pause(connection, "s")
        await world.advance(hours=3)
        assert len(ticking.ran) == 1
        async with world.connect() as connection:
            await schedules.resume(connection, "s")
        await world.advance(hours=1)
        assert len(ticking.ran) == 2
        async with world.connect() as connection:
            assert await schedules.delete(connection, "s")
        await world.advance(hours=2)
        assert len(ticking.ran) == 2


async def test_overlap_skip_passes_over_while_the_last_job_lives():
    app = App("shop")

    @app.schedule("* * * * *", overlap="skip")
    @app.job
    async def slow(ctx: Context) -> None:
        if ctx.staged_at is not None:
            raise Snooze(3600)

    async with in_memory(app) as world:
        await world.advance(minutes=5)
        assert world.tables.schedules["slow"].dispatches == 1
        assert world.tables.schedules["slow"].passed_over is not None
