"""Limits over the whole fleet: who may begin, who waits in which order, and who is told to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis.asyncio as async_redis

from redisjobs.base import scripts
from redisjobs.broker.client import run
from redisjobs.broker.keys import NO_QUEUE, Keys
from redisjobs.broker.permits import Ask, Rate, Verdict, Woken, rule_text
from redisjobs.broker.slots import Argument
from redisjobs.limits import check_limit_name

KEEP_MS = 60_000
"""For how long a permit that lapsed can be taken again, and after which a job that was told to come is told again."""
MOST_AT_ONCE = 200
"""Attempts in one call of a script."""
SWEEPS_AT_ONCE = 20
"""Calls that one sweep may take, where there is much to do; each wakes at most 100 jobs."""

_ADMIT = scripts.load("admit")
_RELEASE = scripts.load("release")
_SWEEP = scripts.load("sweep")
_EASE = scripts.load("ease")
_ADJUST = scripts.load("adjust")


class Limiter:
    """The limits of all queues, for one process and one event loop.

    Nothing is repeated inside: a `BrokerUnavailable` leaves it open whether the call took place, and every call may
    be made again with the same arguments. What a lost reply has reserved for a job is told to it again by `sweep`.

    Args:
        redis: a client without retries, as `connect` makes it.
        prefix: what every key begins with.
    """

    def __init__(self, redis: async_redis.Redis, prefix: str = "rj") -> None:
        self.redis = redis
        self.keys = Keys(prefix)

    async def admit(self, consumer: str, asks: Sequence[Ask], lease_ms: int) -> list[Verdict]:
        """What becomes of attempts that want to begin: a verdict each.

        One with `ok` holds a permit for `lease_ms`, and from each `hold`, until its `release`. One with `wait` or
        `later` holds nothing that it could lose: it leaves its slot, and asks again when it is begun anew.
        """
        verdicts: list[Verdict] = []
        for first in range(0, len(asks), MOST_AT_ONCE):
            piece = asks[first : first + MOST_AT_ONCE]
            reply = await self._run(_ADMIT, consumer, lease_ms, *[value for ask in piece for value in ask.arguments()])
            verdicts += [
                Verdict(reply[at].decode(), reply[at + 1], reply[at + 2].decode()) for at in range(0, len(reply), 3)
            ]
        return verdicts

    async def release(self, consumer: str, ended: Sequence[tuple[bytes, int]]) -> list[Woken]:
        """Attempts have ended, each given as job id and start: what they held is free. Answers who is to come for it.

        One that held nothing is passed over. A job of which its queue knows nothing when it is told to come is given
        with the start `GONE`: what was reserved for it goes to the next one.
        """
        woken: list[Woken] = []
        for first in range(0, len(ended), MOST_AT_ONCE):
            flat: list[Argument] = [value for each in ended[first : first + MOST_AT_ONCE] for value in each]
            woken += _woken(await self._run(_RELEASE, consumer, *flat))
        return woken

    async def sweep(self, consumer: str, every_ms: int) -> list[Woken]:
        """What was lost comes back: lapsed permits, and words that did not arrive. Answers who is to come.

        Once in `every_ms` for the whole fleet; a call in between costs one command. Rates with a line go on by
        sweeps, which reserve 2 s ahead: call it about once a second.
        """
        woken: list[Woken] = []
        for _ in range(SWEEPS_AT_ONCE):
            more, *found = await self._run(_SWEEP, consumer, every_ms, KEEP_MS)
            woken += _woken(found)
            if not more:
                break
        return woken

    async def ease(self, key: str, ms: int) -> int:
        """Nothing of this limit key begins within so many ms; what runs goes on. 0: at once again.

        Answers in how many ms it goes on: later than asked for where somebody has asked for more.
        """
        return int(await self._run(_EASE, key, ms))

    # -- at run time
    async def set_limit(self, name: str, *, most: int | None = None, rate: Rate | None = None) -> None:
        """From now on this counts for all keys of the name, whatever jobs say; 0 at once: nothing begins.

        What runs goes on. Who waits is looked at by the next sweep of a worker.

        Raises:
            OptionError: neither or both were given, or `most` is out of range.
        """
        await self._adjust(name, rule_text(most, rate))

    async def unset_limit(self, name: str) -> None:
        """What jobs say of themselves counts again."""
        await self._adjust(name, "")

    async def _adjust(self, name: str, rule: str) -> None:
        check_limit_name(name)
        at: Any = await self._run(_ADJUST, name, rule, "")
        while at:
            at = await self._run(_ADJUST, name, rule, at)

    async def _run(self, script: scripts.Script, *arguments: Argument) -> Any:
        return await run(self.redis, script, self.keys.of(NO_QUEUE, script), arguments)


def _woken(reply: Sequence[Any]) -> list[Woken]:
    return [Woken(reply[at].decode(), reply[at + 1], reply[at + 2]) for at in range(0, len(reply), 3)]
