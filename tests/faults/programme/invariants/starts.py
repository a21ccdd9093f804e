"""How often bodies start, and whose end counts."""

from __future__ import annotations

from itertools import pairwise

from tests.faults.programme.facts import Facts, Run, told

LEASE_S = 3.0
SOON_S = 15.0
"""So long after a strike a lease that lapsed in it may be found, on a busy machine."""
STALLED_S = 1.0
"""A process that did not run for so long in all may have lost its leases: a renewal that takes that long fails."""
EARLY_S = 0.05
PLANNED = {"Snooze": "snooze", "Suspend": "suspended", "RateLimited": "limited"}
"""By these a body asks to be started again, under the same attempt: the error, and the outcome."""
FINAL = ("done", "dead", "cancelled", "expired")


def extra_starts_are_explained(facts: Facts) -> list[str]:
    """Promise 5: an attempt starts again only because of a fault; in a calm trial none does."""
    wrong = [
        f"{run.job} {run.id}: attempt {run.attempt} started in {before.part} as {before.run} "
        f"({before.how or 'never over'}, {before.said or 'no answer'}), and again in {run.part} as {run.run} "
        f"{run.began - before.began:.2f} s later"
        for before, run in extra_starts(facts)
        if why(facts, before, run) is None
    ]
    return [f"{len(wrong)} extra starts without a reason: {told(wrong)}"] if wrong else []


def extra_starts(facts: Facts) -> list[tuple[Run, Run]]:
    """Starts of an attempt that had been started before, each with the latest before it."""
    found: list[tuple[Run, Run]] = []
    for runs in facts.runs_by_job.values():
        for place, run in enumerate(runs):
            before = [other for other in runs[:place] if (other.life, other.attempt) == (run.life, run.attempt)]
            if before and not _asked_for(before[-1]):
                found.append((before[-1], run))
    return found


def _asked_for(run: Run) -> bool:
    return run.said is not None and run.said == PLANNED.get(run.how or "")


def why(facts: Facts, before: Run, run: Run) -> str | None:
    """What explains that `run` follows on `before`; None: nothing does."""
    end = facts.end_of_pid.get(before.pid)
    if before.said == "released":
        return "stopped" if end is not None and end.how == "stopped" else None
    if before.said is None and end is not None and end.at <= run.began + 0.5:
        return end.how  # its process was gone, and what it held came back
    if fault := facts.excused("lost_data", before.began, run.began, SOON_S):
        return fault
    if before.said in (None, "lost"):
        known = run.began if before.heard is None else min(before.heard, run.began)  # by then it was lost
        if fault := facts.excused("lost_lease", before.began, known, LEASE_S + SOON_S):
            return fault
        if _stalled(facts, before, known) >= STALLED_S:
            return "a busy machine"
    return None


def _stalled(facts: Facts, run: Run, until: float) -> float:
    """Seconds for which the run's process, or what lies between it and Redis, did not get to run."""
    return sum(
        max(0.0, min(stall.until, until) - max(stall.since, run.began - LEASE_S))
        for stall in facts.stalls
        if stall.book in (run.part, "trial")
    )


def one_completion_is_accepted(facts: Facts) -> list[str]:
    """Promise 3. Where Redis has forgotten a completion it may accept another one; Postgres takes the first."""
    wrong = []
    for job, runs in facts.runs_by_job.items():
        accepted = [run for run in runs if run.said in FINAL]
        for one, other in pairwise(accepted):
            if one.life == other.life and not facts.excused("lost_data", one.began, other.heard or other.began, SOON_S):
                wrong.append(f"{job}: {one.run} ({one.said}) and {other.run} ({other.said})")
    return [f"two accepted completions: {told(wrong)}"] if wrong else []


def no_completion_is_accepted_from_a_lost_lease(facts: Facts) -> list[str]:
    """Promise 3: once another run of the job has begun, what the former one says is refused."""
    wrong = []
    for job, runs in facts.runs_by_job.items():
        for place, run in enumerate(runs):
            if run.said is None or run.said == "lost" or run.left is None:
                continue
            over = [other for other in runs[place + 1 :] if other.began < run.left]
            if over and not facts.excused("lost_data", run.began, run.heard or run.left, SOON_S):
                wrong.append(
                    f"{job}: {run.run} was accepted ({run.said}), though {over[0].run} had begun before its end"
                )
    return [told(wrong)] if wrong else []


def attempts_count_failures_alone(facts: Facts) -> list[str]:
    """Hand-backs, lost leases, suspensions and snoozes are none: each attempt but the first follows a failure."""
    wrong = []
    for job, runs in facts.runs_by_job.items():
        for place, run in enumerate(runs):
            if run.attempt > 1 and not any(
                other.attempt == run.attempt - 1 and other.how not in ("returned", None, "CancelledError", *PLANNED)
                for other in runs[:place]
            ):
                wrong.append(f"{run.job} {job}: {run.run} is attempt {run.attempt}, and none before it failed")
    return [told(wrong)] if wrong else []


def attempts_stay_within_the_most(facts: Facts) -> list[str]:
    """No attempt above `max_attempts`."""
    wrong = [f"{run.job} {run.id}: attempt {run.attempt} of {run.most}" for run in facts.runs if run.attempt > run.most]
    return [told(wrong)] if wrong else []


def nothing_starts_early(facts: Facts) -> list[str]:
    """What was asked for with a delay starts no sooner, by the clock of the stores."""
    wrong = [
        f"{ask.id}: {runs[0].began - ask.began:.3f} s after its transaction began, not {ask.delay:g}"
        for ask in facts.asked
        if ask.delay is not None
        and (runs := facts.runs_by_job.get(ask.id))
        and runs[0].began < ask.began + ask.delay - EARLY_S
        and not facts.excused("clock_ahead", ask.began, runs[0].began, SOON_S)
    ]
    return [told(wrong)] if wrong else []
