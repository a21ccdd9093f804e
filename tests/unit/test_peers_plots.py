"""Drawings: the same bytes for the same figures, valid, and readable on light and on dark pages."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks.peers.plots import LEFT, RIGHT, WIDTH, Row, drawing, shown

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [Row("arq", (1_000.0,), (50_000.0,)), Row("rq & others", (80.0,), None)]
LATENCY = [Row("saq", (1.0, 2.0, 4.0), (0.5, 1.0, 9.0))]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)


def bars(text: str, kind: str) -> list[float]:
    found = parsed(text).iter(f"{SVG}rect")
    return [float(each.attrib["width"]) for each in found if each.get("class") == kind and each.get("x") == str(LEFT)]


def test_the_same_figures_make_the_same_bytes():
    assert drawing("drain", "jobs/s", ROWS) == drawing("drain", "jobs/s", ROWS)


def test_ten_times_as_much_is_as_much_longer_everywhere_on_the_axis():
    rows = [Row(str(value), (value,), None) for value in (10.0, 100.0, 1_000.0, 10_000.0)]

    first, *_, third, fourth = bars(drawing("drain", "jobs/s", rows), "theirs")

    assert fourth - third == pytest.approx((fourth - first) / 3, abs=0.2)


def test_everything_is_inside_of_the_drawing():
    for text in (drawing("drain", "jobs/s", ROWS), drawing("latency", "ms", LATENCY)):
        for each in parsed(text).iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(each.get(name, "0")) <= WIDTH
        assert max(bars(text, "ours"), default=0) <= WIDTH - LEFT - RIGHT


def test_a_peer_and_redisjobs_have_colours_of_their_own_on_light_and_on_dark_pages():
    style = parsed(drawing("drain", "jobs/s", ROWS)).findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")

    for kind in ("text", ".title", ".theirs", ".ours", ".grid"):
        assert kind in light
        assert kind in dark


def test_names_are_escaped_and_figures_stand_beside_their_bars():
    words = [each.text for each in parsed(drawing("a < b", "jobs/s", ROWS)).iter(f"{SVG}text")]

    assert {"a < b", "rq & others", "1 000", "50 000", "80"} <= set(words)


def test_a_latency_has_a_dot_for_each_of_its_quantiles():
    dots = [each.get("class") for each in parsed(drawing("latency", "ms", LATENCY)).iter(f"{SVG}circle")]

    assert dots == ["theirs"] * 3 + ["ours"] * 3


def test_a_label_without_room_behind_its_mark_stands_before_it():
    text = drawing("latency", "ms", [Row("rq", (3_480.0, 6_500.0, 9_990.0), (0.5, 0.6, 0.7))])
    anchors = {each.text: each.get("text-anchor") for each in parsed(text).iter(f"{SVG}text")}

    assert anchors["3 480 / 6 500 / 9 990"] == "end"
    assert anchors["0.5 / 0.6 / 0.7"] == "start"


@pytest.mark.parametrize("rows", [[], [Row("arq", None, None)], [Row("arq", (0.0,), None)]])
def test_what_has_no_place_on_the_axis_is_refused(rows: list[Row]):
    with pytest.raises(ValueError, match="a logarithmic axis needs figures above 0"):
        drawing("drain", "jobs/s", rows)


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (3.456, "3.46"), (999.4, "999"), (12_345.0, "12 300"), (1e6, "1 000 000")]
)
def test_three_digits_count(value: float, text: str):
    assert shown(value) == text
