"""Lane, share and policy of a job go with it: through SQL, a redrive, a fork, a schedule, an upgrade of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from redisjobs import App, Debounce, OptionError, Throttle
from redisjobs.base.statements import load
from redisjobs.migrations import migrate, migrations
from redisjobs.scheduler import parameters_of, read
from tests.support.outboxes import AnyOutbox, in_memory, in_postgres

Conn = psycopg.Connection[tuple[Any, ...]]
FLOW = "lane, share_key, idempotency_key, key_policy, key_window::text, key_wait::text, key_longest::text"
IN_SQL = """SELECT redisjobs.enqueue('sync', lane => 'l', share_key => 's', idempotency_key => 'k',
                                     key_policy => 'debounce',
                                     key_wait => '5 s', key_longest => '1 min', version => '2')"""

app = App("shop")


@app.job(lane="user", share="user", throttle=Throttle(period=60, key="user"))
async def sync(user: int) -> None:
    del user


@pytest.fixture(params=["postgres", "memory"])
def outbox(request: pytest.FixtureRequest) -> Iterator[AnyOutbox]:
    opened: list[Any] = []
    yield in_memory() if request.param == "memory" else in_postgres(request.getfixturevalue("database_url"), opened)
    for each in opened:
        each.close()


def test_sql_has_an_option_for_each_column(conn: Conn):
    conn.execute(IN_SQL.encode())

    found = conn.execute(f"SELECT version, {FLOW} FROM redisjobs.outbox".encode()).fetchone()
    assert found == ("2", "l", "s", "k", "debounce", None, "00:00:05", "00:01:00")


def test_a_dead_letter_that_is_redriven_has_them_again(conn: Conn):
    row = conn.execute(IN_SQL.encode()).fetchone()
    conn.execute(
        f"""INSERT INTO redisjobs.dead (id, job, queue, input, reason, {FLOW.replace("::text", "")})
            SELECT id, job, queue, input, 'no', {FLOW.replace("::text", "")} FROM redisjobs.outbox""".encode()
    )
    conn.execute("DELETE FROM redisjobs.outbox")

    assert conn.execute("SELECT redisjobs.redrive(%s)", [[(row or [None])[0]]]).fetchone() == (1,)

    found = conn.execute(f"SELECT redrives, {FLOW} FROM redisjobs.outbox".encode()).fetchone()
    assert found == (1, "l", "s", "k", "debounce", None, "00:00:05", "00:01:00")


def test_a_fork_has_lane_and_share_and_leaves_the_key_to_the_first(conn: Conn):
    [run] = conn.execute(IN_SQL.encode()).fetchone() or [None]
    conn.execute("INSERT INTO redisjobs.steps (run, name, kind, state) VALUES (%s, 'a', 'step', 'done')", [run])

    [fork] = conn.execute("SELECT redisjobs.fork_run(%s, 'a')", [run]).fetchone() or [None]

    found = conn.execute(f"SELECT {FLOW} FROM redisjobs.outbox WHERE id = %s".encode(), [fork]).fetchone()
    assert found == ("l", "s", None, None, None, None, None)


async def test_the_jobs_of_a_schedule_have_them_and_with_a_policy_its_key(outbox: AnyOutbox):
    connection = outbox.connect()
    app.schedules.create(connection, "s", sync.call(7), "*/5 * * * *", catch_up="run_once")
    assert app.schedules.create(connection, "s", sync.call(7), "*/5 * * * *", catch_up="run_once") is False
    app.schedules.trigger(connection, "s")
    connection.commit()
    await outbox.database.open()
    try:
        outbox.reached("s", -3600)
        [known] = [read(row) for row in await outbox.database.run("due", load("scheduler").due, {"limit": 10})]
        await outbox.database.run("dispatch", load("scheduler").dispatch, parameters_of([known]))
    finally:
        await outbox.database.close()

    rows = outbox.rows()
    names = ("lane", "share_key", "idempotency_key", "key_policy", "key_window", "key_wait")
    assert [[row[name] for name in names] for row in rows] == [["7", "7", "sync:7", "throttle", 60.0, None]] * 2


def test_a_schedule_may_have_a_key_by_a_policy_alone():
    @App("shop").job
    async def plain() -> None: ...

    with pytest.raises(OptionError, match="is decided by the schedule for each occurrence"):
        app.schedule("* * * * *", name="a", call=plain.using(idempotency_key="k").call())
    keyed = plain.using(idempotency_key="k", singleton="skip").call()
    assert app.schedule("* * * * *", name="a", call=keyed).call.idempotency_key == "k"


def test_a_producer_of_before_the_upgrade_goes_on_after_it(empty_database_url: str):
    with psycopg.connect(empty_database_url, autocommit=True) as owner:
        for step in migrations()[:5]:
            owner.execute(step.text.encode())
            owner.execute(f"INSERT INTO redisjobs.migrations VALUES (5, 'x', '{step.sha}')".replace(
                "(5, 'x'", f"({step.version}, '{step.name}'").encode())  # fmt: skip
        owner.execute("DROP ROLE IF EXISTS old_producer")
        owner.execute("CREATE ROLE old_producer")
        try:
            owner.execute("SELECT redisjobs.grant_producer('old_producer')")
            assert migrate(empty_database_url)[0] == "0006 flow"
            owner.execute("SET ROLE old_producer")
            owner.execute("SELECT redisjobs.enqueue('a', '{}', 'q')")
            owner.execute("INSERT INTO redisjobs.outbox (job, input) VALUES ('a', '{}')")
            owner.execute(IN_SQL.encode())
            sync.using(debounce=Debounce(wait=1)).enqueue(owner, 7)
        finally:
            owner.execute("RESET ROLE")
            assert owner.execute("SELECT count(*) FROM redisjobs.outbox").fetchone() == (4,)
            owner.execute("DROP OWNED BY old_producer")
            owner.execute("DROP ROLE old_producer")
