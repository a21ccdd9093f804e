"""What will happen in the shop, decided beforehand from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

MAX_ATTEMPTS = 3
RETRY_S = (0.3, 0.6)

DECLINED = 0.07
"""Share of transactions that an exception rolls back."""
WITHDRAWN = 0.05
"""Share of transactions with a second order whose savepoint is rolled back."""
FLAKY = 0.06
BROKEN = 0.004


class Mood(StrEnum):
    """How the mail server will treat an order's mail."""

    FINE = "fine"
    FLAKY = "flaky"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Order:
    """One order, and with it one mail.

    Args:
        takes_ms: how long the mail server takes.
    """

    id: int
    address: str
    total: str
    mood: Mood
    takes_ms: int


@dataclass(frozen=True, slots=True)
class Sale:
    """One transaction.

    Args:
        order: placed and, unless it is declined, committed.
        withdrawn: placed within a savepoint that is rolled back, while the rest commits.
        declined: an exception rolls all of it back.
    """

    order: Order
    withdrawn: Order | None = None
    declined: bool = False


def plan(jobs: int, seed: int, *, calm: bool) -> list[Sale]:
    """Sales of which so many commit; what is rolled back comes on top.

    Args:
        calm: every mail is sent at the first attempt. Transactions are rolled back all the same.
    """
    chance = random.Random(seed)
    numbers = iter(range(1, 10 * jobs + 100))
    sales: list[Sale] = []
    committed = 0
    while committed < jobs:
        order = _order(next(numbers), chance, calm=calm)
        fate = chance.random()
        if fate < DECLINED:
            sales.append(Sale(order, declined=True))
            continue
        second = fate < DECLINED + WITHDRAWN
        sales.append(Sale(order, _order(next(numbers), chance, calm=calm) if second else None))
        committed += 1
    return _with_one_broken(sales) if not calm and jobs >= 10 else sales


def _order(number: int, chance: random.Random, *, calm: bool) -> Order:
    luck = chance.random()
    mood = Mood.BROKEN if luck < BROKEN else Mood.FLAKY if luck < BROKEN + FLAKY else Mood.FINE
    address = f"customer{chance.randrange(10_000)}@example.com"
    total = f"{chance.uniform(5, 500):.2f}"
    return Order(number, address, total, Mood.FINE if calm else mood, chance.randint(5, 25))


def _with_one_broken(sales: list[Sale]) -> list[Sale]:
    """Even a short demo shows a dead letter."""
    kept = [at for at, sale in enumerate(sales) if not sale.declined]
    if any(sales[at].order.mood is Mood.BROKEN for at in kept):
        return sales
    at = kept[len(kept) // 3]
    order = sales[at].order
    broken = Order(order.id, order.address, order.total, Mood.BROKEN, order.takes_ms)
    return [*sales[:at], Sale(broken, sales[at].withdrawn), *sales[at + 1 :]]
