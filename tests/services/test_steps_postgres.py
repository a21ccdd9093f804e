"""The step store in Postgres: many writes in one statement, locks of others, lost connections, poolers, rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from redisjobs import App, ConfigurationError
from redisjobs.base.postgres import Database, was_rolled_back
from redisjobs.errors import DatabaseUnavailable, StepRefused, StoreRefused
from redisjobs.steps import Ending, JobDone, StepRecord, Token
from redisjobs.steps import postgres as module
from redisjobs.steps.postgres import PostgresSteps
from redisjobs.steps.writer import Writer
from redisjobs.worker import Worker
from tests.conftest import Conn
from tests.support.eventually import eventually
from tests.support.pgbouncer import PgBouncer
from tests.support.proxy import Proxy
from tests.support.runs import AnyRuns, app, child_of, done


class Counted(Database):
    """Remembers what was asked, and how many connections there were."""

    asked: list[str]

    async def alone(self, what: str, statement: bytes, parameters: Any) -> Any:
        self.asked.append(what)
        return await super().alone(what, statement, parameters)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of stores made from now on, as they are called in errors."""
    monkeypatch.setattr(Counted, "asked", [], raising=False)
    monkeypatch.setattr(module, "Database", Counted)
    return Counted.asked


# -- group commit
async def test_what_is_ready_in_one_turn_of_the_loop_travels_in_one_statement(runs: AnyRuns, asked: list[str]):
    tokens = [runs.token() for _ in range(30)]

    await asyncio.gather(*(runs.claim(token) for token in tokens))
    assert asked == ["claim runs"]
    await asyncio.gather(*(runs.store.put(token, done(token, f"s{n}")) for token in tokens for n in range(3)))
    assert asked == ["claim runs", "write a step"]
    await asyncio.gather(
        *(runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting"), child_of()) for token in tokens)
    )
    await asyncio.gather(
        *(runs.store.wait(token, StepRecord(token.run, "w", "event", event="paid", key="")) for token in tokens)
    )

    assert asked == ["claim runs", "write a step", "call a child", "wait for events"]
    for token in tokens:
        assert [each.name for each in await runs.store.list(token.run)] == ["s0", "s1", "s2", "kid", "w"]


async def test_what_gathers_while_one_is_in_flight_travels_in_the_next(runs: AnyRuns, asked: list[str]):
    tokens = await asyncio.gather(*(runs.begin() for _ in range(20)))
    asked.clear()
    first = asyncio.create_task(runs.store.put(tokens[0], done(tokens[0], "first")))
    await eventually(lambda: asked == ["write a step"], "the first is on its way")

    await asyncio.gather(first, *(runs.store.put(token, done(token, "next")) for token in tokens))

    assert asked == ["write a step"] * 2


async def test_a_lone_write_is_sent_in_the_turn_in_which_it_is_asked(runs: AnyRuns, asked: list[str]):
    token = await runs.begin()
    asked.clear()

    task = asyncio.create_task(runs.store.put(token, done(token)))
    for _ in range(5):  # the task, the call, the flight, the opened pool
        await asyncio.sleep(0)

    assert asked == ["write a step"]
    await task


async def test_a_replay_of_a_thousand_records_is_one_statement(runs: AnyRuns, asked: list[str]):
    token = await runs.begin()
    await asyncio.gather(*(runs.store.put(token, done(token, f"step {n}")) for n in range(1000)))
    asked.clear()

    claim = await runs.claim(token)

    assert asked == ["claim runs"]
    assert [each.name for each in claim.records] == [f"step {n}" for n in range(1000)]


async def test_one_that_postgres_cannot_take_hurts_no_other_of_its_batch(runs: AnyRuns, asked: list[str]):
    tokens = await asyncio.gather(*(runs.begin() for _ in range(8)))
    asked.clear()
    records = [done(token) for token in tokens]
    records[3].codec = None  # a value without a codec breaks a rule of the table

    answers = await asyncio.gather(
        *(runs.store.put(token, record) for token, record in zip(tokens, records, strict=True)), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [type(None)] * 3 + [StoreRefused] + [type(None)] * 4
    assert "codec_goes_with_value" in str(answers[3])
    assert len(asked) <= 8
    for token in tokens:
        assert len(await runs.store.list(token.run)) == (0 if token is tokens[3] else 1)


async def test_a_write_whose_waiter_has_gone_is_not_sent(runs: AnyRuns, asked: list[str]):
    token, other = await runs.begin(), await runs.begin()
    held = asyncio.create_task(runs.store.put(other, done(other)))
    await eventually(lambda: asked[-1] == "write a step", "one is on its way")
    gone = asyncio.create_task(runs.store.put(token, done(token)))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(held, gone, return_exceptions=True)
    await runs.store.put(other, done(other, "more"))

    assert await runs.store.list(token.run) == []


# -- locks of others
async def test_a_run_that_somebody_has_locked_holds_up_no_other(runs: AnyRuns):
    """Case: a user cancels one job in a transaction, and leaves that open."""
    locked, free = await runs.begin(), await runs.begin()
    other = runs.connect()
    other.execute("SELECT redisjobs.cancel(%s)", (locked.run,))

    held = asyncio.gather(
        runs.store.put(locked, done(locked)),
        runs.store.wait(locked, StepRecord(locked.run, "w", "event", event="paid", key="")),
        runs.store.put(locked, StepRecord(locked.run, "kid", "child", "waiting"), child_of()),
        runs.claim(runs.token(locked.run, start=2)),
        return_exceptions=True,
    )
    await asyncio.gather(
        runs.store.put(free, done(free)),
        runs.store.wait(free, StepRecord(free.run, "w", "event", event="paid", key="")),
        runs.store.put(free, StepRecord(free.run, "kid", "child", "waiting"), child_of()),
        runs.claim(free),
    )
    assert not held.done()
    other.commit()
    answers = await held

    assert getattr(answers[3], "word", None) == "ok"
    written = {each.name for each in await runs.store.list(locked.run)}
    for name, answer in zip(("charge", "w", "kid"), answers[:3], strict=True):
        assert isinstance(answer, StepRefused) != (name in written)


async def test_a_row_that_stays_locked_is_given_up_in_the_end(runs: AnyRuns, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("redisjobs.steps.writer.BUSY_S", 0.1)
    token = await runs.begin()
    runs.connect().execute("SELECT redisjobs.cancel(%s)", (token.run,))

    with pytest.raises(DatabaseUnavailable, match="another transaction has had the run's row locked"):
        await runs.store.put(token, done(token))


async def test_a_deadlock_is_repeated_without_anybody_hearing_of_it():
    sent: list[Any] = []

    async def send(questions: Any) -> list[int]:
        sent.append(list(questions))
        if len(sent) < 3:
            error = DatabaseUnavailable("write: deadlock detected")
            raise error from (
                psycopg.errors.DeadlockDetected() if len(sent) == 1 else psycopg.errors.SerializationFailure()
            )
        return [10 * each for each in questions]

    writer = Writer[int, int]("write", send, lambda each: each)

    assert list(await asyncio.gather(writer.ask(1), writer.ask(2))) == [10, 20]
    assert sent == [[1, 2], [1, 2], [1, 2]]


async def test_a_real_deadlock_is_known_as_one(runs: AnyRuns, database_url: str):
    first, second = await runs.begin(), await runs.begin()
    database = Database(database_url)
    await database.open()
    both = asyncio.Barrier(2)

    async def lock(*ids: Any) -> None:
        async with database.transaction("lock") as connection:
            await connection.execute("SET LOCAL lock_timeout = 0")
            for place, run in enumerate(ids):
                await connection.execute("SELECT 1 FROM redisjobs.outbox WHERE id = %s FOR UPDATE", (run,))
                if place == 0:
                    await both.wait()

    answers = await asyncio.gather(lock(first.run, second.run), lock(second.run, first.run), return_exceptions=True)
    await database.close()

    lost = [answer for answer in answers if isinstance(answer, DatabaseUnavailable)]
    assert len(lost) == 1
    assert was_rolled_back(lost[0])


# -- outages
async def test_nothing_connects_before_the_first_question(database_url: str, conn: Conn):
    store = PostgresSteps(database_url)
    PostgresSteps("postgresql://nowhere.invalid/none")

    assert _sessions(conn) == 0
    assert await store.list(uuid4()) == []
    assert _sessions(conn) > 0

    await store.close()
    await eventually(lambda: _sessions(conn) == 0, "the connections are given back")
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await store.list(uuid4())


def _sessions(conn: Conn) -> int:
    conn.rollback()
    found = conn.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'redisjobs'"
    ).fetchone()
    assert found is not None
    return int(str(found[0]))


async def test_a_worker_of_plain_jobs_opens_no_connection_to_postgres(redis_url: str, conn: Conn, database_url: str):
    app = App("plain", database_url=database_url, redis_url=redis_url)
    ran: list[int] = []

    @app.job
    async def plain(number: int) -> None:
        ran.append(number)

    await plain.enqueue_direct(1)
    worker = Worker(app, burst=True, drain_on_shutdown=False)
    await worker.start()
    await eventually(lambda: ran == [1], "the job has run")

    assert _sessions(conn) == 0
    await worker.stop()
    await app.close()


async def test_a_lost_connection_is_told_to_each_waiter_and_the_same_call_succeeds_later(
    runs: AnyRuns, postgres_proxy: Proxy
):
    store = PostgresSteps(postgres_proxy.url)
    tokens = await asyncio.gather(*(runs.begin() for _ in range(5)))
    await store.list(tokens[0].run)
    postgres_proxy.down()

    answers = await asyncio.gather(*(store.put(token, done(token)) for token in tokens), return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 5
    assert len({id(answer) for answer in answers}) == 5

    postgres_proxy.heal()

    async def written() -> bool:
        again = [store.put(token, done(token)) for token in tokens]
        return await asyncio.gather(*again, return_exceptions=True) == [None] * 5

    await eventually(written, "the pool has let go of its dead connections")
    assert [len(await store.list(token.run)) for token in tokens] == [1] * 5
    await store.close()


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("write_steps", "put"),
        ("called AS", "call"),
        ("wait_for_event", "wait"),
        ("claim_runs", "claim"),
        ("ending", "end"),
    ],
)
async def test_a_call_whose_reply_was_lost_may_be_made_again(
    runs: AnyRuns, postgres_proxy: Proxy, conn: Conn, statement: str, kind: str
):
    store, child = PostgresSteps(postgres_proxy.url), child_of()
    token = await runs.begin()
    runs.send("paid", "", "7")

    async def call() -> Any:
        if kind == "put":
            return await store.put(token, done(token))
        if kind == "call":
            return await store.put(token, StepRecord(token.run, "kid", "child", "waiting"), child)
        if kind == "wait":
            return (await store.wait(token, StepRecord(token.run, "w", "event", event="paid", key=""))).value
        if kind == "claim":
            return (await store.claim(runs.token(token.run, start=2))).word
        return await store.begin_ending(token, Ending("dead"))

    lost = postgres_proxy.lose_reply(statement)
    with pytest.raises(DatabaseUnavailable):
        await call()
    assert lost.count == 1

    assert await call() == {"wait": b"7", "claim": "ok"}.get(kind)
    assert len(await store.list(token.run)) == (0 if kind in ("claim", "end") else 1)
    jobs = conn.execute("SELECT count(*) FROM redisjobs.outbox").fetchall()
    assert jobs == [(2 if kind == "call" else 1,)]
    await store.close()


async def test_many_runs_go_through_pgbouncer_in_transaction_mode(runs: AnyRuns, pgbouncer: PgBouncer):
    """Case F02."""
    stores = [PostgresSteps(pgbouncer.url) for _ in range(4)]

    async def run(store: PostgresSteps, number: int) -> list[str]:
        token = runs.token(await asyncio.to_thread(runs.stage), holder=f"w{number}")
        assert (await store.claim(token)).word == "ok"
        for name in range(8):
            await store.put(token, done(token, f"s{name}"))
        async with store.transaction(token, done(token, "t")) as tx:
            await tx.execute("SELECT %s::int", (number,))
        await store.wait(token, StepRecord(token.run, "w", "event", event="paid", key="", due_in=5.0))
        return [each.name for each in await store.list(token.run)]

    names = await asyncio.gather(*(run(stores[n % 4], n) for n in range(24)))

    assert names == [[f"s{name}" for name in range(8)] + ["t", "w"]] * 24
    await asyncio.gather(*(store.close() for store in stores))


# -- rights
async def test_the_grant_of_a_worker_is_all_that_runs_need(runs: AnyRuns, role: Callable[[str], str]):
    store, child = PostgresSteps(role("worker")), child_of()
    token = runs.token()
    runs.send("paid", "", "7")

    assert (await store.claim(token)).word == "ok"
    await store.put(token, done(token, "a", undo=True))
    await store.put(token, StepRecord(token.run, "kid", "child", "waiting"), child)
    assert (await store.wait(token, StepRecord(token.run, "w", "event", event="paid", key=""))).value == b"7"
    async with store.transaction(token, done(token, "t")) as tx:
        await app.enqueue(tx, child_of())
    await asyncio.to_thread(lambda: _one_in_a_thread(store, token))
    await store.begin_ending(token, Ending("dead"))
    await store.undone(token, StepRecord(token.run, "undo:a", "undo"), "a")
    assert [each.name for each in await store.list(token.run)] == ["kid", "w", "t", "t2", "undo:a"]
    kid = runs.token(child.id)
    await store.claim(kid)
    async with store.transaction(kid, JobDone(1, codec="json", value=b"1")):
        pass
    assert await store.ended(kid) == "done"
    found = await store.get(token.run, "kid")
    assert found is not None
    assert found.state == "done"
    await store.close()


def _one_in_a_thread(store: PostgresSteps, token: Token) -> None:
    with store.transaction_sync(token, done(token, "t2")) as tx:
        tx.execute("SELECT 1")


async def test_a_role_without_the_grant_is_told_which_one_it_lacks(runs: AnyRuns, role: Callable[[str], str]):
    store = PostgresSteps(role("producer"))

    with pytest.raises(StoreRefused, match=r"for a worker of durable runs with grant_worker\('role'\)"):
        await store.claim(runs.token())

    await store.close()


async def test_without_the_migration_the_error_says_what_to_do(empty_database_url: str):
    store = PostgresSteps(empty_database_url)

    with pytest.raises(ConfigurationError, match="run `redisjobs migrate`"):
        await store.list(uuid4())

    await store.close()


async def test_plans_that_were_kept_from_small_tables_read_no_large_one(runs: AnyRuns, conn: Conn):
    """A session of hours: its first records were written into empty tables."""
    token = await runs.begin()
    for number in range(12):  # from the sixth call on a plan can be kept
        await runs.store.put(token, done(token, f"early {number}"))
        await runs.claim(token)
    many = "FROM generate_series(1, 20000)"
    conn.execute(f"INSERT INTO redisjobs.outbox (job, input) SELECT 'x', '{{}}' {many}".encode())
    step = "SELECT gen_random_uuid(), 's', 'step', 'done'"
    conn.execute(f"INSERT INTO redisjobs.steps (run, name, kind, state) {step} {many}".encode())
    conn.commit()
    before = _rows_read(conn)

    for number in range(5):
        await runs.store.put(token, done(token, f"late {number}"))
        await runs.claim(token)
        await runs.store.wait(token, StepRecord(token.run, "w", "event", event="paid", key=""))
    await runs.store.close()

    await eventually(lambda: _sessions(conn) == 0, "the session has ended, and told what it has read")
    assert _rows_read(conn) - before < 2_000


def _rows_read(conn: Conn) -> int:
    conn.rollback()
    conn.execute("SELECT pg_stat_clear_snapshot()")
    found = conn.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables"
        " WHERE schemaname = 'redisjobs' AND relname IN ('outbox', 'steps')"
    ).fetchone()
    assert found is not None
    return int(str(found[0]))
