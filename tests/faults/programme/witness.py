"""Hears in a worker what becomes of each attempt, and writes it into the worker's book.

    began      its body starts: which delivery that is
    left       its body is over, and how
    answered   what Redis said to its finish: the outcome's word where it was accepted
    stalled    the process did not run for a while: it was stopped, or the machine was busy with others

The first and the last come from the worker's own observer, the second from a middleware.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any

from redisjobs import Context
from redisjobs.cli import main
from redisjobs.lane import Attempt, Observer, Observers
from redisjobs.middleware import Next
from redisjobs.outcome import Outcome
from redisjobs.worker import Worker
from tests.faults.programme.book import Book
from tests.faults.programme.part import PART

STALL_S = 0.25

running: ContextVar[str] = ContextVar("programme_run", default="")
"""The run whose body this is."""

_numbers = itertools.count(1)


@cache
def book() -> Book:
    """That of this process."""
    return Book.of_env(os.environ[PART])


class Witness:
    """Writes down what a worker's attempts come to."""

    def __init__(self) -> None:
        self._runs: dict[tuple[bytes, int, int], str] = {}

    def began(self, attempt: Attempt, context: Context) -> None:
        delivery = attempt.delivery
        run = f"{os.getpid()}-{next(_numbers)}"
        self._runs[_token(attempt)] = run
        running.set(run)
        book().write(
            "began", run=run, id=attempt.job_id, job=context.job, queue=delivery.queue, band=delivery.band,
            entry=delivery.entry.decode(), start=delivery.start, number=delivery.number, life=delivery.life,
            attempt=context.attempt, most=context.max_attempts, losses=delivery.losses, pid=os.getpid(),
        )  # fmt: skip

    def ended(self, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
        pass

    def answered(self, attempt: Attempt, word: str) -> None:
        run = self._runs.pop(_token(attempt), None)  # None: its body was never started
        book().write("answered", run=run, id=attempt.job_id, said=word, pid=os.getpid())

    def batch(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        return nullcontext()


def _token(attempt: Attempt) -> tuple[bytes, int, int]:
    return attempt.delivery.job_id, attempt.delivery.number, attempt.delivery.start


async def around(ctx: Context[Any], call_next: Next) -> Any:
    """The middleware: when the body is over, and how."""
    run, how = running.get(), "returned"
    try:
        return await call_next()
    except BaseException as error:
        how = type(error).__name__
        raise
    finally:
        book().write("left", run=run, how=how)


def watch_stalls(to: Book) -> None:
    """For as long as the process lives: write down when this thread did not run for `STALL_S` though it wanted to."""
    before = time.monotonic()
    while True:
        time.sleep(STALL_S / 5)
        now = time.monotonic()
        if now - before > STALL_S:
            to.write("stalled", since=before, until=now)
        before = now


def work() -> None:
    """`redisjobs`, whose workers are observed by a witness beside their own observers: what a worker's process runs."""
    observing = Worker._observing  # no public door hears of single answers

    def with_witness(worker: Worker) -> Observer:
        threading.Thread(target=watch_stalls, args=[book()], name="stalls", daemon=True).start()
        own = observing(worker)
        return Witness() if own is None else Observers(Witness(), own)

    Worker._observing = with_witness  # type: ignore[method-assign, assignment]
    main()
