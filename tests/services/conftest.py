"""What only tests of one module on real stores need."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from redisjobs.doctor import limits
from tests.support.both import Both
from tests.support.crew import Crew
from tests.support.listening import Listener, listening
from tests.support.outboxes import in_postgres
from tests.support.queue import QueueByHand
from tests.support.relays import Hand, RelayByHand, hand, relay_by_hand
from tests.support.runs import AnyRuns
from tests.support.runs import in_postgres as runs_in_postgres


@pytest.fixture
async def q(redis_url: str) -> AsyncIterator[QueueByHand]:
    """A queue on the shared Redis, opened; scripts are called as the stations call them."""
    async with QueueByHand(redis_url) as opened:
        yield opened


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    """A relay with the usual settings, whose rounds are asked for one by one."""
    async with relay_by_hand(database_url, redis_url) as made:
        yield made


@pytest.fixture
async def worker(redis_url: str) -> AsyncIterator[Hand]:
    """A worker that does what the test says."""
    async with hand(redis_url) as made:
        yield made


@pytest.fixture
async def both(database_url: str) -> AsyncIterator[Both]:
    """The two stores of the outbox, empty."""
    opened: list[Any] = []
    made = Both(in_postgres(database_url, opened))
    await made.outboxes[0].database.open()
    yield made
    for each in opened:
        each.close()
    await made.outboxes[0].database.close()


@pytest.fixture
async def runs(database_url: str) -> AsyncIterator[AnyRuns]:
    """The step store in Postgres, with runs in it."""
    opened: list[Any] = []
    made = runs_in_postgres(database_url, opened)
    yield made
    for each in opened:
        each.close()
    await made.store.close()


@pytest.fixture
def listener(database_url: str) -> Iterator[Listener]:
    """Hears what producers and senders of events notify."""
    with listening(database_url) as opened:
        yield opened


@pytest.fixture
async def crew(redis_url: str) -> AsyncIterator[Crew]:
    """An app and its workers on the shared Redis, all ended with the test."""
    made = Crew(redis_url)
    yield made
    await made.close()


@pytest.fixture
def role(database_url: str) -> Iterator[Callable[[str], str]]:
    """Makes a login role with this grant; answers its URL."""
    made: list[str] = []
    conn = psycopg.connect(database_url, autocommit=True)

    def make(grant: str) -> str:
        name, password = f"rj_{grant}_{secrets.token_hex(4)}", secrets.token_hex(8)
        made.append(name)
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(password)))
        conn.execute(sql.SQL("SELECT redisjobs.{}({})").format(sql.Identifier(f"grant_{grant}"), sql.Literal(name)))
        known = conninfo_to_dict(conn.info.dsn)
        url = f"postgresql://{name}:{password}@/{known['dbname']}?host={known['host']}&port={known.get('port', 5432)}"
        assert make_conninfo(url)
        return url

    yield make
    for name in made:
        conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
    conn.close()


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor calls no store slow, however busy this machine is."""
    for name in ("SLOW_S", "TOO_SLOW_S", "CLOCK_S"):
        monkeypatch.setattr(limits, name, 60.0)
