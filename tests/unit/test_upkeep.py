"""What workers do beside running jobs: promote at the right time, cancel, reclaim for free slots, find queues."""

from __future__ import annotations

from typing import cast

from redisjobs.broker import Broker, Finish, Promoted
from redisjobs.errors import BrokerUnavailable
from redisjobs.lane import Attempt, Lane
from redisjobs.upkeep import Promoter, QueueFinder, Reclaimer
from tests.support.clock import FakeClock, settle
from tests.support.fake_broker import ScriptedBroker
from tests.support.stage import delivery


def lane_of(slots: int = 10) -> Lane:
    lane = Lane("default", "w1", slots, 30.0)
    lane.send = lambda attempt: lane.forget(attempt, "ok")
    return lane


def promoter(broker: ScriptedBroker, lane: Lane, clock: FakeClock, cancelled: list[Attempt]) -> Promoter:
    return Promoter(cast(Broker, broker), lane, cancelled.append, clock)


async def test_the_promoter_comes_at_the_time_of_the_next_due_job_and_at_least_each_second() -> None:
    broker, clock = ScriptedBroker(), FakeClock()
    broker.promotions = [Promoted(0, 300, []), Promoted(1, None, []), Promoted(0, 90_000, [])]
    part = promoter(broker, lane_of(), clock, [])
    await part.start()
    asked = []
    for step in (0.0, 0.29, 0.02, 0.98, 0.03, 0.96, 0.05):
        await clock.advance(step)
        asked.append(len(broker.asked("promote")))
    assert asked == [1, 1, 2, 2, 3, 3, 4]
    await part.stop()


async def test_a_full_promotion_goes_on_at_once() -> None:
    broker, clock = ScriptedBroker(), FakeClock()
    broker.promotions = [Promoted(1000, 0, []), Promoted(1000, 0, []), Promoted(10, None, [])]
    part = promoter(broker, lane_of(), clock, [])
    await part.start()
    await settle(60)
    assert len(broker.asked("promote")) == 3
    await part.stop()


async def test_the_promoter_cancels_the_running_bodies_that_redis_names() -> None:
    broker, lane, cancelled = ScriptedBroker(), lane_of(), list[Attempt]()
    named, other = lane.hold(delivery(), 0.0), lane.hold(delivery(), 0.0)
    broker.promotions = [Promoted(0, None, [named.delivery.job_id, b"of another worker"])]
    await promoter(broker, lane, FakeClock(), cancelled).tick()
    assert cancelled == [named]
    assert not other.over


async def test_a_retry_of_ones_own_that_is_due_soon_is_not_waited_for_a_second() -> None:
    broker, lane, clock = ScriptedBroker(), lane_of(), FakeClock()
    part = promoter(broker, lane, clock, [])
    lane.on_delay = part.expect
    await part.start()
    await settle()
    attempt = lane.hold(delivery(), 0.0)
    lane.end(attempt, Finish(attempt.delivery, "retry", delay_ms=1))
    await clock.advance(0.0)
    while len(broker.asked("promote")) < 2:
        await settle()
    await part.stop()


async def test_the_reclaimer_asks_for_free_slots_only() -> None:
    broker, lane, begun = ScriptedBroker(), lane_of(slots=3), list[Attempt]()
    broker.orphans = [delivery() for _ in range(5)]
    part = Reclaimer(cast(Broker, broker), lane, begun.append, 3, FakeClock())
    assert await part.tick() == 3
    assert await part.tick() == 0
    assert broker.asked("reclaim") == [3]
    assert len(begun) == 3


async def test_a_reclaim_with_an_unknown_end_makes_the_reader_recall() -> None:
    broker, lane, clock = ScriptedBroker(), lane_of(), FakeClock()
    broker.fail["reclaim"] = [BrokerUnavailable("reset")]
    part = Reclaimer(cast(Broker, broker), lane, list[Attempt]().append, 3, clock)
    await part.start()
    await settle()
    assert lane.unsure
    await part.stop()


async def test_the_finder_names_the_queues_that_a_glob_means() -> None:
    broker, found = ScriptedBroker(), list[str]()

    async def queues() -> set[str]:
        return {"mail.in", "mail.out", "mails", "default"}

    broker.queues = queues  # type: ignore[method-assign]
    part = QueueFinder(cast(Broker, broker), ["mail.*"], found.append, FakeClock())
    assert await part.tick() == 2
    assert found == ["mail.in", "mail.out"]
