"""What a relay has done for each queue since it was made, for whoever counts along."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Carried:
    """One queue's figures; they only grow.

    Args:
        published: rows that left the line. settled: outcomes taken to Postgres.
        publish_failures: passes that a row, or a store, kept from publishing what they should.
        relay_lease_lost: times that the queue was lost to another relay while it was held.
        recoveries: times that its data were put right after Redis had lost them.
    """

    published: int = 0
    settled: int = 0
    publish_failures: int = 0
    relay_lease_lost: int = 0
    recoveries: int = 0
