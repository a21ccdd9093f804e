"""What Postgres does for durable runs: claims, records, events, children."""

from __future__ import annotations

from tests.model.postgres import Postgres, Row
from tests.model.values import Delivery, Id


class PostgresOfRuns(Postgres):
    """Records of a run: done, `waiting event`, `waiting child`, or `failed`."""

    def fenced(self, d: Delivery, holder: str) -> bool:
        """Whether the attempt's token does not stand."""
        row = self.t.rows.get(d.id)
        return row is None or row.life != d.life or row.fence != d.token or row.holder != holder

    def claim(self, d: Delivery, holder: str) -> tuple[str, tuple[int, int] | None, dict[str, str]]:
        """Ok and all records; behind and the token that stands; or gone."""
        row = self.t.rows.get(d.id)
        if row is None or (row.life != d.life and "lives" in self.on) or row.settled >= d.number:
            return "gone", None, {}
        known = row.holder is None or row.holder == holder
        if row.fence is None or row.fence < d.token or (row.fence == d.token and known):
            self.writes()
            row.fence, row.holder, row.wake_at = d.token, holder, None
            return "ok", row.fence, dict(self.t.steps.get(d.id, {}))
        return "behind", row.fence, {}

    def put(self, d: Delivery, holder: str, name: str, state: str = "done") -> str:
        """Ok or refused."""
        if self.fenced(d, holder):
            return "refused"
        self.writes()
        self.t.steps.setdefault(d.id, {})[name] = state
        if state == "done":
            self.ledger.recorded(d.id, name)
        return "ok"

    def wait(self, d: Delivery, holder: str) -> str:
        """done, waiting or refused."""
        if self.fenced(d, holder):
            return "refused"
        self.writes()
        records = self.t.steps.setdefault(d.id, {})
        if records.get("wait") != "done":
            sent = self.t.events.get(d.id, "").startswith("sent")
            records["wait"] = "done" if sent else "waiting event"
            if sent:
                self.t.events[d.id] = "taken"
        return "done" if records["wait"] == "done" else "waiting"

    def send(self, job: Id) -> None:
        self.writes()
        self.t.events.setdefault(job, "sent")

    def deliver(self) -> None:
        """New events are handed to the runs that wait for them."""
        for job, state in list(self.t.events.items()):
            waits = job in self.t.rows and self.t.steps.get(job, {}).get("wait") == "waiting event"
            if state == "sent" and waits:
                self.t.steps[job]["wait"] = "done"
                self.t.events[job] = "taken"
                self.wake_told(job)

    def wake_told(self, job: Id) -> None:
        """At once where nothing else is open, else in a while."""
        row = self.t.rows.get(job)
        if row is None:
            return
        self.writes()
        busy = any(state.startswith("waiting") for state in self.t.steps.get(job, {}).values())
        at = self.now + 1 if busy else self.now
        if row.state == "suspended" and not busy:
            self.stage_run(row)
        elif row.state == "suspended":
            row.run_at = min(at, row.run_at) if row.run_at is not None else at
        elif "wake_level" in self.on:
            row.wake_at = min(at, row.wake_at) if row.wake_at is not None else at

    # -- children
    def call(self, d: Delivery, holder: str, name: str, child: Row) -> str:
        """The record of a child, and its row: staged where the record took it. ok or refused."""
        refused = self.fenced(d, holder)
        if refused and "call_is_fenced" in self.on:
            return "refused"
        records = self.t.steps.setdefault(d.id, {})
        is_new = records.get(name) != "done" and self.t.children.get((d.id, name)) != child.id
        if is_new or "call_is_fenced" not in self.on:
            if child.id in self.ledger.book:
                return "ok"
            if not refused:
                records[name] = "waiting child"
                self.t.children[d.id, name] = child.id
            xid = self.begin()
            self.commit(xid, [self.stage(xid, child)])
            self.ledger.called(d.id, name, child.id)
        return "refused" if refused else "ok"

    def tell_parent(self, child: Id, word: str) -> None:
        for (parent, name), called in self.t.children.items():
            records = self.t.steps.get(parent, {})
            if called == child and records.get(name) == "waiting child":
                records[name] = "done" if word == "done" else "failed"
                self.ledger.parent_told(parent, child)
                self.wake_told(parent)

    def end_done(self, d: Delivery, holder: str) -> str:
        """The effect of a transactional job and its end, in one commit."""
        if self.fenced(d, holder):
            return "refused"
        self.writes()
        self.ledger.took_effect(d.id)
        self.end(self.t.rows[d.id], "done")
        return "ok"
