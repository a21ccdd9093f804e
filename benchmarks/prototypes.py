"""Prototypes to compare with: the least that a relay or a worker of this kind can do.

    python -m benchmarks.prototypes relay N | worker N CONCURRENCY | listen | serve

The relay locks rows, puts them into a stream and marks them; it knows no order between relays, no fence, no due
times and no keys. The worker has a task, a deadline and a context variable for each job and sends its
acknowledgements in batches; it knows no leases, retries or results. Each fills its own store first, and prints
what it did. `listen` and `serve` are a relay and a worker that go on until they are ended, for one job now and then.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any

import psycopg
import redis.asyncio as async_redis

from benchmarks.jobs import body, noop
from redisjobs.settings import Settings

BATCH = 500
READ = 200
ACKS = 100
CHANNEL = "proto"
TABLE = """CREATE TABLE IF NOT EXISTS proto_outbox (
               id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL,
               staged_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz);
           CREATE INDEX IF NOT EXISTS proto_waiting ON proto_outbox (id) WHERE published_at IS NULL"""
SELECT = b"SELECT id, body FROM proto_outbox WHERE published_at IS NULL ORDER BY id LIMIT %(n)s FOR UPDATE SKIP LOCKED"
MARK = b"UPDATE proto_outbox SET published_at = now() WHERE id = ANY(%(ids)s)"
ADD = "for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'b', ARGV[i]) end"
END = "redis.call('XACK', KEYS[1], 'g', unpack(ARGV)) redis.call('XDEL', KEYS[1], unpack(ARGV))"

Answer = dict[str, float]


async def relay(count: int) -> Answer:
    """Carry rows that are there already."""
    settings = Settings.load()
    redis: Any = async_redis.Redis.from_url(settings.need_redis_url())
    connection = await psycopg.AsyncConnection.connect(settings.need_database_url(), autocommit=True)
    await connection.execute(TABLE)
    async with connection.cursor().copy("COPY proto_outbox (body) FROM STDIN") as copy:
        for number in range(count):
            await copy.write_row((json.dumps(body(number)).encode(),))
    await connection.execute("VACUUM ANALYZE proto_outbox")
    add = await redis.script_load(ADD)
    began, used, left = time.perf_counter(), time.process_time(), count
    while left > 0:
        async with connection.transaction():
            rows = await (await connection.execute(SELECT, {"n": BATCH}, binary=True)).fetchall()
            await redis.evalsha(add, 1, "proto", *[row[1] for row in rows])
            await connection.execute(MARK, {"ids": [row[0] for row in rows]})
        left -= len(rows)
    answer = _answer(count, began, used)
    await connection.close()
    await redis.aclose()
    return answer


class Worker:
    """Runs what the stream holds."""

    def __init__(self, redis: Any, count: int, concurrency: int) -> None:
        self.redis = redis
        self.left = count
        self.slots = asyncio.Semaphore(concurrency)
        self.done: list[bytes] = []
        self.deadlines: dict[asyncio.Task[None], float] = {}
        self.job: ContextVar[bytes] = ContextVar("job")
        self.flush = asyncio.Event()

    async def body(self, arguments: dict[str, Any]) -> None:
        """The job."""
        assert arguments["i"] >= 0

    async def run(self, entry: bytes, packed: bytes) -> None:
        """One job."""
        self.job.set(entry)
        try:
            await self.body(json.loads(packed))
        finally:
            self.slots.release()
        self.done.append(entry)
        if len(self.done) == 1 or len(self.done) >= ACKS:
            self.flush.set()

    async def read(self) -> None:
        """Take entries, and make a task of each."""
        while True:
            reply = await self.redis.execute_command(
                "XREADGROUP", "GROUP", "g", "c", "COUNT", READ, "BLOCK", 200, "STREAMS", "proto", ">"
            )
            for entry, fields in reply[0][1] if reply else ():
                await self.slots.acquire()
                task = asyncio.get_running_loop().create_task(self.run(entry, fields[b"b"]), context=Context())
                self.deadlines[task] = time.monotonic() + 60
                task.add_done_callback(self.deadlines.pop)

    async def sweep(self) -> None:
        """Cancel what is past its deadline."""
        while True:
            await asyncio.sleep(0.25)
            now = time.monotonic()
            for task, deadline in list(self.deadlines.items()):
                if deadline < now:
                    task.cancel()

    async def acknowledge(self) -> None:
        """Tell Redis what has ended, many at a time."""
        end = await self.redis.script_load(END)
        while self.left > 0:
            await self.flush.wait()
            self.flush.clear()
            await asyncio.sleep(0.002 if len(self.done) < ACKS else 0)
            while self.done:
                batch, self.done = self.done[:ACKS], self.done[ACKS:]
                await self.redis.evalsha(end, 1, "proto", *batch)
                self.left -= len(batch)


async def worker(count: int, concurrency: int) -> Answer:
    """Drain a stream that is filled already."""
    redis: Any = async_redis.Redis.from_url(Settings.load().need_redis_url(), protocol=2)
    add = await redis.script_load(ADD)
    for first in range(0, count, BATCH):
        bodies = [json.dumps(body(number)) for number in range(first, min(count, first + BATCH))]
        await redis.evalsha(add, 1, "proto", *bodies)
    await redis.xgroup_create("proto", "g", "0")
    made = Worker(redis, count, concurrency)
    began, used = time.perf_counter(), time.process_time()
    beside = [asyncio.create_task(each) for each in (made.read(), made.sweep())]
    await made.acknowledge()
    answer = _answer(count, began, used)
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    await redis.aclose()
    return answer


async def listen() -> Answer:
    """Carry each row as soon as its commit is heard of."""
    settings = Settings.load()
    redis: Any = async_redis.Redis.from_url(settings.need_redis_url())
    connection = await psycopg.AsyncConnection.connect(settings.need_database_url(), autocommit=True)
    ear = await psycopg.AsyncConnection.connect(settings.need_database_url(), autocommit=True)
    await connection.execute(TABLE)
    await ear.execute(f"LISTEN {CHANNEL}".encode())
    add = await redis.script_load(ADD)
    async for _ in ear.notifies():
        async with connection.transaction():
            rows = await (await connection.execute(SELECT, {"n": BATCH}, binary=True)).fetchall()
            if rows:
                await redis.evalsha(add, 1, "proto", *[row[1] for row in rows])
                await connection.execute(MARK, {"ids": [row[0] for row in rows]})
    return {}


async def serve() -> Answer:
    """Run each entry as soon as it is there."""
    redis: Any = async_redis.Redis.from_url(Settings.load().need_redis_url(), protocol=2, socket_timeout=30)
    await redis.xgroup_create("proto", "g", "0", mkstream=True)
    end = await redis.script_load(END)
    while True:
        reply = await redis.execute_command(
            "XREADGROUP", "GROUP", "g", "c", "COUNT", READ, "BLOCK", 5000, "STREAMS", "proto", ">"
        )
        for entry, fields in reply[0][1] if reply else ():
            await noop.function(json.loads(fields[b"b"]))
            await redis.evalsha(end, 1, "proto", entry)


def _answer(count: int, began: float, used: float) -> Answer:
    return {
        "rate": count / (time.perf_counter() - began),
        "cpu_us": (time.process_time() - used) / count * 1e6,
    }


def run(work: Coroutine[Any, Any, Answer]) -> None:
    """Run it as the product's programs run, and print its answer."""
    try:
        import uvloop  # noqa: PLC0415  # an extra

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(work)))


PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, Answer]]] = {
    "relay": relay, "worker": worker, "listen": listen, "serve": serve,
}  # fmt: skip


if __name__ == "__main__":
    run(PROGRAMS[sys.argv[1]](*map(int, sys.argv[2:])))
