"""At every named point: killed, an error that nobody expects, a lost reply, standing still past the lease."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tests.faults.points.arms import Arm, Visits
from tests.faults.points.day import Day
from tests.faults.points.point import Effect, Point
from tests.faults.points.table import POINTS
from tests.faults.points.weave import REACH, weave
from tests.faults.road import Road, sized
from tests.support.processes import CHECKOUT
from tests.support.receiver import Receiver

MODULES = sorted({each.module for each in POINTS.values()})
ALL: list[tuple[str, Effect]] = [(name, effect) for name, point in POINTS.items() for effect in point.effects]
SAMPLE: list[tuple[str, Effect]] = [("runs.step-begins", "kill"), ("batcher.finished", "pause")]


def source_of(module: str) -> str:
    return (CHECKOUT / f"{module.replace('.', '/')}.py").read_text()


def given(name: str) -> list[Arm]:
    """What must happen before somebody comes to this point."""
    first = POINTS[name].given
    return [] if first is None else [Arm(first, "lose")]


@pytest.fixture
async def day_of(road: Road, tmp_path: Path) -> AsyncIterator[Callable[..., Day]]:
    """Makes a day on which something happens: `day_of(Arm("batcher.finished", "kill"))`."""
    async with Receiver() as receiver:
        yield lambda *arms: Day(road, Visits(tmp_path / "points"), receiver, *arms)


@pytest.mark.parametrize("module", MODULES)
def test_every_point_has_one_place_in_the_code(module: str):
    points = {name: each for name, each in POINTS.items() if each.module == module}
    source = source_of(module)
    woven = ast.unparse(weave(source, points))
    assert woven.count(REACH) == len(points)
    assert len(woven.splitlines()) == len(ast.unparse(ast.parse(source)).splitlines())


@pytest.mark.parametrize("call", ["self._carrier.nothing(", "self._"])
def test_a_point_whose_place_is_gone_or_is_one_of_two_is_told(call: str):
    wrong = Point("relay", "redisjobs.publisher:Publisher._send", call)
    with pytest.raises(AssertionError, match=r"point odd has \d places, and not one"):
        weave(source_of("redisjobs.publisher"), {"odd": wrong})


@pytest.mark.parametrize("module", MODULES)
def test_a_program_that_does_not_ask_for_points_has_none(module: str):
    found: Any = import_module(module)
    assert type(found.__loader__) is SourceFileLoader
    assert not hasattr(found, REACH)
    assert REACH not in source_of(module)


async def test_a_day_comes_to_every_point(day_of: Callable[..., Day]):
    day = day_of(*{each.point: each for name in POINTS for each in given(name)}.values())
    await day.live()
    await day.holds()
    assert set(POINTS) - day.visits.reached() == set()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("name", "effect"), sized(SAMPLE, ALL))
async def test_nothing_is_lost_and_nothing_doubled_whoever_is_hit(
    name: str, effect: Effect, day_of: Callable[..., Day]
):
    day = day_of(*given(name), Arm(name, effect))
    await day.live()
    await day.holds()
