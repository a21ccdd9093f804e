"""What nobody should send, through every door: rows of the outbox, events, schedules, and what stands in Redis."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
import redis

from tests.faults.programme.book import Book
from tests.faults.programme.fault import fault
from tests.faults.programme.plan import QUEUES
from tests.faults.programme.site import Site
from tests.support.net import Address

Row = dict[str, Any]

_DEEP = '{"valu":' * 3000 + "1" + "}" * 3000
_ODD_ROWS: tuple[Row, ...] = (
    {"job": "plain", "input": "{}"},
    {"job": "plain", "input": '{"value": 1, "more": 2}'},
    {"job": "plain", "input": "[1, 2, 3]"},
    {"job": "plain", "input": '{"valu\\u0000": "\\ud83d"}'},
    {"job": "plain", "input": _DEEP},
    {"job": "plain", "payload": b"", "codec": "msgpack"},
    {"job": "plain", "payload": b"\xc1\xff\x00garbage", "codec": "msgpack"},
    {"job": "plain", "payload": b"\x80\x04cos\nsystem\n(S'exit 1'\ntR.", "codec": "pickle"},
    {"job": "plain", "payload": b"\xdd\xff\xff\xff\xff", "codec": "msgpack"},
    {"job": "threaded", "input": "[]", "headers": '{"traceparent": 5, "redisjobs": [], "parent": {"run": "x"}}'},
    {"job": "durable", "input": "{}", "headers": '{"": null, "\\u00e9": "\\u0000"}'},
    {"job": "webhook", "input": '{"endpoint": "\\u0000", "type": "", "data": []}'},
    {"job": "child", "input": '{"numbr": 1e999}', "headers": '{"lane": 7, "share": {}, "policy": "odd", "run": "zz"}'},
    {"job": "plain", "input": "[]", "tenant_id": "\x7f{}'\"", "idempotency_key": "\x01:{q1}"},
    {"job": "plain", "input": "[]", "traceparent": "ff-" + "0" * 32 + "-" + "0" * 16 + "-ff"},
    {"job": "plain", "input": "[]", "run_at": "0002-01-01 00:00:00+00", "expires_at": "9998-12-31 23:59:59+00"},
)
"""No body can be called with these: each ends as a dead letter."""


@fault()
async def poison_rows(site: Site, rng: random.Random) -> None:
    """Rows of the outbox as no producer of ours writes them: odd arguments, foreign codecs, junk in headers."""
    book = Book(site.folder / "books" / "producer-odd.jsonl")
    for number, odd in enumerate(rng.sample(_ODD_ROWS, len(_ODD_ROWS))):
        options = {"max_attempts": rng.choice([1, 2]), "priority": rng.choice([-100, 0, 100])}
        queue, began = rng.choice(QUEUES), time.monotonic()
        for job_id in await _insert(site, "outbox", odd | options | {"queue": queue}, "id"):
            book.write(
                "asked", deal=f"odd {number}", id=str(job_id), kind="doomed", queue=queue, value=None, key=None,
                more={}, delay=None, place=0, began=began, undone=False,
            )  # fmt: skip
            book.write("committed", deal=f"odd {number}")
        await site.lasts(rng.uniform(0, 0.4))


@fault()
async def poison_events(site: Site, rng: random.Random) -> None:
    """Events that nobody waits for, with names, keys and data of every odd kind."""
    for number in range(40):
        event: Row = {"name": rng.choice(["go", "x" * 200, "'; --", "é☃"]), "key": rng.choice(["", "\x01", "k" * 512])}
        data: Row = rng.choice([
            {}, {"input": "null"}, {"input": '{"a": "\\u0000"}'}, {"payload": b"\xc1", "codec": "msgpack"},
            {"payload": b"x", "codec": "odd"},
        ])  # fmt: skip
        await _insert(site, "events", event | data, "id")
        await site.lasts(rng.uniform(0, 0.2))
        del number


@fault()
async def poison_schedules(site: Site, rng: random.Random) -> None:
    """Schedules that nobody can read, or that ask for what is not there; taken away in the end."""
    odd: list[Row] = [
        {"cron": "61 * * * *"}, {"cron": "not a cron"}, {"cron": "* * * * *", "zone": "Mars/Olympus"},
        {"cron": "0 0 30 2 *"}, {"every": "1 hour", "jitter": "59 minutes"},
        {"every": "1 day", "starts_at": "9998-01-01 00:00:00+00"},
        {"cron": "* * * * *", "ends_at": "0002-01-01 00:00:00+00"},
    ]  # fmt: skip
    for number, row in enumerate(rng.sample(odd, len(odd))):
        await _insert(
            site, "schedules", row | {"name": f"odd {number}", "job": "nobody knows it", "input": "{}"}, "name"
        )
        await site.lasts(rng.uniform(0, 1))
    await site.lasts(rng.uniform(1, 3))
    async with await psycopg.AsyncConnection.connect(site.database_url, autocommit=True) as conn:
        await conn.execute("DELETE FROM redisjobs.schedules WHERE name LIKE 'odd %'")


@fault()
async def poison_in_redis(site: Site, rng: random.Random) -> None:
    """Junk beside the good in all that Redis holds of a queue: entries, records and ids that no script has written."""
    with site.redis.client() as client:
        thrown: list[tuple[str, Junk, bytes]] = []
        for _ in range(30):
            junk, member = rng.choice(_JUNK), rng.randbytes(rng.choice([16, 16, 16, 5, 0, 40]))
            key = f"rj:{{{rng.choice(QUEUES)}}}:{junk.name}"
            with contextlib.suppress(redis.ResponseError):  # as where there is no such stream yet
                await asyncio.to_thread(junk.throw, client, key, member, rng)
                thrown.append((key, junk, member))
                site.note(f"junk in {key}")
            await site.lasts(rng.uniform(0, 0.3))
        for key, junk, member in thrown:
            await asyncio.to_thread(junk.take_back, client, key, member)


@fault()
async def poison_on_the_wire(site: Site, rng: random.Random) -> None:
    """Strangers connect to both stores, say what no client says, and go or stay."""
    at = [Address.of_redis(site.redis_url), Address.of_postgres(site.database_url)]
    words = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 500,
        b"*1000000\r\n$-5\r\n",
        b"\x16\x03\x01\x02\0\x01\0",
        rng.randbytes(3000),
    ]
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(40):
            where = rng.choice(at)
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(where.host, where.port)
                stack.callback(writer.close)
                writer.write(rng.choice(words))
                await writer.drain()
            await site.lasts(rng.uniform(0, 0.2))


async def _insert(site: Site, table: str, row: Row, answer: str) -> list[Any]:
    """Insert a row as whoever may insert; what it is called. A row that a CHECK refuses is none."""
    columns = ", ".join(row)
    values = ", ".join(["%s"] * len(row))
    query = f"INSERT INTO redisjobs.{table} ({columns}) VALUES ({values}) RETURNING {answer}"
    async with await psycopg.AsyncConnection.connect(site.database_url, autocommit=True) as conn:
        try:
            cursor = await conn.execute(query.encode(), list(row.values()))
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.OperationalError) as error:
            site.note(f"refused: {json.dumps(row, default=repr)[:200]}: {error}")
            return []
        return [each for (each,) in await cursor.fetchall()]


def _text(rng: random.Random) -> bytes:
    """What no record looks like, or nearly as one."""
    return rng.choice(
        [b"", b"!", b"! 1-1", b"1-1 0 1 0 - 7 0 0\n", b"- 0 0 0 - 1 0 0\n", rng.randbytes(80), b"nil", b"1"]
    )


@dataclass(frozen=True, slots=True)
class Junk:
    """One kind of it; entries of streams are left to those who read them, the rest is taken back in the end."""

    name: str
    kind: Literal["entry", "field", "member", "scored"]

    def throw(self, client: redis.Redis, key: str, member: bytes, rng: random.Random) -> None:
        if self.kind == "entry":
            name = rng.choice([b"j", member])
            client.xadd(key, {name: member if name == b"j" else _text(rng)}, nomkstream=True)
        elif self.kind == "field":
            client.hset(key, member, rng.choice([member, _text(rng)]))
        elif self.kind == "member":
            client.sadd(key, member)
        else:
            client.zadd(key, {member: rng.choice([0, 1, 2e12])})

    def take_back(self, client: redis.Redis, key: str, member: bytes) -> None:
        if self.kind == "field":
            client.hdel(key, member)
        elif self.kind == "member":
            client.srem(key, member)
        elif self.kind == "scored":
            client.zrem(key, member)


_JUNK: tuple[Junk, ...] = (
    *(Junk(name, "entry") for name in ("ready:0", "ready:1", "ready:2", "ready:3", "outcomes")),
    *(Junk(name, "field") for name in ("jobs", "runs", "keys", "lanes")),
    *(Junk(name, "scored") for name in ("due", "windows", "graves", "behind", "shares", "ring")),
    Junk("cancels", "member"),
)
