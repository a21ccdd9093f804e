"""The test kit: what was enqueued, bodies run inline, and a whole road in memory with a clock to turn and faults.

`docs/guides/testing.md` shows each of them. Nothing here is imported by the rest of redisjobs.
"""

from redisjobs.testing.captured import Enqueued, EnqueuedCall, Ran, capture
from redisjobs.testing.clock import TurnedClock
from redisjobs.testing.faults import Fault, Faults
from redisjobs.testing.inline import Inline, run
from redisjobs.testing.outbox import AsyncMemoryConnection, MemoryConnection
from redisjobs.testing.outcomes import Cancelled, Died, Expired, Outcome, Retried, Snoozed, Succeeded
from redisjobs.testing.world import JobState, World, in_memory

__all__ = [
    "AsyncMemoryConnection",
    "Cancelled",
    "Died",
    "Enqueued",
    "EnqueuedCall",
    "Expired",
    "Fault",
    "Faults",
    "Inline",
    "JobState",
    "MemoryConnection",
    "Outcome",
    "Ran",
    "Retried",
    "Snoozed",
    "Succeeded",
    "TurnedClock",
    "World",
    "capture",
    "in_memory",
    "run",
]
