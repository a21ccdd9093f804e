"""A row of the outbox on its way to Redis."""

from __future__ import annotations

from typing import NamedTuple

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Publication, band_of


class StagedRow(NamedTuple):
    """A row of the outbox on its way to Redis. Moments are µs since 1970, distances ms from now by Postgres' clock."""

    id: bytes
    seq: int
    job: str
    input: str | None
    payload: bytes | None
    codec: str | None
    idempotency_key: str | None
    key_window: float | None
    priority: int
    max_attempts: int | None
    run_at: int | None
    expires_at: int | None
    run_in: int | None
    expires_in: int | None
    tenant_id: str | None
    traceparent: str | None
    enqueued_by: str | None
    headers: str | None
    staged_at: int
    attempts: int
    publications: int
    redrives: int
    cancel_requested: bool

    def publication(self) -> Publication:
        """The row as Redis gets it; its arguments go along as they are, never decoded."""
        payload = self.payload if self.payload is not None else (self.input or "").encode()
        envelope = Envelope(
            self.job, self.codec or "json", payload, self.idempotency_key, self.priority, self.max_attempts,
            self.run_at, self.expires_at, self.tenant_id, self.traceparent, self.enqueued_by, self.headers,
            self.staged_at, self.key_window,
        )  # fmt: skip
        return Publication(
            self.id,
            envelope.pack(),
            band=band_of(self.priority),
            life=self.redrives,
            number=self.publications + 1,
            delay_ms=max(0, self.run_in or 0),
            expire_ms=self.expires_in,
            key=(self.idempotency_key or "").encode(),
            window_ms=int((self.key_window or 0) * 1000),
            attempts=self.attempts,
        )
