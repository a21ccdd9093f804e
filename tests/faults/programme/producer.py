"""A producer of a trial: commits the deals of its plan one after the other, and writes down what it knows of each.

Its book has a line `asked` for each call before its transaction ends, then `committed`, `rolled_back` or, where the
connection was lost at its COMMIT, `unsure`. A deal that did not commit though it should is tried again with new ids.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.faults.programme import works
from tests.faults.programme.book import Book
from tests.faults.programme.pens import Lost, Pen, pen_of
from tests.faults.programme.plan import Ask, Deal, Plan

PLAN = "PROGRAMME_PLAN"
"""The variable that names the file of the plan."""
PAUSE_S = 0.1
"""Before a deal that was lost is tried again."""


class Producer:
    """Carries one producer's deals out."""

    def __init__(self, number: int, book: Book, pen: Pen, sleep: Callable[[float], None] = time.sleep) -> None:
        self._number, self._book, self._pen, self._sleep = number, book, pen, sleep

    def run(self, deals: list[Deal]) -> None:
        done = self._done()
        self._send_to(self._unheard())
        for deal in deals:
            if deal.number in done:
                continue
            self._sleep(deal.pause)
            tries = 1
            while not self._try(deal, tries):
                tries += 1
                self._sleep(PAUSE_S)
        self._book.write("through", producer=self._number)

    def _done(self) -> set[int]:
        """The deals that a former life of this producer has brought to their end."""
        ended = (line for line in self._book.lines() if line["word"] in ("committed", "rolled_back"))
        return {int(line["deal"].split(".")[1]) for line in ended}

    def _unheard(self) -> list[str]:
        """The jobs of a former life that may wait for an event which it had no time to send."""
        asked = [
            line["id"]
            for line in self._book.lines()
            if line["word"] == "asked" and _waits(line["kind"], line["undone"])
        ]
        sent = {line["id"] for line in self._book.lines() if line["word"] == "sent"}
        return [job_id for job_id in asked if job_id not in sent]

    def _try(self, deal: Deal, tries: int) -> bool:
        """Whether it ended as it should."""
        name = f"{self._number}.{deal.number}.{os.getpid()}.{tries}"
        asks = [(str(uuid4()), ask) for ask in deal.asks]
        began = self._book.write("began", deal=name)
        for place, (job_id, ask) in enumerate(asks):
            self._book.write(
                "asked", deal=name, id=job_id, kind=ask.kind, queue=ask.queue, value=ask.value, key=ask.key,
                more=ask.more, delay=ask.delay, place=place, began=began, undone=ask.undone or not deal.commits,
            )  # fmt: skip
        try:
            self._pen.deal([(job_id, ask, arguments(job_id, ask)) for job_id, ask in asks], commits=deal.commits)
        except Lost as lost:
            self._book.write("unsure" if deal.commits else "rolled_back", deal=name, why=str(lost)[:300])
            committed = False
        else:
            self._book.write("committed" if deal.commits else "rolled_back", deal=name)
            committed = deal.commits
        self._send_to([job_id for job_id, ask in asks if _waits(ask.kind, ask.undone or not deal.commits)])
        return committed == deal.commits

    def _send_to(self, jobs: Iterable[str]) -> None:
        """Send the event that each of these waits for; one that never committed hears nothing."""
        for job_id in jobs:
            while not self._sent(job_id):
                self._sleep(PAUSE_S)
            self._book.write("sent", id=job_id)

    def _sent(self, job_id: str) -> bool:
        try:
            self._pen.send(job_id)
        except Lost:
            return False
        return True


def _waits(kind: str, undone: bool) -> bool:
    """Whether a call may wait for an event: it may have committed."""
    return kind == "awaiting" and not undone


def arguments(job_id: str, ask: Ask) -> dict[str, Any]:
    """What the body of a call is given."""
    if ask.kind == "hook":
        return {"endpoint": works.ENDPOINT, "type": "programme.made", "data": {"value": ask.value, **ask.more}}
    return {"value": ask.value, **ask.more} | ({"key": job_id} if ask.kind == "awaiting" else {})


def main() -> None:
    """`producer NUMBER`, with the plan and the folder of books in the environment."""
    number = int(sys.argv[1])
    plan = Plan.read(Path(os.environ[PLAN]))
    book = Book.of_env(f"producer{number}")
    with pen_of(number, os.environ["REDISJOBS_DATABASE_URL"]) as pen:
        Producer(number, book, pen).run(plan.deals[number])


if __name__ == "__main__":
    main()
