"""The faults of the programme, a module for each place that they strike. Importing this registers all of them."""

from __future__ import annotations

from tests.faults.programme.fault import FAULTS
from tests.faults.programme.faults import (
    answers,
    calm,
    clocks,
    ends,
    kills,
    links,
    pairs,
    pauses,
    poison,
    postgres_server,
    postgres_sessions,
    redis_groups,
    redis_losses,
    redis_server,
)

__all__ = [
    "FAULTS",
    "answers",
    "calm",
    "clocks",
    "ends",
    "kills",
    "links",
    "pairs",
    "pauses",
    "poison",
    "postgres_server",
    "postgres_sessions",
    "redis_groups",
    "redis_losses",
    "redis_server",
]
