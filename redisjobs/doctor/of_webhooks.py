"""The check of endpoints of webhooks: what is sent to them arrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from redisjobs.base.durations import age, many
from redisjobs.doctor import limits
from redisjobs.doctor.finding import Verdict, ok, warn
from redisjobs.webhooks.admin import EndpointLine

_LONG = timedelta(seconds=limits.FAILING_S)


def endpoints(lines: Sequence[EndpointLine]) -> Verdict:
    """None is disabled, and none has failed for long."""
    disabled = [each for each in lines if not each.state.is_enabled]
    if disabled:
        first = disabled[0]
        return warn(f"endpoint {first.name} is disabled: {first.disabled_why}{_others(disabled)}",
                    "what is sent to it becomes a dead letter", f"redisjobs webhooks endpoints enable {first.name}; "
                    f"then redisjobs webhooks redeliver --endpoint {first.name}")  # fmt: skip
    now = datetime.now(UTC)
    failing = [each for each in lines if each.failing_since and now - each.failing_since > _LONG]
    if failing:
        first = min(failing, key=lambda each: each.failing_since or now)
        since_s = (now - (first.failing_since or now)).total_seconds()
        return warn(f"endpoint {first.name} has failed for {age(since_s)}: {first.last_error}{_others(failing)}",
                    "nothing has arrived there since; its deliveries are tried again, and die in the end",
                    f"redisjobs webhooks endpoints show {first.name}")  # fmt: skip
    return ok(many(len(lines), "endpoint"))


def _others(lines: Sequence[EndpointLine]) -> str:
    return "" if len(lines) == 1 else f" (and {len(lines) - 1} more)"


CHECKS: dict[str, Callable[[Sequence[EndpointLine]], Verdict]] = {"webhooks.endpoints": endpoints}
"""Each check by its name."""
