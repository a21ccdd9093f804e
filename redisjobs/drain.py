"""The end of a worker: nothing more is taken, what runs may end or is handed back, and a receipt tells it all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from redisjobs.broker import Finish
from redisjobs.lane import Attempt
from redisjobs.logs import event
from redisjobs.outcome import Ended
from redisjobs.runner import Runner
from redisjobs.serving import Serving

Fate: TypeAlias = Literal["finished", "handed back", "abandoned"]

HANDED_BACK = 75
"""The exit code of a worker that did not finish all that ran: EX_TEMPFAIL."""
HARD_S = 5.0
"""How long cancelled bodies, and then the last finishes, may take once the grace is over."""

log = logging.getLogger("redisjobs.worker")


@dataclass(frozen=True, slots=True)
class Line:
    """What became of one job that ran when the drain began.

    Args:
        fate: finished; handed back, uncounted and at once; or abandoned, to come back when its lease has lapsed.
    """

    job_id: str
    job: str
    queue: str
    fate: Fate


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a drain did, a line a job, and what the worker did in its whole life.

    Args:
        stuck: how many bodies have not ended even so. A process that shall end must not wait for them.
        processed: attempts that came to an end since the worker was made, those of the drain included.
        failed: those of them that failed.
    """

    lines: tuple[Line, ...] = ()
    stuck: int = 0
    processed: int = 0
    failed: int = 0

    @classmethod
    def of(cls, attempts: Sequence[Attempt], stuck: int) -> Receipt:
        """The receipt for the attempts that ran when the drain began."""
        return cls(tuple(Line(each.job_id, each.job, each.delivery.queue, _fate(each)) for each in attempts), stuck)

    def count(self, fate: Fate) -> int:
        """How many jobs had this fate."""
        return sum(line.fate == fate for line in self.lines)

    @property
    def exit_code(self) -> int:
        """0 where everything was finished, else 75."""
        return 0 if self.count("finished") == len(self.lines) else HANDED_BACK


def _fate(attempt: Attempt) -> Fate:
    if attempt.finish is None or attempt.answer not in ("ok", "repeat"):
        return "abandoned"
    return "handed back" if attempt.finish.word == "released" else "finished"


class Drain:
    """One drain, in its two phases.

    Args:
        hand_back: set when what still runs is not waited for any longer.
        ends_process: the process ends right after, so a body that cannot be ended is handed back all the same;
            else it is left to its lease, for it goes on here.
    """

    def __init__(
        self, runner: Runner, servings: Sequence[Serving], hand_back: asyncio.Event, *, ends_process: bool
    ) -> None:
        self._runner = runner
        self._servings = servings
        self._hand_back = hand_back
        self._ends_process = ends_process

    async def run(self) -> Receipt:
        """Return when nothing is held any more, or was given up."""
        taking = asyncio.gather(*(serving.stop_taking() for serving in self._servings))
        await asyncio.sleep(0)  # from here on no reader begins anything
        running = [each for each in self._attempts() if not each.gathers]
        handing_back = asyncio.create_task(self._hand_back_gathering(taking))
        event(log, logging.INFO, "worker.draining", running=len(running))
        tasks = [attempt.task for attempt in running if attempt.task is not None]
        if tasks:
            await self._until_handed_back(asyncio.wait(tasks))
        stuck = await self._give_up([attempt for attempt in running if not attempt.over])
        await handing_back
        await self._last_finishes()
        return Receipt.of(running, stuck)

    async def _hand_back_gathering(self, taking: Awaitable[object]) -> None:
        """Calls whose batch has not begun go back, once nobody here would take them again.

        They have not run, so no receipt tells of them.
        """
        await taking
        gathering = [each for each in self._attempts() if each.gathers]
        for attempt in gathering:
            self._runner.cancel(attempt, Ended.DRAINED)
        if tasks := [attempt.task for attempt in gathering if attempt.task is not None]:
            await asyncio.wait(tasks)

    def _attempts(self) -> list[Attempt]:
        return [attempt for serving in self._servings for attempt in serving.lane.running_attempts()]

    async def _until_handed_back(self, wait: Awaitable[object]) -> None:
        asked = asyncio.ensure_future(self._hand_back.wait())
        ended = asyncio.ensure_future(wait)
        await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        ended.cancel()

    async def _give_up(self, running: list[Attempt]) -> int:
        """Cancel what still runs; answers how many bodies did not end even so."""
        for attempt in running:
            self._runner.cancel(attempt, Ended.DRAINED)
        tasks = [attempt.task for attempt in running if attempt.task is not None and not attempt.in_thread]
        if tasks:
            await asyncio.wait(tasks, timeout=HARD_S)
        stuck = [attempt for attempt in running if not attempt.over]
        for attempt in stuck:
            attempt.renewed = False
            attempt.permit = None  # it runs on: its permit lapses
            attempt.lane.end(attempt, Finish(attempt.delivery, "released") if self._ends_process else None)
        if stuck:
            jobs = ",".join(sorted({attempt.job for attempt in stuck}))
            remedy = "let these bodies pass CancelledError on and look at ctx.draining, or give a longer grace"
            event(log, logging.WARNING, "drain-abandoned", part="worker", bodies=len(stuck), jobs=jobs, remedy=remedy)
        return len(stuck)

    async def _last_finishes(self) -> None:
        answers = [asyncio.create_task(serving.batcher.drained()) for serving in self._servings]
        if not answers:
            return
        await self._until_handed_back(asyncio.wait(answers))
        _, unanswered = await asyncio.wait(answers, timeout=HARD_S)
        for each in unanswered:
            each.cancel()
        if unanswered:
            finishes = sum(len(serving.lane.held) for serving in self._servings)
            remedy = "Redis does not answer: what it did not hear of runs again when its lease has lapsed"
            event(log, logging.WARNING, "drain-abandoned", part="worker", finishes=finishes, remedy=remedy)
