"""Workers: one attempt at a time, its heartbeat beside it, and its permit, as `redisjobs.worker` does it."""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from tests.model.limiter import Ask
from tests.model.process import IDLE, Loop, Process, Request, insist
from tests.model.queue_worker import Queue
from tests.model.values import FINAL, GRACE, LEASE, MAX_ATTEMPTS, Delivery, End, Id, Tombstone

if TYPE_CHECKING:
    from tests.model.world import World

Steps = Generator[Request, Any, Any]
LATE = 60
"""After which a job that waits for a limit comes by itself."""
KEEP = 20
LIMIT, MOST = "bank", 1
DURABLE = ("steps", "effect", "event", "parent")


class Workers:
    """The loops of workers in a world."""

    def __init__(self, world: World) -> None:
        self.w = world

    # -- the heartbeat
    def heart(self, p: Process) -> Loop:
        yield IDLE
        d, sent = p.current, self.w.now
        if d is None:
            return
        q = self.w.queues[d.queue]
        word = yield Request("redis", q.renew, (p.id, d.id, d.entry, d.start, d.stream))
        if word == "lost":
            d.lost = True
        else:
            p.trust, d.cancel = max(p.trust, sent + LEASE), d.cancel or word == "cancelled"
        if p.permit is not None:
            lost = yield Request("redis", self.w.limiter.hold, (p.id, [p.permit], LEASE))
            if lost:
                d.lost = True
            else:
                p.permit_until = max(p.permit_until, sent + LEASE)
        self.w.ledger.stays(p.id, d.id, min(p.trust, p.permit_until))

    # -- the work
    def work(self, p: Process) -> Loop:
        p.current = None
        names = list(self.w.queues)
        q = self.w.queues[names[self.w.choice.below(len(names))]]
        yield Request("redis", q.promote)
        yield Request("redis", q.bury, (GRACE if "receipt" in self.w.on else 0,))
        if self.w.choice.chance(0.4) or not self.w.storm:
            woken = yield Request("redis", self.w.limiter.sweep, (p.id, 1, KEEP))
            yield from self._tell(p, woken)
        sent = self.w.now
        if p.unsure:
            p.unsure = False
            for each in self.w.queues.values():
                recalled = yield Request("redis", each.recall, (p.id,))
                p.mine += [d for d in recalled if not self._is_known(p, d)]
        if not p.mine:
            p.mine += yield Request("redis", q.reclaim, (p.id,))
        if not p.mine:
            p.mine += yield from self._read(p, q)
        if p.mine:
            d = p.mine.pop()
            p.known.add((d.id, d.entry))
            yield from self._serve(p, d, self.w.queues[d.queue], sent)

    @staticmethod
    def _is_known(p: Process, d: Delivery) -> bool:
        """A worker does not begin anew what it has in its hand, or had."""
        return (d.id, d.entry) in p.known or any(other.entry == d.entry and other.id == d.id for other in p.mine)

    def _read(self, p: Process, q: Queue) -> Generator[Request, Any, list[Delivery]]:
        if self.w.choice.below(2) == 0:
            taken: list[Delivery] = yield Request("redis", q.take, (p.id, 1))
            return taken
        entries = yield Request("redis", q.wait, (p.id,))
        if not entries:
            return []
        begun: list[Delivery] = yield from insist(self.w.again, Request("redis", q.begin, (p.id, entries)))
        return begun

    def _serve(self, p: Process, d: Delivery, q: Queue, sent: int) -> Steps:
        p.current, p.trust, p.permit = d, sent + LEASE, None
        word = yield from self._attempt(p, d)
        self.w.ledger.leaves(p.id, d.id)
        if word is not None:
            yield from self._finish(p, d, q, word)
        yield from self._release(p)

    def _finish(self, p: Process, d: Delivery, q: Queue, word: str) -> Steps:
        far = 1 + self.w.choice.below(25) if self.w.storm else 2
        delay = {"retry": far, "snooze": far, "limited": LATE, "suspended": -1}.get(word, 0)
        end = End(d.id, d.entry, d.start, word, delay, counted=word == "retry")
        answer = yield from insist(self.w.again, Request("redis", self._end, (p.id, copy.copy(d), q, end)))
        self.w.ledger.refused(d, p.id, answer)

    def _end(self, consumer: str, d: Delivery, q: Queue, end: End) -> str:
        rec = q.k.jobs.get(d.id)
        cancelled = rec is not None and not isinstance(rec, Tombstone) and rec.cancel and end.word not in FINAL
        (answer,) = q.finish(consumer, [end])
        if answer == "ok":
            self.w.ledger.finished(d, consumer, "cancelled" if cancelled else end.word, max(0, end.delay))
        return answer

    # -- limits
    def _admitted(self, p: Process, d: Delivery) -> Generator[Request, Any, bool]:
        sent = self.w.now
        p.permit = (d.id, d.start)
        asks = [Ask(d.id, d.start, d.queue, LIMIT, MOST)]
        (word,) = yield from insist(self.w.again, Request("redis", self.w.limiter.admit, (p.id, asks, LEASE)))
        if word != "ok":
            p.permit = None
            return False
        p.permit_until = sent + LEASE
        return True

    def _release(self, p: Process) -> Steps:
        permit, p.permit = p.permit, None
        if permit is not None:
            woken = yield from insist(lambda: True, Request("redis", self.w.limiter.release, (p.id, [permit])))
            yield from self._tell(p, woken)

    def _tell(self, p: Process, woken: Sequence[tuple[str, Id]]) -> Steps:
        """Whose job is gone leaves what was kept for it to the next."""
        while woken:
            gone: list[tuple[Id, int]] = []
            for queue, job in woken:
                words = yield Request("redis", self.w.queues[queue].wake, ([(job, 0)],))
                gone += [(job, 0)] if words == ["gone"] else []
            woken = (yield Request("redis", self.w.limiter.release, (p.id, gone))) if gone else []

    # -- one attempt
    def _attempt(self, p: Process, d: Delivery) -> Generator[Request, Any, str | None]:
        """The word of its outcome, or None where it is given up."""
        if d.cancel:
            return "cancelled"
        if d.body == "limited" and not (yield from self._admitted(p, d)):
            return "limited"
        records: dict[str, str] = {}
        if d.body in DURABLE:
            claimed = yield from self._claim(p, d)
            if claimed is None or isinstance(claimed, str):
                return claimed
            records = claimed
        if not (yield Request("local", self._starts, (p, d))):
            return None
        word = yield from self._body(p, d, records)
        return word if word is None or word != "" else (yield from self._ends(p, d))

    def _claim(self, p: Process, d: Delivery) -> Generator[Request, Any, dict[str, str] | str | None]:
        while True:
            word, fence, records = yield from insist(self.w.again, Request("pg", self.w.pg.claim, (d, p.id)))
            if word == "gone":
                return "over"
            if word == "ok":
                return dict(records)
            if "overtake_in_redis" in self.w.on:
                q = self.w.queues[d.queue]
                request = Request("redis", q.overtake, (p.id, d.id, d.entry, d.start, fence))
                token = yield from insist(self.w.again, request)
            else:
                yield Request("local", self._turned_away, (p, d))
                token = None
            if token is None:
                return None
            d.number, d.start = token

    def _turned_away(self, p: Process, d: Delivery) -> None:
        """Whom Redis knows as the holder must be able to go on."""
        if self.w.queues[d.queue].holds(p.id, d.id, d.entry, d.start):
            self.w.ledger.broke("holder-turned-away", f"{p.id} holds {d.id} under {d.token}, and cannot claim it")

    def _may_start(self, p: Process, d: Delivery) -> bool:
        """The last look before user code runs, taken as one with its start."""
        trusted = self.w.now < p.trust and (p.permit is None or self.w.now < p.permit_until)
        return not d.lost and ("trust_before_step" not in self.w.on or trusted)

    def _starts(self, p: Process, d: Delivery) -> bool:
        if not self._may_start(p, d):
            return False
        d.began = True
        self.w.ledger.starts(p.id, d)
        self.w.say(p.id, f"the body of {d.id} starts, token {d.token}")
        if p.permit is not None:
            self.w.ledger.enters(p.id, d, LIMIT, MOST, min(p.trust, p.permit_until))
        return True

    def _step_starts(self, p: Process, d: Delivery, name: str) -> bool:
        if not self._may_start(p, d):
            return False
        fenced = self.w.pg.fenced(d, p.id)
        self.w.ledger.step_starts(d, name, fenced=fenced, trusted=self.w.now < p.trust)
        return True

    def _body(self, p: Process, d: Delivery, records: dict[str, str]) -> Generator[Request, Any, str | None]:
        """A word where the body ends by itself; empty where chance decides."""
        pg, again = self.w.pg, self.w.again
        if d.body == "steps":
            for name in ("one", "two"):
                if name not in records:
                    if not (yield Request("local", self._step_starts, (p, d, name))):
                        return None
                    if (yield from insist(again, Request("pg", pg.put, (copy.copy(d), p.id, name)))) != "ok":
                        return None
        elif d.body == "effect":
            word = yield from insist(again, Request("pg", pg.end_done, (copy.copy(d), p.id)))
            return "done" if word == "ok" else None
        elif d.body == "event" and records.get("wait") != "done":
            word = yield from insist(again, Request("pg", pg.wait, (copy.copy(d), p.id)))
            if word != "done":
                return "suspended" if word == "waiting" else None
        elif d.body == "parent":
            return (yield from self._child(p, d, records))
        return ""

    def _child(self, p: Process, d: Delivery, records: dict[str, str]) -> Generator[Request, Any, str | None]:
        state = records.get("child")
        if state == "failed":
            return "dead"
        if state == "done":
            return ""
        if state is None:
            child = self.w.new_child(d)
            word = yield from insist(self.w.again, Request("pg", self.w.pg.call, (copy.copy(d), p.id, "child", child)))
            if word != "ok":
                return None
        return "suspended"

    def _ends(self, p: Process, d: Delivery) -> Generator[Request, Any, str | None]:
        for _ in range(self.w.choice.below(4)):
            yield IDLE
        if d.body == "limited" and (d.lost or self.w.now >= p.permit_until):
            return None  # what nobody can vouch for is not written
        if d.cancel:
            return "cancelled"
        w = self.w
        if not w.storm or not w.choice.chance(0.7 if w.mood == "deaths" else 0.4):
            return "done"
        word = "dead" if w.mood == "deaths" else ("retry", "snooze", "dead", "released")[w.choice.below(4)]
        return "dead" if word == "retry" and d.attempts + 1 >= MAX_ATTEMPTS else word
