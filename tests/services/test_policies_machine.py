"""Keys with policies among other calls in any order: each policy keeps its word, and no job is lost or ends twice."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
from hypothesis.stateful import initialize

from redisjobs.broker import Outcome, Publication, policy_text
from tests.services.test_broker_machine import ACTIONS, Machine, run_machine
from tests.support.builders import publication

PERIOD_MS = 600_000
POLICIES = ("throttle", "debounce", "replace")


class PolicyMachine(Machine):
    """The same, and jobs of three keys with a policy each. Their times lie far ahead until `time_passes`."""

    made: int
    actions: Sequence[str] = (*ACTIONS, *("publish_by_policy",) * 6, *("publish_late",) * 2, *("time_passes",) * 2)

    @initialize()
    def open(self) -> None:
        super().open()
        self.orders: dict[bytes, int] = {}
        self.policies: dict[bytes, str] = {}
        self.throttled: bytes | None = None
        self.later: dict[bytes, bytes] = {}
        self.replaced: dict[bytes, bytes] = {}

    # -- the relay
    def publish_by_policy(self, pick: int, n: int, twice: bool) -> None:
        self.made += 1
        self.place(POLICIES[pick % 3], self.made, twice)

    def publish_late(self, pick: int, n: int, twice: bool) -> None:
        """A row from further up the line: its transaction was open for long, or Redis had lost it."""
        self.made += 1
        self.place(POLICIES[1 + pick % 2], max(1, self.made - 1 - n), twice)

    def place(self, policy: str, order: int, twice: bool) -> None:
        text = policy_text(policy, window_ms=PERIOD_MS, wait_ms=PERIOD_MS, order=order)
        job = publication(job_id=self.made.to_bytes(16, "big"), key=policy.encode(), policy=text)
        self.orders[job.job_id], self.policies[job.job_id] = order, policy
        waiting = self.live_of(policy)
        ((word, owner),) = self.do(self.q.publish(job))
        if word in ("new", "replaces"):
            self.rows[job.job_id] = job
        getattr(self, f"{policy}_keeps_its_word")(job, word, owner, waiting)
        if twice:
            again = self.do(self.q.publish(job))
            assert again == [("repeat", None) if word == "new" else (word, owner)]

    def throttle_keeps_its_word(self, job: Publication, word: str, owner: bytes | None, waiting: set[bytes]) -> None:
        assert (word, owner) == (("new", None) if self.throttled is None else ("kept", self.throttled))
        self.throttled = self.throttled or job.job_id

    def debounce_keeps_its_word(self, job: Publication, word: str, owner: bytes | None, waiting: set[bytes]) -> None:
        fresh = {job_id for job_id in waiting if self.starts(job_id) == 0}
        assert len(fresh) <= 1, "two of a burst wait"
        is_late = any(self.orders[job.job_id] <= self.orders[each] for each in fresh)
        assert (word, owner) == (("dup", next(iter(fresh))) if is_late else ("new", None))
        if not is_late:
            self.later |= dict.fromkeys(fresh, job.job_id)
            assert self.live_of("debounce") == waiting - fresh | {job.job_id}

    def replace_keeps_its_word(self, job: Publication, word: str, owner: bytes | None, waiting: set[bytes]) -> None:
        flagged = self.q.redis.smembers(self.q.key("cancels"))
        if word == "dup":
            assert self.orders[job.job_id] <= self.orders[owner or b""]
            assert owner in waiting
        else:
            assert self.live_of("replace") - flagged == {job.job_id}, "two of a key live, and none is asked to end"
            if word == "replaces":
                self.replaced[job.job_id] = owner or b""

    def told_again(self, job: Publication) -> tuple[str, bytes | None]:
        """Whose end is asked for is told until the job that replaced it has ended: the row may not say so yet."""
        if job.job_id in self.replaced and not job.life and job.job_id in self.live_of("replace"):
            return "replaces", self.replaced[job.job_id]
        return super().told_again(job)

    def superseded(self, outcome: Outcome) -> None:
        assert msgpack.unpackb(outcome.record)["by"] == self.later[outcome.job_id]
        assert self.starts(outcome.job_id) == 0, "it had begun"

    def time_passes(self, pick: int, n: int, twice: bool) -> None:
        """So much that every wait and every period is over."""
        for name in ("due", "windows"):
            for member in self.q.redis.zrange(self.q.key(name), 0, -1):
                self.q.redis.zincrby(self.q.key(name), -PERIOD_MS - 1, member)
        self.throttled = None

    # -- what is known
    def live_of(self, policy: str) -> set[bytes]:
        """The jobs of a policy that live in Redis, whatever their rows say."""
        of_it = [job_id for job_id in self.rows if self.policies.get(job_id) == policy and not self.rows[job_id].life]
        records = {job_id: self.q.record(job_id) for job_id in of_it}
        return {job_id for job_id, record in records.items() if record and not record.startswith(b"!")}

    def starts(self, job_id: bytes) -> int:
        return sum(token[0] == job_id for token in self.tokens)

    def keys_have_one_owner(self, owners: dict[bytes, bytes], live: set[bytes]) -> None:
        plain = {key: owner for key, owner in owners.items() if key.decode() not in POLICIES}
        super().keys_have_one_owner(plain, live - self.policies.keys())

    def to_the_end(self) -> None:
        for _ in range(2):
            self.time_passes(0, 0, twice=False)
            self.promote(0, 0, twice=False)
        super().to_the_end()


def test_policies_keep_their_word_whatever_else_happens(redis_url: str):
    run_machine(PolicyMachine, redis_url, examples=20)
