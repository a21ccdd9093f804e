"""The audit of the fault programme: each invariant tells of what it is there for, and of nothing else."""

# a lambda of several acts is a tuple of what they return, which is nothing
# mypy: disable-error-code="func-returns-value"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.programme.facts import Asked, Ended, Facts, Marked, Run, Staged, Stall, StepLine, Window
from tests.faults.programme.invariants import INVARIANTS, Invariant, broken, ends, flow, order, rest, runs, starts
from tests.faults.programme.part import End


def asked(name: str, kind: Any = "plain", **changed: Any) -> Asked:
    told: dict[str, Any] = {
        "queue": "q1",
        "value": 1,
        "deal": f"deal of {name}",
        "place": 0,
        "began": 0.0,
        "fate": "committed",
        "ended": 0.1,
    }
    return Asked(id=name, kind=kind, **told | changed)


def run(name: str, job_id: str = "a", **changed: Any) -> Run:
    told: dict[str, Any] = {
        "job": "plain",
        "queue": "q1",
        "part": "worker1",
        "pid": 11,
        "began": 1.0,
        "left": 1.5,
        "how": "returned",
    }
    return Run(run=name, id=job_id, **told | {"said": "done", "heard": 1.6, "entry": "5-0", "given": 1} | changed)


def end(pid: int, how: Any = "killed", at: float = 2.0, part: str = "worker1", code: int = -9) -> End:
    return End(part, pid, how, at, at, code)


def good() -> Facts:
    """A trial of one job, in which all holds."""
    return Facts(
        asked=[asked("a")], staged=[Staged("a", "plain", "q1", 1)], runs=[run("1")],
        ended=[Ended("a", "done", run="1", value=1)], marked=[Marked("a", "q1", 1, "relay1", "host-7-ab", 0.0)],
        pids={"relay1": {7}, "worker1": {11}},
    )  # fmt: skip


def more(facts: Facts, *jobs: Asked, state: str = "done") -> None:
    """Further calls that committed, and ended."""
    facts.asked += jobs
    facts.staged += [Staged(job.id, job.kind, job.queue, 2) for job in jobs]
    facts.ended += [Ended(job.id, state) for job in jobs]


def again(facts: Facts, *others: object, at: float = 3.0, attempt: int = 1, **before: Any) -> None:
    """Its body starts again at this time, after a first run that was as `before` says."""
    for name, value in before.items():
        setattr(facts.runs[0], name, value)
    facts.runs.append(run("2", began=at, left=at + 0.1, heard=at + 0.2, attempt=attempt))
    facts.ends += [other for other in others if isinstance(other, End)]
    facts.windows += [other for other in others if isinstance(other, Window)]
    facts.stalls += [other for other in others if isinstance(other, Stall)]


def strike(*excuses: Any, since: float = 0.5, until: float = 2.0) -> Window:
    return Window("a fault", since, until, frozenset(excuses))


