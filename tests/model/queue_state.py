"""One queue in Redis: what `lua/lib` does for its scripts. Times are those of Redis."""

from __future__ import annotations

from collections.abc import Callable

from tests.model.rules import ALL
from tests.model.values import UNTIL_IT_ENDS, Id, Item, Keys, Live, Outcome, Place, Run, Tombstone
from tests.model.witness import Witness


class QueueState:
    """The keys of a queue, and what several scripts do with them.

    Args:
        now: the time of Redis.
        on: the rules that hold.
    """

    def __init__(
        self, name: str, now: Callable[[], int], on: frozenset[str] = ALL, witness: Witness | None = None
    ) -> None:
        self.name, self.on, self.witness = name, on, witness or Witness()
        self._now = now
        self._ids = 0
        self.k = Keys()

    @property
    def now(self) -> int:
        return self._now()

    def next_id(self) -> int:
        """A stream's id: it grows also after a loss."""
        self._ids += 1
        return self._ids

    # -- entries and places
    def make_ready(self, job: Id, r: Live) -> None:
        entry = self.next_id()
        self.k.streams[r.stream][entry] = job
        self.k.unread[r.stream].append(entry)
        r.entry = entry

    def drop(self, stream: int, entry: int) -> None:
        self.k.streams[stream].pop(entry, None)
        self.k.pending[stream].pop(entry, None)
        if entry in self.k.unread[stream]:
            self.k.unread[stream].remove(entry)

    def drop_entry(self, r: Live) -> None:
        if isinstance(r.entry, int):
            self.drop(r.stream, r.entry)

    def placed(self, job: Id, rec: Live | Tombstone) -> bool:
        if isinstance(rec, Tombstone):
            return rec.outcome in self.k.outcomes
        if rec.entry is None:
            return job in self.k.due
        if isinstance(rec.entry, tuple):
            return (rec.lane, rec.entry, job) in self.k.behind
        return rec.entry in self.k.streams[rec.stream]

    def is_over(self, rec: Live | Tombstone, life: int, after: int) -> bool:
        return "after" in self.on and after > 0 and rec.life == life and rec.number <= after

    def run(self, job: Id) -> Run:
        return self.k.runs.get(job, Run())

    def forget_all(self, job: Id, *, keeps_lane: bool = False) -> None:
        rec = self.k.jobs.get(job)
        if isinstance(rec, Live):
            self.drop_entry(rec)
            if self.k.keys.get(rec.key) == job:
                self.drop_key(rec.key)
            if keeps_lane:
                self.step_out(job, rec)
            else:
                self.leave_lane(job, rec)
        self.k.jobs.pop(job, None)
        self.k.runs.pop(job, None)
        self.k.due.pop(job, None)
        self.k.cancels.discard(job)

    def drop_key(self, key: str) -> None:
        self.k.keys.pop(key, None)
        self.k.windows.pop(key, None)

    # -- keys
    def key_owner(self, key: str, job: Id) -> tuple[str, Id | None]:
        """new, or dup or kept and the job that has the key."""
        owner = self.k.keys.get(key)
        if owner is None or owner == job:
            return "new", None
        ends = self.k.windows.get(key)
        if ends is not None:
            if ends >= UNTIL_IT_ENDS:
                return "dup", owner
            return ("kept", owner) if ends > self.now else ("new", None)
        known = owner in self.k.jobs or "dedup_checks" not in self.on
        return ("dup", owner) if known else ("new", None)

    # -- lanes
    def head_of(self, lane: str) -> tuple[Id, bool] | None:
        head = self.k.lanes.get(lane)
        return head if head and (head[1] or head[0] in self.k.jobs) else None

    def waiting_in(self, lane: str) -> list[tuple[str, Place, Id]]:
        return sorted(each for each in self.k.behind if each[0] == lane)

    def is_led(self, rec: Live) -> bool:
        return not rec.is_behind or rec.lane in self.k.lanes

    def advance(self, lane: str) -> None:
        for member in self.waiting_in(lane):
            self.k.behind.discard(member)
            job = member[2]
            rec = self.k.jobs.get(job)
            if isinstance(rec, Live) and rec.entry == member[1] and rec.lane == lane:
                self.k.lanes[lane] = (job, False)
                self.make_ready(job, rec)
                return
        self.k.lanes.pop(lane, None)

    def may_run(self, job: Id, r: Live, unled: list[str] | None = None) -> bool:
        """Else it stands behind its lane now."""
        if not r.lane:
            return True
        head = self.head_of(r.lane)
        if head == (job, False):
            return True
        first = self.waiting_in(r.lane)
        if head == (job, True) or (not head and unled is None and not first):
            self.k.lanes[r.lane] = (job, False)
            return True
        place = (r.order, 0)
        if not r.order:
            place = (first[-1][1][0], first[-1][1][1] + 1) if first else (0, 1)
        self.k.behind.add((r.lane, place, job))
        r.entry = place
        if not head:
            if unled is None:
                self.advance(r.lane)
            else:
                unled.append(r.lane)
        return False

    def step_out(self, job: Id, r: Live) -> None:
        if isinstance(r.entry, tuple):
            self.k.behind.discard((r.lane, r.entry, job))

    def leave_lane(self, job: Id, r: Live) -> None:
        if not r.lane:
            return
        self.step_out(job, r)
        head = self.k.lanes.get(r.lane)
        if head and head[0] == job:
            self.advance(r.lane)

    def keep_lane(self, job: Id, r: Live) -> None:
        if "lane_kept" not in self.on:
            self.leave_lane(job, r)
        elif r.lane:
            head = self.k.lanes.get(r.lane)
            if not head or head == (job, False):
                self.k.lanes[r.lane] = (job, True)

    def place_in_lane(self, job: Id, r: Live, due: int | None, *, has_run: bool) -> None:
        self.k.jobs[job] = r
        if due is None:
            if self.may_run(job, r):
                self.make_ready(job, r)
            return
        self.k.due[job] = due
        head = self.head_of(r.lane)
        if not has_run:
            self.leave_lane(job, r)
        elif head == (job, True) or (not head and not self.waiting_in(r.lane)):
            self.k.lanes[r.lane] = (job, False)

    # -- ends
    def tell(self, position: int, job: Id, r: Live, run: Run, word: str, *, due: int | None) -> None:
        self.k.outcomes.setdefault(position, []).append(Outcome(job, word, r.life, r.number, run.attempts, due))

    def end(
        self, position: int, job: Id, r: Live, run: Run, word: str, *, consumer: str, due: int | None = None
    ) -> None:
        """A tombstone and an outcome. A suspended one keeps its key and its lane."""
        self.drop_entry(r)
        self.k.due.pop(job, None)
        self.tell(position, job, r, run, word, due=due)
        again = run.last is not None and run.last[1] == run.starts and "receipt" in self.on
        holder = run.last[0] if consumer == "-" and run.last is not None and again else consumer
        self.k.jobs[job] = Tombstone(position, r.number, run.starts, r.life, holder)
        self.k.runs.pop(job, None)
        self.k.cancels.discard(job)
        if word == "suspended":
            self.keep_lane(job, r)
        else:
            self.leave_lane(job, r)
        if r.key and self.k.keys.get(r.key) == job:
            if word == "suspended":
                self.k.windows[r.key] = UNTIL_IT_ENDS
            elif r.window > 0:
                self.k.windows[r.key] = self.now + r.window
            else:
                del self.k.keys[r.key]
        if consumer == "-":
            self.witness.over(job, word)

    def is_held(self, job: Id, r: Live) -> bool:
        """A worker has begun it, by the entry that it has now."""
        return r.has_entry and self.run(job).entry == r.entry

    def live_of(self, item: Item) -> Live:
        return Live(
            None, item.number, item.life, item.key, item.window, item.band, item.lane, item.order, item.body
        )  # fmt: skip
