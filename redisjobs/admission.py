"""The one place where attempts ask whether their limits let them begin: those of one turn of the loop in one call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.service import backoff
from redisjobs.broker import GONE, Ask, Finish, Limiter, Rate, Verdict, Want, limit_key
from redisjobs.ending import AnyJob, UnstartedError
from redisjobs.errors import RateLimited, StoreUnavailable
from redisjobs.lane import Attempt
from redisjobs.limiting import Share
from redisjobs.limits import Limit
from redisjobs.logs import event
from redisjobs.outcome import LONGEST_LINE_S, Ended, delay_of
from redisjobs.permit import Permit, start_of

PATIENCE_S = 3.0
"""How long an attempt asks in its slot, where Redis does not answer; then others may have the slot."""
BACK_S = 5.0
"""After which it comes back then."""
LOOK_S = 0.1
FRONT = 3
"""The stream to which jobs are told to come."""

log = logging.getLogger("redisjobs.worker")


class _Asking:
    """One attempt that waits for its verdict."""

    __slots__ = ("answer", "attempt", "permit", "until")

    def __init__(self, attempt: Attempt, permit: Permit, until: float) -> None:
        self.attempt = attempt
        self.permit = permit
        self.until = until
        self.answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()


class Admission:
    """Asks the limiter for the attempts of one worker.

    An attempt that it lets pass holds a permit. Whoever does not pass leaves its slot, uncounted. No attempt passes
    without an answer: where there is none it comes back after a while, and what a lost answer may have given it goes
    back with its finish.

    Args:
        consumer: the worker.
    """

    def __init__(self, limiter: Limiter, consumer: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._limiter = limiter
        self._consumer = consumer
        self._clock = clock
        self._waiting: list[_Asking] = []
        self._flight: asyncio.Task[None] | None = None
        self._called = False

    async def enter(self, attempt: Attempt, job: AnyJob, arguments: Mapping[str, Any]) -> None:
        """Return once the attempt may begin.

        Raises:
            UnstartedError: it may not now.
            ConfigurationError: a key or a weight cannot be computed.
        """
        wants = _wants_of([*(() if job.limiting is None else job.limiting.of(arguments)), *attempt.lane.limits])
        if not wants:
            return
        held = attempt.delivery
        permit = Permit(Ask(held.job_id, start_of(held), held.queue, wants))
        asking = _Asking(attempt, permit, self._clock.monotonic() + PATIENCE_S)
        attempt.permit = permit
        self._waiting.append(asking)
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._take_off)
        verdict = await asking.answer
        if verdict.word == "ok":
            return
        if attempt.ended_by is not None:
            raise UnstartedError(attempt.ended_by)
        delay = verdict.delay_ms / 1000 if verdict.delay_ms else LONGEST_LINE_S
        raise UnstartedError(Ended.LIMITED, RateLimited(delay))

    async def under(self, attempt: Attempt, permit: Permit, body: Callable[[], Awaitable[Any]]) -> Any:
        """What a body with a permit returns; after its end it is sure that the permit was its own, or is known as lost.

        Raises:
            BaseException: what the body raised.
        """
        try:
            return await body()
        except RateLimited as error:
            await self._ease(permit, error)
            raise
        finally:
            await self._vouch(attempt, permit)

    def forgo(self, attempt: Attempt, finish: Finish | None) -> None:
        """What may have been kept for an attempt that ended without asking for it goes to others, with its finish.

        One that was handed back comes again, and asks then.
        """
        came_for_it = attempt.delivery.band == FRONT and attempt.permit is None
        if came_for_it and finish is not None and finish.word not in ("released", "limited"):
            held = attempt.delivery
            attempt.permit = Permit(Ask(held.job_id, GONE, held.queue, ()))

    def abandon(self) -> None:
        """Ask for nothing more."""
        if self._flight is not None:
            self._flight.cancel()

    async def _vouch(self, attempt: Attempt, permit: Permit) -> None:
        """Make sure that no other had the permit of a body that has ended. Never raises.

        The permit of a process that was paused, or cut off from Redis, may have lapsed: then the heartbeat is about to
        renew it, or to say that it is lost.
        """
        try:
            while permit.renews and self._clock.monotonic() >= permit.until and attempt.ended_by is not Ended.LOST:
                if not attempt.renewed:
                    attempt.ended_by = Ended.LOST
                    return
                await self._clock.sleep(LOOK_S)
        except BaseException:  # noqa: BLE001 - it is cancelled by a drain: what nobody can vouch for is not written
            attempt.ended_by = Ended.LOST

    async def _ease(self, permit: Permit, error: RateLimited) -> None:
        """Have nothing start of its rates for as long as the body was told. Never raises."""
        after = delay_of(error.after)
        if not after:
            return
        for key in [want.key for want in permit.ask.wants if want.rate is not None]:
            try:
                await self._limiter.ease(key, round(after * 1000))
            except BaseException as failure:  # noqa: BLE001 - the next one that starts will meet the limit too
                why = f"{type(failure).__name__}: {failure}"
                event(log, logging.WARNING, "admission.ease_failed", limit=key, after_s=after, error=why)

    # -- the calls
    def _take_off(self) -> None:
        if self._flight is None:
            self._flight = asyncio.create_task(self._fly(), name="admission")

    async def _fly(self) -> None:
        failures = 0
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    await self._ask(batch)
                    failures = 0
                except Exception as error:  # noqa: BLE001 - whoever asks is answered, whatever went wrong
                    failures += 1
                    pause = backoff(failures)
                    level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
                    event(
                        log, level, "admission.failed", attempts=len(batch), failures=failures, pause_s=pause,
                        error=f"{type(error).__name__}: {error}",
                    )  # fmt: skip
                    self._waiting = [*self._sent_away(batch), *self._waiting]
                    await self._clock.sleep(min(pause, PATIENCE_S / 3))
        finally:
            self._flight = None
            self._called = False

    async def _ask(self, batch: Sequence[_Asking]) -> None:
        by_lease: dict[int, list[_Asking]] = {}
        for each in batch:
            if not each.answer.done():
                by_lease.setdefault(each.attempt.lane.lease_ms, []).append(each)
        for lease_ms, asking in by_lease.items():
            asked_at = self._clock.monotonic()
            verdicts = await self._limiter.admit(self._consumer, [each.permit.ask for each in asking], lease_ms)
            for each, verdict in zip(asking, verdicts, strict=True):
                if verdict.word == "ok":
                    each.permit.until = asked_at + each.attempt.lane.lease
                else:
                    each.attempt.permit = None  # what is kept for it is not its own to give back
                if not each.answer.done():
                    each.answer.set_result(verdict)

    def _sent_away(self, batch: Sequence[_Asking]) -> list[_Asking]:
        """Those who go on asking; the others hear that they are to come back, or to end."""
        now = self._clock.monotonic()
        rest: list[_Asking] = []
        for each in batch:
            if each.answer.done():
                continue
            if each.attempt.ended_by is None and now < each.until:
                rest.append(each)
            else:
                each.answer.set_result(Verdict("wait", round(BACK_S * 1000)))
        return rest


def _wants_of(shares: Sequence[Share]) -> tuple[Want, ...]:
    found: dict[str, Want] = {}
    for limit, key, weight in shares:
        name = str(limit.name)
        whole = limit_key(name, key)
        if isinstance(limit, Limit):
            found[whole] = Want(whole, name, weight, most=limit.most)
        else:
            found[whole] = Want(whole, name, rate=Rate(limit.count, limit.per_ms, limit.burst))
    return tuple(found.values())
