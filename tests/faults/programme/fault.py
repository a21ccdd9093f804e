"""What a fault is: a name, what it does to a site, and what it excuses."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tests.faults.programme.site import Site

Excuse: TypeAlias = Literal["lost_lease", "lost_data", "lost_alone", "clock_ahead"]
"""What may follow from a fault. Why a body may start once more, though no process was killed or stopped (those are
known to the site, by pid):

    lost_lease      a lease may lapse while its worker lives: it was frozen, cut off or slow
    lost_data       Redis forgets what it had acknowledged: emptied, restarted, failed over
    lost_alone      and single keys of it while all others stay, so that nothing tells that they were there: what they
                    alone knew is forgotten, windows of idempotency keys and permits
    clock_ahead     and why a job may start before its delay is over: a store's clock was set ahead, and what waits goes
                    by the stores' clocks
"""

Act: TypeAlias = "Callable[[Site, random.Random], Awaitable[None]]"


async def _nothing(site: Site, rng: random.Random) -> None:
    del site, rng


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault.

    Args:
        name: as in `--fault NAME`.
        told: one line for tables: what it does.
        strike: begins it while the workload runs, lets it last, heals it, and returns when that is done.
        excuses: what may follow from it within the time of the strike (and a lease after). No excuse: a body
            whose process was neither killed nor stopped may not start twice.
        prepare: called before any process of the trial starts: to start servers with other options,
            to give parts another environment.
        tier: the least tier in which a sweep over all faults strikes it.
    """

    name: str
    told: str
    strike: Act
    excuses: frozenset[Excuse] = frozenset()
    prepare: Act = _nothing
    tier: Literal["small", "night", "release"] = "night"


FAULTS: dict[str, Fault] = {}
"""All that are registered; `tests.faults.programme.faults` imports their modules."""


def fault(
    *excuses: Excuse, prepare: Act = _nothing, tier: Literal["small", "night", "release"] = "night"
) -> Callable[[Act], Act]:
    """Register the decorated function as the fault of its name (`_` becomes `-`), told by its docstring's first line.

    @fault("lost_data")
    async def flushall(site: Site, rng: random.Random) -> None:
        \"\"\"FLUSHALL in the middle of it.\"\"\"
    """

    def register(strike: Act) -> Act:
        name = getattr(strike, "__name__", "").replace("_", "-")
        told = (strike.__doc__ or "").strip().partition("\n")[0]
        assert told, f"fault {name}: give it a docstring whose first line tells what it does"
        assert name not in FAULTS, f"there are two faults {name}"
        FAULTS[name] = Fault(name, told, strike, frozenset(excuses), prepare, tier)
        return strike

    return register