BAD: dict[Invariant, list[Callable[[Facts], object]]] = {
    ends.every_committed_job_ends: [lambda f: f.ended.clear()],
    ends.it_ends_as_it_should: [
        lambda f: setattr(f.ended[0], "state", "dead"),
        lambda f: more(f, asked("b", "doomed")),
        lambda f: more(f, asked("b", "unknown"), state="dead"),
        lambda f: more(f, asked("b", "hook", more={"refused": False}), state="dead"),
        lambda f: (f.staged.append(Staged("t", "tick", "q6", 3)), f.ended.append(Ended("t", "dead"))),
    ],
    ends.it_ends_once: [lambda f: f.ended.append(Ended("a", "dead"))],
    ends.nothing_rolled_back_is_there: [
        lambda f: setattr(f.asked[0], "fate", "rolled_back"),
        lambda f: f.asked.append(asked("never staged")),
    ],
    ends.nothing_runs_that_did_not_commit: [
        lambda f: f.runs.append(run("2", "rolled back")),
        lambda f: f.hooks.add("rolled back"),
    ],
    ends.the_accepted_answer_is_of_a_run_that_was_not_refused: [
        lambda f: setattr(f.runs[0], "said", "lost"),
        lambda f: setattr(f.ended[0], "run", "of nobody"),
    ],
    ends.values_are_equal_at_both_ends: [
        lambda f: setattr(f.runs[0], "given", 1.0),
        lambda f: setattr(f.ended[0], "value", True),
    ],
    ends.webhooks_are_received: [lambda f: more(f, asked("b", "hook", more={"refused": False}))],
    starts.extra_starts_are_explained: [
        again,
        lambda f: again(f, end(99), said=None),
        lambda f: again(f, end(11), said="lost"),
        lambda f: again(f, strike("lost_lease", since=50, until=60), at=90.0, said="lost"),
        lambda f: again(f, strike("lost_lease")),
        lambda f: again(f, end(11, "killed"), said="released"),
        lambda f: again(f, Stall("worker2", 1.1, 4.5), said="lost"),
    ],
    starts.one_completion_is_accepted: [lambda f: f.runs.append(run("2", began=3.0, said="dead"))],
    starts.no_completion_is_accepted_from_a_lost_lease: [lambda f: f.runs.append(run("2", began=1.2, said=None))],
    starts.attempts_count_failures_alone: [
        lambda f: setattr(f.runs[0], "attempt", 2),
        lambda f: again(f, attempt=2, how="Suspend"),
        lambda f: again(f, attempt=2, how=None),
    ],
    starts.attempts_stay_within_the_most: [lambda f: (setattr(f.runs[0], "attempt", 3), setattr(f.runs[0], "most", 2))],
    starts.nothing_starts_early: [lambda f: setattr(f.asked[0], "delay", 2.0)],
    order.publications_keep_the_order_of_commits: [
        lambda f: (more(f, asked("b", began=0.2, ended=0.3)), f.runs.append(run("2", "b", entry="4-9"))),
        lambda f: (more(f, asked("b", deal="deal of a", place=1)), f.runs.append(run("2", "b", entry="4-9"))),
    ],
    order.no_stale_relay_marks: [
        lambda f: setattr(f.marked[0], "by", "relay2"),
        lambda f: setattr(f.marked[0], "late", 4.0),
        lambda f: setattr(f.marked[0], "holder", None),
    ],
    order.each_occurrence_is_dispatched_once: [
        lambda f: f.staged.extend(Staged(str(at), "tick", "q6", 9, occurrence=at) for at in (10.0, 11.0, 11.0)),
        lambda f: f.staged.extend(Staged(str(at), "tick", "q6", 9, occurrence=at) for at in (10.0, 12.0)),
    ],
    runs.no_step_runs_after_its_record: [
        lambda f: f.steps.extend([StepLine("recorded", "a", "0", "one", 0.5), StepLine("step", "a", "1", "one", 1.1)]),
        lambda f: f.steps.extend([StepLine("step", "a", "1", "one", 1.1), StepLine("step", "a", "1", "one", 1.2)]),
    ],
    runs.every_step_of_a_run_that_is_done_has_run: [
        lambda f: (
            more(f, asked("b", "durable")),
            f.steps.extend(StepLine("step", "b", "9", name, 1.1) for name in ("one", "three")),
        ),
    ],
    runs.effects_are_there_exactly_once: [
        lambda f: f.effects.update(a=2),
        lambda f: more(f, asked("b", "paying")),
        lambda f: f.effects.update({"rolled back": 1}),
    ],
    flow.limits_are_held: [lambda f: f.runs.extend(run(str(n), str(n), job="limited") for n in range(3))],
    flow.keys_are_unique_in_their_window: [
        lambda f: more(f, asked("b", "keyed", key="k"), asked("c", "keyed", key="k")),
        lambda f: more(f, asked("b", "keyed", key="k"), state="deduplicated"),
        lambda f: (
            more(f, asked("b", "keyed", key="k")),
            more(f, asked("c", "keyed", key="k"), state="deduplicated"),
            setattr(f.ended[-1], "owner", "somebody else"),
        ),
    ],
    rest.it_comes_to_rest_in_time: [lambda f: setattr(f, "restless", "1 published plain in q1")],
    rest.redis_holds_nothing_at_rest: [lambda f: f.left.update({"rj:{q1}:due": 1})],
    rest.connections_and_memory_are_back: [lambda f: f.odd.append("process 7 grew from 50 to 500 MiB")],
    rest.no_process_gives_up: [
        lambda f: f.ends.append(end(7, "ended", part="relay1", code=1)),
        lambda f: f.failed.append("a producer's last words"),
    ],
}

