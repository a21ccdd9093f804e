"""`redisjobs explain`: where a job is, why it does not run, and what happens next, in many situations (P2)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis as redis_py
from psycopg import sql

from redisjobs.base.ids import new_id
from redisjobs.broker import Heart, Presence
from redisjobs.broker.values import Publication
from redisjobs.broker.view import View
from redisjobs.record import ErrorRecord, pack
from tests.support.builders import Conn, envelope, finish, publication, stage
from tests.support.cli import CommandLine
from tests.support.eventually import eventually, eventually_now
from tests.support.proxy import Proxy
from tests.support.queue import QueueByHand
from tests.support.redis_versions import AnyRedis
from tests.support.relays import Hand, RelayByHand, hand, relay_by_hand

HOLD = """INSERT INTO redisjobs.queues (queue, holder, token, epoch, lease_until)
          VALUES ('q', 'relay-1', 1, %s, now() + %s::interval) ON CONFLICT (queue) DO NOTHING"""
LATER_MS = 3 * 3_600_000
FAILURE = ErrorRecord(attempt=1, at="2026-01-02T03:04:05", type="ValueError", message="boom", traceback="…")


class Told:
    """An explanation as it was printed, twice."""

    def __init__(self, document: dict[str, Any], text: str) -> None:
        self.place, self.where, self.next = document["place"], document["where"], document["next"]
        self.codes = [each["code"] for each in document["reasons"]]
        self.why = " ".join(each["text"] for each in document["reasons"])
        self.commands, self.notes = document["commands"], " ".join(document["notes"])
        self.document, self.text = document, text


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


@pytest.fixture
def explain(redisjobs: CommandLine) -> Callable[..., Told]:
    """Explain a job, as text and as JSON, which must agree."""

    def ask(job: UUID, code: int = 0, **options: str) -> Told:
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        told = Told(
            redisjobs.json("explain", job, *words, code=code), redisjobs("explain", job, *words, code=code).stdout
        )
        assert told.place.replace("_", " ") in told.text
        assert told.where[:25] in told.text
        return told

    return ask


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url, name="relay-1", lease=600) as made:
        yield made


@pytest.fixture
async def worker(redis_url: str) -> AsyncIterator[Hand]:
    heart = Heart(redis_url)
    heart.tell("worker-1", Presence("worker-1", state="running", queues=["q"], slots={"q": 10}).pack())
    heart.close()
    async with hand(redis_url, "worker-1") as made:
        yield made


def when(word: str, explain: Callable[..., Told], job: UUID) -> Told:
    """The explanation, once it has this place or this reason."""
    eventually_now(lambda: word in ((told := explain(job)).place, *told.codes), f"the job is {word}")
    return explain(job)


def held(conn: Conn, left: str = "10 min") -> None:
    """Queue q is held by relay-1."""
    conn.execute(HOLD, [None, left])


def staged(conn: Conn, /, **columns: Any) -> UUID:
    """A committed row of queue q."""
    job = stage(conn, "mail", queue="q", **columns)
    conn.commit()
    return job


def change(conn: Conn, job: UUID, assignments: str) -> None:
    conn.execute(f"UPDATE redisjobs.outbox SET {assignments} WHERE id = %s".encode(), [job])
    conn.commit()


async def in_redis(conn: Conn, q: QueueByHand, /, row: dict[str, Any] | None = None, **given: Any) -> UUID:
    """A job of queue q as it is once it is published: its row marked, and Redis has it; relay-1 holds the queue."""
    job = staged(conn, **(row or {}))
    conn.execute(HOLD, ["life-1", "10 min"])
    change(conn, job, "state = 'published', published_at = now(), publications = 1")
    await q.publish(publication("mail", job_id=job.bytes, **given))
    return job


# -- in Postgres
def test_an_id_that_nobody_knows_was_never_committed(explain: Callable[..., Told]):
    told = explain(new_id(), code=1)

    assert told.place == "unknown"
    assert told.where.startswith("Neither Postgres nor Redis knows it")
    assert "most likely its transaction was rolled back or has not committed yet" in told.why
    assert told.next == "Nothing happens, unless its transaction is still open: it is then a job at its commit."


def test_an_old_id_that_nobody_knows_may_have_ended(explain: Callable[..., Told]):
    told = explain(UUID("0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f"), code=1)

    assert "it ended and was dropped after its retention (or was purged)" in told.why
    assert "these cannot be told apart" in told.why


def test_an_id_that_tells_no_time_is_explained_without_one(explain: Callable[..., Told]):
    assert "Its id was made" not in explain(uuid4(), code=1).why


def test_a_transaction_that_is_open_is_named(explain: Callable[..., Told], conn: Conn):
    job = stage(conn, "mail", queue="q")

    assert "1 transaction is open that wrote to this database" in explain(job, code=1).notes


def test_a_row_that_no_relay_publishes(explain: Callable[..., Told], conn: Conn):
    told = explain(staged(conn, max_attempts=5))

    assert told.place == "staged"
    assert told.where == "It is committed, and stands in the outbox of Postgres; it is not in Redis yet."
    assert told.why == "No relay runs: none holds any queue."
    assert told.next.startswith(
        "Once a relay runs, it publishes it within moments of its turn; then a worker of queue q"
    )
    assert "starts attempt 1 of 5" in told.next
    assert told.commands == ["redisjobs relay"]


def test_a_row_whose_relay_is_gone_while_another_one_runs(explain: Callable[..., Told], conn: Conn):
    held(conn, "-3 h")
    conn.execute("INSERT INTO redisjobs.queues (queue, holder, lease_until) VALUES ('x', 'relay-2', now() + '10 min')")

    told = explain(staged(conn))

    assert "No relay holds queue q now; relay-1 held it until 3 h ago; relay-2 runs" in told.why
    assert told.next.startswith("The relay that takes the queue publishes it")


def test_a_row_in_line_behind_others_of_a_relay_that_lags(explain: Callable[..., Told], conn: Conn):
    held(conn)
    first = staged(conn)
    change(conn, first, "staged_at = now() - interval '5 min'")
    staged(conn)

    told = explain(staged(conn))

    assert told.codes[:2] == ["rows_before", "relay_lags"]
    assert "2 rows of the queue are published before it." in told.why
    assert "the oldest row of the queue has waited for 5 min" in told.why
    assert told.next.startswith("Relay relay-1 publishes it")


def test_a_row_that_cannot_be_published(explain: Callable[..., Told], conn: Conn):
    held(conn)
    job, behind = staged(conn), staged(conn)
    note = {"id": str(job), "job": "mail", "error": "StoreRefused: no"}
    conn.execute("UPDATE redisjobs.queues SET failing = %s", [json.dumps(note)])
    conn.commit()

    itself, other = explain(job), explain(behind)

    assert "A relay tried to publish it and could not: StoreRefused: no." in itself.why
    assert "until it is set aside or that is mended" in itself.next
    assert f"Row {job} (mail) cannot be published and stops the queue: StoreRefused: no." in other.why
    assert "publishes it once the queue goes on" in other.next
    assert itself.commands == other.commands == [f"redisjobs outbox set-aside {job}"]


def test_a_row_that_waits_behind_the_horizon(explain: Callable[..., Told], conn: Conn):
    held(conn)
    job = staged(conn, run_at="2100-01-02 03:04:05+00")
    change(conn, job, "state = 'deferred'")

    told = explain(job)

    assert told.place == "deferred"
    assert told.where.startswith("It waits in Postgres until it is within the relay's horizon (1 h, or --horizon)")
    assert told.where.endswith("at 2100-01-02 03:04:05 UTC.")
    assert told.next == "Relay relay-1 publishes it then; at its time a worker starts attempt 1."


def test_a_row_that_was_set_aside(explain: Callable[..., Told], conn: Conn):
    held(conn)
    job = staged(conn)
    note = {"id": str(job), "job": "mail", "error": "StoreRefused: no."}
    conn.execute("UPDATE redisjobs.queues SET failing = %s", [json.dumps(note)])
    conn.execute("SELECT redisjobs.set_aside(ARRAY[%s])", [job])
    conn.execute("UPDATE redisjobs.queues SET failing = NULL")
    conn.commit()

    told = explain(job)
    conn.execute("SELECT redisjobs.set_aside(ARRAY[%s], false)", [job])
    conn.commit()

    assert explain(job).document["postgres"]["error"] is None
    assert told.place == "set_aside"
    assert told.why == "It stopped its queue: StoreRefused: no."
    assert told.where == "It stands in the outbox of Postgres, out of the line: an operator set it aside."
    assert told.next.startswith("Nothing happens until somebody puts it back")
    assert f"redisjobs outbox put-back {job}" in told.commands


async def test_a_row_whose_key_another_job_has(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    owner = await in_redis(conn, q, {"idempotency_key": "k"}, key=b"k")

    told = explain(staged(conn, idempotency_key="k"))

    assert f"Job {owner} has its idempotency key" in told.why
    assert told.next.startswith("Relay relay-1 ends it as deduplicated")
    assert f"redisjobs explain {owner}" in told.commands


def test_a_row_that_cannot_go_into_a_full_redis(redisjobs: CommandLine, conn: Conn, start_redis: Callable[..., Any]):
    server = start_redis(maxmemory="8mb")
    with server.client() as client:
        client.mset({f"rj:ballast:{each}": "x" * 1_000_000 for each in range(6)})
    held(conn)

    found = redisjobs.json("explain", staged(conn), "--redis-url", server.url)

    assert found["reasons"][0]["code"] == "redis_full"
    assert "once the queue goes on" in found["next"]


# -- in Redis
async def test_a_job_that_waits_for_a_worker(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    for _ in range(2):
        await in_redis(conn, q)
    job = await in_redis(conn, q, {"max_attempts": 3})
    await in_redis(conn, q, {"priority": 5}, band=0)

    told = explain(job)

    assert told.place == "waiting"
    assert told.where == "It is in Redis, and waits for a worker of queue q."
    assert told.why == (
        "No worker serves queue q: none says that it does. 2 jobs of its band wait before it, and 1 in higher bands."
    )
    assert told.next == "Once a worker serves the queue, it starts attempt 1 of 3."
    assert told.commands == ["redisjobs worker MODULE:APP --queues q"]


async def test_a_job_that_waits_in_its_lane(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    first = await in_redis(conn, q, lane=b"user 42", order=1)
    job = await in_redis(conn, q, lane=b"user 42", order=2)

    told = explain(job)

    assert told.place == "behind"
    assert told.where == f"It is in Redis, and waits in lane 'user 42' of queue q for job {first}, which goes first."
    assert told.next.startswith("When that has ended, the next of the lane may run, in the order of publishing; then")
    assert told.commands == [f"redisjobs explain {first}"]
    assert explain(first).place == "waiting"

    q.redis.delete(q.key("lanes"))
    told = explain(job)
    assert (
        told.where == "It is in Redis, and waits in lane 'user 42' of queue q, which no job has: Redis lost who had it."
    )
    assert told.next.startswith("The lane goes on when its next job comes, or the relay's audit finds this one")

    q.redis.delete(q.key("behind"))
    assert explain(job).place == "lost"


async def test_a_job_behind_busy_workers(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    await in_redis(conn, q)
    await q.take_one("worker-1")
    q.present("worker-1", slots=1)
    job = await in_redis(conn, q)

    told = explain(job)

    assert told.why == "The worker of the queue runs 1 job now; it starts when a slot is free."
    assert told.next == "The next worker of the queue that has a free slot starts attempt 1."


async def test_a_job_of_a_queue_whose_workers_fell_silent(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    q.present("worker-9", seen_s=60)
    job = await in_redis(conn, q)

    told = explain(job)

    assert "No worker serves queue q: its worker worker-9 fell silent 60 s ago" in told.why
    assert told.next.startswith("Once a worker serves the queue, it starts")


async def test_a_job_of_a_paused_queue(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    await q.take("worker-1")
    q.present("worker-1")
    job = await in_redis(conn, q)
    conn.execute("SELECT redisjobs.pause('q')")
    conn.commit()
    before = explain(job)
    await q.open(paused=True)
    after = explain(job)

    assert "a relay has yet to tell Redis" in before.why
    assert after.why == "Queue q is paused: none of its jobs starts."
    assert after.next == "Once the queue is resumed, a worker with a free slot starts attempt 1."
    assert after.commands == ["redisjobs queues resume q"]


async def test_a_job_that_a_worker_read_and_did_not_begin(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    await q.take("worker-1")  # makes the group
    q.present("worker-1")
    job = await in_redis(conn, q)
    assert await q.broker.wait("q", "worker-1", 10)

    told = explain(job)

    assert told.place == "read"
    assert "worker worker-1 read it" in told.where
    assert told.next.startswith("The worker begins attempt 1 within moments")


async def test_a_job_that_runs(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q, {"max_attempts": 4})
    await q.take_one("worker-1", lease_ms=LATER_MS)

    told = explain(job)

    assert told.place == "running"
    assert told.where.startswith("It runs on worker worker-1: its attempt 1 of 4. Its lease was renewed")
    assert "and ends in 3 h, at" in told.where
    assert told.next.startswith("When its body ends, the worker says how, and the relay settles that")


async def test_a_job_whose_worker_died(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q)
    await q.take_one("worker-1", lease_ms=1)
    q.present("worker-1")

    told = when("lapsed", explain, job)

    assert "It ran on worker worker-1, whose lease lapsed" in told.where
    assert told.next == (
        "Another worker of the queue with a free slot takes it over and starts attempt 1 again; "
        "the lost lease is counted."
    )


async def test_a_job_that_lost_its_workers_again_and_again(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q)
    await q.take_one("worker-1", lease_ms=1)
    q.present("worker-1")
    await eventually(lambda: q.reclaim("worker-2"), "the lease has lapsed")
    await eventually(lambda: q.reclaim("worker-3"), "the lease has lapsed again")

    told = when("lapsed", explain, job)

    assert "Its lease was lost 2 times in a row while it ran" in told.why
    assert "where that makes max_losses (3), it becomes a dead letter" in told.next


async def test_a_job_that_is_delayed(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    q.present("worker-1")
    told = explain(await in_redis(conn, q, delay_ms=LATER_MS))

    assert told.place == "delayed"
    assert told.where.startswith("It is in Redis, and waits for its time: due in 3 h, at ")
    assert told.codes == []
    assert told.next == "At its time a worker of the queue moves it to its stream, and starts attempt 1."


async def test_a_job_that_was_given_another_time_says_so_until_redis_knows(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand
):
    q.present("worker-1")
    job = await in_redis(conn, q)
    conn.execute("SELECT redisjobs.reschedule(%s, delay => '1 h')", [job])
    conn.commit()

    told = explain(job)

    assert told.place == "waiting"
    assert "It was given another priority or time: the relay moves it there in Redis within moments." in told.notes


async def test_a_job_that_is_retried(explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand):
    job = staged(conn, max_attempts=3)
    await relay.rounds()
    record = pack(error=FAILURE)
    delivery = await worker.one("q")
    await worker.broker.finish("q", "worker-1", [finish(delivery, "retry", delay_ms=LATER_MS, record=record)])
    before = explain(job)
    await worker.broker.mark_dirty(["q"])
    await relay.rounds()
    told = explain(job)

    assert (before.place, before.why) == ("retrying", "Attempt 1 failed; its error is on the way to Postgres.")
    assert told.place == "retrying"
    assert told.where.startswith("It is in Redis, and waits for its next attempt: due in 3 h, at ")
    assert told.why == "Attempt 1 failed: ValueError: boom."
    assert told.next.endswith("starts attempt 2 of 3.")


async def test_a_job_that_snoozed(explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand):
    job = staged(conn)
    await relay.rounds()
    await worker.run("snooze", queue="q", delay_ms=LATER_MS)
    before = explain(job)
    await relay.rounds()
    told = explain(job)

    for each in (before, told):
        assert each.place == "snoozed"
        assert each.where.startswith("It is in Redis, snoozed by its own body: due in 3 h")
        assert each.next.endswith("starts attempt 1.")


def waits(conn: Conn, job: UUID, name: str, kind: str, **columns: object) -> None:
    """An open record of a run."""
    names = ", ".join(columns)
    conn.execute(
        f"INSERT INTO redisjobs.steps (run, name, kind, state, awaited, {names})"
        f" VALUES (%s, %s, %s, 'waiting', true, {', '.join(['%s'] * len(columns))})".encode(),
        [job, name, kind, *columns.values()],
    )
    conn.commit()


async def test_a_run_that_is_suspended_says_what_it_waits_for(
    explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand, redisjobs: CommandLine
):
    job, child = staged(conn), uuid4()
    await relay.rounds()
    conn.execute("UPDATE redisjobs.outbox SET fence = '{1,1}', holder = 'worker-1'")
    waits(conn, job, "paid", "event", event="paid", key="order 7")
    waits(conn, job, "sub", "child", child=child)
    await worker.run("suspended", queue="q", delay_ms=LATER_MS, record=pack(waits=True))
    assert explain(job).place == "settling"
    assert "let go of its worker" in explain(job).where
    await relay.rounds()

    told = explain(job)

    assert told.place == "suspended"
    assert "takes no worker and no room in Redis" in told.where
    assert told.codes == ["waits"]
    assert told.why == f"It waits for event 'paid' with key 'order 7', for ever; for job {child}, its child 'sub'."
    assert "redisjobs events send paid 'order 7'" in told.commands
    assert "in 3 h" in told.next
    assert [each["id"] for each in redisjobs.json("jobs", "list", "--state", "suspended")["jobs"]] == [str(job)]
    assert "1 suspended" in redisjobs("status").stdout


async def test_a_run_that_sleeps_says_until_when(
    explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand
):
    near, far = staged(conn), staged(conn)
    await relay.rounds()
    for job, seconds in ((near, 1800), (far, 10_800)):
        waits(conn, job, "cool off", "sleep", due=datetime.now(UTC) + timedelta(seconds=seconds))
        await worker.run("suspended", queue="q", count=1, delay_ms=seconds * 1000, record=pack())
    await relay.rounds()

    assert (explain(near).place, explain(far).place) == ("delayed", "deferred")
    for job in (near, far):
        told = explain(job)
        assert told.codes == ["waits"]
        assert told.why.startswith("It waits for the end of sleep 'cool off', in ")


async def test_a_run_that_was_woken_is_not_told_as_lost_by_redis(
    explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand
):
    job = staged(conn)
    await relay.rounds()
    await worker.run("suspended", queue="q", delay_ms=-1, record=pack(waits=True))
    await relay.rounds()
    conn.execute('UPDATE redisjobs.outbox SET undo = true, ending = \'{"word": "cancelled"}\'')
    conn.execute("SELECT redisjobs.stage_runs(ARRAY[%s])", [job])
    conn.commit()

    told = explain(job)

    assert told.place == "staged"
    assert "It was suspended, and goes on from what it has recorded." in told.notes
    assert "It ends as cancelled; before that its undos are run." in told.notes
    assert "Redis lost it" not in told.notes


async def test_a_job_whose_name_nobody_knows(
    explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand
):
    job = staged(conn)
    await relay.rounds()
    await worker.run("parked", queue="q", delay_ms=30_000)
    await relay.rounds()

    told = explain(job)

    assert told.place == "parked"
    assert told.where.startswith("It is in Redis, parked: no worker that looked knows its name.")
    assert told.why == (
        "The name 'mail' is unknown to the workers of queue q: worker worker-1 looked last, and its app declares "
        "none of that name. Those that serve it now: worker-1."
    )
    assert "until a worker takes it whose app declares the job: finish the deploy" in told.next


async def test_a_waiting_job_whose_cancel_was_asked_for(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q)
    conn.execute("SELECT redisjobs.cancel(%s)", [job])
    conn.commit()

    told = explain(job)

    assert told.codes == ["cancel_requested"]
    assert told.next == "Relay relay-1 ends it as cancelled."
    conn.execute("UPDATE redisjobs.queues SET lease_until = now() - interval '1 s'")
    conn.commit()
    assert explain(job).next == "Once a relay runs, it ends it as cancelled."


async def test_a_running_job_whose_cancel_was_asked_for(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q)
    await q.take_one("worker-1")
    await q.carrier.cancel(q.fence, [(job.bytes, 0, 0)])

    told = explain(job)

    assert told.place == "running"
    assert told.codes == ["cancel_requested"]
    assert told.next.startswith("The worker is told within about a second, and cancels the body")


def test_a_staged_job_whose_cancel_was_asked_for(explain: Callable[..., Told], conn: Conn):
    held(conn)
    job = staged(conn)
    change(conn, job, "cancel_requested = true")

    assert explain(job).next == "Relay relay-1 ends it as cancelled."


async def test_a_job_that_expires_while_it_waits(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    await q.take("worker-1")
    soon = await in_redis(conn, q, expire_ms=LATER_MS)
    late = await in_redis(conn, q, expire_ms=-1)

    assert "unless that is later than its expiry (in 3 h" in explain(soon).next
    told = when("expired", explain, late)
    assert told.next == "The next worker that takes it ends it as expired, without running it."


async def test_an_end_that_is_not_settled_yet(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q)
    await q.finish(await q.take_one("worker-1"), consumer="worker-1")

    told = explain(job)

    assert told.place == "settling"
    assert told.where == "It ended as done by worker worker-1; that stands in Redis, and is not in Postgres yet."
    assert told.next.startswith("Relay relay-1 settles it: its row leaves the outbox")
    conn.execute("UPDATE redisjobs.queues SET lease_until = now() - interval '1 s'")
    conn.commit()
    assert explain(job).next.startswith("Once a relay runs, it settles it")


async def test_a_job_that_redis_lost_with_all_its_data(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, redis: redis_py.Redis
):
    job = await in_redis(conn, q)
    redis.flushall()

    told = explain(job)

    assert told.place == "lost"
    assert told.where == "Its row says that it is in Redis (published), and Redis does not have it."
    assert told.why.startswith("Redis lost the data of the queue: its rows were published in life life-1")
    assert told.next.startswith("Relay relay-1 publishes again what has not ended of the queue, in order")


async def test_a_job_that_redis_lost_alone(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, redis: redis_py.Redis
):
    job, torn = await in_redis(conn, q), await in_redis(conn, q)
    redis.hdel("rj:{q}:jobs", job.bytes)
    redis.delete("rj:{q}:ready:1")

    for each in (job, torn):
        told = explain(each)
        assert told.place == "lost"
        assert "Redis lost this job alone" in told.why
        assert told.next.startswith("Relay relay-1 publishes it again when its audit comes to the row")


async def test_a_job_that_is_published_again_after_a_loss(
    explain: Callable[..., Told], conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    job = staged(conn)
    await relay.rounds()
    redis.flushall()
    change(conn, job, "state = 'staged'")

    told = explain(job)

    assert told.place == "staged"
    assert told.where.endswith("it is not in Redis any more.")
    assert "It was published once before" in told.notes


async def test_a_job_without_a_row(explain: Callable[..., Told], q: QueueByHand):
    direct: Publication = publication(envelope("ping"), direct=True)
    await q.broker.enqueue_direct("q", [direct])

    told = explain(UUID(bytes=direct.job_id))

    assert (told.place, told.document["job"], told.document["queue"]) == ("waiting", "ping", "q")
    assert "It was put into Redis directly: it has no row in Postgres, and is lost if Redis is." in told.notes


async def test_an_end_that_postgres_does_not_keep(
    explain: Callable[..., Told], conn: Conn, database_url: str, redis_url: str, worker: Hand
):
    job = staged(conn)
    async with relay_by_hand(database_url, redis_url, retention=0) as forgetful:
        await forgetful.rounds()
        await worker.run(queue="q")
        await forgetful.rounds()

    told = explain(job)

    assert told.place == "settling"
    assert told.where == "It ended as done by worker worker-1, and Postgres keeps no row of it."
    assert told.next == "Nothing more happens; Redis forgets it within about a minute."


async def test_a_job_is_traced_on_every_redis(any_redis: AnyRedis):
    async with QueueByHand(any_redis.url) as q:
        running, first, waiting, due, done = (publication() for _ in range(5))
        due.delay_ms = 60_000
        await q.publish(running, due)
        await q.take_one(lease_ms=20_000)
        await q.publish(done)
        await q.finish(await q.take_one())
        await q.publish(first, waiting)
        with View(any_redis.url) as view:
            traces = [view.trace("q", each.job_id) for each in (running, due, done, waiting)]
            assert view.trace("q", b"0" * 16) is None
            assert view.longest_held("q", 60.0) == []
        found = [each for each in traces if each is not None]

    assert [each.spot for each in found] == ["running", "due", "ended", "waiting"]
    assert 0 < (found[0].lease_left_s or 0) <= 20
    assert 0 < (found[1].due_in_s or 0) <= 60
    assert (found[2].word, found[2].holder, found[2].settled) == ("done", "w1", False)
    assert found[3].before == 1


# -- ended
async def test_jobs_that_have_ended(explain: Callable[..., Told], conn: Conn, relay: RelayByHand, worker: Hand):
    ends: dict[str, UUID] = {}
    for word in ("done", "dead", "cancelled", "expired"):
        ends[word] = staged(conn, max_attempts=2)
        await relay.rounds()
        await worker.run(word, queue="q")
        await relay.rounds()

    told = {word: explain(job) for word, job in ends.items()}

    assert {word: each.place for word, each in told.items()} == {word: word for word in ends}
    assert told["done"].where.startswith("It is done: it ended well ")
    assert "its row is dropped after " in told["done"].next
    assert "Redis still remembers its end" in told["done"].notes
    assert told["dead"].where.startswith("It is a dead letter since ")
    assert "It was given up after 1 of 2 counted attempts" in told["dead"].why
    assert told["dead"].next.startswith("Nothing happens until it is redriven")
    assert f"redisjobs dead redrive {ends['dead']}" in told["dead"].commands
    assert "it was not started, for it was past its expiry" in told["expired"].where
    assert told["cancelled"].where.startswith("It is cancelled: it ended so ")


def test_a_dead_letter_names_its_last_error_and_lives(explain: Callable[..., Told], conn: Conn):
    job = new_id()
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, reason, attempts, max_attempts, redrives, failures)"
        " VALUES (%s, 'bill', 'q', 'it was its last attempt', 5, 5, 2, %s)",
        [job, json.dumps([FAILURE])],
    )
    conn.commit()

    told = explain(job)

    assert told.why == (
        "It was given up after 5 of 5 counted attempts: it was its last attempt. The last error was ValueError: boom."
    )
    assert "redriven 2 times; its id was made" in told.notes


async def test_a_duplicate_names_the_job_that_it_is_one_of(
    explain: Callable[..., Told], conn: Conn, relay: RelayByHand
):
    first, second = staged(conn, idempotency_key="k"), staged(conn, idempotency_key="k")
    await relay.rounds()

    told = explain(second)

    assert told.place == "deduplicated"
    assert f"as a duplicate of job {first}, which is published now" in told.where
    assert told.why == f"Job {first} had its idempotency key (k) when it was to be published."
    assert told.commands == [f"redisjobs explain {first}"]


async def test_a_job_that_ended_and_that_redis_still_has(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    job = await in_redis(conn, q)
    await q.take_one("worker-1")
    conn.execute("DELETE FROM redisjobs.outbox")
    conn.execute(
        "INSERT INTO redisjobs.finished (id, job, queue, state, keep_until)"
        " VALUES (%s, 'mail', 'q', 'done', now() + interval '1 h')",
        [job],
    )
    conn.commit()

    told = explain(job)

    assert told.place == "done"
    assert "Redis still has it, and worker worker-1 runs it" in told.notes


# -- what cannot be asked
async def test_without_redis_the_rest_is_told_and_the_code_is_69(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand
):
    job, waiting = await in_redis(conn, q), staged(conn)

    told = explain(job, code=69, redis_url="redis://127.0.0.1:1")

    assert told.place == "unseen"
    assert told.where == "Its row says that it is in Redis (published); Redis could not be asked."
    assert "Redis could not be asked: Redis does not answer" in told.why
    assert explain(waiting, code=69, redis_url="redis://127.0.0.1:1").codes[0] == "redis_down"


async def test_without_postgres_the_rest_is_told_and_the_code_is_69(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, redis: redis_py.Redis
):
    job = await in_redis(conn, q)
    redis.sadd("rj:queues", "q")
    down = "postgresql://127.0.0.1:1/none"

    told = explain(job, code=69, database_url=down)

    assert told.place == "waiting"
    assert "Postgres could not be asked" in told.notes
    assert "it may be committed and not published yet" in explain(new_id(), code=69, database_url=down).where


def test_without_both_stores_it_is_an_error(redisjobs: CommandLine):
    down = ("--database-url", "postgresql://127.0.0.1:1/none", "--redis-url", "redis://127.0.0.1:1")

    assert "Postgres does not answer" in redisjobs("explain", new_id(), *down, code=69).stderr


def test_arguments_are_never_shown(redisjobs: CommandLine, conn: Conn):
    job = stage(conn, "mail", {"card": "4111-marker"})
    conn.commit()

    assert "4111-marker" not in redisjobs("explain", job).output + redisjobs("explain", job, "--json").output


# -- what it costs
async def test_it_only_reads_and_needs_no_more_than_to_look(
    redisjobs: CommandLine, conn: Conn, q: QueueByHand, role: Callable[[str], str]
):
    jobs = [await in_redis(conn, q), staged(conn), new_id(), await in_redis(conn, q, delay_ms=LATER_MS)]
    await q.take_one("worker-1")
    before = (rows(conn), q.dump())

    for job in jobs:
        redisjobs("explain", job, "--database-url", role("operator"), code=1 if job == jobs[2] else 0)

    assert (rows(conn), q.dump()) == before


async def test_it_asks_a_bounded_number_of_questions(
    redisjobs: CommandLine, conn: Conn, q: QueueByHand, redis_proxy: Proxy, postgres_proxy: Proxy
):
    for _ in range(50):
        await in_redis(conn, q)
        staged(conn)
    through = ("--redis-url", redis_proxy.url, "--database-url", postgres_proxy.url)

    redisjobs("explain", await in_redis(conn, q), *through)
    known = redis_proxy.commands.total(), postgres_proxy.commands.total()
    redisjobs("explain", staged(conn), *through)
    redisjobs("explain", new_id(), *through, code=1)

    assert known <= (40, 12)
    assert redis_proxy.commands.total() <= 3 * 36
    assert postgres_proxy.commands.total() <= 3 * 12


def rows(conn: Conn) -> list[object]:
    """Everything in every table."""
    tables = ("outbox", "queues", "dead", "finished", "migrations")
    found = [
        conn.execute(sql.SQL("SELECT t::text FROM redisjobs.{} t ORDER BY 1").format(sql.Identifier(each)))
        .fetchall()
        for each in tables
    ]  # fmt: skip
    conn.commit()
    return list(found)
