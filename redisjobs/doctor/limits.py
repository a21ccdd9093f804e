"""From which values on something is worth a word, each with its unit."""

from __future__ import annotations

OLDEST_POSTGRES = 140_000
OLDEST_REDIS = (6, 2)
SLOW_S, TOO_SLOW_S = 0.02, 0.25
"""A round trip to a store: a worker's throughput falls with it, and renewals come late."""
CLOCK_S = 2.0
SHORTEST_STATEMENT_S = 30.0
"""A recovery takes rows back in large statements."""
RELAY_CONNECTIONS = 4
FULL_SHARE = 0.9
OLD_TRANSACTION_S = 300.0
DEAD_ROWS = 20_000
"""Four times of what makes autovacuum look at the outbox."""
WAL_BYTES = 1 << 30
SMALL_MEMORY = 64 << 20
CLOSE_SHARE = 0.6
LAG_S = 60.0
PARKED_S = 900.0
"""For so long a deploy may take, in which workers of the old release park what only the new one knows."""
FORGOTTEN_S = 7 * 86_400.0
"""For longer no dead letter should wait for somebody."""
SILENT_S = 60.0
"""A worker reads or renews far more often."""
FAILING_S = 3_600.0
"""A receiver of webhooks may be deployed anew, and its deliveries are tried again meanwhile."""
