"""Enqueuing on the caller's own connection: one statement, in his transaction, with INSERT rights alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.rows import dict_row

from redisjobs import App, Call, ConfigurationError, EncodeError, EnqueueError, OptionError, StoreRefused
from redisjobs.base.codec import Codecs
from redisjobs.outbox import stage

app = App("shop")


@app.job
async def mail(to: str, copies: int = 1) -> str:
    return to * copies


@app.job(queue="billing", priority=5)
async def charge(amount: Decimal, at: datetime) -> None:
    del amount, at


@app.job
async def anything(value: object) -> None:
    del value


def rows(conn: psycopg.Connection[Any], columns: str = "*") -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT {columns} FROM redisjobs.outbox ORDER BY seq".encode()).fetchall()


def test_the_row_is_there_with_the_commit_and_not_before(conn, database_url: str):
    handle = mail.enqueue(conn, "a@example.org", copies=2)

    with psycopg.connect(database_url) as other:
        assert rows(other) == []
        conn.commit()
        [row] = rows(other)
    assert str(row["id"]) == handle.id
    assert (row["job"], row["queue"], row["input"]) == ("mail", "default", {"to": "a@example.org", "copies": 2})
    assert row["payload"] is None
    assert row["codec"] is None
    assert row["run_at"] is None


def test_a_rollback_takes_the_row_back(conn):
    with conn.transaction(force_rollback=True):
        mail.enqueue(conn, "a")

    assert rows(conn) == []


def test_a_savepoint_takes_only_its_own_back(conn):
    mail.enqueue(conn, "kept")
    with conn.transaction(force_rollback=True):
        mail.enqueue(conn, "gone")

    assert [row["input"]["to"] for row in rows(conn)] == ["kept"]


def test_what_json_cannot_carry_goes_as_msgpack(conn):
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)

    charge.enqueue(conn, Decimal("1.10"), at)

    [row] = rows(conn)
    assert (row["input"], row["codec"], row["queue"], row["priority"]) == (None, "msgpack", "billing", 5)
    assert charge.arguments("msgpack", row["payload"]) == {"amount": Decimal("1.10"), "at": at}


def test_every_option_stands_in_its_column(conn):
    run_at = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    using = mail.using(
        queue="bulk.mail",
        run_at=run_at,
        idempotency_key="order 7 ☃",
        window=timedelta(days=2, milliseconds=1),
        priority=-100,
        max_attempts=7,
        expires=run_at + timedelta(hours=1),
        tenant="t-1",
        headers={"b": [1, 1.0, None], "a": "é", "big": 2**70},
        enqueued_by="tests",
    )

    using.enqueue(conn, "a")

    [row] = rows(conn, "*, headers::text AS headers_text")
    assert (row["queue"], row["run_at"], row["idempotency_key"]) == ("bulk.mail", run_at, "order 7 ☃")
    assert row["key_window"] == timedelta(days=2, milliseconds=1)
    assert (row["priority"], row["max_attempts"], row["tenant_id"], row["enqueued_by"]) == (-100, 7, "t-1", "tests")
    assert row["expires_at"] == run_at + timedelta(hours=1)
    assert row["headers_text"] == '{"b":[1,1.0,null],"a":"é","big":1180591620717411303424}'


def test_a_delay_counts_from_the_time_of_postgres(conn):
    mail.using(delay=90, expires=timedelta(minutes=5)).enqueue(conn, "a")

    [row] = rows(conn, "run_at - staged_at AS delay, expires_at - staged_at AS expiry")
    assert timedelta(seconds=89) < row["delay"] < timedelta(seconds=91)
    assert timedelta(seconds=299) < row["expiry"] < timedelta(seconds=301)


def test_the_longest_delay_and_window_are_taken(conn):
    mail.using(delay=timedelta(days=36_600), idempotency_key="k" * 512, window=timedelta(days=366)).enqueue(conn, "a")

    [row] = rows(conn)
    assert row["run_at"] > datetime(2120, 1, 1, tzinfo=UTC)


def test_calls_of_one_statement_may_have_durations_of_any_type(conn):
    durations = (60, 0.5, timedelta(minutes=1))
    app.enqueue(
        conn,
        [mail.using(delay=d, expires=d, idempotency_key=f"{d}", window=d).call("a@example.org") for d in durations],
    )
    minute, half = timedelta(minutes=1), timedelta(seconds=0.5)
    assert [row["key_window"] for row in rows(conn)] == [minute, half, minute]
    assert [row["run_at"] - row["staged_at"] < minute / 2 for row in rows(conn)] == [False, True, False]


def test_many_calls_are_one_statement_and_keep_their_order(conn):
    calls: list[Call[Any]] = [mail.using(delay=n or None, tenant=f"t{n}").call(f"{n}") for n in range(300)]
    calls[7] = charge.call(Decimal(7), at=datetime(2026, 1, 1, tzinfo=UTC))
    calls[8] = mail.using(idempotency_key="k", window=5.5, headers={"a": 1}, max_attempts=2).call("8")
    before = statements_of(conn)

    handles = app.enqueue(conn, calls)

    assert statements_of(conn) - before == 1
    found = rows(conn, "*, xmin::text")
    assert [str(row["id"]) for row in found] == [handle.id for handle in handles] == [str(call.id) for call in calls]
    assert [row["input"] and row["input"]["to"] for row in found[:7]] == [str(n) for n in range(7)]
    assert (found[7]["codec"], found[7]["input"], found[7]["queue"]) == ("msgpack", None, "billing")
    assert (found[8]["key_window"], found[8]["headers"], found[8]["max_attempts"]) == (
        timedelta(seconds=5.5),
        {"a": 1},
        2,
    )
    assert found[0]["run_at"] is None
    assert found[9]["run_at"] - found[9]["staged_at"] > timedelta(seconds=8)


def statements_of(conn: psycopg.Connection[Any]) -> int:
    """How many statements this transaction has written rows with: each has a command number of its own."""
    row = conn.execute("SELECT count(DISTINCT cmin::text) FROM redisjobs.outbox").fetchone()
    assert row is not None
    return int(row[0])


def test_no_calls_are_no_statement(conn):
    assert app.enqueue(conn) == app.enqueue(conn, []) == []

    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("kind", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
def test_a_cursor_of_any_kind_will_do_and_keeps_its_own_result(conn, kind):
    cursor = kind(conn)
    cursor.execute("SELECT 1")

    mail.enqueue(cursor, "a")

    assert cursor.fetchone() == (1,)
    assert len(rows(conn)) == 1


async def test_an_async_connection_and_cursor_will_do(aconn):
    handle = await mail.enqueue(aconn, "a")
    async with aconn.cursor() as cursor:
        second = await mail.enqueue(cursor, "b")
        third, _ = await app.enqueue(cursor, mail.call("c"), charge.call(Decimal(1), at=datetime.now(UTC)))

    found = await (await aconn.execute("SELECT id::text FROM redisjobs.outbox ORDER BY seq")).fetchall()
    assert [row[0] for row in found[:3]] == [handle.id, second.id, third.id]


def test_it_works_in_a_pipeline(conn):
    with conn.pipeline():
        mail.enqueue(conn, "a")
        mail.enqueue(conn, "b")

    assert len(rows(conn)) == 2


def test_on_an_autocommit_connection_the_statement_commits_itself(database_url: str, conn):
    with psycopg.connect(database_url, autocommit=True) as committing:
        mail.enqueue(committing, "a")

    assert len(rows(conn)) == 1


def test_it_prepares_nothing(conn):
    for n in range(10):
        mail.enqueue(conn, str(n))

    assert conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(lambda: anything.call(float("nan")), id="NaN"),
        pytest.param(lambda: anything.call({"a": ["\udc7f"]}), id="lone surrogate"),
        pytest.param(lambda: anything.call("x" * 2**21), id="2 MiB"),
        pytest.param(lambda: mail.using(idempotency_key="a\0b").call("a"), id="NUL in the key"),
        pytest.param(lambda: mail.using(tenant="\ud800").call("a"), id="surrogate in the tenant"),
        pytest.param(lambda: mail.using(headers={"a": "\0"}).call("a"), id="NUL in the headers"),
        pytest.param(lambda: mail.using(queue="a b").call("a"), id="queue name"),
        pytest.param(lambda: mail.using(run_at=datetime(2030, 1, 1)).call("a"), id="naive moment"),  # noqa: DTZ001
    ],
)
def test_what_is_refused_leaves_the_transaction_usable(conn, refused: Callable[[], Call[Any]]):
    conn.execute("CREATE TEMP TABLE business (id int)")
    conn.execute("INSERT INTO business VALUES (1)")

    with pytest.raises((EncodeError, OptionError)):
        app.enqueue(conn, mail.call("before"), refused())

    assert conn.execute("SELECT id FROM business").fetchone() == (1,)
    assert rows(conn) == []


def test_a_nul_in_an_argument_comes_back_exactly(conn):
    anything.enqueue(conn, {"a\0b": ["\0"]})

    [row] = rows(conn)
    assert Codecs().decode(row["codec"], row["payload"]) == {"value": {"a\0b": ["\0"]}}


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40])
def test_a_number_beyond_64_bits_comes_back_exactly(conn, number: int):
    anything.enqueue(conn, number)

    [row] = rows(conn, "input::text AS text")
    assert json.loads(row["text"]) == {"value": number}


def test_the_producers_text_arrives_byte_for_byte(conn):
    value = {"id": 130775545883395173, "a": [], "o": {}, "z": -0.0, "p": 1.10, "big": 1e22}

    anything.enqueue(conn, value)

    [row] = rows(conn, "input::text AS text")
    assert row["text"] == '{"value":{"id":130775545883395173,"a":[],"o":{},"z":-0.0,"p":1.1,"big":1e+22}}'


def test_each_rule_of_the_table_is_checked_before_the_statement(conn):
    """Whatever the checks of a call let through, the table takes."""
    edges = [
        mail.using(queue="_" * 128, tenant="é" * 200, enqueued_by="", idempotency_key="é" * 256),
        mail.using(queue="0", priority=100, max_attempts=1000, headers={"k": "x" * 16_370}),
        mail.using(priority=-100, max_attempts=1, headers={}, run_at=datetime(2, 1, 1, tzinfo=UTC)),
        mail.using(run_at=datetime(9998, 12, 31, tzinfo=UTC), expires=datetime(2, 1, 1, tzinfo=UTC)),
        mail.using(delay=0, idempotency_key="k", window=0, expires=0.001),
    ]

    app.enqueue(conn, [edge.call("a") for edge in edges])
    for edge in edges:
        edge.enqueue(conn, "a")

    assert len(rows(conn)) == 2 * len(edges)


def test_the_largest_arguments_are_taken(conn):
    size = 1_048_576 - len('{"value":""}')

    anything.enqueue(conn, "x" * size)
    anything.enqueue(conn, b"x" * (1_048_576 - 12))

    with pytest.raises(EncodeError, match="1048577 bytes"):
        anything.enqueue(conn, "x" * (size + 1))
    assert len(rows(conn)) == 2


def test_a_database_without_the_tables_says_what_to_run(empty_database_url: str):
    with psycopg.connect(empty_database_url) as conn, pytest.raises(ConfigurationError, match="redisjobs migrate"):
        mail.enqueue(conn, "a")


def test_a_producer_needs_no_right_but_to_insert(conn, database_url: str):
    with a_role(conn) as role:
        conn.execute(sql.SQL("SELECT redisjobs.grant_producer({})").format(role))
        conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))

        mail.using(idempotency_key="k", window=5, delay=1, headers={}).enqueue(conn, "a")
        app.enqueue(conn, mail.call("b"), charge.call(Decimal(1), at=datetime.now(UTC)))
        with pytest.raises(errors.InsufficientPrivilege), conn.transaction():
            conn.execute("SELECT 1 FROM redisjobs.outbox")

        conn.execute("RESET ROLE")
        assert len(rows(conn)) == 3


def test_a_role_without_rights_is_told_how_to_get_them(conn):
    with a_role(conn) as role:
        conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))

        with pytest.raises(StoreRefused, match="grant_producer"), conn.transaction():
            mail.enqueue(conn, "a")

        conn.execute("RESET ROLE")


class a_role:  # noqa: N801  # reads as what it gives
    """A role that is there while its transaction is: what a test makes of it is rolled back."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    def __enter__(self) -> str:
        self._conn.execute("CREATE ROLE redisjobs_test_producer")
        return "redisjobs_test_producer"

    def __exit__(self, *_: object) -> None:
        self._conn.rollback()


