"""The scripts of workers over one queue, each named as its file."""

from __future__ import annotations

from collections.abc import Sequence

from tests.model.queue_relay import RelayScripts
from tests.model.values import FINAL, FRONT, LEASE, MAX_LOSSES, Delivery, End, Id, Live, Run, Tombstone


class Queue(RelayScripts):
    """One queue in Redis: all of its scripts."""

    # -- deliveries
    def take(self, consumer: str, count: int = 1, lease: int = LEASE) -> list[Delivery]:
        if self.k.paused:
            return []
        found: list[tuple[int, int, Id]] = []
        for stream in (FRONT, 0, 1, 2):
            found += self._read(stream, consumer, count - len(found))
        return self._deliver(found, consumer, lease, again=False)

    def _read(self, stream: int, consumer: str, count: int) -> list[tuple[int, int, Id]]:
        new = self.k.unread[stream][: max(0, count)]
        del self.k.unread[stream][: max(0, count)]
        for entry in new:
            self.k.pending[stream][entry] = (consumer, self.now)
        return [(stream, entry, self.k.streams[stream][entry]) for entry in new]

    def wait(self, consumer: str) -> list[tuple[int, int, Id]]:
        """A blocking read, which is no script: one entry of each stream that has some."""
        return [each for stream in range(4) for each in self._read(stream, consumer, 1)]

    def begin(
        self, consumer: str, entries: Sequence[tuple[int, int, Id]], room: int = 1, lease: int = LEASE
    ) -> list[Delivery]:
        found: list[tuple[int, int, Id]] = []
        for stream, entry, job in entries:
            if self.k.pending[stream].get(entry, ("", 0))[0] != consumer:
                continue
            if (self.k.paused or len(found) >= room) and self.run(job).entry != entry:
                self._put_back(stream, entry, job)
            elif not self.k.paused:
                self.k.pending[stream][entry] = (consumer, self.now)
                found.append((stream, entry, job))
        return [] if self.k.paused else self._deliver(found, consumer, lease, again=True)

    def recall(self, consumer: str, lease: int = LEASE) -> list[Delivery]:
        found: list[tuple[int, int, Id]] = []
        for stream in range(4):
            for entry in sorted(e for e, (owner, _) in self.k.pending[stream].items() if owner == consumer):
                job = self.k.streams[stream].get(entry)
                if job is None:
                    del self.k.pending[stream][entry]
                elif self.k.paused and self.run(job).entry != entry:
                    self._put_back(stream, entry, job)
                else:
                    self.k.pending[stream][entry] = (consumer, self.now)
                    found.append((stream, entry, job))
        return self._deliver(found, consumer, lease, again=True)

    def _put_back(self, stream: int, entry: int, job: Id) -> None:
        rec = self.k.jobs.get(job)
        self.drop(stream, entry)
        if isinstance(rec, Live) and rec.entry == entry:
            self.make_ready(job, rec)

    def _deliver(
        self, found: Sequence[tuple[int, int, Id]], consumer: str, lease: int, *, again: bool
    ) -> list[Delivery]:
        deliveries: list[Delivery] = []
        for stream, entry, job in found:
            rec, run = self.k.jobs.get(job), self.k.runs.get(job)
            if not isinstance(rec, Live) or rec.entry != entry:
                self.drop(stream, entry)
                continue
            if run is None:
                run = Run(1, holder=consumer, entry=entry, lease=lease)
            elif run.entry != entry or (again and run.holder == consumer):
                run.starts += run.entry != entry or "begin_repeats" not in self.on
                run.holder, run.entry, run.lease = consumer, entry, lease
            else:
                continue
            self.k.runs[job] = run
            deliveries.append(
                Delivery(self.name, job, entry, stream, run.starts, rec.number, rec.life, run.attempts, run.losses,
                         rec.cancel, rec.body)
            )  # fmt: skip
        for d in deliveries:
            self.witness.delivered(d)
        return deliveries

    def reclaim(
        self, consumer: str, count: int = 1, lease: int = LEASE, max_losses: int = MAX_LOSSES
    ) -> list[Delivery]:
        if self.k.paused or 0 <= self.now - self.k.swept < lease / 4:
            return []
        found: list[tuple[int, int, Id]] = []
        position, more = self.next_id(), False
        for stream in range(4):
            late = sorted(e for e, (_, since) in self.k.pending[stream].items() if since + lease <= self.now)
            for entry in late:
                if len(found) >= count:
                    more = True
                    break
                job = self.k.streams[stream].get(entry)
                if job is None:
                    del self.k.pending[stream][entry]
                elif self._take_over(position, stream, entry, job, consumer, max_losses=max_losses):
                    found.append((stream, entry, job))
        if not more:
            self.k.swept = self.now
        return self._deliver(found, consumer, lease, again=True)

    def _take_over(self, position: int, stream: int, entry: int, job: Id, consumer: str, *, max_losses: int) -> bool:
        rec = self.k.jobs.get(job)
        if not isinstance(rec, Live) or rec.entry != entry:
            self.drop(stream, entry)
            return False
        run = self.run(job)
        if run.entry == entry:
            if self.now - self.k.pending[stream][entry][1] < run.lease:
                return False
            self.witness.lapsed(job, run.holder, entry, run.starts)
            run.losses += 1
            word = "cancelled" if rec.cancel else "dead" if run.losses >= max_losses else None
            if word:
                self.end(position, job, rec, run, word, consumer="-")
                return False
            run.holder, run.entry = "-", None
        self.k.pending[stream][entry] = (consumer, self.now)
        return True

    # -- holders
    def holds(self, consumer: str, job: Id, entry: int, start: int) -> bool:
        run, rec = self.run(job), self.k.jobs.get(job)
        if not isinstance(rec, Live) or run.starts != start:
            return False
        return "entry_checked" not in self.on or (run.holder == consumer and run.entry == entry)

    def renew(self, consumer: str, job: Id, entry: int, start: int, stream: int) -> str:
        """ok, lost or cancelled."""
        rec = self.k.jobs.get(job)
        if not isinstance(rec, Live) or not self.holds(consumer, job, entry, start):
            return "lost"
        if entry in self.k.pending[stream]:
            self.k.pending[stream][entry] = (consumer, self.now)
        return "cancelled" if rec.cancel else "ok"

    def overtake(
        self, consumer: str, job: Id, entry: int, start: int, above: tuple[int, int]
    ) -> tuple[int, int] | None:
        """A token above one that stands in Postgres, for whom Redis knows as the holder."""
        rec, run = self.k.jobs.get(job), self.run(job)
        if not isinstance(rec, Live) or rec.entry != entry or run.entry != entry or run.holder != consumer:
            return None
        higher = max(start + 1, above[1]) + 1
        if run.starts == start:
            run.starts, rec.number = higher, max(rec.number, above[0])
        elif run.starts != higher:
            return None
        return max(rec.number, above[0]), higher

    def finish(self, consumer: str, ends: Sequence[End]) -> list[str]:
        """A word for each: ok, repeat, lost or gone."""
        position, accepted = self.next_id(), dict[Id, tuple[int, int]]()
        recs, runs = {e.id: self.k.jobs.get(e.id) for e in ends}, {e.id: self.k.runs.get(e.id) for e in ends}
        words: list[str] = []
        for end in ends:
            if end.id in accepted:
                words.append("repeat" if accepted[end.id] == (end.entry, end.start) else "lost")
            elif self.holds(consumer, end.id, end.entry, end.start):
                accepted[end.id] = (end.entry, end.start)
                self._accept(position, consumer, end)
                words.append("ok")
            else:
                words.append(self._refusal(consumer, end, recs[end.id], runs[end.id]))
        return words

    def _refusal(self, consumer: str, end: End, rec: Live | Tombstone | None, run: Run | None) -> str:
        if rec is None:
            return "gone"
        if isinstance(rec, Tombstone):
            return "repeat" if (rec.consumer, rec.start) == (consumer, end.start) else "lost"
        known = run is not None and run.last == (consumer, end.start) and "receipt" in self.on
        return "repeat" if known else "lost"

    def _accept(self, position: int, consumer: str, end: End) -> None:
        rec, run = self.k.jobs[end.id], self.k.runs[end.id]
        if end.word == "over":  # it has ended in Postgres already
            self.forget_all(end.id)
            return
        assert isinstance(rec, Live)
        word = "cancelled" if rec.cancel and end.word not in FINAL else end.word
        if word in FINAL or word == "suspended":
            run.attempts += end.counted
            back_at = self.now + end.delay if word == "suspended" and end.delay >= 0 else None
            self.end(position, end.id, rec, run, word, consumer=consumer, due=back_at)
        else:
            self._come_back(position, consumer, end, rec, run)

    def _come_back(self, position: int, consumer: str, end: End, r: Live, run: Run) -> None:
        self.drop_entry(r)
        if end.word != "limited":
            run.losses = 0
        run.attempts += end.counted
        run.last = (consumer, run.starts)
        run.holder, run.entry, run.lease = "-", None, 0
        r.entry = None
        if end.word == "retry" and end.skips:
            self.leave_lane(end.id, r)
        woken, r.woken = r.woken, False
        if end.word == "limited" and woken:
            r.front = True
            self.make_ready(end.id, r)
        elif end.word == "released":
            self.make_ready(end.id, r)
        else:
            r.front = False
            r.parked = r.parked or end.word == "parked"
            r.limited = r.limited or end.word == "limited"
            self.k.due[end.id] = self.now + end.delay
            if end.word != "limited":
                self.tell(position, end.id, r, run, end.word, due=self.now + end.delay)

    # -- what waits
    def promote(self) -> tuple[int, int | None, set[Id]]:
        """How many moved, time until the next one is due, and the running jobs whose cancel was asked for."""
        k, unled = self.k, list[str]()
        ripe = sorted((at, job) for job, at in k.due.items() if at <= self.now)
        for _, job in ripe:
            rec = k.jobs.get(job)
            if isinstance(rec, Live) and rec.entry is None:
                rec.front, rec.parked, rec.limited = rec.limited, False, False
                if self.may_run(job, rec, unled):
                    self.make_ready(job, rec)
        for lane in unled:
            if not self.head_of(lane):
                self.advance(lane)
        for _, job in ripe:
            del k.due[job]
        wait = min(k.due.values(), default=None)
        for job in list(k.cancels):
            if not isinstance(k.jobs.get(job), Live):
                k.cancels.discard(job)
        return len(ripe), None if wait is None else max(0, wait - self.now), set(k.cancels)

    def bury(self, grace: int) -> int:
        """How many settled outcomes went, with the tombstones that name them."""
        k = self.k
        old = [position for position, at in k.graves.items() if at <= self.now - grace]
        for position in old:
            for outcome in k.outcomes.get(position, ()):
                rec = k.jobs.get(outcome.id)
                if isinstance(rec, Tombstone) and rec.outcome == position:
                    del k.jobs[outcome.id]
                elif "bury_compares" not in self.on and rec is not None:
                    self.forget_all(outcome.id)
            k.outcomes.pop(position, None)
            del k.graves[position]
        if not old and not k.graves:
            for position in [each for each in k.outcomes if each <= k.settled]:
                k.graves[position] = self.now
        for key in [key for key, until in k.windows.items() if until <= self.now]:
            self.drop_key(key)
        return len(old)

    def wake(self, jobs: Sequence[tuple[Id, int]]) -> list[str]:
        """Jobs that wait for a limit go to the front: a word each: woken, held, ready or gone."""
        return [self._wake(job, delay) for job, delay in jobs]

    def _wake(self, job: Id, delay: int) -> str:
        rec = self.k.jobs.get(job)
        if not isinstance(rec, Live):
            return "gone"
        if rec.entry is not None:
            if not self.is_held(job, rec):
                return "ready"
            rec.woken = rec.woken or delay == 0
            return "held"
        if not rec.limited:
            return "gone"
        if delay > 0:
            self.k.due[job] = self.now + delay
        else:
            self.k.due.pop(job, None)
            rec.front, rec.limited = True, False
            self.make_ready(job, rec)
        return "woken"

    def holder(self, key: str) -> Id | None:
        """Who has an idempotency key now, or in its window."""
        return self.key_owner(key, "")[1]
