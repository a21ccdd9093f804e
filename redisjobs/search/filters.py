"""Which jobs are meant: every condition that is given must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisjobs.base.envelope import Envelope
from redisjobs.errors import ConfigurationError

LIVE = ("staged", "deferred", "set_aside", "published", "retrying", "snoozed", "suspended", "parked")
ENDED = ("done", "cancelled", "expired", "deduplicated")
IN_REDIS = ("waiting", "running", "due", "limited", "behind")
"""What Redis alone knows; to Postgres all of these are published, retrying, snoozed or parked."""
STATES = (*LIVE, *IN_REDIS, "dead", *ENDED)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs. What is None does not narrow.

    Args:
        states: one of these; either of Postgres, or of Redis alone.
        error: a piece of the last error or of the reason, in any case; what is done has none.
        older_s: staged (a dead letter where only those are asked for: died) longer ago than so many seconds.
        newer_s: not longer ago than so many seconds.
        flagged: also those whose cancel was asked for already.

    Raises:
        ConfigurationError: nothing can fit.
    """

    queue: str | None = None
    job: str | None = None
    tenant: str | None = None
    key: str | None = None
    states: Sequence[str] = ()
    error: str | None = None
    older_s: float | None = None
    newer_s: float | None = None
    flagged: bool = True

    def __post_init__(self) -> None:
        if self.older_s is not None and self.newer_s is not None and self.older_s >= self.newer_s:
            raise ConfigurationError(
                f"no job is older than {self.older_s:g} s and not older than {self.newer_s:g} s: "
                "--older-than must be the shorter of the two"
            )
        known_by_redis = set(IN_REDIS) & set(self.states)
        if known_by_redis and len(set(self.states)) > 1:
            raise ConfigurationError(
                f"--state {min(known_by_redis)} is known by Redis alone: ask for it by itself, without other states"
            )

    @property
    def where(self) -> str | None:
        """The state that only Redis knows, if one is asked for."""
        return next((each for each in self.states if each in IN_REDIS), None)

    @property
    def is_narrow(self) -> bool:
        """Whether any condition is given."""
        given = (self.queue, self.job, self.tenant, self.key, self.error, self.older_s, self.newer_s)
        return bool(self.states) or any(each is not None for each in given)

    def parameters(self, now: datetime) -> dict[str, Any]:
        """What the statements read. The ages count from `now`, Postgres' time at the beginning of the command."""
        return {
            "queue": self.queue,
            "job": self.job,
            "tenant": self.tenant,
            "key": self.key,
            "states": list(self.states) or None,
            "error": self.error,
            "older": None if self.older_s is None else now - timedelta(seconds=self.older_s),
            "newer": None if self.newer_s is None else now - timedelta(seconds=self.newer_s),
            "flagged": self.flagged,
        }

    def fits(self, envelope: Envelope, now: datetime) -> bool:
        """Whether a job without a row fits; it has no error that anybody knows."""
        if self.error is not None:
            return False
        pairs = ((self.job, envelope.job), (self.tenant, envelope.tenant_id), (self.key, envelope.idempotency_key))
        if any(wanted is not None and wanted != found for wanted, found in pairs):
            return False
        if self.older_s is None and self.newer_s is None:
            return True
        if envelope.staged_at is None:
            return False
        age_s = now.timestamp() - envelope.staged_at / 1e6
        return (self.older_s is None or age_s > self.older_s) and (self.newer_s is None or age_s <= self.newer_s)