EXCUSED: dict[str, Callable[[Facts], object]] = {
    "its process was killed": lambda f: again(f, end(11), said=None),
    "its process was stopped, and handed it back": lambda f: again(f, end(11, "stopped", code=0), said="released"),
    "its lease was lost in a strike that says so": lambda f: again(f, strike("lost_lease"), said="lost"),
    "Redis lost its data": lambda f: again(f, strike("lost_data")),
    "its process did not get to run": lambda f: again(f, Stall("worker1", 1.1, 4.5), said="lost", heard=4.6, at=5.0),
    "it asked for it": lambda f: again(f, said="suspended", how="Suspend"),
    "its attempt had failed": lambda f: again(f, said="retry", how="Planned", attempt=2),
}
"""Second starts that are no extra ones, or have their reason. The ends of the trial are those of the last run."""


def test_a_trial_in_which_all_holds_breaks_nothing():
    assert broken(good()) == []


def test_there_is_a_bad_trial_for_each_invariant():
    assert set(BAD) == set(INVARIANTS)


@pytest.mark.parametrize(
    ("invariant", "spoil"),
    [
        pytest.param(invariant, bad, id=f"{invariant.__name__}-{n}")
        for invariant, all_bad in BAD.items()
        for n, bad in enumerate(all_bad, 1)
    ],
)
def test_an_invariant_tells_of_a_trial_that_breaks_it(invariant: Invariant, spoil: Callable[[Facts], object]):
    assert invariant(good()) == []
    facts = good()
    spoil(facts)
    (why,) = invariant(facts)
    assert why
    assert (invariant.__name__.replace("_", " "), why) in broken(facts)


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=name) for name, spoil in EXCUSED.items()])
def test_a_second_start_is_explained_where(spoil: Callable[[Facts], object]):
    facts = good()
    spoil(facts)
    facts.ended[0].run = "2"
    assert len(facts.runs) == 2
    assert broken(facts) == []


def test_what_a_child_of_a_job_killed_is_no_process_that_gave_up():
    facts = good()
    facts.ends.append(end(11, "ended"))
    facts.died.add(11)
    facts.ends.append(end(12, "ended", code=69))
    assert rest.no_process_gives_up(facts) == []


def test_transactions_that_overlap_are_not_ordered():
    facts = good()
    more(facts, asked("b", began=0.05, ended=0.3))
    facts.runs.append(run("2", "b", entry="4-9"))
    assert order.publications_keep_the_order_of_commits(facts) == []


def test_a_publication_after_a_loss_has_no_place_in_the_order():
    facts = good()
    more(facts, asked("b", began=0.2, ended=0.3))
    facts.runs.append(run("2", "b", entry="4-9", number=2))
    assert order.publications_keep_the_order_of_commits(facts) == []


def test_a_lost_key_of_redis_may_let_a_second_job_of_a_key_run_and_never_lets_none_run():
    facts = good()
    more(facts, asked("b", "keyed", key="k"), asked("c", "keyed", key="k"))
    facts.windows.append(strike("lost_data", "lost_alone"))
    assert flow.keys_are_unique_in_their_window(facts) == []
    for ended in facts.ended[1:]:
        ended.state = "deduplicated"
    assert flow.keys_are_unique_in_their_window(facts) == ["none of 2 jobs with 'k' in q1 ran"]


def test_a_clock_set_ahead_may_end_a_delay_and_nothing_else_may():
    facts = good()
    facts.asked[0].delay = 2.0
    facts.windows.append(strike("lost_lease", "lost_data"))
    assert starts.nothing_starts_early(facts)
    facts.windows.append(strike("clock_ahead"))
    assert starts.nothing_starts_early(facts) == []
