"""The test kit: what was enqueued, bodies run inline, and a whole road in memory with a clock to turn and faults.

`docs/guides/testing.md` shows each of them. Nothing here is imported by the rest of redisjobs.
"""

from redisjobs.testing.captured import Enqueued, EnqueuedCall, Ran, capture
from redisjobs.testing.clock import TurnedClock
from redisjobs.testing.faults import Fault, Faults
from redisjobs.testing.inline import Inline, run, run_batch
from redisjobs.testing.outbox import AsyncMemoryConnection, MemoryConnection
from redisjobs.testing.outcomes import (
    Cancelled,
    Died,
    Expired,
    Limited,
    Outcome,
    Retried,
    Snoozed,
    Succeeded,
    Suspended,
)
from redisjobs.testing.receiving import FakeReceiver, Received, receiving
from redisjobs.testing.world import JobState, World, in_memory
from redisjobs.webhooks.answers import Answer

__all__ = [
    "Answer",
    "AsyncMemoryConnection",
    "Cancelled",
    "Died",
    "Enqueued",
    "EnqueuedCall",
    "Expired",
    "FakeReceiver",
    "Fault",
    "Faults",
    "Inline",
    "JobState",
    "Limited",
    "MemoryConnection",
    "Outcome",
    "Ran",
    "Received",
    "Retried",
    "Snoozed",
    "Succeeded",
    "Suspended",
    "TurnedClock",
    "World",
    "capture",
    "in_memory",
    "receiving",
    "run",
    "run_batch",
]
