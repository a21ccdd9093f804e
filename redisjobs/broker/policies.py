"""The policy of a key, as the scripts read it: a word without spaces, whose parts `lua/lib/policy.lua` names."""

from __future__ import annotations


def policy_text(
    policy: str | None,
    *,
    window_ms: int = 0,
    wait_ms: int = 0,
    longest_ms: int | None = None,
    since_ms: int = 0,
    order: int | None = None,
) -> str:
    """The text; '' for the ordinary policy, by which a key belongs to its job until that ends.

    Args:
        policy: as in the row.
        window_ms: of throttle, from when its key counts. wait_ms, longest_ms: of debounce.
        since_ms: for how long its key has counted: it was published before.
        order: the row's place in line, by which the later of two calls is known; 0: earlier than all others. None: a
            direct call, which is later than what is there.
    """
    place = "-" if order is None else str(order)
    if policy == "throttle":
        return f"t:{max(0, window_ms - since_ms)}"
    if policy == "debounce":
        longest = "-" if longest_ms is None else max(0, longest_ms - since_ms)
        return f"d:{wait_ms}:{longest}:{place}"
    return f"r:{place}:-" if policy == "replace" else ""
