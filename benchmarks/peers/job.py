"""What the measured jobs do, in every contestant's worker: by the standard library alone, for all environments run it.

A job says when it started. One with `hold` also goes into the ledger, and takes so many seconds.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.peers.ledger import Ledger
from benchmarks.probe import Probe

STEPS = 5
"""Of a durable run, each recorded before the next begins."""

Body = dict[str, Any]

_probe = Probe.of_environment()
_ledger = Ledger.of_environment()


def body(number: int, hold: float = 0.0) -> Body:
    """Arguments of about 200 bytes, as many jobs have.

    Args:
        hold: seconds that the job takes; 0: it does nothing.
    """
    return {
        "i": number,
        "hold": hold,
        "user": 1_000_000 + number,
        "address": "somebody.with.a.name@example.com",
        "template": "order-confirmation",
        "labels": ["first", "second"],
        "note": "-" * 44,
    }


def run_sync(body: Body) -> None:
    """A job of a peer whose bodies are sync."""
    hold = _begin(body)
    if hold:
        time.sleep(hold)
        _end(body)


async def run(body: Body) -> None:
    """A job of a peer whose bodies are async."""
    hold = _begin(body)
    if hold:
        await asyncio.sleep(hold)
        _end(body)


def run_ended(body: Body) -> None:
    """A durable run has ended: the last thing that its body says."""
    if _probe is not None:
        _probe.hit(body["i"])


def step(number: int, place: int) -> dict[str, int]:
    """What a step of a durable run answers."""
    return {"i": number, "k": place}


def _begin(body: Body) -> float:
    if _probe is not None:
        _probe.hit(body["i"])
    hold: float = body["hold"]
    if hold and _ledger is not None:
        _ledger.note("start", body["i"])
    return hold


def _end(body: Body) -> None:
    if _ledger is not None:
        _ledger.note("end", body["i"])
