"""A process of the model: loops that share its memory, and that ask the world for one action at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from redisjobs.floor import Floor
from tests.model.values import Delivery, Fence, Id, Lost


class Request(NamedTuple):
    """store: pg, redis or local, which can neither fail nor lose its reply."""

    store: str
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()


Loop: TypeAlias = Generator[Request, Any, None]


def nothing() -> None:
    """Lets others go first."""


IDLE = Request("local", nothing)


@dataclass(eq=False)
class Hold:
    """A queue in a relay's hand, as `redisjobs.leases.Hold`."""

    token: int
    epoch: str
    until: int
    settled: int = 0
    opened: bool = False
    unsure: bool = False
    must_find: bool = False
    floor: Floor = field(default_factory=Floor)

    @property
    def fence(self) -> Fence:
        return Fence(self.token, self.epoch)


@dataclass(eq=False)
class Actor:
    """One loop of a process, and what it wants next."""

    process: Process
    generator: Loop
    request: Request


class Process:
    """Can be killed and paused as a whole."""

    def __init__(self, name: str, *loops: Callable[[Process], Loop]) -> None:
        self.name, self.loops, self.life, self.paused = name, loops, 0, 0
        self.start()

    def start(self) -> None:
        self.life += 1
        self.id = f"{self.name}.{self.life}"
        self.holds: dict[str, Hold] = {}
        self.current: Delivery | None = None
        self.mine: list[Delivery] = []
        self.known: set[tuple[Id, int]] = set()
        self.trust = self.permit_until = self.turns = 0
        self.permit: tuple[Id, int] | None = None
        self.unsure = False
        self.actors: list[Actor] = []
        for loop in self.loops:
            generator = self._forever(loop)
            self.actors.append(Actor(self, generator, next(generator)))

    def _forever(self, loop: Callable[[Process], Loop]) -> Loop:
        while True:
            try:
                yield from loop(self)
            except Lost:
                self.unsure = True


def insist(again: Callable[[], bool], request: Request) -> Generator[Request, Any, Any]:
    """Repeat a call whose reply was lost, or give up in the end."""
    while True:
        try:
            return (yield request)
        except Lost:
            if not again():
                raise
