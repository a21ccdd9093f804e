"""Start, stop and the loop of everything that ticks (rules G2 to G6)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from redisjobs.base.service import Service
from redisjobs.errors import BrokerUnavailable, RedisjobsError
from tests.support.clock import FakeClock, settle


class Counting(Service):
    """Counts its rounds; a round can be made to hang or to raise."""

    def __init__(self, clock: FakeClock | None = None, interval: float = 10.0) -> None:
        super().__init__("counting", interval, clock or FakeClock())
        self.rounds = 0
        self.inside = 0
        self.overlapped = False
        self.gate: asyncio.Event | None = None
        self.error: Exception | None = None
        self.released = 0

    async def _round(self) -> int:
        self.inside += 1
        self.overlapped = self.overlapped or self.inside > 1
        try:
            self.rounds += 1
            if self.gate is not None:
                await self.gate.wait()
            if self.error is not None:
                raise self.error
            return 1
        finally:
            self.inside -= 1

    def _release(self) -> None:
        super()._release()
        self.released += 1


async def test_it_ticks_at_once_and_then_at_its_interval() -> None:
    clock = FakeClock()
    service = Counting(clock, interval=10)
    await service.start()
    await settle()
    assert service.rounds == 1
    await clock.advance(9.9)
    assert service.rounds == 1
    await clock.advance(0.2)
    assert service.rounds == 2
    await service.stop()


async def test_waking_it_brings_the_next_round_now() -> None:
    service = Counting()
    await service.start()
    await settle()
    service.wake()
    await settle()
    assert service.rounds == 2
    await service.stop()


async def test_starting_twice_is_starting_once() -> None:
    service = Counting()
    await service.start()
    await service.start()
    await settle()
    assert service.rounds == 1
    await service.stop()


async def test_it_is_refused_to_start_while_it_drains() -> None:
    service = Counting()
    service.gate = asyncio.Event()
    await service.start()
    await settle()
    stopping = asyncio.create_task(service.stop())
    await settle()
    assert service.state == "draining"
    with pytest.raises(RedisjobsError, match="counting is draining: wait for its stop"):
        await service.start()
    service.gate.set()
    await stopping


async def test_it_can_be_started_again_any_number_of_times_and_leaves_no_task_behind() -> None:
    service = Counting()
    before = asyncio.all_tasks()
    for _ in range(3):
        await service.start()
        await settle()
        await service.stop()
    await settle()
    assert service.rounds == 3
    assert service.state == "stopped"
    assert asyncio.all_tasks() == before


async def test_a_tick_from_outside_never_overlaps_the_round_in_flight() -> None:
    service = Counting()
    service.gate = asyncio.Event()
    await service.start()
    ticking = asyncio.create_task(service.tick())
    await settle()
    service.gate.set()
    assert await ticking == 1
    await service.stop()
    assert not service.overlapped


async def test_a_round_that_raises_is_logged_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    service = Counting(clock)
    service.error = BrokerUnavailable("Redis at localhost does not answer")
    await service.start()
    await settle()
    assert [record.event for record in caplog.records] == ["service.round_failed"]  # type: ignore[attr-defined]
    service.error = None
    await clock.advance(0.1)
    assert service.rounds == 2
    assert service.failures == 0
    await service.stop()


async def test_failures_in_a_row_slow_it_down_to_two_seconds_and_no_further() -> None:
    clock = FakeClock()
    service = Counting(clock)
    service.error = BrokerUnavailable("gone")
    await service.start()
    await clock.advance(60)
    slow = service.rounds
    await clock.advance(60)
    assert 30 <= service.rounds - slow <= 60
    await service.stop()


async def test_waking_it_does_not_shorten_the_pause_after_a_failure() -> None:
    clock = FakeClock()
    service = Counting(clock)
    service.error = BrokerUnavailable("no answer")
    await service.start()
    await clock.advance(10)
    failed = service.rounds
    for _ in range(100):
        service.wake()
        await clock.advance(0.01)
    assert service.rounds <= failed + 1
    await service.stop()


async def test_a_stop_does_not_wait_for_the_pause_after_a_failure() -> None:
    service = Counting()
    service.error = BrokerUnavailable("no answer")
    await service.start()
    await settle()
    await asyncio.wait_for(service.stop(), 1)
    assert service.state == "stopped"


async def test_stop_returns_after_the_round_in_flight_has_ended() -> None:
    service = Counting()
    service.gate = asyncio.Event()
    await service.start()
    await settle()
    stopping = asyncio.create_task(service.stop())
    await settle()
    assert not stopping.done()
    service.gate.set()
    await stopping
    assert service.inside == 0


async def test_stops_at_the_same_time_join_one_teardown_and_later_ones_answer_at_once() -> None:
    service = Counting()
    service.gate = asyncio.Event()
    await service.start()
    await settle()
    stops = [asyncio.create_task(service.stop()) for _ in range(3)]
    await settle()
    service.gate.set()
    await asyncio.gather(*stops)
    await service.stop()
    assert service.released == 1


async def test_a_passed_deadline_is_logged_with_its_remedy_and_still_ends_in_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    service = Counting(clock)
    service.gate = asyncio.Event()
    await service.start()
    await settle()
    stopping = asyncio.create_task(service.stop(deadline=5))
    await clock.advance(5.1)
    await stopping
    record = caplog.records[-1]
    assert (record.levelno, record.event) == (logging.WARNING, "drain-abandoned")  # type: ignore[attr-defined]
    assert "longer deadline" in record.getMessage()
    assert (service.state, service.released, service.inside) == ("stopped", 1, 0)


async def test_a_second_stop_may_shorten_the_deadline_of_the_first() -> None:
    clock = FakeClock()
    service = Counting(clock)
    service.gate = asyncio.Event()
    await service.start()
    await settle()
    patient = asyncio.create_task(service.stop())
    await settle()
    hurried = asyncio.create_task(service.stop(deadline=1))
    await clock.advance(1.1)
    await asyncio.gather(patient, hurried)
    assert service.state == "stopped"


async def test_stopping_what_never_started_answers_at_once() -> None:
    service = Counting()
    await service.stop()
    assert service.state == "stopped"
