"""Says for a worker that it is there: a small call every few seconds, from the heartbeat's thread."""

from __future__ import annotations

import logging
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterable

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Heart, Presence
from redisjobs.broker.presence import EVERY_S
from redisjobs.errors import BrokerUnavailable, DecodeError
from redisjobs.lane import Attempt, Lane
from redisjobs.logs import event
from redisjobs.settings import WorkerSettings

SAMPLES = 5
"""Jobs of a queue that are looked at for how late they started."""
RECENT_S = 10.0
"""Those that started within this time, for that matter."""
QUEUES_SHOWN = 200

log = logging.getLogger("redisjobs.worker")


class Announcer:
    """Tells Redis of one worker. What goes wrong here costs no lease: it is told once, and tried again later.

    Args:
        state: what the worker does now.
        lanes: asked anew each time.
    """

    def __init__(
        self, heart: Heart, settings: WorkerSettings, state: Callable[[], str], lanes: Callable[[], Iterable[Lane]]
    ) -> None:
        self._heart = heart
        self._settings = settings
        self._state = state
        self._lanes = lanes
        self._began_at = time.monotonic()
        self._next = 0.0
        self._complained = False

    def tell_if_due(self) -> None:
        """Say that the worker is there, unless that was said just now."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY_S
            self._tell(self.presence().pack())

    def leave(self) -> None:
        """Say that the worker goes."""
        self._tell(b"")

    def presence(self) -> Presence:
        """What the worker does now. Read from another thread than it is changed in: roughly so."""
        now, lanes = time.monotonic(), list(self._lanes())
        counts = [pair for lane in lanes for pair in list(lane.counts.items())]
        begun = {lane.queue: _begun(lane) for lane in lanes}
        uncounted = ("released", "lost", "parked", "limited")
        return Presence(
            self._settings.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            state=self._state(),
            queues=list(self._settings.queues),
            slots={lane.queue: lane.slots for lane in lanes[:QUEUES_SHOWN]},
            running={lane.queue: lane.running for lane in lanes if lane.running},
            oldest_s=max((now - began_at for each in begun.values() for _, began_at in each), default=None),
            start_lag_s={queue: lag for queue, each in begun.items() if (lag := _start_lag(each, now)) is not None},
            processed=sum(number for word, number in counts if word not in uncounted),
            failed=sum(number for word, number in counts if word in ("retry", "dead")),
            up_s=now - self._began_at,
        )

    def _tell(self, word: bytes) -> None:
        try:
            self._heart.tell(self._settings.worker_id, word)
        except BrokerUnavailable:
            pass  # the renewals tell of it
        except Exception as error:  # noqa: BLE001 - a heart that stops loses every lease
            if not self._complained:
                self._complained = True
                event(log, logging.WARNING, "worker.unlisted", error=f"{type(error).__name__}: {error}",
                      remedy="`redisjobs top` does not show this worker until it may write there")  # fmt: skip


def _begun(lane: Lane) -> list[tuple[Attempt, float]]:
    """The attempts whose body runs, each with when it began."""
    return [(each, each.began_at) for each in lane.running_attempts() if each.began_at is not None]


def _start_lag(begun: Iterable[tuple[Attempt, float]], now: float) -> float | None:
    """The median time from commit (or due time) to the start of the first attempts that began last."""
    fresh = sorted(((began_at, each) for each, began_at in begun if each.delivery.attempts == 0
                    and now - began_at < RECENT_S), key=lambda pair: -pair[0])  # fmt: skip
    lags = [
        lag for began_at, each in fresh[:SAMPLES] if (lag := _lag(each, time.time() - (now - began_at))) is not None
    ]
    return statistics.median(lags) if lags else None


def _lag(attempt: Attempt, began_at: float) -> float | None:
    try:
        envelope = Envelope.unpack(attempt.delivery.body)
    except DecodeError:
        return None
    if envelope.staged_at is None:
        return None
    return max(0.0, began_at - max(envelope.staged_at, envelope.run_at or 0) / 1e6)
