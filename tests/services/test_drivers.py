"""Enqueuing in a transaction of SQLAlchemy or asyncpg: what holds for psycopg holds for each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from redisjobs import App, Call, ConfigurationError, EnqueueError, StoreRefused
from tests.support.eventually import eventually
from tests.support.parties import KINDS, Party, settled
from tests.support.stores import Databases

app = App("shop")


@app.job
async def mail(to: str, copies: int = 1) -> str:
    return to * copies


@app.job(queue="billing", priority=-5)
async def charge(amount: Decimal, at: datetime) -> None:
    del amount, at


@app.job
async def anything(value: object) -> None:
    del value


@pytest.fixture(scope="module")
def database_url(databases: Databases) -> Iterator[str]:
    """One for all tests here: each begins with an empty outbox."""
    url = databases.migrated()
    yield url
    databases.drop(url)


@pytest.fixture(autouse=True)
def empty_outbox(conn) -> None:
    conn.execute("DELETE FROM redisjobs.outbox")
    conn.execute("DROP TABLE IF EXISTS orders")
    conn.commit()


@pytest.fixture(params=list(KINDS))
async def party(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Party]:
    opening, driver = KINDS[request.param]
    async with opening(driver, database_url) as made:
        yield made


def rows(conn: psycopg.Connection[Any], columns: str = "*") -> list[dict[str, Any]]:
    conn.rollback()
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT {columns} FROM redisjobs.outbox ORDER BY seq".encode()).fetchall()


async def test_the_row_is_there_with_the_commit_and_not_before(party: Party, conn):
    await party.execute("CREATE TABLE orders (id int)")
    handle = await settled(mail.enqueue(party.connection, "a@example.org", copies=2))

    assert rows(conn) == []
    await party.commit()

    [row] = rows(conn)
    assert str(row["id"]) == handle.id
    assert (row["job"], row["queue"], row["input"]) == ("mail", "default", {"to": "a@example.org", "copies": 2})
    assert conn.execute("SELECT to_regclass('orders')").fetchone() == ("orders",), "one transaction for both"


async def test_a_rollback_takes_the_row_back(party: Party, conn):
    await settled(mail.enqueue(party.connection, "a"))
    await party.rollback()

    assert rows(conn) == []


async def test_a_savepoint_takes_only_its_own_back(party: Party, conn):
    await settled(mail.enqueue(party.connection, "kept"))
    await party.inside_a_savepoint_that_is_rolled_back(lambda: mail.enqueue(party.connection, "gone"))
    await settled(mail.enqueue(party.connection, "kept too"))
    await party.commit()

    assert [row["input"]["to"] for row in rows(conn)] == ["kept", "kept too"]


async def test_every_option_stands_in_its_column_from_one_call_and_from_many(party: Party, conn):
    run_at = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    using = mail.using(
        queue="bulk.mail", run_at=run_at, idempotency_key="order 7 ☃ %(id)s 100%",
        window=timedelta(days=2, milliseconds=1), priority=-100, max_attempts=7,
        expires=run_at + timedelta(hours=1), tenant="t-1", enqueued_by="tests",
        headers={"b": [1, 1.0, None], "a": "é", "big": 2**70},
    )  # fmt: skip
    distant = mail.using(delay=90, expires=5)

    await settled(using.enqueue(party.connection, "a"))
    await settled(distant.enqueue(party.connection, "a"))
    await settled(app.enqueue(party.connection, using.call("a"), distant.call("a")))
    await party.commit()

    found = rows(conn, "*, headers::text AS headers_text")
    for row in found[::2]:
        assert (row["queue"], row["run_at"], row["idempotency_key"]) == ("bulk.mail", run_at, "order 7 ☃ %(id)s 100%")
        assert row["key_window"] == timedelta(days=2, milliseconds=1)
        assert (row["priority"], row["max_attempts"], row["tenant_id"], row["enqueued_by"]) == (-100, 7, "t-1", "tests")
        assert row["expires_at"] == run_at + timedelta(hours=1)
        assert row["headers_text"] == '{"b":[1,1.0,null],"a":"é","big":1180591620717411303424}'
    for row in found[1::2]:
        assert timedelta(seconds=89) < row["run_at"] - row["staged_at"] < timedelta(seconds=91)
        assert timedelta(seconds=4) < row["expires_at"] - row["staged_at"] < timedelta(seconds=6)


async def test_many_calls_are_one_statement_and_keep_their_order(party: Party, conn):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    calls: list[Call[Any]] = [mail.call(f"{n} \\ \" ' {{}} % , é") for n in range(200)]
    calls[7] = charge.call(Decimal("1.10"), at=at)

    handles = await settled(app.enqueue(party.connection, calls))
    assert await settled(app.enqueue(party.connection)) == []
    await party.commit()

    found = rows(conn, "*, cmin::text AS command")
    assert [str(row["id"]) for row in found] == [handle.id for handle in handles] == [str(call.id) for call in calls]
    assert len({row["command"] for row in found}) == 1, "each statement has a command number of its own"
    assert found[3]["input"] == {"to": "3 \\ \" ' {} % , é"}
    assert charge.arguments("msgpack", found[7]["payload"]) == {"amount": Decimal("1.10"), "at": at}


async def test_an_argument_comes_back_exactly(party: Party, conn):
    values = ["a\0b", 2**64, -(2**63) - 1, 10**40, "%s %(a)s $1 :a", [b"\0\xff", None]]
    for value in values:
        await settled(anything.enqueue(party.connection, value))
    await settled(app.enqueue(party.connection, [anything.call(value) for value in values]))
    await party.commit()

    found = rows(conn, "input::text AS input, payload, codec")
    payloads = [row["payload"] if row["input"] is None else row["input"].encode() for row in found]
    codecs = [row["codec"] or "json" for row in found]
    came = [anything.arguments(codec, payload)["value"] for codec, payload in zip(codecs, payloads, strict=True)]
    assert came == values * 2


async def test_cancel_is_part_of_the_transaction(party: Party, conn):
    handle = await settled(mail.enqueue(party.connection, "a"))

    assert await settled(app.cancel(party.connection, handle.id)) == "requested"
    await party.commit()

    assert [row["cancel_requested"] for row in rows(conn)] == [True]


async def test_a_commit_wakes_a_relay_that_sleeps(party: Party, database_url: str):
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as ear:
        await ear.execute('LISTEN "redisjobs.wake"')
        await settled(mail.enqueue(party.connection, "a"))
        await party.commit()
        heard: list[str] = []

        async def hear() -> bool:
            heard.extend([told.payload async for told in ear.notifies(timeout=0.05)])
            return heard == ["default"]

        await eventually(hear, "the relay is told the queue")


async def test_a_call_that_was_enqueued_before_is_refused_in_our_words(party: Party):
    call = mail.call("a")
    await settled(app.enqueue(party.connection, call))

    with pytest.raises(EnqueueError, match="enqueued before"):
        await settled(app.enqueue(party.connection, call))


async def test_a_role_without_rights_is_told_how_to_get_them(party: Party):
    await party.execute("CREATE ROLE redisjobs_test_stranger")
    await party.execute("SET LOCAL ROLE redisjobs_test_stranger")

    with pytest.raises(StoreRefused, match="grant_producer"):
        await settled(mail.enqueue(party.connection, "a"))
    await party.rollback()


async def test_missing_tables_say_what_to_run(party: Party):
    elsewhere = App(schema="other_jobs").job(name="mail")(mail.function)

    with pytest.raises(ConfigurationError, match="redisjobs migrate"):
        await settled(elsewhere.enqueue(party.connection, "a"))


async def test_the_troubles_of_the_callers_transaction_stay_his_and_show_no_argument(party: Party):
    with pytest.raises(Exception, match="division by zero"):
        await party.execute("SELECT 1/0")

    with pytest.raises(Exception, match="transaction is aborted") as told:
        await settled(mail.enqueue(party.connection, "marker@example.org"))
    assert not isinstance(told.value, (EnqueueError, ConfigurationError, StoreRefused))
    assert "marker" not in str(told.value)
