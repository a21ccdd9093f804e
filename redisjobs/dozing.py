"""When producers must notify: a busy queue is polled, and they pay no NOTIFY; a quiet one sleeps until it is called."""

from __future__ import annotations

from dataclasses import dataclass

from redisjobs.leases import Hold, Leases

COOLING_S = 5.0
"""How long a queue without work is still looked at in every round."""
BUSY_WAKES = 5
"""Wake-ups of one queue between two rounds from which on it is polled instead."""
DOZE_S = 0.3
"""How long a polled queue may be empty before its producers are asked to notify again."""


@dataclass(slots=True, eq=False)
class Activity:
    """What a relay remembers of a queue between rounds.

    Args:
        polled: its producers do not notify; it is looked at all the time.
        asleep_since_xid: its producers notify again, but transactions older than this one may not know.
    """

    polled: bool = False
    asleep_since_xid: int | None = None
    wakes: int = 0
    last_work: float = 0.0
    busy_until: float = 0.0

    def asks(self, now: float) -> bool:
        """Whether the queue wants a turn in this round."""
        return self.polled or now < self.busy_until

    @property
    def hurries(self) -> bool:
        """Commits are found by polling alone."""
        return self.polled and self.asleep_since_xid is None

    def worked(self, now: float) -> None:
        """Something was done."""
        self.last_work = now
        self.touch(now)

    def touch(self, now: float) -> None:
        """There is, or may be, something to do."""
        self.busy_until = now + COOLING_S


async def doze(leases: Leases, hold: Hold, active: Activity, *, full_batch: bool, now: float) -> bool:
    """Decide between polling and sleeping, after a turn on the queue; True where it must be looked at once more.

    Args:
        full_batch: the turn published as much as it may.
    """
    if not active.polled:
        if active.wakes >= BUSY_WAKES or full_batch:
            await leases.wake_up(hold)
            active.polled, active.asleep_since_xid = True, None
        active.wakes = 0
    elif active.asleep_since_xid is not None:
        # an older transaction may have looked before the flag was set: poll on until none is left, and look once more
        if await leases.oldest_running() > active.asleep_since_xid:
            active.polled, active.asleep_since_xid = False, None
            return True
    elif now - active.last_work > DOZE_S:
        active.asleep_since_xid = await leases.fall_asleep(hold)
    return False
