"""The flag `asleep`: every order of one producer's steps and those of a relay that goes to sleep."""

from __future__ import annotations

import itertools

PRODUCER, RELAY = ("insert", "commit"), ("flag", "look", "sleep")


def deaf_orders(*, polls_on: bool) -> list[str]:
    """The orders in which a commit is neither seen nor notified.

    Args:
        polls_on: the relay polls until every transaction older than its flag has ended, and only then sleeps.
    """
    return sorted(
        "".join(order) for order in set(itertools.permutations("PPRRR")) if _is_deaf(order, polls_on=polls_on)
    )


def _is_deaf(order: tuple[str, ...], *, polls_on: bool) -> bool:
    steps = {"P": iter(PRODUCER), "R": iter(RELAY)}
    asleep = began = committed = notifies = notified = seen = waits_for = False
    for actor in order:
        match next(steps[actor]):
            case "insert":
                began, notifies = True, asleep
            case "commit":
                committed, notified = True, notifies
            case "flag":
                asleep, waits_for = True, began and not committed
            case "look":
                seen = committed
            case _:
                seen = seen or (polls_on and waits_for)
    return not (seen or notified)
