"""What the tests stand on: stores, a proxy that loses replies, a ledger, processes, waiting."""
