"""Captured calls on real connections: what their transactions have kept, asked in those very transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from redisjobs import App, EnqueueError, RedisjobsError
from redisjobs.testing import capture
from tests.support.parties import KINDS, Party, settled

app = App("shop")


@app.job
async def mail(to: str) -> None:
    del to


@pytest.fixture(params=list(KINDS))
async def party(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Party]:
    opening, driver = KINDS[request.param]
    async with opening(driver, database_url) as made:
        yield made


def to(calls: list[Any]) -> list[str]:
    return [each.arguments["to"] for each in calls]


def test_a_test_that_rolls_everything_back_sees_what_it_enqueued(conn: psycopg.Connection[Any]):
    with capture(app) as enqueued, conn.transaction(force_rollback=True):
        mail.enqueue(conn, "kept")
        with conn.transaction(force_rollback=True):
            mail.enqueue(conn.cursor(), "gone")
        assert to(enqueued(mail)) == ["kept"]
        conn.execute("SELECT 1")  # the transaction goes on

    assert to(enqueued(mail)) == []


async def test_an_async_connection_is_asked_in_its_own_transaction(aconn: psycopg.AsyncConnection[Any]):
    with capture(app) as enqueued:
        await mail.enqueue(aconn, "kept")
        async with aconn.transaction(force_rollback=True):
            await mail.enqueue(aconn.cursor(), "gone")
        assert to(enqueued(mail)) == ["kept"]
        await aconn.execute("SELECT 1")
        await aconn.rollback()
        assert to(enqueued(mail)) == []

        await aconn.set_autocommit(True)
        await mail.enqueue(aconn, "committed")
        assert to(enqueued(mail)) == ["committed"]
        assert aconn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_a_relay_has_settled_meanwhile_still_counts(conn: psycopg.Connection[Any]):
    with capture(app) as enqueued:
        handle = mail.enqueue(conn, "a")
        conn.execute("DELETE FROM redisjobs.outbox WHERE id = %s", [handle.id])
        conn.execute(
            "INSERT INTO redisjobs.finished (id, job, queue, state, keep_until)"
            " VALUES (%s, 'mail', 'q', 'done', now())",
            [handle.id],
        )
        assert to(enqueued(mail)) == ["a"]


def test_a_closed_connection_leaves_the_question_to_the_apps_database(database_url: str):
    shop = App("shop", database_url=database_url)
    job = shop.job(name="mail")(mail.function)
    with capture(shop) as enqueued:
        with psycopg.connect(database_url) as connection:
            job.enqueue(connection, "committed")
        with psycopg.connect(database_url) as connection:
            job.enqueue(connection, "gone")
            connection.rollback()

        assert to(enqueued()) == ["committed"]


def test_where_nobody_can_be_asked_the_message_says_what_to_do(
    conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
):
    for name in ("REDISJOBS_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    shop = App("shop")
    job = shop.job(name="mail")(mail.function)
    with capture(shop) as enqueued:
        job.enqueue(conn, "a")
        with pytest.raises(EnqueueError):
            shop.enqueue(conn, enqueued()[0].call)

        with pytest.raises(RedisjobsError, match="roll back first"):
            enqueued(job)
        conn.rollback()
        assert enqueued(job) == []


def test_a_role_that_may_not_read_keeps_its_transaction(conn: psycopg.Connection[Any]):
    conn.execute("CREATE ROLE redisjobs_test_captured")
    conn.execute("SELECT redisjobs.grant_producer('redisjobs_test_captured')")
    conn.execute("SET ROLE redisjobs_test_captured")
    with capture(app) as enqueued:
        mail.enqueue(conn, "a")

        with pytest.raises(RedisjobsError, match=r"permission denied.*needs SELECT"):
            enqueued(mail)
        assert conn.execute("SELECT 1").fetchone() == (1,)
        conn.execute("RESET ROLE")
        assert to(enqueued(mail)) == ["a"]
    conn.rollback()


def test_another_schema_is_read(conn: psycopg.Connection[Any]):
    elsewhere = App("shop", schema="Other_Jobs")
    job = elsewhere.job(name="mail")(mail.function)
    conn.execute('ALTER SCHEMA redisjobs RENAME TO "Other_Jobs"')
    conn.execute('ALTER TABLE "Other_Jobs".outbox DISABLE TRIGGER wake')
    with capture(elsewhere) as enqueued:
        job.enqueue(conn, "a")
        assert to(enqueued(job)) == ["a"]
    conn.rollback()


async def test_connections_of_other_drivers_are_asked_too(party: Party):
    with capture(app) as enqueued:
        await settled(mail.enqueue(party.connection, "kept"))
        await party.inside_a_savepoint_that_is_rolled_back(lambda: mail.enqueue(party.connection, "gone"))
        assert to((await enqueued.look())(mail)) == ["kept"]
        await party.rollback()


async def test_an_async_connection_of_another_driver_wants_to_be_awaited(database_url: str):
    opening, driver = KINDS["asyncpg"]
    async with opening(driver, database_url) as party:
        with capture(app) as enqueued:
            await settled(mail.enqueue(party.connection, "a"))
            with pytest.raises(RedisjobsError, match=r"first await enqueued\.look"):
                enqueued(mail)
        await party.rollback()


async def test_a_session_that_has_ended_leaves_the_question_to_the_apps_database(database_url: str):
    shop = App("shop", database_url=database_url)
    job = shop.job(name="mail")(mail.function)
    for kind in ("Session on psycopg", "AsyncSession on asyncpg"):
        opening, driver = KINDS[kind]
        async with opening(driver, database_url) as party:
            with capture(shop) as enqueued:
                await settled(job.enqueue(party.connection, kind))
                await party.commit()
                await settled(job.enqueue(party.connection, "gone"))
                await party.rollback()
                assert to((await enqueued.look())()) == [kind]
                assert not party.connection.in_transaction()
