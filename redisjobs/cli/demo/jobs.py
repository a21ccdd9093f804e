"""The app of the demo: one job, which sends a mail and writes into the ledger that it did."""

from __future__ import annotations

import asyncio
import time
from functools import cache

from redisjobs.app import App
from redisjobs.cli.demo.ledger import Pen, new_run
from redisjobs.cli.demo.plan import MAX_ATTEMPTS, RETRY_S, Mood
from redisjobs.context import Context

QUEUE = "mail"

app = App("demo")


class MailServerError(Exception):
    """What the mail server answers."""


@cache
def _pen() -> Pen:
    return Pen(app.settings)


@app.job(queue=QUEUE, max_attempts=MAX_ATTEMPTS, retry=RETRY_S)
async def send_confirmation(
    context: Context, order: int, address: str, total: str, *, mood: str, takes_ms: int
) -> None:
    """Send the mail of one order."""
    began_ns, run = time.time_ns(), new_run()
    await _pen().write(order, run, context.attempt, "started", began_ns)
    await asyncio.sleep(takes_ms / 1000)
    try:
        _deliver(address, total, Mood(mood), context.attempt)
    except MailServerError:
        await _pen().write(order, run, context.attempt, "raised")
        raise
    await _pen().write(order, run, context.attempt, "returned")


def _deliver(address: str, total: str, mood: Mood, attempt: int) -> None:
    """Hand the mail to a server that has its moods."""
    if mood is Mood.BROKEN:
        raise MailServerError(f"550 no such mailbox: {address}, who is to be thanked for {total} EUR")
    if mood is Mood.FLAKY and attempt == 1:
        raise MailServerError(f"451 try again later: {address}")
