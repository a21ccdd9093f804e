"""A discrete-event engine: processes that use stations for a while, and wait their turn where one is taken."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(eq=False, slots=True)
class Station:
    """What so many can use at once; the others stand in line.

    Args:
        busy: seconds for which it was used, summed over its places.
        calls: how often.
    """

    name: str
    places: int = 1
    taken: int = 0
    busy: float = 0.0
    calls: int = 0
    line: deque[Callable[[], None]] = field(default_factory=deque[Callable[[], None]])


@dataclass(eq=False, slots=True)
class Signal:
    """What processes wait for until another one sends it."""

    waiting: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


@dataclass(frozen=True, slots=True)
class Use:
    """Take these stations in this order, keep all of them for so long, and let them go."""

    stations: tuple[Station, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hear:
    """Wait until a signal is sent, or for so long."""

    signal: Signal
    longest: float


Step: TypeAlias = Use | Wait | Hear
Process: TypeAlias = Generator[Step, None, None]


class Engine:
    """Runs processes in the order of their moments; those of one moment in the order in which they came to it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._moments: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def start(self, process: Process, then: Callable[[], None] | None = None) -> None:
        """Have a process run from now on; `then` is called when it has ended."""
        self._at(0.0, lambda: self._go_on(process, then))

    def run(self, until: float) -> None:
        """Until nothing is left, or this moment."""
        while self._moments and self._moments[0][0] <= until:
            self.now, _, do = heapq.heappop(self._moments)
            do()

    def send(self, signal: Signal) -> None:
        """Have all that wait for it go on."""
        waiting, signal.waiting = signal.waiting, []
        for each in waiting:
            self._at(0.0, each)

    def _at(self, seconds: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._moments, (self.now + seconds, self._count, do))

    def _go_on(self, process: Process, then: Callable[[], None] | None) -> None:
        step = next(process, None)

        def again() -> None:
            self._go_on(process, then)

        match step:
            case Use():
                self._take(step, 0, again)
            case Wait():
                self._at(step.seconds, again)
            case Hear():
                self._hear(step, again)
            case None if then is not None:
                then()
            case _:
                pass

    def _take(self, use: Use, at: int, again: Callable[[], None]) -> None:
        if at == len(use.stations):
            self._at(use.seconds, lambda: self._let_go(use, again))
            return
        station = use.stations[at]
        if station.taken < station.places:
            station.taken += 1
            self._take(use, at + 1, again)
        else:
            station.line.append(lambda: self._take(use, at + 1, again))

    def _let_go(self, use: Use, again: Callable[[], None]) -> None:
        for station in use.stations:
            station.busy += use.seconds
            station.calls += 1
            if station.line:  # its place goes from hand to hand
                self._at(0.0, station.line.popleft())
            else:
                station.taken -= 1
        again()

    def _hear(self, step: Hear, again: Callable[[], None]) -> None:
        heard = False

        def once() -> None:
            nonlocal heard
            if not heard:
                heard = True
                again()

        step.signal.waiting.append(once)
        self._at(step.longest, once)
