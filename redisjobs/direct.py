"""The short way: a call straight into Redis, without a row that could bring it back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Publication, band_of
from redisjobs.call import Call
from redisjobs.context import micros


def publication_of(call: Call[Any], now: datetime | None = None) -> Publication:
    """The call as Redis takes it.

    A moment becomes a distance by this machine's clock, for no other clock is asked on this way.
    """
    now = now or datetime.now(UTC)
    run_at = now + timedelta(seconds=call.delay) if call.delay is not None else call.run_at
    expires_at = now + timedelta(seconds=call.expires_in) if call.expires_in is not None else call.expires_at
    envelope = Envelope(
        job=call.job,
        codec=call.codec,
        payload=call.payload,
        idempotency_key=call.idempotency_key,
        priority=call.priority,
        max_attempts=call.max_attempts,
        run_at=None if run_at is None else micros(run_at),
        expires_at=None if expires_at is None else micros(expires_at),
        tenant_id=call.tenant_id,
        traceparent=call.traceparent,
        enqueued_by=call.enqueued_by,
        headers=call.headers,
        staged_at=micros(now),
        key_window=call.key_window,
    )
    return Publication(
        job_id=call.id.bytes,
        envelope=envelope.pack(),
        band=band_of(call.priority),
        delay_ms=0 if run_at is None else max(0, _millis(run_at - now)),
        expire_ms=None if expires_at is None else _millis(expires_at - now),
        key=(call.idempotency_key or "").encode(),
        window_ms=math.ceil((call.key_window or 0) * 1000),
        direct=True,
    )


def _millis(distance: timedelta) -> int:
    """Whole milliseconds, rounded up: not a moment too early."""
    return -(-distance // timedelta(milliseconds=1))
