"""What is lost, what runs twice, how soon work goes on: a worker is killed, a server is, Redis loses its data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.peers.ledger import Ledger
from benchmarks.peers.speed import FEW_SLOTS
from benchmarks.peers.stage import Found, Stage
from benchmarks.peers.trickle import Trickle
from benchmarks.programs import wait_for

LOOK_S = 0.05
SYNC_S = 1.5
"""After which Redis has synced what it was told: it promises all but the last second."""
AMID_S = 120.0
"""Within which a quarter of the jobs has to end."""


def kill(stage: Stage) -> Found:
    """SIGKILL a worker amid its jobs and start another one at once; seconds until the interrupted jobs start again."""
    with _amid(stage) as scene:
        at = time.time()
        scene.fleet.kill_worker()
        scene.fleet.start_worker()
        scene.wait(stage.scale.patience_s)
        account = scene.book.read()
    found: Found = {"seconds": account.wait(at), "interrupted": len(account.interrupted(at))}
    return found | {"again": len(account.waits(at)), "done": account.done(scene.numbers, at)} | scene.toll()


def restart(stage: Stage) -> Found:
    """SIGKILL the store that workers take jobs from, and start it again; seconds from its answer until a job starts."""
    with _amid(stage) as scene:
        server = stage.servers.redis if stage.contestant.serves == "redis" else stage.servers.postgres
        server.kill()
        server.start()
        return scene.after(time.time(), stage.scale.patience_s)


def wipe(stage: Stage) -> Found:
    """FLUSHALL amid jobs: a Redis that comes back without its data."""
    with _amid(stage) as scene:
        stage.servers.flush()
        # Where jobs are in Redis alone, nothing will bring them back.
        lost = stage.contestant.store == "redis"
        return scene.after(time.time(), 2 * stage.scale.lease_s if lost else stage.scale.patience_s)


class Scene:
    """A worker amid held jobs, with further ones that trickle in.

    Args:
        numbers: those that were there from the beginning: they are counted.
    """

    def __init__(self, book: Ledger, trickle: Trickle, numbers: range) -> None:
        self.book = book
        self.fleet = trickle.fleet
        self._trickle = trickle
        self.numbers = numbers

    def wait(self, seconds: float) -> None:
        """Wait until all counted jobs have ended, or so long; start again what ends by itself."""
        ends_at = time.monotonic() + seconds
        while self.book.read().missing(self.numbers) and time.monotonic() < ends_at:
            self._trickle.watch()
            time.sleep(LOOK_S)

    def after(self, at: float, seconds: float) -> Found:
        """What became of the jobs since a moment, once all have ended or so long has passed."""
        self.wait(seconds)
        found: Found = {"seconds": self.book.read().first_start_after(at), "worker_ended": self.fleet.ended}
        return found | self.toll()

    def toll(self) -> Found:
        """How many jobs there were, how many did not end, and how many ended more than once."""
        account = self.book.read()
        return {
            "jobs": len(self.numbers),
            "missing": account.missing(self.numbers),
            "doubled": account.doubled(self.numbers),
        }


@contextmanager
def _amid(stage: Stage) -> Iterator[Scene]:
    """A quarter of the held jobs has ended, and one at least is running."""
    stage.clear()
    numbers = range(stage.scale.held)
    stage.fill(len(numbers), hold=stage.scale.hold)
    time.sleep(SYNC_S)
    with stage.book() as book, stage.fleet(FEW_SLOTS) as fleet, Trickle(stage, fleet, len(numbers)) as trickle:
        wait_for(lambda: _is_amid(book, numbers), "a quarter of the jobs to end", AMID_S)
        yield Scene(book, trickle, numbers)


def _is_amid(book: Ledger, numbers: range) -> bool:
    account = book.read()
    return account.ended(numbers) >= len(numbers) / 4 and bool(account.interrupted(time.time()))
