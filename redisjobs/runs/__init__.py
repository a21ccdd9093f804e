"""Durable runs in a worker: what an attempt's body asks of its run, and how the run keeps it."""

from redisjobs.runs.bodies import in_transaction, rewound
from redisjobs.runs.ends import suspension_in
from redisjobs.runs.live import Live
from redisjobs.runs.run import Run
from redisjobs.runs.runs import Runs
from redisjobs.runs.undo import undo_all

__all__ = ["Live", "Run", "Runs", "in_transaction", "rewound", "suspension_in", "undo_all"]
