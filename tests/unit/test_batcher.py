"""Outcomes on their way to Redis: gathered, repeated until answered, never dropped."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

from redisjobs.batcher import Batcher
from redisjobs.broker import Broker, Finish
from redisjobs.errors import BrokerUnavailable, StoreRefused
from redisjobs.lane import Attempt, Lane
from tests.support.clock import FakeClock, settle
from tests.support.fake_broker import ScriptedBroker
from tests.support.stage import delivery


class Setup:
    def __init__(self) -> None:
        self.broker, self.clock = ScriptedBroker(), FakeClock()
        self.lane = Lane("default", "w1", 1000, 30.0)
        self.batcher = Batcher(cast(Broker, self.broker), self.lane, self.clock)
        self.lane.send = self.batcher.add

    def end(self, count: int = 1, record: bytes = b"") -> list[Attempt]:
        ended = []
        for _ in range(count):
            attempt = self.lane.hold(delivery(), time.monotonic())
            self.lane.end(attempt, Finish(attempt.delivery, "done", counted=True, record=record))
            ended.append(attempt)
        return ended


async def test_what_ends_in_one_turn_of_the_loop_travels_in_one_call() -> None:
    setup = Setup()
    setup.end(120)
    await settle()
    assert [len(words) for words in setup.broker.asked("finish")] == [120]
    assert setup.lane.held == set()
    assert setup.lane.counts["done"] == 120


async def test_the_next_batch_gathers_while_one_is_in_flight() -> None:
    setup = Setup()
    setup.broker.hold["finish"] = asyncio.Event()
    setup.end(1)
    await settle()
    for _ in range(5):
        setup.end(2)
        await settle()
    setup.broker.hold["finish"].set()
    await settle()
    assert [len(words) for words in setup.broker.asked("finish")] == [1, 10]


async def test_a_batch_has_at_most_500_outcomes_and_4_mib() -> None:
    setup = Setup()
    setup.end(700)
    await settle()
    setup.end(6, record=b"x" * 1_500_000)
    await settle()
    assert [len(words) for words in setup.broker.asked("finish")] == [500, 200, 2, 2, 2]


@pytest.mark.parametrize("error", [BrokerUnavailable("gone"), StoreRefused("NOPERM"), RuntimeError("a bug")])
async def test_a_batch_is_repeated_until_it_is_answered(error: Exception) -> None:
    setup = Setup()
    setup.broker.fail["finish"] = [error] * 4
    setup.end(3)
    await setup.clock.advance(10)
    assert [len(words) for words in setup.broker.asked("finish")] == [3] * 5
    assert setup.lane.held == set()


async def test_an_outage_is_met_with_patience() -> None:
    setup = Setup()
    setup.broker.fail["finish"] = [BrokerUnavailable("gone")] * 1000
    setup.end()
    await setup.clock.advance(60)
    assert 30 <= len(setup.broker.asked("finish")) <= 70


async def test_unanswered_outcomes_hold_the_taking_back_at_twice_the_slots() -> None:
    setup = Setup()
    setup.lane.slots = 10
    setup.broker.hold["finish"] = asyncio.Event()
    setup.end(9)
    assert setup.lane.free == 10
    setup.end(1)
    assert setup.lane.free == 0
    setup.broker.hold["finish"].set()
    await settle()
    assert setup.lane.free == 10


async def test_a_refused_outcome_is_told_and_counts_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    first, second = setup.end(2)
    setup.broker.answers = {first.delivery.job_id: "lost", second.delivery.job_id: "repeat"}
    await settle()
    assert (setup.lane.counts["lost"], setup.lane.counts["done"]) == (1, 1)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["attempt.lost"]
    assert first.job_id in caplog.text


async def test_the_relay_is_told_after_the_outcomes_are_there_and_not_too_often() -> None:
    setup = Setup()
    setup.end()
    await settle()
    assert [name for name, _ in setup.broker.calls] == ["finish", "mark_dirty"]
    for _ in range(10):
        setup.end()
        await settle()
    assert len(setup.broker.asked("mark_dirty")) == 1
    await setup.clock.advance(0.06)
    assert len(setup.broker.asked("mark_dirty")) == 2


async def test_drained_means_answered_and_told() -> None:
    setup = Setup()
    setup.end()
    await settle()
    setup.end()
    await setup.batcher.drained()
    assert setup.lane.held == set()
    assert len(setup.broker.asked("mark_dirty")) == 2
    setup.batcher.abandon()
