"""What only tests of one module on real stores need."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from redisjobs.doctor import limits
from tests.support.crew import Crew
from tests.support.queue import QueueByHand


@pytest.fixture
async def q(redis_url: str) -> AsyncIterator[QueueByHand]:
    """A queue on the shared Redis, opened; scripts are called as the stations call them."""
    async with QueueByHand(redis_url) as opened:
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
