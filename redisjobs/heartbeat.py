"""The heartbeat: a thread with a connection of its own renews every lease of the process.

A body that blocks the event loop keeps its lease, and is named in a warning.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable

from redisjobs.announcer import Announcer
from redisjobs.base.clock import Clock
from redisjobs.broker import Heart
from redisjobs.errors import RedisjobsError, StoreUnavailable
from redisjobs.lane import Attempt, Lane
from redisjobs.logs import event
from redisjobs.outcome import Ended
from redisjobs.permit import Permit

LOOK_S = 1.0
"""How often the loop is looked at, and the longest pause between two tries to renew."""
SILENCE_S = 2.0
"""How long the loop may not answer before somebody is told."""
FIRST_RETRY_S = 0.1
REPORT_S = 1.0
"""How often the progress of bodies is told, at most."""

log = logging.getLogger("redisjobs.worker")


class Heartbeat:
    """Renews what the lanes hold, until `stop`.

    An attempt's trust counts from before the request was sent. No error ends the thread: it tries again soon.

    Args:
        interval: seconds between renewals, below half a lease.
        lanes: asked anew each time.
        ended: called in the loop for an attempt whose lease is lost or whose cancel was asked for.
        announcer: says now and then, over the same connection, that the worker is there.
    """

    def __init__(
        self,
        heart: Heart,
        interval: float,
        lanes: Callable[[], Iterable[Lane]],
        ended: Callable[[Attempt, Ended], None],
        announcer: Announcer | None = None,
    ) -> None:
        self._heart = heart
        self._interval = interval
        self._lanes = lanes
        self._ended = ended
        self._announcer = announcer
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._ended_event = asyncio.Event()
        self._answered_at = time.monotonic()
        self._asked = False
        self._told = False
        self._failures = 0
        self.last_beat: float | None = None
        """When everything held was last renewed, in monotonic seconds."""
        self._thread = threading.Thread(target=self._run, name="redisjobs-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, soon; a call in flight is not waited for."""
        self._stopping.set()

    async def stopped(self, clock: Clock) -> None:
        """Return when the thread has ended, or hangs in a call to Redis, of which its connection will free it."""
        self.stop()
        await clock.wait(self._ended_event, LOOK_S)

    def _run(self) -> None:
        next_beat = time.monotonic() + self._interval
        self._announce()
        next_report = time.monotonic() + REPORT_S
        while not self._stopping.wait(max(0.0, min(LOOK_S, next_beat - time.monotonic()))):
            try:
                self._look_at_the_loop()
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + (self._interval if self.beat() else self._retry_pause())
                if time.monotonic() >= next_report:
                    next_report = time.monotonic() + REPORT_S
                    self.report()
                self._announce()
            except Exception as error:  # noqa: BLE001 - a heart that stops loses every lease
                event(log, logging.ERROR, "heartbeat.failed", error=f"{type(error).__name__}: {error}", exc_info=error)
        if not self._failures:
            self.report()  # the last words of bodies that were handed back
            if self._announcer is not None:
                self._announcer.leave()
        self._heart.close()
        self._in_loop(self._ended_event.set)

    def _announce(self) -> None:
        """Renewals go first: nothing is announced while one of them fails."""
        if self._announcer is not None and not self._failures:
            self._announcer.tell_if_due()

    def beat(self) -> bool:
        """Renew everything once; False where a queue could not be renewed."""
        well = True
        for lane in self._lanes():
            leases = [attempt for attempt in list(lane.held) if attempt.renewed]
            if leases:
                well = self._renew(lane, leases) and well
        for lease, held in self._permits().items():
            well = self._hold(lease, held) and well
        if well:
            self._failures = 0
            self.last_beat = time.monotonic()
        return well

    def _permits(self) -> dict[float, list[tuple[Attempt, Permit]]]:
        """The attempts whose permit is to be renewed, by the lease of their queue."""
        found: dict[float, list[tuple[Attempt, Permit]]] = {}
        for lane in self._lanes():
            for attempt in list(lane.held):
                permit = attempt.permit  # the loop may take it away meanwhile
                if permit is not None and permit.renews and attempt.renewed:
                    found.setdefault(lane.lease, []).append((attempt, permit))
        return found

    def _hold(self, lease: float, held: list[tuple[Attempt, Permit]]) -> bool:
        asked_at = time.monotonic()
        wanted = [(permit.ask.job_id, permit.ask.start) for _, permit in held]
        try:
            lost = self._heart.hold(held[0][0].lane.consumer, round(lease * 1000), wanted)
        except Exception as error:  # noqa: BLE001 - see _run
            self._failures += 1
            level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
            event(
                log, level, "heartbeat.missed", permits=len(held), failures=self._failures,
                error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
            return False
        for attempt, permit in held:
            if permit.ask.job_id in lost:
                self._tell(attempt, Ended.LOST)
            else:
                permit.until = asked_at + lease
        return True

    def report(self) -> None:
        """Tell Redis how far bodies are, where any has said so; leases come first, so not while renewals fail."""
        for lane in self._lanes():
            reports = {} if self._failures else lane.reports.take()
            if reports:
                self._report(lane, reports)

    def _report(self, lane: Lane, reports: dict[Attempt, bytes]) -> None:
        told = [
            (each.delivery.job_id, each.delivery.entry, each.delivery.start, text) for each, text in reports.items()
        ]
        try:
            self._heart.progress(lane.queue, lane.consumer, told)
        except RedisjobsError as error:
            lane.reports.put_back(reports)
            event(log, logging.DEBUG, "heartbeat.progress_failed", queue=lane.queue, error=str(error))

    def _renew(self, lane: Lane, leases: list[Attempt]) -> bool:
        asked_at = time.monotonic()
        wanted = [
            (each.delivery.job_id, each.delivery.entry, each.delivery.start, each.delivery.band) for each in leases
        ]
        try:
            told = self._heart.renew(lane.queue, lane.consumer, wanted)
        except Exception as error:  # noqa: BLE001 - see _run
            self._failures += 1
            level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
            left = min(each.trusted_until for each in leases) - time.monotonic()
            event(
                log, level, "heartbeat.missed", queue=lane.queue, leases=len(leases), failures=self._failures,
                trusted_for_s=max(0.0, left), error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
            return False
        for attempt in leases:
            word = told.get(attempt.delivery.job_id)
            if word != "lost":
                attempt.trusted_until = asked_at + lane.lease
            if word is not None:
                self._tell(attempt, Ended.LOST if word == "lost" else Ended.CANCELLED)
        return True

    def _tell(self, attempt: Attempt, ended: Ended) -> None:
        self._in_loop(lambda: self._ended(attempt, ended))

    def _retry_pause(self) -> float:
        return float(min(LOOK_S, self._interval / 2, FIRST_RETRY_S * 2 ** min(self._failures, 10)))

    def _look_at_the_loop(self) -> None:
        if not self._asked:
            self._asked, self._answered_at = True, time.monotonic()
            self._in_loop(self._answer)
            return
        silent_for = time.monotonic() - self._answered_at
        if silent_for > SILENCE_S and not self._told:
            self._told = True
            job, job_id = self._who()
            event(
                log, logging.WARNING, "loop.blocked", job=job, job_id=job_id, silent_s=silent_for, at=self._where(),
                remedy="make the job a plain function, which runs in a thread, or let it await",
            )  # fmt: skip

    def _answer(self) -> None:
        self._asked = self._told = False

    def _in_loop(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            self._stopping.set()

    def _who(self) -> tuple[str | None, str | None]:
        """The job whose body keeps the loop, where it is one."""
        task = asyncio.current_task(self._loop)
        for lane in self._lanes():
            for attempt in list(lane.held):
                if task is not None and task in (attempt.task, attempt.body):
                    return attempt.job, attempt.job_id
        return None, None

    def _where(self) -> str | None:
        # The documented way to the stack of another thread.
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
