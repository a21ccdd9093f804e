"""What is to happen at which point of this program, and the file that tells what has.

A line of the file is a point that was reached for the first time, and the process; behind it, where something was done
there, what.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.faults.points.point import Effect, Point

FILE, ARMED = "REDISJOBS_TEST_POINTS", "REDISJOBS_TEST_ARMED"


class UnexpectedError(RuntimeError):
    """Raised at a point: nobody knows of such an error."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What is to happen at the first visit of a point."""

    point: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Visit:
    """What a process told: it came to a point; `effect`: that happened to it there."""

    point: str
    pid: int
    effect: str


class Visits:
    """The file, for the test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def env(self, *arms: Arm) -> dict[str, str]:
        """Environment of a program in which this is to happen."""
        return {FILE: str(self.path), ARMED: " ".join(f"{each.point}={each.effect}" for each in arms)}

    def all(self) -> list[Visit]:
        """What was told so far."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [Visit(point, int(pid), effect) for point, pid, effect in (line.split("\t") for line in lines)]

    def reached(self) -> set[str]:
        """The points that some process came to."""
        return {each.point for each in self.all()}

    def happened(self, arm: Arm) -> Visit | None:
        """When the effect has happened: where."""
        return next((each for each in self.all() if (each.point, each.effect) == (arm.point, arm.effect)), None)


class Arms:
    """In the program: does what was asked for, each once."""

    def __init__(self, points: dict[str, Point]) -> None:
        self._points = points
        self._path = Path(os.environ[FILE])
        asked = [each.split("=") for each in os.environ[ARMED].split()]
        self._armed: dict[str, Effect] = {name: cast("Effect", effect) for name, effect in asked}
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def reach(self, name: str, function: Any, *args: Any, **given: Any) -> Any:
        """Make the call of a point. What it answers may be awaitable; then the point lies behind its end."""
        point = self._points[name]
        if point.before:
            self._visit(name, point)
            return function(*args, **given)
        answer = function(*args, **given)
        if inspect.isawaitable(answer):
            return self._awaited(name, point, answer)
        self._visit(name, point, answer)
        return answer

    async def _awaited(self, name: str, point: Point, call: Awaitable[Any]) -> Any:
        answer = await call
        self._visit(name, point, answer)
        return answer

    def _visit(self, name: str, point: Point, answer: Any = None) -> None:
        if point.full is not None and not (getattr(answer, point.full) if point.full else answer):
            return
        with self._lock:
            effect = self._armed.get(name)
            if name in self._seen or (effect is not None and not self._may(point)):
                return
            self._seen.add(name)
            self._armed.pop(name, None)
            self._tell(name, effect)
        if effect is not None:
            _do(name, point, effect)

    def _may(self, point: Point) -> bool:
        """Whether what must happen first has happened."""
        return point.given is None or point.given not in self._armed

    def _tell(self, name: str, effect: str | None) -> None:
        line = f"{name}\t{os.getpid()}\t{effect or ''}\n"
        with self._path.open("ab", buffering=0) as file:  # one write, so lines of many processes do not mix
            file.write(line.encode())


def _do(name: str, point: Point, effect: Effect) -> None:
    match effect:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "pause":
            os.kill(os.getpid(), signal.SIGSTOP)  # all threads; the test lets it go on
        case "raise":
            raise UnexpectedError(f"at point {name}, as the test has it")
        case "lose":
            raise _lost(name, point)


def _lost(name: str, point: Point) -> Exception:
    """What a caller gets whose reply was lost."""
    from redisjobs.errors import BrokerUnavailable, DatabaseUnavailable  # noqa: PLC0415 - no module before its points

    why = f"the reply was lost at point {name}, as the test has it"
    return BrokerUnavailable(why) if point.store == "redis" else DatabaseUnavailable(why)
