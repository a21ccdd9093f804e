"""The admission without Redis: what asks together, what an attempt hears, and whose end is vouched for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from redisjobs import App, Context, Limit, Rate, RateLimited, admission
from redisjobs.admission import Admission
from redisjobs.broker import Ask, Limiter, Verdict
from redisjobs.ending import UnstartedError
from redisjobs.errors import BrokerUnavailable
from redisjobs.lane import Attempt, Lane
from redisjobs.outcome import Ended
from tests.support.eventually import eventually
from tests.support.stage import delivery


class ScriptedLimiter:
    """Notes what it was asked, and answers by `verdicts` in turn, ok when there are none."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[Ask]]] = []
        self.eased: list[tuple[str, int]] = []
        self.verdicts: list[Verdict | Exception] = []

    async def admit(self, consumer: str, asks: Sequence[Ask], lease_ms: int) -> list[Verdict]:
        self.asked.append((lease_ms, list(asks)))
        given = [self.verdicts.pop(0) if self.verdicts else Verdict("ok") for _ in asks]
        for each in given:
            if isinstance(each, Exception):
                raise each
        return cast("list[Verdict]", given)

    async def ease(self, key: str, ms: int) -> int:
        self.eased.append((key, ms))
        return ms


class Setup:
    def __init__(self) -> None:
        self.limiter = ScriptedLimiter()
        self.admission = Admission(cast(Limiter, self.limiter), "w1")
        self.lane = Lane("a", "w1", 5, 3.0)
        self.job: Any = App().job(name="body", limit=Limit(3), rate=Rate(5, per=1, key="n"))(self.body)

    @staticmethod
    async def body(ctx: Context, n: int) -> None: ...

    def hold(self, lane: Lane | None = None) -> Attempt:
        return (lane or self.lane).hold(delivery(), time.monotonic())

    def enter(self, attempt: Attempt, n: int = 1) -> asyncio.Task[None]:
        return asyncio.create_task(self.admission.enter(attempt, self.job, {"n": n}))


@pytest.fixture
def setup() -> Setup:
    return Setup()


async def test_all_that_ask_in_one_turn_ask_in_one_call_for_each_lease(setup: Setup):
    other = Lane("b", "w1", 5, 9.0)
    attempts = [setup.hold(), setup.hold(), setup.hold(other)]
    before = time.monotonic()
    await asyncio.gather(*map(setup.enter, attempts))

    assert [(lease_ms, len(asks)) for lease_ms, asks in setup.limiter.asked] == [(3000, 2), (9000, 1)]
    assert [want.key for want in setup.limiter.asked[0][1][0].wants] == ["body", "body/rate:1"]
    assert all(each.permit is not None and each.permit.until >= before + each.lane.lease for each in attempts)


@pytest.mark.parametrize(("verdict", "delay"), [(Verdict("wait", 0, "body"), 3600), (Verdict("later", 250), 0.25)])
async def test_who_may_not_begin_hears_when_to_come_back_and_holds_nothing(
    setup: Setup, verdict: Verdict, delay: float
):
    setup.limiter.verdicts = [verdict]
    attempt = setup.hold()
    with pytest.raises(UnstartedError) as unstarted:
        await setup.enter(attempt)

    assert unstarted.value.ended is Ended.LIMITED
    assert isinstance(unstarted.value.error, RateLimited)
    assert unstarted.value.error.after == delay
    assert attempt.permit is None


async def test_an_unknown_end_is_asked_again_and_counts_as_a_permit_until_it_is_known(setup: Setup):
    setup.limiter.verdicts = [BrokerUnavailable("away")] * 2
    attempt = setup.hold()
    entering = setup.enter(attempt)
    await eventually(lambda: setup.limiter.asked, "it has asked")
    assert attempt.permit is not None
    assert not attempt.permit.renews
    await entering

    assert len(setup.limiter.asked) == 3
    assert attempt.permit.renews


async def test_one_that_is_to_end_asks_no_longer_and_gives_back_what_it_may_hold(setup: Setup):
    setup.limiter.verdicts = [BrokerUnavailable("away")] * 1000
    attempt = setup.hold()
    entering = setup.enter(attempt)
    await eventually(lambda: setup.limiter.asked, "it has asked")
    attempt.ended_by = Ended.DRAINED
    with pytest.raises(UnstartedError) as unstarted:
        await entering

    assert unstarted.value.ended is Ended.DRAINED
    assert attempt.permit is not None
    assert not setup.admission._waiting


async def test_one_that_gets_no_answer_frees_its_slot_and_comes_back(setup: Setup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admission, "PATIENCE_S", 0.1)
    setup.limiter.verdicts = [BrokerUnavailable("away")] * 1000
    with pytest.raises(UnstartedError) as unstarted:
        await setup.enter(setup.hold())

    assert unstarted.value.ended is Ended.LIMITED
    assert isinstance(unstarted.value.error, RateLimited)
    assert unstarted.value.error.after == admission.BACK_S


# -- after the body
async def under(setup: Setup, attempt: Attempt, error: BaseException | None = None) -> None:
    async def body() -> None:
        if error is not None:
            raise error

    assert attempt.permit is not None
    await setup.admission.under(attempt, attempt.permit, body)


async def test_an_end_within_its_trust_waits_for_nothing(setup: Setup):
    attempt = setup.hold()
    await setup.enter(attempt)
    await asyncio.wait_for(under(setup, attempt), admission.PATIENCE_S / 2)
    assert attempt.ended_by is None


@pytest.mark.parametrize("lost", [False, True])
async def test_an_end_after_its_trust_waits_for_the_heartbeat_to_say_whose_the_permit_is(setup: Setup, lost: bool):
    """M01: of a process that was paused."""
    attempt = setup.hold()
    await setup.enter(attempt)
    assert attempt.permit is not None
    attempt.permit.until = time.monotonic() - 1
    ending = asyncio.create_task(under(setup, attempt))
    await asyncio.sleep(0.05)
    assert not ending.done()

    if lost:
        attempt.ended_by = Ended.LOST
    else:
        attempt.permit.until = time.monotonic() + 3
    await ending
    assert attempt.ended_by is (Ended.LOST if lost else None)


@pytest.mark.parametrize("how", ["given up", "cancelled"])
async def test_an_end_for_which_nobody_vouches_is_lost(setup: Setup, how: str):
    attempt = setup.hold()
    await setup.enter(attempt)
    assert attempt.permit is not None
    attempt.permit.until = time.monotonic() - 1
    attempt.renewed = how != "given up"
    ending = asyncio.create_task(under(setup, attempt))
    await asyncio.sleep(0.02)
    if how == "cancelled":
        ending.cancel()
    await asyncio.wait({ending})

    assert attempt.ended_by is Ended.LOST


async def test_a_limit_that_was_met_closes_the_rates_of_the_call_and_no_limit(setup: Setup):
    attempt = setup.hold()
    await setup.enter(attempt, n=9)
    with pytest.raises(RateLimited):
        await under(setup, attempt, RateLimited(1.5))

    assert setup.limiter.eased == [("body/rate:9", 1500)]
