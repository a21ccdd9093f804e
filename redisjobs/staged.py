"""A row of the outbox on its way to Redis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Publication, band_of, policy_text

JOB_BYTES = 300
"""What a job costs in Redis beside its envelope."""
PIECE_BYTES = 1_000_000
"""What goes to Redis in one call, unless a single row is larger."""
PIECE_ROWS = 500
"""Likewise: while Postgres marks one piece, the next one goes to Redis."""


class StagedRow(NamedTuple):
    """A row of the outbox on its way to Redis. Moments are µs since 1970, distances ms from now by Postgres' clock.

    `key_since` is for how long the key has counted, in ms; windows and waits are in seconds.
    """

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
    version: str | None
    has_parent: bool
    is_ending: bool
    settled: int
    lane: str | None = None
    share_key: str | None = None
    key_policy: str | None = None
    key_wait: float | None = None
    key_longest: float | None = None
    key_since: int | None = None

    def publication(self, share_by: str | None = None) -> Publication:
        """The row as Redis gets it; its arguments go along as they are, never decoded.

        Args:
            share_by: tenant: without a share key of its own, its tenant is its share.
        """
        share = self.share_key or (self.tenant_id if share_by == "tenant" else None)
        payload = self.payload if self.payload is not None else (self.input or "").encode()
        envelope = Envelope(
            self.job, self.codec or "json", payload, self.idempotency_key, self.priority, self.max_attempts,
            self.run_at, self.expires_at, self.tenant_id, self.traceparent, self.enqueued_by, self.headers,
            self.staged_at, self.key_window, self.version, self.has_parent, self.is_ending, self.lane, self.share_key,
            self.key_policy, self.key_wait, self.key_longest,
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
            window_ms=0 if self.key_policy == "throttle" else int((self.key_window or 0) * 1000),
            attempts=self.attempts,
            after=self.settled,
            lane=(self.lane or "").encode(),
            order=self.seq,
            share=(share or "").encode(),
            policy="" if self.key_policy is None else self._policy(),
        )

    def _policy(self) -> str:
        return policy_text(
            self.key_policy,
            window_ms=_millis(self.key_window) or 0,
            wait_ms=_millis(self.key_wait) or 0,
            longest_ms=_millis(self.key_longest),
            since_ms=max(0, self.key_since or 0),
            order=0 if self.redrives else self.seq,  # what a redriven job was to do is older than what came meanwhile
        )


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def publications(rows: Sequence[StagedRow], share_by: str | None = None) -> tuple[list[Publication], Exception | None]:
    """The rows as Redis gets them, up to the first that cannot be read, and why it cannot."""
    made: list[Publication] = []
    for row in rows:
        try:
            made.append(row.publication(share_by))
        except Exception as error:  # noqa: BLE001 - one row that cannot be read must not hide what it is
            return made, error
    return made, None


def pieces(made: Sequence[Publication]) -> Iterator[tuple[Sequence[Publication], int]]:
    """Cut into calls of a bearable size; each with what it costs in Redis."""
    first = size = 0
    for at, each in enumerate(made):
        cost = len(each.envelope) + JOB_BYTES
        if at > first and (size + cost > PIECE_BYTES or at - first >= PIECE_ROWS):
            yield made[first:at], size
            first, size = at, 0
        size += cost
    if first < len(made):
        yield made[first:], size
