"""Relays: hold queues, publish, settle, and look for what was lost, as `redisjobs.relay` does it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import msgpack

from redisjobs.broker import Outcome
from redisjobs.settler import fold
from tests.model.postgres import Row, Settlement
from tests.model.process import IDLE, Hold, Loop, Process, Request, insist
from tests.model.queue_worker import Queue
from tests.model.values import HORIZON, RELAY_LEASE, Id, Lost
from tests.model.values import Outcome as Told

if TYPE_CHECKING:
    from tests.model.world import World

Steps = Generator[Request, Any, Any]
WAITS = msgpack.packb({"w": 1})


class Relays:
    """The loops of relays in a world."""

    def __init__(self, world: World) -> None:
        self.w = world

    def loops(self) -> tuple[Any, ...]:
        return (self.all_in_turn,) if "one_turn" in self.w.on else (self.publishes, self.settles)

    def all_in_turn(self, p: Process) -> Loop:
        for name, q in self.w.queues.items():
            try:
                hold = yield from self._hold(p, name, q)
                if hold is None:
                    continue
                yield from self._publish(p, hold, name, q)
                yield from self._settle(hold, name, q)
                yield from self._beside(p, hold, name, q)
            except Lost:
                self._is_unsure(p, name)
        yield from self._deliver(p)

    def publishes(self, p: Process) -> Loop:
        for name, q in self.w.queues.items():
            try:
                hold = yield from self._hold(p, name, q)
                if hold is not None:
                    yield from self._publish(p, hold, name, q)
                    yield from self._beside(p, hold, name, q)
            except Lost:
                self._is_unsure(p, name)
        yield from self._deliver(p)

    def settles(self, p: Process) -> Loop:
        yield IDLE
        for name, q in self.w.queues.items():
            hold = p.holds.get(name)
            if hold is not None and hold.opened:
                yield from self._settle(hold, name, q)

    def _is_unsure(self, p: Process, name: str) -> None:
        if name in p.holds:
            p.holds[name].unsure = True

    # -- leases and lives
    def _hold(self, p: Process, name: str, q: Queue) -> Generator[Request, Any, Hold | None]:
        pg, w = self.w.pg, self.w
        hold = p.holds.get(name)
        if hold is not None and w.now >= hold.until:
            del p.holds[name]
            hold = None
        if hold is None or w.choice.chance(0.4):
            asked_at = w.now
            lease = yield Request("pg", pg.take, (p.id, name))
            if lease is None:
                p.holds.pop(name, None)
                return None
            token, epoch = lease
            if hold is None or hold.token != token:
                hold = p.holds[name] = Hold(token, epoch, asked_at + RELAY_LEASE)
            hold.until = asked_at + RELAY_LEASE
            hold.must_find = yield Request("pg", pg.with_staged, (name,))
            mark = yield Request("redis", self._mark_of, (q,))
            if mark != (hold.epoch, hold.token):
                hold.opened = False
        if hold.unsure and "fresh_token" in w.on:
            token = yield Request("pg", pg.fresh_token, (p.id, name, hold.token))
            if token is None:
                del p.holds[name]
                return None
            hold.token, hold.until = token, w.now + RELAY_LEASE
            hold.opened = False
        hold.unsure = False
        if not hold.opened:
            yield from self._open(p, hold, name, q)
        return hold if hold.opened else None

    @staticmethod
    def _mark_of(q: Queue) -> tuple[str, int]:
        return q.k.epoch, q.k.fence

    def _open(self, p: Process, hold: Hold, name: str, q: Queue) -> Steps:
        word, epoch, rest = yield Request("redis", q.open, (hold.token,))
        if word == "stale":
            token = yield Request("pg", self.w.pg.fresh_token, (p.id, name, hold.token, rest))
            p.holds.pop(name)
            if token is not None:
                p.holds[name] = Hold(token, hold.epoch, hold.until)
        elif hold.epoch and epoch == hold.epoch:
            hold.settled, hold.opened = rest, True
        else:
            yield from self._recover(p, hold, name, q)

    def _recover(self, p: Process, hold: Hold, name: str, q: Queue) -> Steps:
        pg, first = self.w.pg, not hold.epoch
        while not first:
            count = yield Request("pg", pg.take_back, (name, hold.token, 2))
            if count is None:
                p.holds.pop(name, None)
                return
            if count < 2:
                break
        epoch = self.w.new_epoch()
        named = yield Request("pg", lambda: pg.name_life(name, hold.token, epoch, first=first))
        if not named:
            p.holds.pop(name, None)
            return
        hold.epoch, hold.settled = epoch, 0
        hold.floor.reset()
        windows = yield Request("pg", pg.open_windows, (name,))
        answer = yield Request("redis", q.adopt, (hold.fence, windows))
        hold.opened = answer == "ok"

    # -- publish
    def _publish(self, p: Process, hold: Hold, name: str, q: Queue) -> Steps:
        w, pg = self.w, self.w.pg
        limit, read_at = 1 + w.choice.below(3), pg.now
        rows, snapshot = yield Request("pg", self._batch, (name, hold, limit))
        if hold.floor.must_read_again(snapshot):
            return
        if hold.must_find and not rows and hold.floor.seq:
            hold.floor.reset()
        hold.must_find = False
        later = [row for row in rows if self._waits(row)]
        ended = [row for row in rows if row.cancel and "cancel_by_relay" in w.on]
        rest = [row for row in rows if row not in later and row not in ended]
        wrote = False
        if later:
            count = yield Request("pg", pg.defer, (name, hold.fence, [row.id for row in later]))
            if not (yield from self._checked(p, hold, name, count)):
                return
            wrote |= bool(count)
        if ended:
            asked = [(row.id, row.life, row.settled, row.publications + 1) for row in ended]
            count = yield from self._end_cancelled(hold, name, q, asked)
            if not (yield from self._checked(p, hold, name, count)):
                return
            wrote |= bool(count)
        left: list[int] = []
        if rest:
            published = yield from self._send(p, hold, name, q, rest, read_at=read_at)
            if published is None:
                return
            wrote |= published[0]
            left = published[1]
        self._passed(hold, rows, left, limit, snapshot, wrote=wrote)

    def _batch(self, name: str, hold: Hold, limit: int) -> Any:
        rows, snapshot = self.w.pg.batch(name, hold.floor.seq, limit)
        return rows, snapshot

    def _waits(self, row: Row) -> bool:
        far = row.run_at is not None and row.run_at - self.w.pg.now > HORIZON
        return far and (not row.key or row.settled > 0) and not row.cancel

    def _passed(
        self, hold: Hold, rows: Sequence[Row], left: Sequence[int], limit: int, snapshot: Any, *, wrote: bool
    ) -> None:
        first_left = min(left, default=None)
        passed = [row.seq for row in rows if first_left is None or row.seq < first_left]
        last = passed[-1] if passed and wrote else None
        if "floor_waits" not in self.w.on:
            hold.floor.seq = last or hold.floor.seq
            return
        through = first_left is None and len(rows) < limit
        hold.floor.passed(last, through=through, snapshot=snapshot, now=self.w.now)

    def _send(
        self, p: Process, hold: Hold, name: str, q: Queue, rows: Sequence[Row], *, read_at: int
    ) -> Generator[Request, Any, tuple[bool, list[int]] | None]:
        pg, w = self.w.pg, self.w
        request = Request("redis", q.publish, (hold.fence, [pg.item(row) for row in rows]))
        words = (yield request) if "fresh_token" in w.on else (yield from insist(w.again, request))
        if isinstance(words, str):
            self._was_refused(p, hold, name, words)
            return None
        placed = [row for row, (_, owner) in zip(rows, words, strict=True) if owner is None]
        wrote = False
        if placed:
            shown = [(row.id, row.life, row.publications + 1) for row in placed]
            count = yield Request("pg", pg.mark, (name, hold.fence, shown))
            if not (yield from self._checked(p, hold, name, count)):
                return None
            wrote |= bool(count)
        duplicates = [(row, word, owner) for row, (word, owner) in zip(rows, words, strict=True) if owner]
        left: list[int] = []
        if duplicates:
            given = [(row.id, row.life, owner, word == "kept") for row, word, owner in duplicates]
            gone = yield Request("pg", pg.deduplicate, (name, hold.fence, given, read_at))
            wrote |= bool(gone)
            waiting = [(row, owner) for row, _, owner in duplicates if row.id not in gone]
            if waiting and not (yield from self._checked(p, hold, name, 0)):
                return None
            if waiting:
                ghosts = [owner for _, owner in waiting]
                yield Request("redis", q.forget, (hold.fence, ghosts))
                yield Request("redis", q.free, (hold.fence, [(row.key, owner, 0) for row, owner in waiting]))
            left = [row.seq for row, _ in waiting]
        return wrote, left

    def _was_refused(self, p: Process, hold: Hold, name: str, word: str) -> None:
        if word == "epoch":
            hold.opened = False
        elif p.holds.get(name) is hold:
            del p.holds[name]

    def _checked(self, p: Process, hold: Hold, name: str, changed: int) -> Generator[Request, Any, bool]:
        """A statement under the lease that changed nothing may have been refused: then the hold is dropped."""
        if changed or "looks_at_lease" not in self.w.on:
            return True
        held: bool = yield Request("pg", self.w.pg.is_held, (name, hold.fence))
        if not held and p.holds.get(name) is hold:
            del p.holds[name]
        return held

    def _end_cancelled(
        self, hold: Hold, name: str, q: Queue, rows: Sequence[tuple[Id, int, int, int]]
    ) -> Generator[Request, Any, int]:
        """Redis is asked first; only what it does not know ends here."""
        pg, losses = self.w.pg, self.w.ledger.losses
        words = yield Request("redis", self._cancel, (q, hold, [row[:3] for row in rows]))
        if isinstance(words, str):
            hold.opened = False
            return 0
        unknown = [row for row, word in zip(rows, words, strict=True) if word == "unknown"]
        known = [row for row, word in zip(rows, words, strict=True) if word != "unknown"]
        changed = 0
        if unknown:
            shown = [(job, life) for job, life, *_ in unknown]
            gone = yield Request("pg", pg.end_cancelled, (name, hold.fence, shown, losses))
            changed += len(gone)
            keys = [(key, job, window) for job, key, window, _ in gone if key]
            if keys:
                yield Request("redis", q.free, (hold.fence, keys))
            lanes = [(lane, job) for job, _, _, lane in gone if lane]
            if lanes and "vacate" in self.w.on:
                yield Request("redis", q.vacate, (hold.fence, lanes))
        if known:
            shown_numbers = [(job, life, number) for job, life, _, number in known]
            changed += yield Request("pg", pg.mark, (name, hold.fence, shown_numbers))
        return changed

    def _cancel(self, q: Queue, hold: Hold, rows: Sequence[tuple[Id, int, int]]) -> Any:
        words = q.cancel(hold.fence, rows)
        for (job, *_), word in zip(rows, words if not isinstance(words, str) else (), strict=False):
            if word == "ended":
                self.w.ledger.cancel_answered(job)
        return words

    # -- settle
    def _settle(self, hold: Hold, name: str, q: Queue) -> Steps:
        count = 1 + self.w.choice.below(8)
        found: list[tuple[int, list[Told], int]] = yield Request("redis", self._read, (q, hold.settled, count))
        if not found:
            return
        batch = [self._outcome(position, told, now) for position, outcomes, now in found for told in outcomes]
        yield Request("pg", self.w.pg.settle, (self._folded(batch),))
        if "tell_with_end" not in self.w.on:
            yield from self._tell_later()
        word = yield Request("redis", q.settled, (hold.fence, [position for position, *_ in found]))
        if word == "ok":
            hold.settled = found[-1][0]
        else:
            hold.opened = False

    @staticmethod
    def _read(q: Queue, after: int, count: int) -> list[tuple[int, list[Told], int]]:
        return [(each, list(q.k.outcomes[each]), q.now) for each in q.read_outcomes(after, count)]

    @staticmethod
    def _outcome(position: int, told: Told, now: int) -> Outcome:
        waits = told.word == "suspended" and told.due is None
        delay = 0 if told.due is None else max(0, told.due - now)
        return Outcome(str(position).encode(), told.id, told.word, told.life, told.number, told.attempts, delay, b"",  # type: ignore[arg-type]
                       WAITS if waits else b"")  # fmt: skip

    def _folded(self, batch: Sequence[Outcome]) -> list[Settlement]:
        """By the settler's own `fold`. Without the rule, which of two outcomes changes the row is not defined."""
        settlements = fold(batch)
        if "fold" not in self.w.on:
            chosen: dict[bytes, Any] = {}
            for outcome in batch:
                if outcome.job_id not in chosen or self.w.choice.below(2) == 0:
                    chosen[outcome.job_id] = fold([outcome])[0]
            settlements = list(chosen.values())
        return [
            Settlement(str(each.outcome.job_id), each.outcome.word, each.outcome.life, each.outcome.number,
                       each.outcome.attempts, int(each.outcome.delay_s), each.waits)
            for each in settlements
        ]  # fmt: skip

    def _tell_later(self) -> Steps:
        told = self.w.pg.untold
        while told:
            yield Request("pg", self.w.pg.tell_parent, told.pop())

    # -- what can wait
    def _beside(self, p: Process, hold: Hold, name: str, q: Queue) -> Steps:
        pg = self.w.pg
        p.turns += 1
        rows = yield Request("pg", pg.cancels, (name,))
        if rows:
            yield from self._end_cancelled(hold, name, q, rows)
        yield Request("pg", pg.come_due, (name,))
        look = p.turns % 4
        if look == 0:
            yield from self._audit(hold, name, q)
        elif look == 1 and "forget_ghosts" in self.w.on:
            jobs = yield Request("redis", q.some_jobs)
            rowless = jobs and (yield Request("pg", pg.rowless, (jobs,)))
            if rowless:
                yield Request("redis", q.forget, (hold.fence, rowless))
        elif look == 2 and "vacate" in self.w.on:
            lanes = yield Request("redis", q.some_lanes)
            rowless = lanes and (yield Request("pg", pg.rowless, ([job for _, job in lanes],)))
            if rowless:
                yield Request("redis", q.vacate, (hold.fence, [each for each in lanes if each[1] in rowless]))
        elif look == 3 and "audit_keys" in self.w.on:
            keys = yield Request("redis", q.some_keys)
            rowless = keys and (yield Request("pg", pg.rowless, ([job for _, job in keys],)))
            if rowless:
                gone = [(key, job, 0) for key, job in keys if job in rowless]
                yield Request("redis", q.free, (hold.fence, gone))

    def _audit(self, hold: Hold, name: str, q: Queue) -> Steps:
        rows = yield Request("pg", self.w.pg.published, (name,))
        missing = rows and (yield Request("redis", q.audit, (hold.fence, rows)))
        if missing == "epoch":
            hold.opened = False
        elif missing and not isinstance(missing, str):
            lost = [(job, life) for job, life, _ in rows if job in missing]
            yield Request("pg", self.w.pg.publish_again, (name, hold.fence, lost))
            hold.floor.reset()

    def _deliver(self, p: Process) -> Steps:
        yield Request("pg", self.w.pg.deliver)
