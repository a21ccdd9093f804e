"""A shop on SQLAlchemy, sync and async: `python shop.py 20` places orders, a worker runs `shop:app`."""

import asyncio
import os
import sys

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from redisjobs import App

app = App("shop")


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """What somebody ordered."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]


@app.job
async def send_confirmation(order_id: int, email: str) -> None:
    """Tell the customer."""
    print(f"order {order_id} is confirmed to {email}", flush=True)


@app.job
async def count_stock(item: str) -> None:
    """Look what is left."""
    print(f"counted: {item}", flush=True)


class PaymentDeclinedError(Exception):
    """No money, no order."""


def place_order(session: Session, number: int) -> None:
    """One order with its jobs, in the session's transaction."""
    order = Order(email=f"customer{number}@example.com")
    session.add(order)
    session.flush()  # its id is there from here on; enqueuing flushes nothing
    send_confirmation.enqueue(session, order.id, order.email)
    app.enqueue(session, [count_stock.call(item) for item in ("lamps", "chairs")])
    if number % 5 == 0:
        raise PaymentDeclinedError(order.email)


async def place_order_async(session: AsyncSession, number: int) -> None:
    """The same on an async session; a savepoint takes back what is enqueued inside of it."""
    order = Order(email=f"async{number}@example.com")
    session.add(order)
    await session.flush()
    await send_confirmation.enqueue(session, order.id, order.email)
    savepoint = await session.begin_nested()
    await count_stock.enqueue(session, "tables")
    await savepoint.rollback()


async def place_async(url: str, count: int) -> None:
    """Place orders on an async engine."""
    engine = create_async_engine(url)
    async with AsyncSession(engine) as session, session.begin():
        for number in range(1, count + 1):
            await place_order_async(session, number)
    await engine.dispose()


def main(count: int) -> None:
    """So many orders of each kind. The engines speak psycopg and asyncpg; psycopg can do both."""
    url = os.environ["REDISJOBS_DATABASE_URL"]
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    Base.metadata.create_all(engine)
    for number in range(1, count + 1):
        try:
            with Session(engine) as session, session.begin():
                place_order(session, number)
        except PaymentDeclinedError as error:
            print(f"{error}: payment declined, so no order and no job")
    asyncio.run(place_async(url.replace("postgresql://", "postgresql+asyncpg://"), count))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
