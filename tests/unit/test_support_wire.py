"""Requests and replies are cut where they end, however the bytes come."""

from __future__ import annotations

import struct

import pytest

from tests.support.rules import Action, Rule, anything, command, redis_match, script_sha, statement
from tests.support.wire import NoWire, PostgresWire, RedisWire, Reply, Request, Wire

ASKED = b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n" + b"PING\r\n" + b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\n\r\n*1\r\n\r\n"
TOLD = [
    b":1\r\n",
    b"-NOSCRIPT none\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"$6\r\n\r\n*1\r\n\r\n",
    b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n+OK\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n",
    b"~1\r\n#t\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"|1\r\n+ttl\r\n:5\r\n:7\r\n",
]


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_redis_requests_are_cut(size: int):
    wire = RedisWire()

    found = [request for piece in in_pieces(ASKED, size) for request in wire.requests(piece)]

    assert [request.words for request in found] == [(b"INCR", b"a"), (b"PING",), (b"SET", b"a", b"\r\n*1\r\n")]
    assert b"".join(request.raw for request in found) == ASKED


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_redis_replies_are_cut(size: int):
    wire = RedisWire()

    found = [reply for piece in in_pieces(b"".join(TOLD), size) for reply in wire.replies(piece)]

    assert [reply.raw for reply in found] == TOLD


def test_what_redis_pushes_belongs_to_no_request():
    assert RedisWire().replies(b">2\r\n+message\r\n+hello\r\n:1\r\n") == [
        Reply(b">2\r\n+message\r\n+hello\r\n", pushed=True),
        Reply(b":1\r\n"),
    ]


def test_a_script_is_known_by_its_sha_in_both_forms():
    sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"  # of `return 1`
    matches = script_sha(sha)

    assert matches(Request(b"", (b"EVALSHA", sha.upper().encode(), b"0")))
    assert matches(Request(b"", (b"eval", b"return 1", b"0")))
    assert not matches(Request(b"", (b"EVAL", b"return 2", b"0")))
    assert not matches(Request(b"", (b"GET", sha.encode())))


def test_strings_stand_for_commands_and_scripts():
    assert redis_match("XADD")(Request(b"", (b"xadd", b"rj:s")))
    assert command("SCRIPT", "load")(Request(b"", (b"script", b"LOAD", b"return 1")))
    assert redis_match(None) is anything
    assert not anything(Request(b"", (b"HELLO", b"3")))


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


STARTUP = struct.pack("!II", 16, 196608) + b"user\0me\0"
PREPARE = message(b"P", b"s1\0INSERT INTO t VALUES ($1)\0\0\0")
BIND = message(b"B", b"\0s1\0\0\0")
EXECUTE, SYNC, DATA = message(b"E", b"\0\0\0\0\0"), message(b"S", b""), message(b"d", b"1\n")
COMMIT = message(b"Q", b"COMMIT\0")


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_postgres_requests_go_up_to_what_the_server_answers(size: int):
    wire = PostgresWire()
    asked = STARTUP + PREPARE + SYNC + BIND + EXECUTE + SYNC + DATA + COMMIT

    found = [request for piece in in_pieces(asked, size) for request in wire.requests(piece)]

    assert [(request.command, request.answered) for request in found] == [
        ("STARTUP", True),
        ("", True),
        ("INSERT", True),
        ("", False),
        ("COMMIT", True),
    ]
    assert b"".join(request.raw for request in found) == asked


def test_postgres_answers_end_with_ready_for_query():
    told = [message(b"C", b"COMMIT\0"), message(b"Z", b"I"), message(b"A", b"notice")]

    assert PostgresWire().replies(b"".join(told)) == [
        Reply(told[0], ends=False),
        Reply(told[1]),
        Reply(told[2], ends=False),
    ]


def test_statements_are_met_by_whole_words():
    matches = statement("insert into orders")

    assert matches(Request(b"", (b"BEGIN", b"INSERT INTO orders VALUES (1)")))
    assert not matches(Request(b"", (b"INSERT INTO orders_old VALUES (1)",)))


@pytest.mark.parametrize("wire", [NoWire(), RedisWire(), PostgresWire()])
def test_nothing_comes_of_nothing(wire: Wire):
    assert wire.requests(b"") == [] or isinstance(wire, NoWire)


def test_a_rule_counts_only_the_requests_that_it_meets():
    rule = Rule(Action.LOSE_REPLY, command("SET"), lambda change: change(), nth=2, times=1)
    asked, other = Request(b"", (b"SET",)), Request(b"", (b"GET",))

    assert not rule.meets(other)
    assert [rule.meets(asked) and rule.applies() for _ in range(4)] == [False, True, False, False]
