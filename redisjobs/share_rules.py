"""What operators have set for the shares of a queue, as Postgres has it."""

from __future__ import annotations

import json
import math
from decimal import Decimal

from redisjobs.broker import ShareRule
from redisjobs.errors import OptionError

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0


def share_rules(text: str) -> list[ShareRule]:
    """The rules in the JSON of a queue's row; shares that are not in it have weight 1 and are not paused."""
    return [
        ShareRule(share, float(rule.get("weight", 1.0)), bool(rule.get("paused", False)))
        for share, rule in sorted(json.loads(text).items())
    ]


def check_weight(value: object) -> float:
    """The weight of a share.

    Raises:
        OptionError: it is no number from 0.01 to 100.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise OptionError("weight", value, "is no number: pass one from 0.01 to 100, such as 3")
    if math.isnan(value) or not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        raise OptionError("weight", value, "is out of range: pass a number from 0.01 to 100; 3 is three jobs for one")
    return float(value)
