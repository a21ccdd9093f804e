"""Hears the wake-ups that producers and senders of events notify."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg

Listener: TypeAlias = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def listening(database_url: str) -> Generator[Listener]:
    """A session that listens for as long as the block lasts."""
    with psycopg.connect(database_url, autocommit=True) as opened:
        opened.execute('LISTEN "redisjobs.wake"')
        yield opened


def heard(listener: Listener) -> list[str]:
    """What was notified since it was last asked, but for the probes of relays."""
    listener.execute("SELECT 1")
    return [notice.payload for notice in listener.notifies(timeout=0.2) if not notice.payload.startswith("?")]