def test_the_same_call_twice_is_refused(conn):
    call = mail.call("a")

    with pytest.raises(EnqueueError, match="twice"):
        app.enqueue(conn, call, call)
    app.enqueue(conn, call)
    with pytest.raises(EnqueueError, match="enqueued before"), conn.transaction():
        app.enqueue(conn, call)


def test_the_troubles_of_the_callers_transaction_stay_his(conn):
    with pytest.raises(errors.DivisionByZero):
        conn.execute("SELECT 1/0")

    with pytest.raises(errors.InFailedSqlTransaction):
        mail.enqueue(conn, "a")


def test_what_is_no_connection_is_refused():
    with pytest.raises(OptionError, match=r"builtins.str.*psycopg 3"):
        mail.enqueue("postgresql://", "a")  # type: ignore[call-overload]


def test_cancel_flags_the_row_in_the_callers_transaction(conn):
    handle = mail.enqueue(conn, "a")

    assert app.cancel(conn, handle.id) == "requested"
    assert app.cancel(conn, "00000000-0000-7000-8000-000000000000") == "unknown"
    assert [row["cancel_requested"] for row in rows(conn)] == [True]


async def test_cancel_is_awaited_on_an_async_connection(aconn):
    handle = await mail.enqueue(aconn, "a")

    assert await app.cancel(aconn, handle.id) == "requested"


def test_another_schema_is_written_to(conn):
    elsewhere = App(schema="Other_Jobs")
    job = elsewhere.job(name="mail")(mail.function)

    statement, _ = stage([job.call("a")], "Other_Jobs")

    assert b'"Other_Jobs".outbox' in statement
    with pytest.raises(ConfigurationError, match="Other_Jobs"):
        job.enqueue(conn, "a")
