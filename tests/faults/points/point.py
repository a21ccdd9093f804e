"""What a point is, and what can be done at one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Effect: TypeAlias = Literal["kill", "raise", "lose", "pause"]
Part: TypeAlias = Literal["relay", "worker", "scheduler", "producer"]

EFFECTS: tuple[Effect, ...] = ("kill", "raise", "lose", "pause")
SIGNALS: tuple[Effect, ...] = ("kill", "pause")


@dataclass(frozen=True, slots=True)
class Point:
    """A place between two effects, named by the call that is the first of them, or the second.

    Args:
        part: the program in which it lies.
        where: module and function: `redisjobs.publisher:Publisher._send`.
        call: how the call begins there, as `ast.unparse` writes it; one call of the function begins so.
        before: the place is before the call, else behind it.
        store: whose lost reply there can be. None: nothing is asked there, so it can only be killed or stopped.
        full: the names of attributes of the answer of which one must hold something: else nothing has happened, as
            where a queue is read that is empty. `""`: the answer itself.
        given: another point at which a reply is lost first, for without that nobody comes here.
        plain: an error that nobody expects is a bug there, and no fault of the world's; so none is raised.
    """

    part: Part
    where: str
    call: str
    before: bool = False
    store: Literal["redis", "postgres"] | None = "redis"
    full: str | None = None
    given: str | None = None
    plain: bool = False

    @property
    def module(self) -> str:
        return self.where.partition(":")[0]

    @property
    def function(self) -> str:
        return self.where.partition(":")[2]

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What can be done here."""
        if self.store is None:
            return SIGNALS
        return tuple(each for each in EFFECTS if each != "raise" or not self.plain)
