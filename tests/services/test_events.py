"""Sending events: in the sender's transaction, on every connection, into both stores, and from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from redisjobs import App, EncodeError, NewEvent, OptionError
from redisjobs.base.annotations import shape_of
from redisjobs.base.codec import Codecs
from redisjobs.testing.outbox import MemoryConnection
from tests.support.cli import CommandLine
from tests.support.outboxes import AnyOutbox, in_memory, in_postgres
from tests.support.parties import KINDS

Conn = psycopg.Connection[tuple[Any, ...]]
app = App("shop")


@pytest.fixture(params=["postgres", "memory"])
def outbox(request: pytest.FixtureRequest, database_url: str) -> Iterator[AnyOutbox]:
    opened: list[Any] = []
    yield in_postgres(database_url, opened) if request.param == "postgres" else in_memory()
    for each in opened:
        each.close()


@pytest.fixture
def redisjobs(database_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url})


def sent(outbox: AnyOutbox) -> list[tuple[Any, ...]]:
    """Name, key, input, payload and codec of each."""
    _, events = outbox.beside()
    return [each[1:6] for each in events]


def test_an_event_is_there_once_its_transaction_commits(outbox: AnyOutbox):
    connection = outbox.connect()
    app.send_event(connection, "paid", "7", {"amount": 5})
    assert sent(outbox) == []
    connection.commit()
    app.send_event(connection, "paid", "8")
    connection.rollback()
    with connection.transaction(force_rollback=True):
        app.send_event(connection, "paid", "9")

    assert sent(outbox) == [("paid", "7", '{"amount":5}', None, None)]


def test_many_events_are_one_statement_in_their_order(outbox: AnyOutbox):
    connection = outbox.connect()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    app.send_events(connection, [NewEvent("a"), NewEvent("b", "é", [1, None]), NewEvent("c", data=moment)])
    app.send_events(connection, [])
    connection.commit()

    first, second, third = sent(outbox)
    assert first == ("a", "", None, None, None)
    assert second == ("b", "é", "[1,null]", None, None)
    name, key, text, payload, codec = third
    assert (name, key, text, codec) == ("c", "", None, "msgpack")
    assert Codecs().decode("msgpack", payload) == moment


@dataclass
class Payment:
    cents: int
    at: datetime


class Opaque:
    """Nothing says how to bring it back."""


def test_data_may_be_an_instance_of_a_class_that_the_run_reads_it_as(outbox: AnyOutbox):
    connection = outbox.connect()
    payment = Payment(5, datetime(2026, 1, 1, tzinfo=UTC))
    app.send_event(connection, "paid", "7", payment)
    connection.commit()
    with pytest.raises(EncodeError, match="nothing says how to bring it back"):
        app.send_event(connection, "paid", "8", Opaque())

    ((_, _, _, payload, codec),) = sent(outbox)
    assert shape_of(Payment).read(Codecs().decode(codec, payload)) == payment


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": ""}, "is no name"),
        ({"name": "a\nb"}, "is no name"),
        ({"name": "x" * 201}, "is no name"),
        ({"name": "a", "key": "é" * 257}, "514 bytes"),
        ({"name": "a", "key": 7}, "pass a text"),
        ({"name": "a", "expires_in": 0}, "pass more than 0 s"),
        ({"name": "a", "expires_in": timedelta(days=367)}, "or less"),
        ({"name": "a", "expires_in": float("nan")}, "not finite"),
    ],
)
def test_g1_what_cannot_be_an_event_is_refused_before_anything_is_written(given: dict[str, Any], why: str):
    connection = MemoryConnection()

    with pytest.raises(OptionError, match=why):
        app.send_event(connection, **given)
    assert not connection.tables.events


def test_data_that_cannot_travel_are_refused_where_they_are_sent(outbox: AnyOutbox):
    connection = outbox.connect()

    with pytest.raises(EncodeError, match="data"):
        app.send_event(connection, "paid", "7", object())
    with pytest.raises(EncodeError, match="data"):
        app.send_event(connection, "paid", "7", "x" * 1_048_577)
    with pytest.raises(OptionError, match="NewEvent"):
        app.send_events(connection, cast("Any", [("paid", "7")]))


@pytest.mark.parametrize("kind", list(KINDS))
async def test_every_connection_that_takes_calls_takes_events(kind: str, database_url: str, conn: Conn):
    opening, driver = KINDS[kind]
    async with opening(driver, database_url) as party:
        for _ in range(2):
            answer = app.send_event(party.connection, "paid", "7", {"n": 1})
            if answer is not None:
                await answer
        answer = app.send_events(party.connection, [NewEvent("a", data=[1]), NewEvent("b")])
        if answer is not None:
            await answer
        await party.commit()

    found = conn.execute("SELECT name, input::text FROM redisjobs.events ORDER BY id").fetchall()
    assert found == [("paid", '{"n":1}'), ("paid", '{"n":1}'), ("a", "[1]"), ("b", None)]


def test_a_producer_may_send_and_may_not_read(role: Any, conn: Conn):
    with psycopg.connect(role("producer")) as producer:
        app.send_event(producer, "paid", "7")
        producer.execute("SELECT redisjobs.send_event('paid', '8')")
        producer.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            producer.execute("SELECT * FROM redisjobs.events")

    assert conn.execute("SELECT key FROM redisjobs.events ORDER BY id").fetchall() == [("7",), ("8",)]


def test_sql_refuses_an_event_that_is_over_before_it_is_sent(conn: Conn):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="expires_in must lie ahead"):
        conn.execute("SELECT redisjobs.send_event('paid', '7', expires_in => interval '0')")


# the command


def test_an_event_is_sent_and_listed(redisjobs: CommandLine, conn: Conn):
    assert "sent: 'paid' with key '7'" in redisjobs("events", "send", "paid", "7", "--data", '{"n": 1}').stdout
    redisjobs("events", "send", "approved", "--expires-in", "2h")
    run = uuid4()
    conn.execute("UPDATE redisjobs.events SET taken_at = now(), run = %s, step = 'w' WHERE name = 'paid'", [run])
    conn.commit()

    shown = redisjobs("events", "list").stdout
    assert "taken" in shown
    assert str(run) in shown
    assert "free for 1" in shown
    (free,) = redisjobs.json("events", "list", "--free")["events"]
    assert (free["name"], free["key"], free["run"]) == ("approved", "", None)
    assert [each["name"] for each in redisjobs.json("events", "list", "--name", "paid", "--key", "7")["events"]] == [
        "paid"
    ]
    assert "no event fits" in redisjobs("events", "list", "--name", "none").stdout
    assert conn.execute("SELECT input::text FROM redisjobs.events WHERE name = 'paid'").fetchone() == ('{"n": 1}',)


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["paid", "--data", "{"], 2, "is no JSON"),
        (["paid", "--data", "NaN"], 2, "is no JSON"),
        (["", "7"], 2, "is no name"),
        (["paid", "--expires-in", "0"], 2, "more than 0 s"),
        (["paid", "--expires-in", "soon"], 2, "is no duration"),
    ],
)
def test_a_wrong_event_is_refused_in_one_line(redisjobs: CommandLine, arguments: list[str], code: int, why: str):
    assert why in redisjobs("events", "send", *arguments, code=code).stderr
