"""Redis: who has a job now. The one package that speaks to it."""

from redisjobs.broker.broker import GRACE_MS, MOST_AT_ONCE, Broker
from redisjobs.broker.carrier import Carrier, Fence, OtherLife, Stale
from redisjobs.broker.heart import Heart
from redisjobs.broker.keys import Keys
from redisjobs.broker.limiter import Limiter
from redisjobs.broker.permits import GONE, Ask, Rate, Verdict, Want, Woken, limit_key
from redisjobs.broker.policies import policy_text
from redisjobs.broker.presence import Presence
from redisjobs.broker.values import (
    BANDS,
    Answer,
    Delivery,
    Entry,
    Finish,
    Life,
    Move,
    Outcome,
    Promoted,
    Publication,
    Result,
    ShareRule,
    Taken,
    Word,
    band_of,
)

__all__ = [
    "BANDS",
    "GONE",
    "GRACE_MS",
    "MOST_AT_ONCE",
    "Answer",
    "Ask",
    "Broker",
    "Carrier",
    "Delivery",
    "Entry",
    "Fence",
    "Finish",
    "Heart",
    "Keys",
    "Life",
    "Limiter",
    "Move",
    "OtherLife",
    "Outcome",
    "Presence",
    "Promoted",
    "Publication",
    "Rate",
    "Result",
    "ShareRule",
    "Stale",
    "Taken",
    "Verdict",
    "Want",
    "Woken",
    "Word",
    "band_of",
    "limit_key",
    "policy_text",
]
