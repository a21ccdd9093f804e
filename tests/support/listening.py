"""Hears the wake-ups that producers and senders of events notify."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg

Listener: TypeAlias = psycopg.Connection[tuple[Any, ...]]
END = "heard.up.to.here"
"""Where a listener calls to itself: it hears that behind all that was committed before."""


@contextmanager
def listening(database_url: str) -> Generator[Listener]:
    """A session that listens for as long as the block lasts."""
    with psycopg.connect(database_url, autocommit=True) as opened:
        opened.execute(f'LISTEN "redisjobs.wake"; LISTEN "{END}"'.encode())
        yield opened


def heard(listener: Listener) -> list[str]:
    """What was notified since it was last asked, but for the probes of relays."""
    end, found = secrets.token_hex(4), list[str]()
    listener.execute("SELECT pg_notify(%s, %s)", [END, end])
    for notice in listener.notifies(timeout=30):
        if (notice.channel, notice.payload) == (END, end):
            return found
        if not notice.payload.startswith("?"):
            found.append(notice.payload)
    raise AssertionError(f"Postgres does not tell what was notified, only {found}")
