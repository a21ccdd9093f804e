"""A row that cannot be published cannot be written; every other row can."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support.builders import stage

Conn = psycopg.Connection[tuple[object, ...]]
MIB = 1024 * 1024
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def insert(conn: Conn, **columns: Any) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    places = sql.SQL(", ").join([sql.Placeholder()] * len(columns))
    conn.execute(sql.SQL("INSERT INTO redisjobs.outbox ({}) VALUES ({})").format(names, places), list(columns.values()))


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("job_is_a_name", {"job": ""}),
        ("job_is_a_name", {"job": "   "}),
        ("job_is_a_name", {"job": "a\nb"}),
        ("job_is_a_name", {"job": "a\x7f"}),
        ("job_is_a_name", {"job": "x" * 201}),
        ("queue_is_a_name", {"queue": ""}),
        ("queue_is_a_name", {"queue": "x" * 129}),
        ("queue_is_a_name", {"queue": "a b"}),
        ("queue_is_a_name", {"queue": ".a"}),
        ("queue_is_a_name", {"queue": "a{b}"}),
        ("queue_is_a_name", {"queue": "ä"}),
        ("queue_is_a_name", {"queue": "a\n"}),
        ("input_or_payload", {"input": None}),
        ("input_or_payload", {"payload": b"x", "codec": "msgpack"}),
        ("codec_goes_with_payload", {"codec": "json"}),
        ("codec_goes_with_payload", {"input": None, "payload": b"x"}),
        ("codec_is_a_name", {"input": None, "payload": b"x", "codec": ""}),
        ("codec_is_a_name", {"input": None, "payload": b"x", "codec": "A B"}),
        ("codec_is_a_name", {"input": None, "payload": b"x", "codec": "x" * 41}),
        ("input_is_object_or_array", {"input": "null"}),
        ("input_is_object_or_array", {"input": '"x"'}),
        ("input_is_object_or_array", {"input": "5"}),
        ("input_is_object_or_array", {"input": "true"}),
        ("input_at_most_1_mib", {"input": json.dumps(["x" * MIB])}),
        ("payload_at_most_1_mib", {"input": None, "payload": b"x" * (MIB + 1), "codec": "msgpack"}),
        ("idempotency_key_1_to_512_bytes", {"idempotency_key": ""}),
        ("idempotency_key_1_to_512_bytes", {"idempotency_key": "x" * 513}),
        ("idempotency_key_1_to_512_bytes", {"idempotency_key": "ä" * 257}),
        ("key_window_goes_with_key", {"key_window": timedelta(hours=1)}),
        ("key_window_0_to_366_days", {"idempotency_key": "k", "key_window": timedelta(seconds=-1)}),
        ("key_window_0_to_366_days", {"idempotency_key": "k", "key_window": timedelta(days=367)}),
        ("priority_within_100", {"priority": 101}),
        ("priority_within_100", {"priority": -101}),
        ("max_attempts_1_to_1000", {"max_attempts": 0}),
        ("max_attempts_1_to_1000", {"max_attempts": 1001}),
        ("run_at_is_a_time", {"run_at": "infinity"}),
        ("run_at_is_a_time", {"run_at": "-infinity"}),
        ("run_at_is_a_time", {"run_at": "20000-01-01 00:00Z"}),
        ("expires_at_is_a_time", {"expires_at": "infinity"}),
        ("tenant_id_1_to_200_characters", {"tenant_id": ""}),
        ("tenant_id_1_to_200_characters", {"tenant_id": "x" * 201}),
        ("enqueued_by_at_most_200_characters", {"enqueued_by": "x" * 201}),
        ("traceparent_is_w3c", {"traceparent": TRACE.upper()}),
        ("traceparent_is_w3c", {"traceparent": TRACE + "-x"}),
        ("headers_are_an_object", {"headers": "[]"}),
        ("headers_are_an_object", {"headers": "null"}),
        ("headers_at_most_16_kib", {"headers": json.dumps({"x": "y" * 16384})}),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_what_cannot_be_published_is_refused_by_name(conn: Conn, constraint: str, columns: dict[str, Any]):
    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        insert(conn, **({"job": "j", "input": "{}"} | columns))

    assert refused.value.diag.constraint_name == constraint


@pytest.mark.parametrize(
    "columns",
    [
        {"job": "x" * 200},
        {"job": "módulo.名前 🦊"},
        {"queue": "x" * 128},
        {"queue": "_A.b:c-9"},
        {"input": "[]"},
        {"input": ' { "a" : 1.10 , "a" : 2 } '},
        {"input": json.dumps(["x" * (MIB - 4)])},
        {"input": '{"nul": "\\u0000", "lone": "\\ud800"}'},
        {"input": None, "payload": b"x" * MIB, "codec": "a-codec.nobody_knows"},
        {"input": None, "payload": b"", "codec": "msgpack"},
        {"idempotency_key": "ä" * 256},
        {"idempotency_key": "k", "key_window": timedelta(0)},
        {"idempotency_key": "k", "key_window": timedelta(days=366)},
        {"priority": 100},
        {"priority": -100},
        {"max_attempts": 1},
        {"max_attempts": 1000},
        {"run_at": "0002-01-01 00:00Z"},
        {"run_at": "9998-12-31 23:59Z"},
        {"expires_at": "2000-01-01 00:00Z"},
        {"tenant_id": "ä" * 200},
        {"enqueued_by": ""},
        {"traceparent": TRACE},
        {"headers": "{}"},
        {"headers": json.dumps({"x": "y" * 16000})},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_what_can_be_published_is_taken(conn: Conn, columns: dict[str, Any]):
    insert(conn, **({"job": "j", "input": "{}"} | columns))


@pytest.mark.parametrize("columns", [{"job": None}, {"queue": None}, {"priority": None}, {"id": None}])
def test_a_column_that_must_have_a_value_refuses_null(conn: Conn, columns: dict[str, Any]):
    with pytest.raises(psycopg.errors.NotNullViolation):
        insert(conn, **({"job": "j", "input": "{}"} | columns))


@pytest.mark.parametrize("text", ["{", "{'a': 1}", '{"a": NaN}', ""])
def test_text_that_is_no_json_is_refused(conn: Conn, text: str):
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        insert(conn, job="j", input=text)


def test_a_state_that_nobody_knows_is_refused(conn: Conn):
    stage(conn)
    with pytest.raises(psycopg.errors.CheckViolation, match="state_is_known"):
        conn.execute("UPDATE redisjobs.outbox SET state = 'lost'")


def test_the_producers_own_bytes_arrive_unchanged(conn: Conn):
    text = '{"b": 1.10, "a":  [130775545883395173, -0.0], "b": 2}'
    insert(conn, job="j", input=text)

    assert conn.execute("SELECT input::text FROM redisjobs.outbox").fetchall() == [(text,)]


def test_what_is_left_out_has_its_default(conn: Conn):
    insert(conn, job="j", input="{}")

    row = conn.execute(
        "SELECT queue, state, priority, publications, redrives, attempts, cancel_requested, max_attempts, run_at,"
        " staged_at BETWEEN now() AND clock_timestamp(), xact = pg_current_xact_id(), seq > 0 FROM redisjobs.outbox"
    ).fetchone()

    assert row == ("default", "staged", 0, 0, 0, 0, False, None, None, True, True, True)


@pytest.mark.parametrize(
    "setting",
    [
        "TimeZone = 'Asia/Kathmandu'",
        "DateStyle = 'SQL, DMY'",
        "default_transaction_isolation = 'serializable'",
        "search_path = ''",
        "IntervalStyle = 'sql_standard'",
        "session_replication_role = 'replica'",
        "standard_conforming_strings = off",
    ],
)
def test_odd_settings_of_a_session_change_nothing(conn: Conn, setting: str):
    conn.execute(sql.SQL("SET {}").format(sql.SQL(setting)))  # pyright: ignore[reportArgumentType]
    conn.commit()

    stage(conn)
    conn.execute("SELECT redisjobs.enqueue('j', delay => interval '36 hours')")
    conn.commit()

    seconds = conn.execute(
        "SELECT round(extract(epoch FROM run_at - staged_at)) FROM redisjobs.outbox WHERE run_at IS NOT NULL"
    ).fetchall()
    newest = conn.execute(
        "SELECT count(*) FROM redisjobs.outbox WHERE staged_at > now() - interval '1 minute'"
    ).fetchone()
    assert [int(str(second)) for (second,) in seconds] == [129600]
    assert newest == (2,)


def test_functions_of_the_callers_own_do_not_get_into_ids(conn: Conn):
    conn.execute("CREATE FUNCTION public.lpad(text, integer, text) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$")
    conn.execute("SET search_path = public, pg_catalog")

    stage(conn)


def test_ids_made_by_the_server_grow_with_time_and_are_uuids_of_version_7(conn: Conn):
    ids = [stage(conn) for _ in range(3)]
    conn.execute("SELECT pg_sleep(0.005)")
    later = stage(conn)

    assert {each.version for each in [*ids, later]} == {7}
    assert {each.variant for each in [*ids, later]} == {"specified in RFC 4122"}
    assert max(ids) < later


def test_a_queue_must_have_a_name_in_every_table(conn: Conn):
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute("SELECT redisjobs.pause('{odd}')")
