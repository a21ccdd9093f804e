"""S2, S5, S6: when a cron expression or an interval is due, and what is refused. Cases H01 to H09 and H20."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from redisjobs.base.zones import change_within, find_zone
from redisjobs.cron import Cron, cron, every
from redisjobs.errors import OptionError
from tests.support.cron_cases import ZONES


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def following(expression: str, zone: str, after: str, number: int) -> list[str]:
    due = cron(expression, zone).occurrences(at(after), at("2100-01-01"))
    return [moment.isoformat()[:16] for moment in islice(due, number)]


def on(expression: str, zone: str, date: str) -> list[datetime]:
    """What is due on this day of the zone's own calendar."""
    day = datetime.fromisoformat(date)
    start = day.replace(tzinfo=find_zone(zone)).astimezone(UTC)
    end = (day + timedelta(days=1)).replace(tzinfo=find_zone(zone)).astimezone(UTC)
    second = timedelta(seconds=1)
    return list(cron(expression, zone).occurrences(start - second, end - second))


# -- S6
def test_h01_a_time_that_the_clocks_skip_is_due_once_right_after_the_skip():
    assert on("30 2 * * *", "Europe/Berlin", "2026-03-29") == [at("2026-03-29T01:00")]


def test_h01_a_time_that_the_clocks_show_twice_is_due_once_at_its_first_passing():
    assert on("30 2 * * *", "Europe/Berlin", "2026-10-25") == [at("2026-10-25T00:30")]


def test_h02_an_hourly_schedule_runs_25_times_on_a_day_of_25_hours():
    assert len(on("0 * * * *", "US/Pacific", "2026-11-01")) == 25


def test_h02_a_quarter_hourly_schedule_runs_100_times_on_a_day_of_25_hours():
    assert len(on("*/15 * * * *", "Europe/London", "2026-10-25")) == 100


@pytest.mark.parametrize("zone", ZONES[:20])
@pytest.mark.parametrize("expression", ["*/10 * * * *", "30 2 * * *", "0 0 * * *"])
def test_h06_no_change_of_2026_and_2027_in_twenty_zones_raises_or_goes_back(zone, expression):
    moment = at("2026-01-01T00:00")
    cadence = cron(expression, zone)
    step = timedelta(hours=25)
    while moment < at("2028-01-01T00:00"):
        found = cadence.next(moment)
        assert found is not None
        assert moment < found <= moment + timedelta(hours=26)
        moment += step


def test_several_times_in_one_skip_are_due_together_once():
    assert on("0,15,45 2 * * *", "Europe/Berlin", "2026-03-29") == [at("2026-03-29T01:00")]


def test_an_expression_with_seconds_follows_the_same_rules():
    assert on("5 30 2 * * *", "Europe/Berlin", "2026-03-29") == [at("2026-03-29T01:00")]
    assert on("5 30 2 * * *", "Europe/Berlin", "2026-10-25") == [at("2026-10-25T00:30:05")]
    assert len(on("*/10 0 * * * *", "Europe/Berlin", "2026-10-25")) == 25 * 6


def test_a_change_of_the_clocks_between_two_moments_is_told():
    zone = find_zone("Europe/Berlin")
    assert change_within(zone, at("2026-03-28T12:00"), at("2026-03-29T12:00")) == (at("2026-03-29T01:00"), "skipped")
    assert change_within(zone, at("2026-10-24T12:00"), at("2026-10-25T12:00")) == (at("2026-10-25T01:00"), "repeated")
    assert change_within(zone, at("2026-05-01T00:00"), at("2026-06-01T00:00")) is None


# -- the calendar
def test_h07_an_impossible_day_of_the_month_leaves_the_days_of_the_week():
    found = following("0 0 31 2 0", "UTC", "2026-01-01", 5)
    assert found == [f"2026-02-{day:02}T00:00" for day in (1, 8, 15, 22)] + ["2027-02-07T00:00"]


def test_h07_29_february_is_due_in_the_next_leap_year():
    assert following("0 0 29 2 *", "UTC", "2026-01-01", 1) == ["2028-02-29T00:00"]


def test_h08_days_of_the_month_and_of_the_week_are_a_union():
    expected = [f"2026-01-{day:02}T00:00" for day in (2, 9, 13, 16)]
    assert following("0 0 13 * 5", "UTC", "2026-01-01", 4) == expected


