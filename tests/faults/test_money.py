"""Transfers under kills, ended sessions, a lost Redis and lost replies: each is applied once (T2, T9)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults import transfers
from tests.faults.road import Road, pause, sized, up
from tests.faults.transfers import ACCOUNTS, CENTS, POINTS, pay_in, transfer
from tests.support.eventually import eventually
from tests.support.processes import Program
from tests.support.proxy import Proxy, in_front_of_postgres, in_front_of_redis

FAULTS = ("a kill", "ended sessions", "a lost Redis", "a lost reply of Redis", "a lost reply of Postgres", "cut links")
WORKERS = 2


class Bank:
    """The transfers of a test, and the workers that run them.

    Args:
        doomed: a folder; a file in it asks for the end of a process, see `transfers.die`.
    """

    def __init__(self, road: Road, redis: Proxy, postgres: Proxy, doomed: Path) -> None:
        self.road, self.redis, self.postgres, self.doomed = road, redis, postgres, doomed
        self.random = random.Random(20_26)
        self.workers: list[Program] = []
        self.numbers: list[int] = []

    def hire(self) -> None:
        """As many workers as there shall be, whatever has become of others."""
        self.workers = [worker for worker in self.workers if worker.is_running()]
        while len(self.workers) < WORKERS:
            made = self.road.worker(
                "--max-losses", "1000", place="tests.faults.transfers:app", redis=self.redis.url,
                database=self.postgres.url, slots=10, env={"BANK_DOOMED": str(self.doomed)},
            )  # fmt: skip
            self.workers.append(made)

    def order(self, count: int, *, dying: float = 0.0) -> None:
        """Commit so many transfers, some of whose processes are to end at a point of theirs."""
        first = len(self.numbers) + 1
        with self.road.connect() as conn:
            for number in range(first, first + count):
                source, target = self.random.sample(range(1, ACCOUNTS + 1), 2)
                if number % 10 == 0:
                    pay_in.enqueue(conn, number, target)
                else:
                    rest = self.random.choice([0.0, 0.0, 0.0, 4.0])
                    transfer.enqueue(conn, number, source, target, self.random.randint(1, 400), rest=rest)
                if self.random.random() < dying:
                    (self.doomed / f"{number}-{self.random.choice(POINTS)}").touch()
                self.numbers.append(number)

    def hit(self, fault: str) -> None:
        """One fault, now."""
        match fault:
            case "a kill":
                self.random.choice(self.workers).kill()
            case "ended sessions":
                own = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                self.road.query(f"{own} AND datname = current_database() AND state <> 'idle'")
            case "a lost Redis":
                self.road.redis.flushall()
            case "a lost reply of Redis":
                self.redis.lose_reply()
            case "a lost reply of Postgres":
                self.postgres.lose_reply()
            case _:
                self.redis.reset()
                self.postgres.reset()

    def unsettled(self) -> int:
        """Jobs that have not ended."""
        return int(self.road.query("SELECT count(*) FROM redisjobs.outbox")[0][0])

    def holds(self) -> None:
        """Every transfer was applied once, and no cent came or went."""
        road = self.road
        assert road.query("SELECT count(*) FROM redisjobs.dead")[0][0] == 0
        assert road.query("SELECT sum(cents)::bigint FROM bank_accounts")[0][0] == ACCOUNTS * CENTS
        moves = [number for (number,) in road.query("SELECT number FROM bank_moves WHERE number > 0 ORDER BY 1")]
        notes = [number for (number,) in road.query("SELECT number FROM bank_notes ORDER BY 1")]
        assert moves == self.numbers, "each was moved once"
        assert notes == self.numbers, "each was noted once"
        assert road.query("SELECT count(*) FROM redisjobs.steps")[0][0] == 0, "records go with their run"


@pytest.fixture
def own_bank(road: Road, tmp_path: Path) -> Iterator[Bank]:
    """A bank without workers; theirs go through proxies, the relay's do not."""
    with road.connect() as conn:
        conn.execute(transfers.TABLES.encode())
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    with in_front_of_redis(road.redis_url) as redis, in_front_of_postgres(road.database_url) as postgres:
        yield Bank(road, redis, postgres, doomed)


@asynccontextmanager
async def open_for_business(own: Bank) -> AsyncIterator[None]:
    """Workers come back while the block lasts, whatever ends them."""
    own.hire()
    await up(own.road.relay(), *own.workers)

    async def go_on_hiring() -> None:
        while True:
            await asyncio.sleep(0.2)
            own.hire()

    hiring = asyncio.create_task(go_on_hiring())
    try:
        yield
    finally:
        hiring.cancel()


@pytest.mark.timeout(sized(240, 3000))
async def test_money_moves_once_whatever_happens_at_random(own_bank: Bank):
    own, count = own_bank, sized(150, 2000)
    async with open_for_business(own):
        while len(own.numbers) < count:
            own.order(25)
            own.hit(own.random.choice(FAULTS))
            await pause(0.3, 1.0)
        await eventually(
            lambda: own.unsettled() == 0, "all have ended", sized(150, 900), despite=(psycopg.OperationalError,)
        )
    own.holds()


@pytest.mark.timeout(sized(240, 3000))
async def test_money_moves_once_whichever_point_the_process_ends_at(own_bank: Bank):
    own = own_bank
    async with open_for_business(own):
        own.order(sized(40, 400), dying=sized(0.3, 0.3))
        await eventually(lambda: own.unsettled() == 0, "all have ended", sized(200, 2500))
    own.holds()
