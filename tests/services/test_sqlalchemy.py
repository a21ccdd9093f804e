"""What is SQLAlchemy's own about enqueuing: flushes, scopes, engines that cannot do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection, Engine, create_engine, select, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from redisjobs import App, ConfigurationError, OptionError
from tests.support.parties import engine_url

app = App("shop")


@app.job
async def mail(order_id: int | None) -> None:
    del order_id


class Base(DeclarativeBase):
    """The tables of the caller."""


class Order(Base):
    """One of them."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = create_engine(engine_url("psycopg", database_url))
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def staged(session: Session | Connection) -> list[Any]:
    return list(session.execute(text("SELECT input FROM redisjobs.outbox ORDER BY seq")).scalars())


def test_nothing_is_flushed_so_that_an_id_is_there_after_a_flush_of_the_callers_own(engine: Engine):
    with Session(engine) as session, session.begin():
        order = Order()
        session.add(order)
        mail.enqueue(session, order.id)
        assert order in session.new

        session.flush()
        mail.enqueue(session, order.id)

    with Session(engine) as session:
        assert staged(session) == [{"order_id": None}, {"order_id": 1}]
        assert session.scalars(select(Order.id)).all() == [1]


def test_a_session_of_a_scope_and_one_of_a_factory_will_do(engine: Engine):
    scope = scoped_session(sessionmaker(engine))
    mail.enqueue(scope, 1)
    scope.commit()
    with sessionmaker(engine).begin() as session:
        mail.enqueue(session, 2)

    assert staged(scope()) == [{"order_id": 1}, {"order_id": 2}]
    scope.remove()


def test_a_connection_that_commits_by_itself_commits_the_row(engine: Engine):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        mail.enqueue(connection, 1)

    with engine.connect() as other:
        assert staged(other) == [{"order_id": 1}]


async def test_the_sync_session_below_an_async_one_will_do(database_url: str):
    engine = create_async_engine(engine_url("asyncpg", database_url))
    async with AsyncSession(engine) as session, session.begin():
        handle = await session.run_sync(lambda below: mail.enqueue(below, 1))

        assert await session.scalar(text("SELECT id::text FROM redisjobs.outbox")) == handle.id
    await engine.dispose()


def test_an_engine_of_another_database_is_told_which_will_do():
    other = create_engine("sqlite://")
    with other.connect() as connection, pytest.raises(ConfigurationError, match=r"sqlite.*psycopg://"):
        mail.enqueue(connection, 1)
    other.dispose()


async def test_what_has_no_transaction_is_refused(engine: Engine):
    for refused in (engine, asyncpg.create_pool("postgresql://"), object()):
        with pytest.raises(OptionError, match=r"AsyncSession.*\[sqlalchemy\].*\[asyncpg\]\), not its pool.*\[django\]"):
            mail.enqueue(refused, 1)  # type: ignore[call-overload]
