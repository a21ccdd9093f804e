"""The demo's verdict finds what it is there to find."""

from __future__ import annotations

import itertools

from redisjobs.cli.demo.audit import judge
from redisjobs.cli.demo.faults import Fault
from redisjobs.cli.demo.ledger import Entry
from redisjobs.cli.demo.plan import MAX_ATTEMPTS, Mood, plan

MS = 1_000_000
AT = 1_000_000 * MS
KILLED = Fault("killed", AT + 100 * MS, AT + 101 * MS, pid=1)
EMPTIED = Fault("emptied", AT + 100 * MS, AT + 101 * MS)

_numbers = itertools.count(1)


def run(
    start_ms: float,
    end_ms: float | None = None,
    how: str = "returned",
    *,
    order: int = 1,
    attempt: int = 1,
    pid: int = 1,
) -> list[Entry]:
    """The entries of one start of a body."""
    number = next(_numbers)
    entries = [Entry(order, number, attempt, pid, "started", AT + int(start_ms * MS))]
    if end_ms is not None:
        entries.append(Entry(order, number, attempt, pid, how, AT + int(end_ms * MS)))
    return entries


def test_an_order_whose_mail_returned_is_done():
    verdict = judge({1}, {1: AT}, run(3, 20), [])

    assert (verdict.done, verdict.dead, verdict.lost, verdict.holds) == (1, 0, [], True)
    assert verdict.latencies_ms == [3.0]


def test_an_order_whose_last_attempt_raised_is_dead_and_its_attempts_are_retries():
    numbers = range(1, MAX_ATTEMPTS + 1)
    entries = [entry for n in numbers for entry in run(100 * n, 100 * n + 9, "raised", attempt=n)]

    verdict = judge({1}, {1: AT}, entries, [])

    assert (verdict.done, verdict.dead, verdict.retried, verdict.holds) == (0, 1, MAX_ATTEMPTS - 1, True)


def test_an_order_that_never_ran_is_lost():
    verdict = judge({1, 2}, {1: AT, 2: AT}, run(3, 20), [])

    assert (verdict.lost, verdict.holds) == ([2], False)


def test_an_order_that_was_cut_off_and_never_ran_again_is_lost():
    verdict = judge({1}, {1: AT}, run(95), [KILLED])

    assert (verdict.lost, verdict.holds) == ([1], False)


def test_an_order_that_gave_up_too_early_is_lost():
    verdict = judge({1}, {1: AT}, run(3, 20, "raised"), [])

    assert verdict.lost == [1]


def test_a_mail_of_an_order_that_did_not_commit_is_a_ghost():
    verdict = judge({1}, {1: AT}, [*run(3, 20), *run(3, 20, order=2)], [])

    assert (verdict.ghosts, verdict.holds) == ([2], False)


def test_a_second_start_without_a_fault_is_unexplained():
    verdict = judge({1}, {1: AT}, [*run(3, 20), *run(30, 40)], [])

    assert (len(verdict.unexplained), verdict.holds) == (1, False)


def test_an_attempt_after_one_that_returned_is_no_retry():
    verdict = judge({1}, {1: AT}, [*run(3, 20), *run(30, 40, attempt=2)], [])

    assert len(verdict.unexplained) == 1


def test_the_same_attempt_twice_is_no_retry():
    verdict = judge({1}, {1: AT}, [*run(3, 20, "raised"), *run(30, 40)], [])

    assert len(verdict.unexplained) == 1


def test_a_start_after_its_worker_was_killed_is_explained():
    verdict = judge({1}, {1: AT}, [*run(95), *run(4000, 4010, pid=2)], [KILLED])

    assert dict(verdict.doubled) == {"whose worker was killed": 1}
    assert verdict.holds


def test_the_kill_of_another_worker_explains_nothing():
    verdict = judge({1}, {1: AT}, [*run(95, pid=3), *run(4000, 4010, pid=2)], [KILLED])

    assert len(verdict.unexplained) == 1


def test_a_fault_before_the_first_start_or_after_the_second_explains_nothing():
    before = judge({1}, {1: AT}, [*run(1500, 1600), *run(2000, 2100)], [EMPTIED])
    after = judge({1}, {1: AT}, [*run(3, 20), *run(30, 40)], [EMPTIED])

    assert len(before.unexplained) == len(after.unexplained) == 1


def test_one_fault_explains_one_more_start_of_a_run_and_not_two():
    verdict = judge({1}, {1: AT}, [*run(95), *run(110, 120), *run(130, 140)], [EMPTIED])

    assert (verdict.doubled.total(), len(verdict.unexplained)) == (1, 1)


def test_an_emptied_redis_explains_a_run_whose_end_was_still_under_way_and_none_that_ended_long_before():
    soon = judge({1}, {1: AT}, [*run(20, 90), *run(110, 120)], [EMPTIED])
    long = judge({1}, {1: AT}, [*run(-5000, -4000), *run(110, 120)], [EMPTIED])

    assert dict(soon.doubled) == {"whose end was not in Postgres yet then": 1}
    assert len(long.unexplained) == 1


def test_an_emptied_redis_explains_a_run_that_was_under_way_to_its_body_and_none_sent_afterwards():
    under_way = judge({1}, {1: AT + 98 * MS}, [*run(102, 120, "raised"), *run(230, 250)], [EMPTIED])
    afterwards = judge({1}, {1: AT + 102 * MS}, [*run(104, 120), *run(230, 250)], [EMPTIED])

    assert under_way.doubled == {"that a worker had just taken when Redis was emptied": 1}
    assert len(afterwards.unexplained) == 1


def test_a_plan_commits_as_many_orders_as_were_asked_for_and_is_the_same_for_a_seed():
    sales = plan(500, 7, calm=False)

    assert sum(not sale.declined for sale in sales) == 500
    assert any(sale.declined for sale in sales)
    assert any(sale.withdrawn for sale in sales)
    assert {sale.order.mood for sale in sales} == set(Mood)
    assert sales == plan(500, 7, calm=False)
    assert sales != plan(500, 8, calm=False)


def test_a_calm_plan_rolls_back_too_but_no_mail_fails():
    sales = plan(500, 7, calm=True)

    assert {sale.order.mood for sale in sales} == {Mood.FINE}
    assert any(sale.declined for sale in sales)
    assert any(sale.withdrawn for sale in sales)


def test_every_order_has_a_number_of_its_own():
    sales = plan(500, 7, calm=False)
    orders = [sale.order.id for sale in sales] + [sale.withdrawn.id for sale in sales if sale.withdrawn]

    assert len(orders) == len(set(orders))


def test_even_a_short_demo_has_a_dead_letter():
    assert all(
        any(sale.order.mood is Mood.BROKEN and not sale.declined for sale in plan(10, seed, calm=False))
        for seed in range(20)
    )
