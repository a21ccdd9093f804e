"""Plays runs: one, many, or many until a promise is broken; and makes a failing one short."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.model.choices import Choices, shrink
from tests.model.rules import ALL
from tests.model.values import Violation
from tests.model.world import FAULTS, World


@dataclass(frozen=True, slots=True)
class Setting:
    """What runs are made of. mood: what there is much of; None: whatever the seed says."""

    on: frozenset[str] = ALL
    faults: tuple[str, ...] = FAULTS
    mood: str | None = None


@dataclass(frozen=True, slots=True)
class Played:
    """A run, and the promise that it broke, if it did."""

    seed: int
    actions: int
    faulty: bool
    promise: str = ""
    text: str = ""


def play(seed: int, setting: Setting = Setting()) -> Played:
    return _play(Choices(seed), seed, setting, None)


def _play(choice: Choices, seed: int, setting: Setting, trace: list[str] | None) -> Played:
    world = World(choice, setting.on, faults=setting.faults, mood=setting.mood, trace=trace)
    try:
        world.run()
    except Violation as violation:
        return Played(seed, world.ledger.step, bool(world.faults), violation.promise, violation.text)
    return Played(seed, world.ledger.step, bool(world.faults))


def play_all(seeds: Iterable[int], setting: Setting, processes: int | None = None) -> Iterator[Played]:
    """On all cores, in the order of the seeds."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_one, ((seed, setting) for seed in seeds), 50)


def _one(given: tuple[int, Setting]) -> Played:
    return play(*given)


def first_broken(seeds: Iterable[int], setting: Setting) -> Played | None:
    """The first run that breaks a promise."""
    return next((played for seed in seeds if (played := play(seed, setting)).promise), None)


def trace_of(seed: int, setting: Setting, *, short: bool = True) -> list[str]:
    """What happens in a run, made as short as it gets while the same promise stays broken."""
    choice = Choices(seed)
    broken = _play(choice, seed, setting, None).promise
    made: Sequence[int] = choice.made

    def cost(script: list[int]) -> int | None:
        lines: list[str] = []
        found = _play(Choices(script=script), seed, setting, lines).promise
        return len(lines) if found == broken else None

    if broken and short:
        made = shrink(made, cost)
    lines: list[str] = []
    played = _play(Choices(script=made), seed, setting, lines)
    return [*lines, f"{played.promise}: {played.text}" if played.promise else "no promise was broken"]
