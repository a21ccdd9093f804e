"""The checks of limits: what an operator has forgotten, and lines that do not move."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redisjobs.base.durations import many
from redisjobs.broker.limit_values import LimitKey, Rule
from redisjobs.broker.limit_view import LimitView
from redisjobs.doctor.finding import Verdict, ok, warn

LOOK_AGAIN_S = 3.0
"""Sweeps come about once a second: a line that stands still for longer while nobody holds is looked after by nobody."""


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """All limits.

    Args:
        still: keys with a line that did not move between two looks, although nobody held them.
    """

    keys: Sequence[LimitKey]
    rules: dict[str, Rule]
    still: Sequence[LimitKey] = ()


def look_at_limits(url: str, prefix: str, *, again_s: float = LOOK_AGAIN_S) -> LimitFacts:
    """The limits as they are; twice, where one seems to stand still.

    Raises:
        BrokerUnavailable, StoreRefused: Redis does not say.
    """
    with LimitView(url, prefix) as view:
        keys, rules = view.keys(heads=1), view.rules()
        idle = {each.key: each.heads for each in keys if _stands_idle(each, rules)}
        if not idle:
            return LimitFacts(keys, rules)
        time.sleep(again_s)
        keys = view.keys(heads=1)
        still = [each for each in keys if _stands_idle(each, rules) and each.heads == idle.get(each.key)]
        return LimitFacts(keys, rules, still)


def _stands_idle(limit: LimitKey, rules: dict[str, Rule]) -> bool:
    """Somebody waits, and nobody holds, and nothing says why."""
    rule = rules.get(limit.name)
    is_open = limit.rate is None and limit.closed_s <= 0 and not (rule and rule.is_paused)
    return bool(limit.waiting) and not limit.used and is_open and bool(limit.most)


def paused(facts: LimitFacts) -> Verdict:
    """Nobody forgot a limit that lets nothing begin."""
    behind = {
        name: sum(each.waiting for each in facts.keys if each.name == name)
        for name, rule in facts.rules.items()
        if rule.is_paused
    }
    held_up = {name: count for name, count in behind.items() if count}
    if held_up:
        name = max(held_up, key=lambda each: held_up[each])
        more = f" (and {len(held_up) - 1} more)" if len(held_up) > 1 else ""
        found = f"limit {name} is paused at run time, and jobs wait behind it: {held_up[name]}{more}"
        return warn(found, "none of them begins", f"redisjobs limits unset {name}")
    return ok(f"set at run time: {', '.join(f'{name} {rule}' for name, rule in facts.rules.items()) or 'nothing'}")


def moving(facts: LimitFacts) -> Verdict:
    """Lines move on while there is room."""
    if facts.still:
        first = facts.still[0]
        queues = sorted({*first.passed_over, *(each.queue for each in first.heads)})
        more = f" (and {len(facts.still) - 1} more)" if len(facts.still) > 1 else ""
        found = (
            f"jobs wait for limit {first.key}, and nobody holds it: {first.waiting}, of queue {', '.join(queues)}{more}"
        )
        return warn(found, "no worker serves their queue, or none looks after limits: they do not begin",
                    f"redisjobs worker MODULE:APP --queues {','.join(queues)}")  # fmt: skip
    waiting = sum(each.waiting for each in facts.keys)
    return ok(f"{many(waiting, 'job waits', 'jobs wait')} for {many(len(facts.keys), 'limit key')}")


CHECKS: dict[str, Callable[[LimitFacts], Verdict]] = {"limits.paused": paused, "limits.moving": moving}
"""Each check by its name."""
