"""How an endpoint behaves, and the pure rules by which that changes; `0005_webhooks.sql` says the same in SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

GONE_WHY = "it answered 410: gone for good"
SHOWN_CHARS, WHY_CHARS = 500, 300


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that was not accepted.

    Args:
        error: what came instead, in words without a secret.
        final: no retry follows, so the delivery has failed.
        gone: the endpoint said that it is gone for good.
    """

    error: str
    final: bool
    gone: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """How an endpoint behaves.

    Args:
        failures: deliveries in a row that ended without being accepted.
        failing_since: the first attempt since the last success that was not accepted.
        last_error: what came instead, the last time.
        last_delivered_at: exact to a minute.
        disabled_at, disabled_why: since when nothing is sent to it, and why; None: it is enabled.
    """

    failures: int = 0
    failing_since: datetime | None = None
    last_error: str | None = None
    last_delivered_at: datetime | None = None
    disabled_at: datetime | None = None
    disabled_why: str | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether deliveries go out."""
        return self.disabled_at is None

    @property
    def word(self) -> str:
        """ok, failing or disabled."""
        if not self.is_enabled:
            return "disabled"
        return "ok" if self.failing_since is None else "failing"


@dataclass(frozen=True, slots=True)
class Noted:
    """What a store answers where a failure was noted.

    Args:
        failures: deliveries in a row that have failed by now.
        disabled_why: None: the endpoint is enabled.
    """

    failures: int
    disabled_why: str | None


def after_failure(state: State, failure: Failure, disable_after: int, now: datetime) -> State:
    """The state after an attempt that was not accepted.

    Args:
        disable_after: so many failed deliveries in a row disable the endpoint; 0: none do.
    """
    failures = state.failures + failure.final
    why = None
    if failure.gone:
        why = GONE_WHY
    elif failure.final and 0 < disable_after <= failures:
        why = f"{failures} deliveries in a row were not accepted, the last one because: {failure.error[:WHY_CHARS]}"
    return replace(
        state,
        failures=failures,
        failing_since=state.failing_since or now,
        last_error=failure.error[:SHOWN_CHARS],
        disabled_at=state.disabled_at or (now if why else None),
        disabled_why=state.disabled_why or why,
    )


def after_success(state: State, now: datetime) -> State:
    """The state after one that was; what is disabled stays so, for somebody may have wanted it."""
    return replace(state, failures=0, failing_since=None, last_error=None, last_delivered_at=now)
