"""Whether a role is alive and ready, as it looks from outside of its event loop."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from redisjobs.base.service import Part

BEAT_S = 0.5
LOOP_S = 10.0
"""How long an event loop may not turn before it counts as hanging: no body may block it for so long."""
ROUND_S = 120.0
"""Likewise for a round of work: longer than every timeout towards a store, so that no outage looks like a hang."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of a role now; each list is empty where all is well.

    Args:
        sick: what only a restart can mend.
        busy: why it should get no work, or does none.
    """

    sick: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()

    @property
    def live(self) -> bool:
        """It must not be restarted. A store that is away is no reason to: nothing would come of it."""
        return not self.sick

    @property
    def ready(self) -> bool:
        """It works: its stores answer, and it is neither starting nor draining."""
        return not self.sick and not self.busy


class Pulse:
    """Beats in the event loop of a role; `verdict` may be asked from any thread, also while the loop hangs."""

    def __init__(self) -> None:
        self._part: Part | None = None
        self._beat_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, part: Part) -> None:
        """Beat in the loop that runs here, for this part."""
        self._part = part
        self._beat()

    def stop(self) -> None:
        """Beat no more; the verdict stays that of a part that has stopped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def verdict(self) -> Verdict:
        """How it is now."""
        part = self._part
        if part is None or part.state == "idle":
            return Verdict(busy=("it is starting",))
        if part.state == "stopped":
            return Verdict(busy=("it has stopped",))
        busy = () if part.works else ("it is draining" if part.state == "draining" else _IDLE,)
        return Verdict((*self._hanging_loop(), *_hanging_round(part)), busy)

    def _hanging_loop(self) -> tuple[str, ...]:
        silent = time.monotonic() - self._beat_at
        if self._timer is None or silent <= LOOP_S:
            return ()
        return (f"its event loop has not turned for {silent:.0f} s: a body blocks it, or it hangs",)


_IDLE = "its last round failed, or none has ended yet: a store does not answer, its log says which"


def _hanging_round(part: Part) -> tuple[str, ...]:
    turned_at = part.last_turn
    if turned_at is None or part.state != "running":
        return ()
    silent = part.clock.monotonic() - turned_at
    return (f"no round of it has ended for {silent:.0f} s: it hangs",) if silent > ROUND_S else ()