def test_h09_a_month_rolls_over_from_its_31st():
    expected = [f"2026-09-{day:02}T09:00" for day in (1, 8, 15)]
    assert following("0 9 * * 2", "UTC", "2026-08-31T21:00", 3) == expected


def test_h20_the_zone_of_the_schedule_alone_decides(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    assert on("45 9 * * *", "Europe/Moscow", "2026-08-31") == [at("2026-08-31T06:45")]


def test_six_fields_begin_with_the_second():
    due = cron("*/10 * * * * *").occurrences(at("2026-01-01T00:00"), at("2026-01-01T00:00:25"))
    assert list(due) == [at("2026-01-01T00:00:10"), at("2026-01-01T00:00:20")]


# -- S2
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 0 30 2 *", "never due"),
        ("0 0 31 4,6 *", "never due"),
        ("*/15 2 * 3 L0", "never due"),
        ("* * * *", "4 fields"),
        ("0 0 1 1 * 0 2030", "7 fields"),
        ("61 * * * *", "cannot be read"),
        ("*/0 * * * *", "cannot be read"),
        ("x * * * *", "cannot be read"),
        ("٣ * * * *", "cannot be read"),
        ("", "0 fields"),
        ("R * * * *", "H or R"),
        ("h(0-5) * * * *", "H or R"),
        ("0 0 13 * 5#1", "schedule of each"),
        ("0 0 31,L * *", "schedule of each"),
        ("0 0 * * 0-0", "write 0 or"),
        ("0 0 */2 * 1", "either and some as both"),
        ("0 0 1 * */1", "either and some as both"),
        ("0 0 */10 * */3", "either and some as both"),
        ("0 " * 500, "characters"),
    ],
)
def test_s2_h07_an_expression_that_cannot_be_meant_is_refused_with_the_reason(expression, reason):
    zone = "Europe/Berlin" if "L0" in expression else "UTC"
    with pytest.raises(OptionError, match=reason):
        cron(expression, zone)


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "localtime", "../etc/passwd", "/etc/localtime", None, "x\0y"])
def test_s2_a_zone_that_is_none_is_refused(zone):
    with pytest.raises(OptionError, match="no zone"):
        cron("0 0 * * *", zone)


def test_s2_a_misspelt_zone_is_told_with_the_one_that_is_like_it():
    with pytest.raises(OptionError, match="do you mean Europe/Berlin"):
        cron("0 0 * * *", "Europe/Berln")


@pytest.mark.parametrize("interval", [0, -1, 0.5, float("nan"), float("inf"), True, "60", 400 * 86_400])
def test_g1_an_interval_out_of_its_range_is_refused(interval):
    with pytest.raises(OptionError, match="every"):
        every(interval)


# -- S5
class Counted(Cron):
    calls = 0

    def next(self, after):
        self.calls += 1
        return super().next(after)


@pytest.mark.parametrize(("gap", "most"), [(timedelta(hours=3), 25), (timedelta(days=365), 35)])
@pytest.mark.parametrize("expression", ["*/20 * * * * *", "* * * * *", "7 * * * *", "30 2 * * *"])
def test_s5_the_latest_occurrence_costs_few_calls_whatever_the_period(gap, most, expression):
    cadence = Counted(expression, find_zone("Europe/Berlin"))
    until = at("2026-11-30T12:34:56")
    found = cadence.latest(until - gap, until)
    assert cadence.calls <= most
    walked = list(cron(expression, "Europe/Berlin").occurrences(until - min(gap, timedelta(hours=30)), until))
    assert found == (walked[-1] if walked else None)


# -- intervals
def test_an_interval_is_counted_from_1970_so_that_no_restart_moves_it():
    assert every(3600).next(at("2026-01-01T10:20")) == at("2026-01-01T11:00")
    assert every(3600).latest(at("2026-01-01T07:00"), at("2026-01-01T10:20")) == at("2026-01-01T10:00")
    assert every(3600).previous(at("2026-01-01T10:00")) == at("2026-01-01T09:00")


def test_an_interval_with_a_start_is_counted_from_it():
    start = at("2026-01-01T10:07:30")
    due = list(every(timedelta(minutes=45), start).occurrences(start, start + timedelta(hours=2)))
    assert due == [start + timedelta(minutes=45), start + timedelta(minutes=90)]
