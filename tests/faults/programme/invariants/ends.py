"""How jobs end."""

from __future__ import annotations

import json

from tests.faults.programme.facts import MISSING, Asked, Facts, told
from tests.faults.programme.plan import Kind

_ENDS: dict[Kind, tuple[str, ...]] = {
    "doomed": ("dead",),
    "unknown": ("cancelled",),
    "keyed": ("done", "deduplicated"),
}


def every_committed_job_ends(facts: Facts) -> list[str]:
    """Promise 1."""
    missing = sorted(facts.staged_ids - facts.ended_by_id.keys())
    return [f"{len(missing)} committed jobs have no end: {told(missing)}"] if missing else []


def it_ends_as_it_should(facts: Facts) -> list[str]:
    """What is planned to fail ends dead, what nobody knows cancelled, all else done."""
    wrong = [
        f"{ask.kind} {ask.id} ended {state}, not {' or '.join(_wanted(ask))}"
        for ask in facts.committed()
        if (state := facts.state(ask.id)) is not None and state not in _wanted(ask)
    ]
    wrong += [
        f"{row.job} {row.id} ended {state}"
        for row in facts.staged
        if row.id not in facts.asked_by_id and (state := facts.state(row.id)) not in (None, "done")
    ]
    return [told(wrong)] if wrong else []


def _wanted(ask: Asked) -> tuple[str, ...]:
    if ask.kind == "hook":
        return ("dead",) if ask.more["refused"] else ("done",)
    return _ENDS.get(ask.kind, ("done",))


def it_ends_once(facts: Facts) -> list[str]:
    """One end a job in Postgres, whatever Redis has forgotten."""
    twice = [
        f"{job}: {', '.join(end.state for end in ends)}" for job, ends in facts.ended_by_id.items() if len(ends) > 1
    ]
    return [f"jobs with several ends: {told(twice)}"] if twice else []


def nothing_rolled_back_is_there(facts: Facts) -> list[str]:
    """Promise 2, of the rows; and what producers know to have committed is there."""
    ghosts = [ask.id for ask in facts.asked if ask.fate == "rolled_back" and ask.id in facts.staged_ids]
    lost = [ask.id for ask in facts.asked if ask.fate == "committed" and ask.id not in facts.staged_ids]
    found = [f"rows of rolled back calls: {told(ghosts)}"] if ghosts else []
    return found + ([f"rows of committed calls are missing: {told(lost)}"] if lost else [])


def nothing_runs_that_did_not_commit(facts: Facts) -> list[str]:
    """Promise 2, of the bodies."""
    ghosts = sorted((facts.runs_by_job.keys() | facts.hooks) - facts.staged_ids)
    return [f"jobs ran that never committed: {told(ghosts)}"] if ghosts else []


def the_accepted_answer_is_of_a_run_that_was_not_refused(facts: Facts) -> list[str]:
    """Promise 3: a holder that was refused has not ended the job all the same."""
    wrong = []
    for end in facts.ended:
        if end.run is None:
            continue
        run = facts.runs_by_name.get(end.run)
        if run is None or run.id != end.id:
            wrong.append(f"{end.id} has the answer of {end.run}, which is no run of it")
        elif run.said == "lost":
            wrong.append(f"{end.id} has the answer of {end.run}, which was refused")
    return [told(wrong)] if wrong else []


def values_are_equal_at_both_ends(facts: Facts) -> list[str]:
    """Arguments reach the body as they were, and its answer reaches Postgres as it was."""
    wrong = [
        f"{run.id} was given {run.given!r} instead of {ask.value!r}"
        for run in facts.runs
        if run.given is not MISSING
        and (ask := facts.asked_by_id.get(run.id)) is not None
        and _differ(run.given, ask.value)
    ]
    wrong += [
        f"{end.id} answered {end.value!r} instead of {ask.value!r}"
        for end in facts.ended
        if end.value is not MISSING
        and (ask := facts.asked_by_id.get(end.id)) is not None
        and _differ(end.value, ask.value)
    ]
    return [told(wrong)] if wrong else []


def _differ(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


def webhooks_are_received(facts: Facts) -> list[str]:
    """A webhook that is done has been received."""
    missing = [ask.id for ask in facts.committed("hook") if facts.state(ask.id) == "done" and ask.id not in facts.hooks]
    return [f"delivered webhooks that nobody received: {told(missing)}"] if missing else []
