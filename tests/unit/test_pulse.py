"""Whether a role is alive and ready, from the outside of its loop (rule P4)."""

from __future__ import annotations

import asyncio

import pytest

from redisjobs.base.service import Service
from redisjobs.monitoring import pulse as pulse_module
from redisjobs.monitoring.pulse import ROUND_S, Pulse
from tests.support.clock import FakeClock
from tests.support.eventually import eventually, eventually_now


class Rounds(Service):
    """Does what a test says in its rounds."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("rounds", 0.01, clock)
        self.fails = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.begun = 0

    async def _round(self) -> int:
        self.begun += 1
        await self.goes_on.wait()
        if self.fails:
            raise RuntimeError("a store is away")
        return 0


async def test_it_is_ready_from_the_first_round_to_the_drain():
    pulse, clock = Pulse(), FakeClock()
    part = Rounds(clock)
    assert (pulse.verdict().live, pulse.verdict().busy) == (True, ("it is starting",))

    pulse.start(part)
    await part.start()
    await eventually(lambda: pulse.verdict().ready, "it is ready")

    part.goes_on.clear()
    await clock.advance(1)
    stop = asyncio.create_task(part.stop())
    await eventually(lambda: pulse.verdict().busy == ("it is draining",), "it drains")
    assert pulse.verdict().live

    part.goes_on.set()
    await stop
    assert pulse.verdict().busy == ("it has stopped",)
    pulse.stop()


async def test_rounds_that_fail_make_it_busy_and_never_sick():
    pulse, clock = Pulse(), FakeClock()
    part = Rounds(clock)
    part.fails = True
    pulse.start(part)
    await part.start()

    for _ in range(5):
        before = part.begun
        await clock.advance(ROUND_S / 2)
        assert part.begun > before
        assert "a store does not answer" in pulse.verdict().busy[0]
        assert pulse.verdict().live

    await part.stop()
    pulse.stop()


async def test_a_round_that_never_ends_makes_it_sick():
    pulse, clock = Pulse(), FakeClock()
    part = Rounds(clock)
    part.goes_on.clear()
    pulse.start(part)
    await part.start()
    await eventually(lambda: part.begun == 1, "the round has begun")
    assert pulse.verdict().live

    await clock.advance(ROUND_S + 1)

    assert pulse.verdict().sick == ("no round of it has ended for 121 s: it hangs",)
    part.goes_on.set()
    await part.stop()
    pulse.stop()


async def test_a_loop_that_does_not_turn_makes_it_sick_until_it_turns_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulse_module, "LOOP_S", 0.2)
    monkeypatch.setattr(pulse_module, "BEAT_S", 0.05)
    pulse, clock = Pulse(), FakeClock()
    part = Rounds(clock)
    pulse.start(part)
    await part.start()
    await eventually(lambda: pulse.verdict().ready, "it is ready")

    eventually_now(lambda: not pulse.verdict().live, "while this holds the loop it is sick")
    assert "a body blocks it" in pulse.verdict().sick[0]

    await eventually(lambda: pulse.verdict().ready, "the loop turns again")
    await part.stop()
    pulse.stop()
