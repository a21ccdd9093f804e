"""The reader of one queue: no more than fits, nothing overlooked, nothing begun once it drains."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import pytest

from redisjobs.broker import Broker, Delivery, Entry, Finish
from redisjobs.errors import BrokerUnavailable
from redisjobs.lane import Attempt, Lane
from redisjobs.reader import Reader
from tests.support.clock import FakeClock, settle
from tests.support.fake_broker import ScriptedBroker
from tests.support.stage import delivery


class Setup:
    """A reader whose attempts run until `end` is called."""

    def __init__(self, *waiting: Delivery, slots: int = 10) -> None:
        self.broker, self.clock = ScriptedBroker(*waiting), FakeClock()
        self.lane = Lane("default", "w1", slots, 30.0)
        self.sent: list[Finish] = []
        self.lane.send = self.send
        self.begun: list[Attempt] = []
        self.reader = Reader(cast(Broker, self.broker), self.lane, self.begun.append, clock=self.clock)

    def send(self, attempt: Attempt) -> None:
        assert attempt.finish is not None
        self.sent.append(attempt.finish)
        self.lane.forget(attempt, "ok")

    def end(self, attempt: Attempt) -> None:
        self.lane.end(attempt, Finish(attempt.delivery, "done"))

    async def arrive(self, *deliveries: Delivery) -> None:
        self.broker.waiting.extend(deliveries)
        self.broker.entries = [Entry(each.band, each.entry, each.job_id) for each in deliveries]
        self.broker.arrived.set()
        await settle()


async def test_it_never_asks_for_more_than_it_has_free_slots() -> None:
    setup = Setup(*[delivery() for _ in range(30)], slots=10)
    await setup.reader.start()
    await settle(50)
    assert len(setup.begun) == 10
    for attempt in setup.begun[:4]:
        setup.end(attempt)
    await settle(50)
    assert [count for count, _ in setup.broker.asked("take")] == [10, 4]
    assert len(setup.begun) == 14
    for attempt in setup.begun:
        setup.end(attempt)
    await setup.reader.stop()


async def test_many_slots_are_filled_part_by_part_so_that_reading_and_running_overlap() -> None:
    setup = Setup(*[delivery() for _ in range(90)], slots=90)
    await setup.reader.start()
    await settle(50)
    assert [count for count, _ in setup.broker.asked("take")][:3] == [30, 30, 30]
    await setup.reader.stop()


async def test_where_nothing_is_there_it_waits_and_begins_what_comes() -> None:
    setup = Setup()
    await setup.reader.start()
    await settle()
    assert [name for name, _ in setup.broker.calls] == ["take", "wait"]
    await setup.arrive(delivery())
    assert len(setup.begun) == 1
    await setup.reader.stop()


async def test_of_a_wait_that_brings_more_than_fits_only_what_fits_is_begun() -> None:
    setup = Setup(slots=1)
    await setup.reader.start()
    await settle()
    await setup.arrive(delivery(band=0), delivery(band=1), delivery(band=2))
    assert [room for _, room in setup.broker.asked("begin")] == [1]
    assert len(setup.begun) == 1
    await setup.reader.stop()


async def test_every_tenth_read_begins_at_the_low_band() -> None:
    setup = Setup(*[delivery() for _ in range(25)], slots=1)
    await setup.reader.start()
    for number in range(20):
        await settle()
        setup.end(setup.begun[number])
    lows = [low for _, low in setup.broker.asked("take")][:20]
    assert lows == ([False] * 9 + [True]) * 2
    await setup.reader.stop()


async def test_a_paused_queue_is_neither_read_nor_waited_for() -> None:
    setup = Setup(delivery())
    setup.broker.paused = True
    setup.broker.waiting.clear()
    await setup.reader.start()
    await setup.clock.advance(5.5)
    assert setup.broker.asked("wait") == []
    assert 5 <= len(setup.broker.asked("take")) <= 7
    await setup.reader.stop()


async def test_after_a_take_with_an_unknown_end_it_recalls_before_it_takes_again() -> None:
    unseen = delivery()
    setup = Setup()
    setup.broker.fail["take"] = [BrokerUnavailable("reset")]
    setup.broker.mine = [unseen]
    await setup.reader.start()
    await setup.clock.advance(0.2)
    assert [name for name, _ in setup.broker.calls] == ["take", "recall", "take", "wait"]
    assert [attempt.delivery for attempt in setup.begun] == [unseen]
    await setup.reader.stop()


async def test_a_look_that_is_asked_for_by_hand_recalls_too_after_one_with_an_unknown_end() -> None:
    setup = Setup()
    setup.broker.mine = [delivery()]
    setup.broker.fail = {"take": [BrokerUnavailable("the reply was lost")]}

    with pytest.raises(BrokerUnavailable):
        await setup.reader.look()
    await setup.reader.look()

    assert len(setup.begun) == 1


async def test_a_recall_starts_nothing_that_is_held_or_that_ended_meanwhile() -> None:
    held, ended, unseen = delivery(), delivery(), delivery()
    setup = Setup(held, ended)
    await setup.reader.start()
    await settle()
    setup.broker.fail["wait"] = []
    setup.lane.unsure = True
    setup.broker.mine = [held, ended, unseen]
    setup.broker.hold["recall"] = asyncio.Event()
    await setup.arrive()
    assert setup.broker.asked("recall") == [None]
    setup.end(setup.begun[1])
    setup.broker.hold["recall"].set()
    await settle()
    assert [attempt.delivery for attempt in setup.begun] == [held, ended, unseen]
    await setup.reader.stop()


async def test_an_outage_makes_no_tight_loop() -> None:
    setup = Setup()
    setup.broker.fail = {"take": [BrokerUnavailable("gone")] * 1000, "recall": [BrokerUnavailable("gone")] * 1000}
    await setup.reader.start()
    await setup.clock.advance(60)
    assert 30 <= len(setup.broker.calls) <= 70
    await setup.reader.stop()


async def test_stopping_cuts_the_wait_off_and_hands_back_what_it_may_have_brought() -> None:
    brought = delivery()
    setup = Setup()
    await setup.reader.start()
    await settle()
    setup.broker.mine = [brought]
    await setup.reader.stop()
    assert setup.begun == []
    assert [(each.delivery, each.word) for each in setup.sent] == [(brought, "released")]
    assert setup.lane.held == set()


async def test_what_a_take_in_flight_brings_after_the_stop_goes_back_unstarted() -> None:
    late = delivery()
    setup = Setup(late)
    setup.broker.hold["take"] = asyncio.Event()
    await setup.reader.start()
    await settle()
    stopping = asyncio.create_task(setup.reader.stop())
    await settle()
    setup.broker.hold["take"].set()
    await stopping
    assert setup.begun == []
    assert [(each.delivery, each.word) for each in setup.sent] == [(late, "released")]


async def test_stopping_does_not_wait_for_a_free_slot() -> None:
    setup = Setup(delivery(), slots=1)
    await setup.reader.start()
    await settle()
    assert setup.lane.free == 0
    await setup.reader.stop()
    assert setup.reader.state == "stopped"


def test_a_lane_never_promises_a_slot_twice() -> None:
    lane = Lane("default", "w1", 10, 30.0)
    with lane.reserve(7) as first, lane.reserve(7) as second, lane.reserve(7) as third:
        assert (first, second, third) == (7, 3, 0)
    assert lane.free == 10


async def test_a_client_that_swallows_one_cancel_does_not_hold_the_stop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    deaf = setup.broker.wait

    async def swallows_once(queue: str, consumer: str, block_ms: int) -> list[Entry]:
        with contextlib.suppress(asyncio.CancelledError):
            return await deaf(queue, consumer, block_ms)
        return await deaf(queue, consumer, block_ms)

    monkeypatch.setattr(setup.broker, "wait", swallows_once)
    await setup.reader.start()
    await settle()
    await asyncio.wait_for(setup.reader.stop(), 2.0)
    assert setup.reader.state == "stopped"


async def test_an_entry_that_comes_again_while_its_body_runs_is_not_started_twice() -> None:
    running = delivery()
    setup = Setup(running)
    await setup.reader.start()
    await settle()
    assert [attempt.delivery for attempt in setup.begun] == [running]
    await setup.arrive(running)
    await settle(50)
    assert len(setup.begun) == 1


async def test_an_entry_that_was_reclaimed_and_ended_while_it_was_asked_for_is_not_started_again() -> None:
    late = delivery()
    setup = Setup()
    await setup.reader.start()
    await settle()
    reclaimed = setup.lane.hold(late, 0.0)  # this worker stood still for longer than its lease, and found its own entry
    setup.broker.hold["begin"] = asyncio.Event()
    await setup.arrive(late)
    assert len(setup.broker.asked("begin")) == 1
    setup.end(reclaimed)
    setup.broker.hold["begin"].set()
    await settle(50)
    assert setup.begun == []
    await setup.reader.stop()
