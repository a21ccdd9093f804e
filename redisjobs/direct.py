"""The short way: a call straight into Redis, without a row that could bring it back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Publication, band_of, policy_text
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
        version=call.version,
        lane=call.lane,
        share_key=call.share_key,
        key_policy=call.key_policy,
        key_wait=call.key_wait,
        key_longest=call.key_longest,
    )
    return Publication(
        job_id=call.id.bytes,
        envelope=envelope.pack(),
        band=band_of(call.priority),
        delay_ms=0 if run_at is None else max(0, _millis(run_at - now)),
        expire_ms=None if expires_at is None else _millis(expires_at - now),
        key=(call.idempotency_key or "").encode(),
        window_ms=0 if call.key_policy == "throttle" else _ceiled(call.key_window),
        direct=True,
        lane=(call.lane or "").encode(),
        share=(call.share_key or "").encode(),
        policy="" if call.key_policy is None else _policy(call),
    )


def _policy(call: Call[Any]) -> str:
    return policy_text(
        call.key_policy,
        window_ms=_ceiled(call.key_window),
        wait_ms=_ceiled(call.key_wait),
        longest_ms=None if call.key_longest is None else _ceiled(call.key_longest),
    )


def _ceiled(seconds: float | None) -> int:
    return math.ceil((seconds or 0) * 1000)


def _millis(distance: timedelta) -> int:
    """Whole milliseconds, rounded up: not a moment too early."""
    return -(-distance // timedelta(milliseconds=1))
