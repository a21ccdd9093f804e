"""Producers, an operator, schedulers: all that speaks Postgres only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.postgres import Row
from tests.model.process import IDLE, Loop, Process, Request
from tests.model.values import HORIZON, Id

if TYPE_CHECKING:
    from tests.model.world import World

BODIES = ("plain", "plain", "steps", "effect", "event", "parent", "limited")


class Others:
    """Their loops in a world."""

    def __init__(self, world: World) -> None:
        self.w = world

    def produce(self, p: Process) -> Loop:
        """One transaction with a job or two; some roll back."""
        w, choice = self.w, self.w.choice
        yield IDLE
        if not w.storm or len(w.ledger.book) > w.most_jobs or not choice.chance(0.25):
            return
        xid: int = yield Request("local", w.pg.begin)
        rows = [self._row() for _ in range(1 + choice.below(2))]
        for row in rows:
            yield Request("local", w.pg.stage, (xid, row))
        for _ in range(choice.below(3)):
            yield IDLE
        if choice.chance(0.2):
            yield Request("local", w.pg.end_of, (xid,))
        else:
            yield Request("local", w.pg.commit, (xid, rows))

    def _row(self) -> Row:
        w, choice = self.w, self.w.choice
        body = BODIES[choice.below(len(BODIES)) if w.mood != "steps" else 2 + choice.below(4)]
        if w.mood == "limits" and choice.chance(0.7):
            body = "limited"
        if w.mood == "family" and choice.chance(0.6):
            body = "parent"
        row = Row(w.new_id(), w.any_queue(), 0, 0, body)
        if choice.chance(0.8 if w.mood == "keys" else 0.15):
            row.key, row.window = "k", 5 * choice.below(2)
        elif choice.chance(0.8 if w.mood == "lanes" else 0.1):
            row.lane = "lane"
        elif choice.chance(0.2):
            row.run_at = w.pg.now + 3 + choice.below(HORIZON + 8)
        return row

    def operate(self, p: Process) -> Loop:
        """Sends events, cancels, redrives."""
        w, choice = self.w, self.w.choice
        yield IDLE
        for job in self._waiting():
            if not w.storm or choice.chance(0.15):
                yield Request("local", w.pg.send, (job,))
        if w.storm and w.ledger.book and choice.chance(0.08):
            yield Request("local", w.pg.cancel, (list(w.ledger.book)[choice.below(len(w.ledger.book))],))
        if w.pg.t.dead and w.storm and choice.chance(0.5):
            yield Request("local", w.pg.redrive, (next(iter(w.pg.t.dead)),))

    def _waiting(self) -> list[Id]:
        events = self.w.pg.t.events
        return [job for job, page in self.w.ledger.book.items() if page.body == "event" and job not in events]

    def schedule(self, p: Process) -> Loop:
        """Reads the watermark, decides, and dispatches what is due."""
        w = self.w
        yield IDLE
        occurrence = w.now // 15 * 15
        seen = w.pg.t.watermark
        if w.storm and seen < occurrence:
            yield IDLE
            row = Row(w.new_id(), w.any_queue(), 0, 0, key=f"tick{occurrence}")
            yield Request("local", w.pg.dispatch, (seen, occurrence, row))
