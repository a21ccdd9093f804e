"""The promises of redisjobs as functions of a trial's facts: each answers in words what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tests.faults.programme.facts import Facts
from tests.faults.programme.invariants import ends, flow, order, rest, runs, starts

Invariant: TypeAlias = Callable[[Facts], list[str]]

INVARIANTS: tuple[Invariant, ...] = (
    ends.every_committed_job_ends,
    ends.it_ends_as_it_should,
    ends.it_ends_once,
    ends.nothing_rolled_back_is_there,
    ends.nothing_runs_that_did_not_commit,
    ends.the_accepted_answer_is_of_a_run_that_was_not_refused,
    ends.values_are_equal_at_both_ends,
    ends.webhooks_are_received,
    starts.extra_starts_are_explained,
    starts.one_completion_is_accepted,
    starts.no_completion_is_accepted_from_a_lost_lease,
    starts.attempts_count_failures_alone,
    starts.attempts_stay_within_the_most,
    starts.nothing_starts_early,
    order.publications_keep_the_order_of_commits,
    order.no_stale_relay_marks,
    order.each_occurrence_is_dispatched_once,
    runs.no_step_runs_after_its_record,
    runs.every_step_of_a_run_that_is_done_has_run,
    runs.effects_are_there_exactly_once,
    flow.limits_are_held,
    flow.keys_are_unique_in_their_window,
    rest.it_comes_to_rest_in_time,
    rest.redis_holds_nothing_at_rest,
    rest.connections_and_memory_are_back,
    rest.no_process_gives_up,
)


def broken(facts: Facts) -> list[tuple[str, str]]:
    """What does not hold: the invariant's name, and why."""
    return [(invariant.__name__.replace("_", " "), why) for invariant in INVARIANTS for why in invariant(facts)]
