"""The simulation behind the page on capacity: its parts by themselves, and the page against the results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.capacity import tables
from benchmarks.capacity.checking import check_rest
from benchmarks.capacity.costs import Costs, Fit, fit
from benchmarks.capacity.engine import Engine, Hear, Process, Signal, Station, Use, Wait
from benchmarks.capacity.fleet_model import Fleet
from benchmarks.capacity.forecast import FLEETS
from benchmarks.capacity.resting import Rest
from benchmarks.capacity.results import read
from benchmarks.capacity.simulation import predict

MICRO = 1e-6
COSTS = Costs(
    relay_row=Fit(10 * MICRO, 500 * MICRO),
    postgres_row=Fit(10 * MICRO, 500 * MICRO),
    redis_row=Fit(5 * MICRO, 50 * MICRO),
    relay_outcome=5 * MICRO,
    postgres_outcome=8 * MICRO,
    redis_outcome=1 * MICRO,
    worker_work=Fit(20 * MICRO, 100 * MICRO),
    redis_work=Fit(10 * MICRO, 40 * MICRO),
    commit=0.001,
)


def test_one_place_serves_those_that_come_together_one_after_the_other():
    engine, station, ended = Engine(), Station("one"), list[float]()

    def process() -> Process:
        yield Use((station,), 2.0)
        ended.append(engine.now)

    for _ in range(3):
        engine.start(process())
    engine.run(100)

    assert ended == [2.0, 4.0, 6.0]
    assert (station.busy, station.calls, station.taken) == (6.0, 3, 0)


def test_who_holds_one_station_keeps_it_while_waiting_for_the_next():
    engine, thread, core = Engine(), Station("thread"), Station("core")
    ended = dict[str, float]()

    def process(name: str, *stations: Station) -> Process:
        yield Use(stations, 1.0)
        ended[name] = engine.now

    engine.start(process("the core alone", core))
    engine.start(process("both", thread, core))
    engine.start(process("the thread alone", thread))
    engine.run(100)

    assert ended == {"the core alone": 1.0, "both": 2.0, "the thread alone": 3.0}


@pytest.mark.parametrize(("sent_at", "went_on_at"), [(1.0, 1.0), (9.0, 5.0)])
def test_who_waits_for_a_signal_goes_on_once_when_it_comes_or_when_the_time_is_over(sent_at: float, went_on_at: float):
    engine, signal, moments = Engine(), Signal(), list[float]()

    def hears() -> Process:
        yield Hear(signal, 5.0)
        moments.append(engine.now)
        yield Wait(20.0)

    def sends() -> Process:
        yield Wait(sent_at)
        engine.send(signal)

    engine.start(hears())
    engine.start(sends())
    engine.run(100)

    assert moments == [went_on_at]


def test_a_fit_finds_both_parts_of_a_cost_again():
    known = Fit(30.0, 7.0)

    found = fit([(calls, known.of(1, calls)) for calls in (1.0, 0.2, 0.05)])

    assert found.each == pytest.approx(30.0)
    assert found.call == pytest.approx(7.0)


def test_no_part_of_a_fit_is_below_zero():
    assert fit([(1.0, 5.0), (0.1, 50.0)]).call == 0.0
    assert fit([(1.0, 50.0), (0.1, 1.0)]).each == 0.0
    with pytest.raises(ValueError, match="none above 0"):
        fit([(1.0, 0.0)])


def test_a_fleet_comes_to_the_same_end_each_time_and_a_seed_changes_it():
    fleet = Fleet(jobs=500, queues=5, workers=2, slots=10, body_s=0.05)

    first = predict(fleet, COSTS)

    assert predict(fleet, COSTS) == first
    assert predict(Fleet(jobs=500, queues=5, workers=2, slots=10, body_s=0.05, seed=2), COSTS) != first


def test_what_each_job_costs_is_what_the_stations_were_told():
    jobs = 5_000
    came_to = predict(Fleet(jobs=jobs), COSTS)

    turns = came_to.turns / jobs
    assert came_to.cpu["relay"] == pytest.approx(COSTS.relay_row.of(1, turns) + COSTS.relay_outcome)
    calls = (came_to.cpu["worker"] - COSTS.worker_work.each) / COSTS.worker_work.call
    assert 1 / 34 < calls < 2 / 16  # takes of 16 to 34 jobs, finishes of as many or more


def test_nobody_is_faster_than_the_slowest_station():
    fleet = Fleet(jobs=5_000, workers=4)
    came_to = predict(fleet, COSTS)

    assert came_to.rate < 1 / came_to.cpu["redis"]
    assert came_to.rate < 1 / came_to.cpu["relay"]


def test_half_the_cores_give_half_the_rate_where_cores_are_what_lacks():
    rates = [predict(Fleet(jobs=5_000, cores=cores), COSTS).rate for cores in (0.5, 1.0)]

    assert rates[1] / rates[0] == pytest.approx(2.0, rel=0.1)


def test_a_rate_is_bound_by_slots_where_bodies_wait_long():
    came_to = predict(Fleet(jobs=300, workers=2, slots=10, body_s=0.5), COSTS)

    assert came_to.rate == pytest.approx(2 * 10 / 0.5, rel=0.3)


def test_jobs_that_arrive_settle_as_fast_as_they_come():
    came_to = predict(Fleet(jobs=1_000, arriving=200.0), COSTS)

    assert came_to.rate == pytest.approx(200.0, rel=0.1)


def test_looks_for_what_is_due_that_need_more_than_a_thread_are_refused_in_words():
    costs = replace(COSTS, redis_rest=0.001)

    with pytest.raises(ValueError, match="serve fewer queues"):
        predict(Fleet(jobs=1, queues=2_000), costs)


def rest(count: int, scripts: float, commands: float) -> Rest:
    return Rest(count, 1, {"scripts": scripts, "commands": commands}, 0, 0, 0.0, 0.0, {})


def test_many_at_rest_are_predicted_from_few():
    (found,) = check_rest(rest(10, 13.0, 100.0), rest(50, 65.0, 520.0), "workers")

    assert (found.predicted, found.observed, found.holds) == (500.0, 520.0, True)


def test_workers_that_were_too_slow_to_ask_say_nothing_of_rest():
    slow = rest(50, 40.0, 300.0)

    assert slow.starved
    assert list(check_rest(rest(10, 13.0, 100.0), slow, "workers")) == []


# -- the page
def test_the_tables_of_the_page_are_those_of_the_results():
    page = tables.PAGE.read_text()

    assert page == tables.filled(page, read()), "run python -m benchmarks.capacity --tables"


def test_every_check_of_the_results_holds_and_its_runs_are_several():
    checks = read().all_checks()

    assert [each for each in checks if not each.holds] == []
    assert len({each.run for each in checks if each.tolerance is not None}) >= 3


def test_a_prediction_of_the_results_comes_again_from_their_costs():
    results = read()
    (kept,) = [each for each in results.forecasts if each.name == "1 worker"]

    assert predict(FLEETS["1 worker"], results.need_costs()).rate == pytest.approx(kept.rate)


def test_a_page_that_lacks_a_table_is_refused():
    with pytest.raises(ValueError, match="the page has the tables"):
        tables.filled("<!-- table jobs -->\n<!-- end -->", read())
