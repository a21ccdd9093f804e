"""The scripts of relays over one queue, each named as its file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.model.queue_state import QueueState
from tests.model.values import UNTIL_IT_ENDS, Fence, Id, Item, Live, Run, Tombstone


class RelayScripts(QueueState):
    """Every one but `open` and `adopt` answers stale below the fence and epoch in another life, and writes nothing."""

    def refusal(self, fence: Fence) -> str | None:
        if self.k.epoch != fence.epoch:
            return "epoch"
        return "stale" if fence.token < self.k.fence else None

    def open(self, token: int, *, paused: bool = False) -> tuple[str, str, int]:
        """ok, epoch and settled position; or stale and the fence."""
        if token < self.k.fence:
            return "stale", "", self.k.fence
        if "fence_first" in self.on:
            self.k.fence = token
        self.k.paused = paused
        return "ok", self.k.epoch, self.k.settled

    def adopt(self, fence: Fence, held: Iterable[tuple[str, Id, int]] = ()) -> str:
        k = self.k
        if fence.token < k.fence:
            return "stale"
        k.epoch, k.fence = fence.epoch, fence.token if "fence_first" in self.on else k.fence
        for key, job, left in held:
            if left == -2:
                k.lanes.setdefault(key, (job, True))
            elif k.keys.get(key) is None or k.keys[key] not in k.jobs:
                if k.keys.get(key) != job:
                    k.windows.pop(key, None)
                k.keys[key] = job
                k.windows.setdefault(key, UNTIL_IT_ENDS if left < 0 else self.now + left)
        return "ok"

    def publish(self, fence: Fence, items: Sequence[Item]) -> str | list[tuple[str, Id | None]]:
        """A word for each: new, repeat, or dup or kept and the job that has the key."""
        refused = self.refusal(fence)
        if refused:
            return refused
        if "fence_first" not in self.on:
            self.k.fence = fence.token
        fresh: set[Id] = set()
        return [self._place(item, fresh) for item in items]

    def _place(self, item: Item, fresh: set[Id]) -> tuple[str, Id | None]:
        k, rec, starts, last = self.k, self.k.jobs.get(item.id), 0, None
        if item.id in fresh:
            return "repeat", None
        if rec is not None and self.is_over(rec, item.life, item.after):
            starts, last = self._starts_of(item.id, rec)
        elif rec is not None and self._counts_as_placed(item, rec):
            return "repeat", None
        if rec is not None or ((item.id in k.runs or item.id in k.due) and "publish_place" in self.on):
            self.forget_all(item.id, keeps_lane=rec is not None)
        if item.key:
            word, owner = self._take_key(item)
            if owner is not None:
                if isinstance(rec, Live):
                    self.leave_lane(item.id, rec)
                return word, owner
        fresh.add(item.id)
        self._put(item, self.live_of(item))
        if item.attempts or starts:
            k.runs[item.id] = Run(starts, item.attempts, last=last)
        self.witness.placed(item.id)
        return "new", None

    def _take_key(self, item: Item) -> tuple[str, Id | None]:
        """Whoever ran before its key was lost to another goes on without it."""
        word, owner = self.key_owner(item.key, item.id)
        if owner is None:
            self.k.keys[item.key] = item.id
            self.k.windows.pop(item.key, None)
        return word, owner if item.after == 0 else None

    def _counts_as_placed(self, item: Item, rec: Live | Tombstone) -> bool:
        if item.life > rec.life and "lives" in self.on:
            return False
        if "publish_place" not in self.on:
            return True
        return self.placed(item.id, rec) and (isinstance(rec, Tombstone) or self.is_led(rec))

    def _starts_of(self, job: Id, rec: Live | Tombstone) -> tuple[int, tuple[str, int] | None]:
        if isinstance(rec, Tombstone):
            return rec.start, (rec.consumer, rec.start) if rec.consumer != "-" else None
        return self.run(job).starts, self.run(job).last

    def _put(self, item: Item, r: Live) -> None:
        if item.lane:
            due = self.now + item.delay if item.delay > 0 else None
            self.place_in_lane(item.id, r, due, has_run=bool(item.attempts or item.after))
            return
        self.k.jobs[item.id] = r
        if item.delay > 0:
            self.k.due[item.id] = self.now + item.delay
        else:
            self.make_ready(item.id, r)

    def settled(self, fence: Fence, positions: Sequence[int]) -> str:
        refused = self.refusal(fence)
        if refused == "epoch" or (refused and "settled_fenced" in self.on):
            return refused
        for position in positions:
            self.k.graves.setdefault(position, self.now)
        if positions:
            self.k.settled = positions[-1]
        return "ok"

    def cancel(self, fence: Fence, rows: Sequence[tuple[Id, int, int]]) -> str | list[str]:
        """A word for each row of id, life and settled publication: ended, running, over or unknown."""
        refused = self.refusal(fence)
        if refused:
            return refused
        answered: dict[Id, str] = {}
        position = self.next_id()
        for job, life, after in rows:
            if job not in answered:
                answered[job] = self._cancel(position, job, life, after)
        return [answered[job] for job, _, _ in rows]

    def _cancel(self, position: int, job: Id, life: int, after: int) -> str:
        rec = self.k.jobs.get(job)
        if rec is None or not self.placed(job, rec):
            return "unknown"
        if self.is_over(rec, life, after):
            if isinstance(rec, Live):
                self.forget_all(job)
            return "unknown"
        older = rec.life < life and "lives" in self.on
        if isinstance(rec, Tombstone):
            return "unknown" if older else "over"
        if older:
            self.forget_all(job)
            return "unknown"
        if not self.is_held(job, rec):
            self.end(position, job, rec, self.run(job), "cancelled", consumer="-")
            return "ended"
        rec.cancel = True
        self.k.cancels.add(job)
        return "running"

    def move(self, fence: Fence, rows: Sequence[tuple[Id, int, int, int, int]]) -> str | list[str]:
        """A word for each row of id, life, settled, band and delay: moved, running, over or unknown."""
        refused = self.refusal(fence)
        return refused or [self._move(*row) for row in rows]

    def _move(self, job: Id, life: int, after: int, band: int, delay: int) -> str:
        rec = self.k.jobs.get(job)
        if rec is None or not self.placed(job, rec) or rec.life != life or self.is_over(rec, life, after):
            return "unknown"
        if isinstance(rec, Tombstone):
            return "over"
        if self.is_held(job, rec):
            return "running"
        if rec.is_behind:
            rec.band = band
            if delay > 0:
                self.step_out(job, rec)
                rec.entry = None
                self.k.due[job] = self.now + delay
        elif rec.has_entry:
            self._move_in_line(job, rec, band, delay)
        else:
            self._move_in_due(job, rec, band, delay)
        return "moved"

    def _move_in_line(self, job: Id, rec: Live, band: int, delay: int) -> None:
        has_place = delay <= 0 and (rec.front or rec.band == band)
        if not has_place:
            self.drop_entry(rec)
            rec.entry = None
        rec.band = band
        if delay > 0:
            rec.front = False
            self.k.due[job] = self.now + delay
            if not self.run(job).attempts:
                self.leave_lane(job, rec)
        elif not has_place:
            self.make_ready(job, rec)

    def _move_in_due(self, job: Id, rec: Live, band: int, delay: int) -> None:
        rec.band = band
        if delay >= 0:
            rec.limited = False
        if delay > 0:
            self.k.due[job] = self.now + delay
        elif delay == 0:
            del self.k.due[job]
            rec.parked = False
            if self.may_run(job, rec):
                self.make_ready(job, rec)

    def audit(self, fence: Fence, rows: Sequence[tuple[Id, int, int]]) -> str | list[Id]:
        """Those of these published rows that are not placed."""
        refused = self.refusal(fence)
        if refused:
            return refused
        return [job for job, life, after in rows if not self._is_here(job, life, after)]

    def _is_here(self, job: Id, life: int, after: int) -> bool:
        rec = self.k.jobs.get(job)
        if rec is None or (rec.life != life and "lives" in self.on) or self.is_over(rec, life, after):
            return False
        if "audit_place" not in self.on:
            return True
        return self.placed(job, rec) and (isinstance(rec, Tombstone) or self.is_led(rec))

    def forget(self, fence: Fence, jobs: Sequence[Id]) -> str | int:
        refused = self.refusal(fence)
        if refused:
            return refused
        gone = 0
        for job in jobs:
            if self._is_ghost(job):
                self.forget_all(job)
                gone += 1
        return gone

    def _is_ghost(self, job: Id) -> bool:
        rec = self.k.jobs.get(job)
        if rec is None:
            return True
        if isinstance(rec, Tombstone):
            return not self.placed(job, rec)
        if not self.is_held(job, rec) or not isinstance(rec.entry, int):
            return True
        pending = self.k.pending[rec.stream].get(rec.entry)
        return pending is None or pending[1] + self.run(job).lease <= self.now

    def free(self, fence: Fence, held: Sequence[tuple[str, Id, int]]) -> str | int:
        """Keys of jobs that ended in Postgres without Redis hearing of it go, or stay for their window; how many."""
        refused = self.refusal(fence)
        if refused:
            return refused
        changed = 0
        for key, job, window in held:
            is_endless = self.k.windows.get(key, UNTIL_IT_ENDS) >= UNTIL_IT_ENDS
            ours = self.k.keys.get(key) == job and is_endless
            if ours and not isinstance(self.k.jobs.get(job), Live):
                changed += 1
                if window > 0:
                    self.k.windows[key] = self.now + window
                else:
                    self.drop_key(key)
        return changed

    def vacate(self, fence: Fence, lanes: Sequence[tuple[str, Id]]) -> str | int:
        """Lanes whose head has no row any more go on; how many did."""
        refused = self.refusal(fence)
        if refused:
            return refused
        went_on = 0
        for lane, job in lanes:
            head, rec = self.k.lanes.get(lane), self.k.jobs.get(job)
            is_live = isinstance(rec, Live) and self.placed(job, rec)
            if head == (job, True) or (head == (job, False) and not is_live):
                self.advance(lane)
                went_on += 1
        return went_on

    # -- looks of a relay
    def read_outcomes(self, after: int, count: int) -> list[int]:
        """The positions of at most so many entries behind one."""
        return [position for position in self.k.outcomes if position > after][:count]

    def some_jobs(self) -> list[Id]:
        return [*self.k.jobs, *(job for job in self.k.runs if job not in self.k.jobs)]

    def some_lanes(self) -> list[tuple[str, Id]]:
        return [(lane, job) for lane, (job, _) in self.k.lanes.items()]

    def some_keys(self) -> list[tuple[str, Id]]:
        return list(self.k.keys.items())
