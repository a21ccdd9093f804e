"""One queue in Redis, driven by hand: the broker and the carrier as the stations use them, and a look behind them.

q.publish(publication("mail"))  →  await q.take()  →  await q.finish(delivery)  →  await q.settle()  →  q.bury()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import redis as redis_py
from redis.backoff import NoBackoff
from redis.retry import Retry

from redisjobs.base import scripts
from redisjobs.broker import (
    Answer,
    Broker,
    Carrier,
    Delivery,
    Fence,
    Heart,
    Outcome,
    Presence,
    Publication,
    ShareRule,
    Word,
)
from redisjobs.broker.client import run_sync
from tests.support import builders

STREAMS = ("ready0", "ready1", "ready2", "ready3")
LEASE_MS = 30_000


class QueueByHand:
    """The queue `q`, opened under token 1 in the life `life-1`.

    Attributes:
        redis: a plain client without retries, for looking and for doing harm.
    """

    def __init__(self, url: str, queue: str = "q") -> None:
        self.queue = queue
        self.broker = Broker.connect(url)
        self.carrier = Carrier(self.broker.redis)
        self.heart = Heart(url)
        self.fence = Fence(queue, 1, "life-1")
        self.redis: Any = redis_py.Redis.from_url(url, socket_timeout=30, retry=Retry(NoBackoff(), 0))
        self.settled = b"0-0"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.close()
        self.heart.close()
        self.redis.close()

    # -- the road
    async def open(
        self, *, token: int = 1, epoch: str = "life-1", paused: bool = False, shares: Sequence[ShareRule] = ()
    ) -> None:
        """Hold the queue under this token, and name the life of Redis."""
        self.fence = Fence(self.queue, token, epoch)
        life = await self.carrier.open(self.queue, token, paused=paused, shares=shares)
        if life.epoch != epoch:
            await self.carrier.adopt(self.fence, [])
            self.settled = b"0-0"

    def present(self, worker: str = "w1", *, slots: int = 10, state: str = "running", seen_s: float = 0.0) -> None:
        """A worker said so many seconds ago that it serves the queue."""
        said = Presence(worker, state=state, queues=[self.queue], slots={self.queue: slots})
        self.heart.tell(worker, said.pack())
        self.redis.zincrby("rj:{-}:seen", -1000 * seen_s, worker)

    async def publish(self, *jobs: Publication) -> list[tuple[str, bytes | None]]:
        return await self.carrier.publish(self.fence, jobs)

    async def take(self, consumer: str = "w1", count: int = 100, lease_ms: int = LEASE_MS) -> list[Delivery]:
        return (await self.broker.take(self.queue, consumer, count, lease_ms=lease_ms)).deliveries

    async def take_one(self, consumer: str = "w1", lease_ms: int = LEASE_MS) -> Delivery:
        taken = await self.take(consumer, 1, lease_ms)
        assert len(taken) == 1, f"{consumer} got {len(taken)} jobs instead of one"
        return taken[0]

    async def finish(self, delivery: Delivery, word: Word = "done", /, consumer: str = "w1", **given: object) -> Answer:
        """End this attempt; `given` are fields of `Finish`."""
        return (await self.broker.finish(self.queue, consumer, [builders.finish(delivery, word, **given)]))[0]

    async def reclaim(
        self, consumer: str = "w2", count: int = 100, lease_ms: int = 1, losses: int = 3
    ) -> list[Delivery]:
        return await self.broker.reclaim(self.queue, consumer, count, lease_ms=lease_ms, max_losses=losses)

    async def outcomes(self) -> list[Outcome]:
        """Those that are not settled yet."""
        return await self.carrier.outcomes(self.queue, self.settled, 10_000)

    async def settle(self) -> list[Outcome]:
        """What a settler does, without Postgres."""
        outcomes = await self.outcomes()
        if outcomes:
            positions = list(dict.fromkeys(outcome.position for outcome in outcomes))
            await self.carrier.settled(self.fence, positions)
            self.settled = positions[-1]
        return outcomes

    async def run_all(self) -> list[bytes]:
        """Take and finish until nothing is left to do; answers the ids that ran, in order."""
        ran: list[bytes] = []
        while True:
            await self.broker.promote(self.queue)
            taken = await self.take("runner", 500)
            if not taken:
                return ran
            answers = await self.broker.finish(self.queue, "runner", [builders.finish(each) for each in taken])
            assert set(answers) == {"ok"}
            ran += [each.job_id for each in taken]

    # -- behind it
    def script(self, name: str, *arguments: bytes | str | int) -> Any:
        """Run a script with just these arguments."""
        script = scripts.load(name)
        return run_sync(self.redis, script, self.broker.keys.of(self.queue, script), arguments)

    def key(self, name: str) -> bytes:
        return self.broker.keys.key(self.queue, name)

    def bury(self, grace_ms: int = 0) -> int:
        """Bury everything that was settled at least so long ago; answers how many outcomes went."""
        buried = 0
        while went := self.script("bury", 1000, grace_ms):
            buried += went
        return buried

    def record(self, job_id: bytes) -> bytes | None:
        """What `jobs` holds of a job."""
        return cast("bytes | None", self.redis.hget(self.key("jobs"), job_id))

    def run(self, job_id: bytes) -> list[bytes]:
        """What `runs` holds of a job: starts attempts losses holder entry lease last."""
        found = self.redis.hget(self.key("runs"), job_id)
        return found.split(b" ") if found else []

    def depths(self) -> list[int]:
        """How many entries each stream has."""
        return [self.redis.xlen(self.key(stream)) for stream in STREAMS]

    def left(self) -> dict[bytes, Any]:
        """What is left of jobs: everything but `life` and the empty streams."""
        found = dump(self.redis, f"rj:{{{self.queue}}}:".encode())
        return {key: value for key, value in found.items() if key != self.key("life") and not _is_empty_stream(value)}

    def dump(self, *, without: Sequence[str] = ()) -> dict[bytes, Any]:
        """Every key of the queue with its value; of deliveries who has them, of workers who is there, not when."""
        found = dump(self.redis, f"rj:{{{self.queue}}}:".encode())
        for name in ("seen", "expiry", "look"):
            if times := found.get(self.key(name)):
                found[self.key(name)] = set(times)
        for key, pace in found.get(self.key("rates"), {}).items():
            found[self.key("rates")][key] = [*pace.split(b" ")[:2], not pace.endswith(b" 0")]
        for field in without:
            found.get(self.key("life"), {}).pop(field.encode(), None)
        return found


def dump(client: Any, prefix: bytes) -> dict[bytes, Any]:
    """Every key below a prefix with its value, in a form that can be compared."""
    read = {
        b"hash": client.hgetall,
        b"zset": lambda key: dict(client.zrange(key, 0, -1, withscores=True)),
        b"set": client.smembers,
        b"string": client.get,
        b"stream": lambda key: _stream(client, key),
    }
    return {key: read[client.type(key)](key) for key in client.scan_iter(count=1000) if key.startswith(prefix)}


def _stream(client: Any, key: bytes) -> dict[str, Any]:
    groups = {}
    for group in client.xinfo_groups(key):
        pending = client.xpending_range(key, group["name"], "-", "+", 100_000)
        groups[group["name"]] = [(each["message_id"], each["consumer"]) for each in pending]
    return {"entries": client.xrange(key), "groups": groups}


def _is_empty_stream(value: Any) -> bool:
    return isinstance(value, dict) and not value.get("entries", True) and not any(value["groups"].values())
