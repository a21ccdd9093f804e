"""The app that the measured workers serve."""

from __future__ import annotations

from typing import Any

from benchmarks.probe import Probe
from redisjobs import App

app = App("benchmarks")
_probe = Probe.of_environment()


@app.job()
async def noop(body: dict[str, Any]) -> None:
    """Does nothing but to say when."""
    if _probe is not None:
        _probe.hit(body["i"])


def body(number: int) -> dict[str, Any]:
    """Arguments of about 200 bytes, as many jobs have."""
    return {
        "i": number,
        "user": 1_000_000 + number,
        "address": "somebody.with.a.name@example.com",
        "template": "order-confirmation",
        "language": "en_GB",
        "labels": ["first", "second"],
        "note": "-" * 44,
    }
