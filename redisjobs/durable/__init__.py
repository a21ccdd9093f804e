"""What a body can ask of its run: steps, sleeps, events, children, transactions."""

from redisjobs.durable.detached import Detached
from redisjobs.durable.engine import Engine, Refusing, in_a_process
from redisjobs.durable.face import Child, Durable
from redisjobs.durable.sync import SyncChild, SyncDurable
from redisjobs.durable.transaction import SyncTransaction, Transaction
from redisjobs.durable.values import Event, StepOptions, Wait, Work

__all__ = [
    "Child",
    "Detached",
    "Durable",
    "Engine",
    "Event",
    "Refusing",
    "StepOptions",
    "SyncChild",
    "SyncDurable",
    "SyncTransaction",
    "Transaction",
    "Wait",
    "Work",
    "in_a_process",
]
