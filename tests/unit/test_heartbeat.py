"""The heartbeat: one call a queue, trust from before the request, and a thread that nothing ends (cases A06, A11)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Literal, cast

import pytest

from redisjobs import heartbeat as heartbeat_module
from redisjobs.broker import Ask, Heart, Want
from redisjobs.errors import BrokerUnavailable
from redisjobs.heartbeat import Heartbeat
from redisjobs.lane import Attempt, Lane
from redisjobs.outcome import Ended
from redisjobs.permit import Permit
from tests.support.eventually import eventually
from tests.support.stage import delivery

Lease = tuple[bytes, bytes, int, int]


class ScriptedHeart:
    """Notes what it was asked, and answers `told`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[Lease]]] = []
        self.told: dict[bytes, Literal["lost", "cancelled"]] = {}
        self.errors: list[Exception] = []
        self.held: list[tuple[int, list[tuple[bytes, int]]]] = []
        self.taken: set[bytes] = set()
        self.hold_errors: list[Exception] = []
        self.takes = 0.0
        self.asked_at = 0.0
        self.closed = False

    def renew(self, queue: str, consumer: str, leases: Sequence[Lease]) -> dict[bytes, Literal["lost", "cancelled"]]:
        self.asked.append((queue, list(leases)))
        self.asked_at = time.monotonic()
        time.sleep(self.takes)
        if self.errors:
            raise self.errors.pop(0)
        return self.told

    def hold(self, consumer: str, lease_ms: int, permits: Sequence[tuple[bytes, int]]) -> set[bytes]:
        self.held.append((lease_ms, list(permits)))
        if self.hold_errors:
            raise self.hold_errors.pop(0)
        return self.taken

    def close(self) -> None:
        self.closed = True


class Setup:
    def __init__(self, interval: float = 0.02) -> None:
        self.heart = ScriptedHeart()
        self.lanes = [Lane("a", "w1", 5, 3.0), Lane("b", "w1", 5, 3.0)]
        self.ended: list[tuple[Attempt, Ended]] = []
        self.heartbeat = Heartbeat(
            cast(Heart, self.heart), interval, lambda: self.lanes, lambda *told: self.ended.append(told)
        )

    def hold(self, lane: int = 0) -> Attempt:
        return self.lanes[lane].hold(delivery(), time.monotonic())

    def permitted(self, lane: int = 0) -> tuple[Attempt, Permit]:
        """One that was given a permit just now."""
        attempt = self.hold(lane)
        wants = (Want("a", "a", most=1),)
        attempt.permit = permit = Permit(Ask(attempt.delivery.job_id, 7, "a", wants))
        permit.until = time.monotonic() + 1
        return attempt, permit


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    made = Setup()
    yield made
    made.heartbeat.stop()
    if made.heartbeat._thread.ident is not None:
        await eventually(lambda: made.heart.closed, "the thread has ended")


async def test_all_leases_of_a_queue_are_renewed_in_one_call(setup: Setup) -> None:
    for _ in range(3):
        setup.hold(0)
    setup.hold(1)
    assert setup.heartbeat.beat()
    assert [(queue, len(leases)) for queue, leases in setup.heart.asked] == [("a", 3), ("b", 1)]


async def test_nothing_is_asked_while_nothing_is_held(setup: Setup) -> None:
    assert setup.heartbeat.beat()
    assert setup.heart.asked == []


async def test_trust_counts_from_before_the_request_was_sent(setup: Setup) -> None:
    attempt = setup.hold()
    setup.heart.takes = 0.05
    before = time.monotonic()
    setup.heartbeat.beat()
    assert before + 3.0 <= attempt.trusted_until <= setup.heart.asked_at + 3.0


async def test_what_was_given_up_is_not_renewed(setup: Setup) -> None:
    setup.hold().renewed = False
    kept = setup.hold()
    setup.heartbeat.beat()
    assert [lease[0] for _, leases in setup.heart.asked for lease in leases] == [kept.delivery.job_id]


