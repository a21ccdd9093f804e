"""Redis: who has a job now. The one package that speaks to it."""

from redisjobs.broker.broker import GRACE_MS, MOST_AT_ONCE, Broker
from redisjobs.broker.carrier import Carrier, Fence, OtherLife, Stale
from redisjobs.broker.heart import Heart
from redisjobs.broker.keys import Keys
from redisjobs.broker.presence import Presence
from redisjobs.broker.values import (
    BANDS,
    Answer,
    Delivery,
    Entry,
    Finish,
    Life,
    Outcome,
    Promoted,
    Publication,
    Result,
    Taken,
    Word,
    band_of,
)

__all__ = [
    "BANDS",
    "GRACE_MS",
    "MOST_AT_ONCE",
    "Answer",
    "Broker",
    "Carrier",
    "Delivery",
    "Entry",
    "Fence",
    "Finish",
    "Heart",
    "Keys",
    "Life",
    "OtherLife",
    "Outcome",
    "Presence",
    "Promoted",
    "Publication",
    "Result",
    "Stale",
    "Taken",
    "Word",
    "band_of",
]
