"""The checks of schedules: each a pure look at all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redisjobs.base.durations import age, many
from redisjobs.doctor.finding import Verdict, fail, ok
from redisjobs.timetable import Line


def readable(lines: Sequence[Line]) -> Verdict:
    """Schedulers can read them: SQL takes any expression and zone."""
    bad = [line for line in lines if line.trouble is not None]
    if bad:
        first = bad[0]
        why = "no scheduler can dispatch it, and nothing says so but this and `redisjobs schedules list`"
        remedy = f"redisjobs schedules delete {first.name}, or make it anew with another --cron or --zone"
        return fail(f"schedule {first.name}: {first.trouble}{_others(bad)}", why, remedy)
    return ok(many(len(lines), "schedule"))


def dispatched(lines: Sequence[Line]) -> Verdict:
    """Somebody dispatches what is due."""
    late = [line for line in lines if line.is_overdue and line.trouble is None]
    if late:
        first = max(late, key=_late_s)
        ever = "" if first.dispatches else ", and has never run"
        value = f"schedule {first.name} is overdue by {age(_late_s(first))}{ever}{_others(late)}"
        return fail(value, "no scheduler runs: the jobs of schedules are not asked for",
                    "redisjobs scheduler MODULE:APP, or redisjobs worker MODULE:APP --scheduler")  # fmt: skip
    return ok("none is overdue")


def _late_s(line: Line) -> float:
    since = line.watermark if line.stale or line.next_run is None else line.next_run
    return (line.now - since).total_seconds()


def _others(lines: Sequence[Line]) -> str:
    return "" if len(lines) == 1 else f" (and {len(lines) - 1} more)"


CHECKS: dict[str, Callable[[Sequence[Line]], Verdict]] = {
    "schedules.readable": readable,
    "schedules.dispatched": dispatched,
}
"""Each check by its name."""