async def test_a_lost_lease_and_a_cancel_are_told_in_the_loop(setup: Setup) -> None:
    lost, cancelled, kept = setup.hold(), setup.hold(), setup.hold()
    setup.heart.told = {lost.delivery.job_id: "lost", cancelled.delivery.job_id: "cancelled"}
    was_trusted = lost.trusted_until
    await asyncio.to_thread(setup.heartbeat.beat)
    await eventually(lambda: len(setup.ended) == 2, "both were told")
    assert dict(setup.ended) == {lost: Ended.LOST, cancelled: Ended.CANCELLED}
    assert lost.trusted_until == was_trusted
    assert kept.trusted_until > was_trusted


async def test_errors_of_every_kind_are_met_by_trying_again_soon(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = setup.hold()
    was_trusted = attempt.trusted_until
    setup.heart.errors = [BrokerUnavailable("reset"), RuntimeError("a bug"), BrokerUnavailable("refused")]
    setup.heartbeat.start()
    await eventually(lambda: attempt.trusted_until > was_trusted, "the lease is renewed again")
    missed = [record for record in caplog.records if getattr(record, "event", "") == "heartbeat.missed"]
    assert len(missed) == 3


@pytest.mark.parametrize("runs_as", ["task", "body"])  # of its own, or that of its batch
async def test_a_blocked_loop_is_told_with_the_job_that_blocks_it_and_its_leases_go_on(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, runs_as: str
) -> None:
    monkeypatch.setattr(heartbeat_module, "SILENCE_S", 0.1)
    attempt = setup.hold()
    attempt.job = "blocker"

    async def body() -> None:
        beats, ends = len(setup.heart.asked), time.monotonic() + 10
        while len(setup.heart.asked) < beats + 20 and time.monotonic() < ends:
            time.sleep(0.01)  # noqa: ASYNC251 - the mistake that is to be noticed

    setup.heartbeat.start()
    await eventually(lambda: len(setup.heart.asked) > 1, "it beats")
    blocking = asyncio.create_task(body())
    setattr(attempt, runs_as, blocking)
    beats = len(setup.heart.asked)
    await blocking
    assert len(setup.heart.asked) >= beats + 20
    blocked = [record for record in caplog.records if getattr(record, "event", "") == "loop.blocked"]
    assert len(blocked) == 1
    assert "job=blocker" in blocked[0].getMessage()
    assert "test_heartbeat.py" in blocked[0].getMessage()


# -- permits of limits
async def test_permits_of_all_queues_with_one_lease_are_renewed_in_one_call(setup: Setup) -> None:
    (one, permit), (other, _) = setup.permitted(0), setup.permitted(1)
    asked, _ = setup.permitted(0)
    asked.permit = Permit(permit.ask)  # not answered yet
    setup.hold(0)
    before = time.monotonic()

    assert setup.heartbeat.beat()
    assert setup.heart.held == [(3000, [(one.delivery.job_id, 7), (other.delivery.job_id, 7)])]
    assert before + 3.0 <= permit.until


async def test_attempts_without_permits_ask_for_none(setup: Setup) -> None:
    setup.hold()
    assert setup.heartbeat.beat()
    assert setup.heart.held == []


async def test_a_permit_that_another_took_ends_its_attempt(setup: Setup) -> None:
    attempt, permit = setup.permitted()
    until = permit.until
    setup.heart.taken = {attempt.delivery.job_id}

    await asyncio.to_thread(setup.heartbeat.beat)

    await eventually(lambda: setup.ended == [(attempt, Ended.LOST)], "it was told")
    assert permit.until == until


async def test_permits_are_renewed_though_a_queue_cannot_be_and_the_other_way_round(setup: Setup) -> None:
    attempt, permit = setup.permitted()
    until, trusted = permit.until, attempt.trusted_until
    setup.heart.errors = [BrokerUnavailable("away")]
    assert not setup.heartbeat.beat()
    assert permit.until > until

    until = permit.until
    setup.heart.hold_errors = [BrokerUnavailable("away")]
    assert not setup.heartbeat.beat()
    assert (permit.until, attempt.trusted_until > trusted) == (until, True)
