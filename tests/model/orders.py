"""Two parties with a few steps each, in every order: what random runs meet too seldom to wait for.

In each scene a relay was paused, or works in two loops, while something happens to job A. A scene is broken in an order
after which A has ended and waits in Redis to run again, is marked as published and is not there, or is there and its
row believes that it is suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tests.model.ledger import Ledger
from tests.model.postgres import Row, Settlement
from tests.model.postgres_runs import PostgresOfRuns
from tests.model.queue_worker import Queue
from tests.model.values import End, Fence, Item, Keys, Live

Step: TypeAlias = Callable[[], object]


def interleaved(first: Sequence[Step], second: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """Every order of both that keeps the order of each."""
    if not first or not second:
        yield (*first, *second)
        return
    for rest in interleaved(first[1:], second):
        yield (first[0], *rest)
    for rest in interleaved(first, second[1:]):
        yield (second[0], *rest)


class Scene:
    """Job A, staged in a queue that relay r1 holds under token 1."""

    def __init__(self, on: frozenset[str]) -> None:
        self.on = on
        ledger = Ledger()
        self.pg = PostgresOfRuns(lambda: 0, on, ledger, ["q"])
        self.q = Queue("q", lambda: 0, on)
        self.pg.commit(self.pg.begin(), [self.pg.stage(1, Row("A", "q", 0, 0))])
        self.first = self.holds("r1")
        self.second = Fence(0, "")
        self.items: list[Item] = []

    def holds(self, relay: str) -> Fence:
        """The lease of whoever had it has ended; Redis is opened, and where it is new its life is named."""
        self.pg.t.queues["q"].until = -1
        token, epoch = self.pg.take(relay, "q") or (0, "")
        _, life, _ = self.q.open(token)
        if not epoch or life != epoch:
            first, epoch = not epoch, f"life of {relay}"
            self.pg.name_life("q", token, epoch, first=first)
            self.q.adopt(Fence(token, epoch))
        return Fence(token, epoch)

    def take_over(self) -> None:
        self.second = self.holds("r2")

    def read(self) -> None:
        rows, _ = self.pg.batch("q", 0, 5)
        self.items = [self.pg.item(row) for row in rows if not row.cancel]

    def publish(self, fence: Fence) -> None:
        self.q.publish(fence, self.items)

    def has_run(self) -> None:
        """It was published, the mark was lost, and a worker has finished it."""
        self.read()
        self.publish(self.first)
        (d,) = self.q.take("w")
        self.q.finish("w", [End("A", d.entry, d.start, "done")])

    def settle(self) -> None:
        self.pg.settle([Settlement("A", "done", 0, 1, 0, 0, waits=False)])

    def has_suspended(self) -> None:
        """It was published, and waits for an event; the mark is still under way."""
        self.read()
        self.publish(self.first)
        (d,) = self.q.take("w")
        self.q.finish("w", [End("A", d.entry, d.start, "suspended", -1)])

    def settle_suspension(self) -> None:
        self.pg.settle([Settlement("A", "suspended", 0, 1, 0, 0, waits=True)])

    def wake(self) -> None:
        self.pg.stage_run(self.pg.t.rows["A"])

    def mark(self, number: int) -> None:
        self.pg.mark("q", self.first, [("A", 0, number)])

    def settled(self) -> None:
        """Its grace is over at once: that is another net."""
        self.q.settled(self.first, self.q.read_outcomes(0, 5))
        self.q.bury(0)

    def cancel(self) -> None:
        self.pg.cancel("A")
        if self.q.cancel(self.second, [("A", 0, 0)]) == ["unknown"]:
            self.pg.end_cancelled("q", self.second, [("A", 0)], 0)

    def lose_and_recover(self) -> None:
        self.q.k = Keys()
        self.take_over()

    def is_broken(self) -> bool:
        row, rec = self.pg.t.rows.get("A"), self.q.k.jobs.get("A")
        if row is None:
            return isinstance(rec, Live)
        is_there = isinstance(rec, Live) and rec.number > row.settled
        return is_there == (row.state == "suspended") if row.state in ("published", "suspended") else False


def paused_while_another_ends_it(s: Scene) -> Iterator[tuple[Step, ...]]:
    """r1 has read A and stands still; r2 takes over, and A is cancelled."""
    return interleaved([s.read, lambda: s.publish(s.first)], [s.take_over, s.cancel])


def paused_while_it_settles(s: Scene) -> Iterator[tuple[Step, ...]]:
    """r1 settles A, late; r2 has taken over, read A, and publishes it."""
    s.has_run()
    return interleaved([s.settle, s.settled], [s.take_over, s.read, lambda: s.publish(s.second)])


def publishes_beside_its_settling(s: Scene) -> Iterator[tuple[Step, ...]]:
    """Both loops of r1."""
    s.has_run()
    publishing, settling = [s.read, lambda: s.publish(s.first)], [s.settle, s.settled]
    if "one_turn" in s.on:
        return iter([(*publishing, *settling), (*settling, *publishing)])
    return interleaved(publishing, settling)


def marks_what_was_lost(s: Scene) -> Iterator[tuple[Step, ...]]:
    """r1 marks what it has published, late; Redis has lost it, and r2 has recovered the queue."""
    s.read()
    marks = [lambda: s.publish(s.first), lambda: s.pg.mark("q", s.first, [("A", 0, 1)])]
    return interleaved(marks, [s.lose_and_recover])


def settles_once_more(s: Scene) -> Iterator[tuple[Step, ...]]:
    """The reply to a settlement was lost, so it is repeated; the run was woken and published meanwhile."""
    s.has_suspended()
    s.settle_suspension()
    return interleaved([s.settle_suspension], [s.wake, s.read, lambda: s.publish(s.first), lambda: s.mark(2)])


def marks_for_a_former_publication(s: Scene) -> Iterator[tuple[Step, ...]]:
    """A mark was held up, and lands when the run has suspended, and waits in line for the next publication."""
    s.has_suspended()
    return interleaved([lambda: s.mark(1)], [s.settle_suspension, s.wake])


SCENES = {
    "fence_first": paused_while_another_ends_it,
    "settled_fenced": paused_while_it_settles,
    "one_turn": publishes_beside_its_settling,
    "statements_fenced": marks_what_was_lost,
    "number_settled": settles_once_more,
    "number_marked": marks_for_a_former_publication,
}
"""The rule that each is about."""


def broken_orders(rule: str, on: frozenset[str]) -> tuple[int, int]:
    """In how many orders a scene is broken, of how many."""
    count = len(list(SCENES[rule](Scene(on))))
    broken = 0
    for nth in range(count):
        scene = Scene(on)
        for step in list(SCENES[rule](scene))[nth]:
            step()
        broken += scene.is_broken()
    return broken, count
