"""Afterwards: everything comes to rest, and nothing is left behind."""

from __future__ import annotations

from tests.faults.programme.facts import Facts, told
from tests.faults.programme.site import EXIT_STORE_DOWN


def it_comes_to_rest_in_time(facts: Facts) -> list[str]:
    """Once all is healed and committed, nothing is under way any more within patience."""
    return [f"not at rest within {facts.patience_s:.0f} s: {facts.restless}"] if facts.restless else []


def redis_holds_nothing_at_rest(facts: Facts) -> list[str]:
    """Streams, pending lists, due jobs, keys of live jobs, permits and lines are empty."""
    if facts.restless or not facts.left:
        return []
    return [f"Redis still holds {told((f'{key}: {value}' for key, value in facts.left.items()), 6)}"]


def connections_and_memory_are_back(facts: Facts) -> list[str]:
    """No process and no server has grown, or holds connections that it does not need."""
    return [told(facts.odd)] if facts.odd else []


def no_process_gives_up(facts: Facts) -> list[str]:
    """A relay, a worker or a scheduler ends when it is ended, and where its store is down as it starts; never else."""
    gone = [
        f"{end.part} (pid {end.pid}) ended by itself with exit code {end.code}"
        for end in facts.ends
        if end.how == "ended" and end.pid not in facts.died
        and not end.part.startswith("producer") and end.code != EXIT_STORE_DOWN
    ]  # fmt: skip
    return [told([*gone, *facts.failed])] if gone or facts.failed else []
