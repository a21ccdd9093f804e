"""Durable runs: steps and transactions."""

from __future__ import annotations

from collections import Counter

from tests.faults.programme.facts import Facts, told
from tests.faults.programme.plan import STEPS


def no_step_runs_after_its_record(facts: Facts) -> list[str]:
    """Promise 6: not twice in one run, and not in a run that began when the record stood already."""
    recorded: dict[tuple[str, str], float] = {}
    for line in facts.steps:
        if line.word == "recorded":
            at = (line.id, line.name)
            recorded[at] = min(line.at, recorded.get(at, line.at))
    wrong = []
    for line in facts.steps:
        if line.word == "step" and (line.id, line.name) in recorded:
            run = facts.runs_by_name.get(line.run)
            if run is not None and recorded[line.id, line.name] < run.began:
                wrong.append(f"{line.id}: {line.name} ran in {line.run}, which began after its record stood")
    twice = Counter((line.id, line.name, line.run) for line in facts.steps if line.word == "step")
    wrong += [f"{job}: {name} ran {count} times in {run}" for (job, name, run), count in twice.items() if count > 1]
    return [told(wrong)] if wrong else []


def every_step_of_a_run_that_is_done_has_run(facts: Facts) -> list[str]:
    """A record stands for a body that ran: of a run that is done each step's body began at least once."""
    began = {(line.id, line.name) for line in facts.steps if line.word == "step"}
    wrong = [
        f"{ask.id} is done, and {name} never ran"
        for ask in facts.committed("durable")
        if facts.state(ask.id) == "done"
        for name in STEPS
        if (ask.id, name) not in began
    ]
    return [told(wrong)] if wrong else []


def effects_are_there_exactly_once(facts: Facts) -> list[str]:
    """Promise 7: what `ctx.transaction` wrote is there once where the job is done, and never more often."""
    wrong = [f"{job}: {count} times" for job, count in facts.effects.items() if count > 1]
    wrong += [
        f"{ask.id} is done, and its effect is missing"
        for ask in facts.committed("paying")
        if facts.state(ask.id) == "done" and not facts.effects.get(ask.id)
    ]
    wrong += [f"{job} never committed, and has an effect" for job in facts.effects.keys() - facts.staged_ids]
    return [told(wrong)] if wrong else []
