"""What was enqueued: calls with their arguments and options, and assertions that show how it differs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from redisjobs import App, ArgumentsError, Retry
from redisjobs.testing import (
    AsyncMemoryConnection,
    Died,
    Enqueued,
    MemoryConnection,
    Retried,
    Succeeded,
    capture,
)

app = App("shop")
AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


@app.job
async def mail(to: str, copies: int = 1) -> str:
    return to * copies


@app.job(queue="billing")
def charge(amount: Decimal, lines: list[str]) -> None:
    del amount, lines


@app.job
async def anything(**facts: Any) -> None:
    del facts


@pytest.fixture
def conn() -> MemoryConnection:
    return MemoryConnection()


@pytest.fixture
def enqueued() -> Iterator[Enqueued]:
    with capture(app) as captured:
        yield captured


def test_calls_are_there_in_their_order_with_arguments_and_options(enqueued: Enqueued, conn: MemoryConnection):
    handle = mail.using(delay=60, tenant="t", headers={"a": 1}).enqueue(conn, "a", copies=2)
    app.enqueue(conn, charge.call(Decimal("1.10"), ["x"]), mail.call("b"))

    first, second = enqueued(mail)
    assert [each.job for each in enqueued()] == ["mail", "charge", "mail"]
    assert (first.id, first.arguments, first.headers) == (handle.id, {"to": "a", "copies": 2}, {"a": 1})
    assert (first.call.delay, first.call.tenant_id, first.queue, first.direct) == (60, "t", "default", False)
    assert second.arguments == {"to": "b"}
    assert enqueued(charge)[0].arguments == {"amount": Decimal("1.10"), "lines": ["x"]}
    assert str(first) == "mail(to='a', copies=2)"


async def test_an_async_connection_will_do(enqueued: Enqueued):
    async with AsyncMemoryConnection() as connection:
        await mail.enqueue(connection, "a")
        async with connection.transaction(force_rollback=True):
            await mail.enqueue(connection, "b")

    assert [each.arguments for each in enqueued()] == [{"to": "a"}]


def test_what_is_rolled_back_was_not_enqueued(enqueued: Enqueued, conn: MemoryConnection):
    mail.enqueue(conn, "first")
    conn.commit()
    mail.enqueue(conn, "second")
    assert len(enqueued(mail)) == 2
    conn.rollback()

    enqueued.assert_enqueued(mail, to="first")
    enqueued.refute_enqueued(mail, to="second")
    with pytest.raises(AssertionError) as told:
        enqueued.assert_enqueued(mail, to="second")
    assert str(told.value) == (
        "mail(to='second') was not enqueued\n"
        "  mail(to='first'): to is 'first', not 'second'\n"
        "  mail(to='second'): was rolled back"
    )


async def test_a_direct_call_is_noted_and_goes_nowhere(enqueued: Enqueued):
    handle = await mail.using(queue="fast").enqueue_direct("a")

    [call] = enqueued(mail)
    assert (call.direct, call.id, call.queue) == (True, handle.id, "fast")


def test_an_assertion_answers_the_first_call_that_fits(enqueued: Enqueued, conn: MemoryConnection):
    mail.enqueue(conn, "a", copies=3)
    mail.enqueue(conn, "b")

    assert enqueued.assert_enqueued(mail).arguments == {"to": "a", "copies": 3}
    assert enqueued.assert_enqueued(mail, copies=1).arguments == {"to": "b"}


def test_every_option_that_is_named_is_compared(enqueued: Enqueued, conn: MemoryConnection):
    options: dict[str, Any] = {
        "queue": "bulk", "run_at": AT, "idempotency_key": "k", "window": timedelta(minutes=1), "priority": 3,
        "max_attempts": 2, "expires": 60, "tenant": "t", "headers": {"a": 1}, "enqueued_by": "tests",
    }  # fmt: skip
    others: dict[str, Any] = {
        "queue": "default", "run_at": AT + timedelta(seconds=1), "idempotency_key": "l", "priority": 4,
        "max_attempts": 3, "expires": 61, "tenant": "u", "headers": {}, "enqueued_by": "me", "delay": 5,
    }  # fmt: skip
    mail.using(**options).enqueue(conn, "a")

    enqueued.assert_enqueued(mail.using(**options), to="a")
    for name, value in options.items():
        given: dict[str, Any] = {name: value} | ({"idempotency_key": "k"} if name == "window" else {})
        enqueued.assert_enqueued(mail.using(**given))
    for name, value in others.items():
        other: dict[str, Any] = {name: value}
        with pytest.raises(AssertionError, match=rf"mail\(…\) .*was not enqueued\n  mail\(to='a'\): {name} is "):
            enqueued.assert_enqueued(mail.using(**other))


def test_moments_may_be_close_where_that_is_said(enqueued: Enqueued, conn: MemoryConnection):
    mail.using(run_at=AT).enqueue(conn, "a")
    late = mail.using(run_at=AT + timedelta(seconds=2))

    enqueued.refute_enqueued(late)
    enqueued.within(1).refute_enqueued(late)
    enqueued.within(2).assert_enqueued(late)


def test_the_message_names_the_options_that_were_asked_for(enqueued: Enqueued, conn: MemoryConnection):
    mail.enqueue(conn, "a")
    charge.enqueue(conn, Decimal(1), [])

    with pytest.raises(AssertionError) as told:
        enqueued.assert_enqueued(mail.using(delay=60, tenant="t"), to="b")
    assert str(told.value) == (
        "mail(to='b') with delay=60, tenant='t' was not enqueued\n"
        "  mail(to='a'): to is 'a', not 'b'; delay is None, not 60; tenant is None, not 't'\n"
        "  charge(amount=Decimal('1'), lines=[]): another job"
    )
    with pytest.raises(AssertionError, match=r"^mail\(to='a'\) was enqueued 1 time\(s\):\n  mail\(to='a'\)$"):
        enqueued.refute_enqueued(mail, to="a")


def test_where_nothing_was_enqueued_the_message_says_so(enqueued: Enqueued):
    with pytest.raises(AssertionError, match=r"^mail\(…\) was not enqueued, and nothing else was$"):
        enqueued.assert_enqueued(mail)
    enqueued.refute_enqueued(mail)


@pytest.mark.parametrize("ask", ["assert_enqueued", "refute_enqueued"])
def test_a_parameter_that_the_job_has_not_is_refused(enqueued: Enqueued, conn: MemoryConnection, ask: str):
    mail.enqueue(conn, "a")
    anything.enqueue(conn, whatever=1)

    with pytest.raises(ArgumentsError, match="job 'mail' has no parameter 'too': it has to, copies"):
        getattr(enqueued, ask)(mail, too="a")
    enqueued.assert_enqueued(anything, whatever=1)
    enqueued.refute_enqueued(anything, otherwise=1)


def test_after_the_block_nothing_more_is_noted(conn: MemoryConnection):
    with capture(app) as outer:
        with capture(app) as inner:
            mail.enqueue(conn, "both")
        mail.enqueue(conn, "outer")
    mail.enqueue(conn, "neither")

    assert [each.arguments["to"] for each in inner()] == ["both"]
    assert [each.arguments["to"] for each in outer()] == ["both", "outer"]


def test_calls_of_another_app_are_not_noted(enqueued: Enqueued, conn: MemoryConnection):
    other = App("other")
    other.job(name="mail")(mail.function).enqueue(conn, "a")

    assert enqueued() == []


async def test_what_is_enqueued_runs_inline_with_all_that_it_brings_forth():
    shop = App("shop")
    conn = MemoryConnection()

    @shop.job
    async def countdown(n: int) -> int:
        if n:
            countdown.enqueue(conn, n - 1)
        return n

    with capture(shop) as enqueued:
        countdown.enqueue(conn, 2)
        with conn.transaction(force_rollback=True):
            countdown.enqueue(conn, 100)
        ran = await enqueued.run()

        assert [each.outcomes for each in ran] == [[Succeeded(2)], [Succeeded(1)], [Succeeded(0)]]
        assert await enqueued.run() == []
        countdown.enqueue(conn, 0)
        assert [each.outcomes for each in await enqueued.run()] == [[Succeeded(0)]]


async def test_running_inline_follows_the_retries_of_a_job_or_raises(enqueued: Enqueued, conn: MemoryConnection):
    shop = App("shop")
    starts: list[str] = []

    @shop.job(max_attempts=3, retry=[5])
    async def flaky(until: int) -> str:
        starts.append("start")
        if len(starts) < until:
            raise ValueError("not yet")
        return "well"

    with capture(shop) as captured:
        flaky.enqueue(conn, until=2)
        [ran] = await captured.run(raises=False)
        assert ran.outcomes == [Retried(after=5), Succeeded("well")]
    with capture(shop) as captured:
        flaky.enqueue(conn, until=100)
        [ran] = await captured.run(raises=False)
        assert ran.outcomes == [Retried(after=5), Retried(after=5), Died()]
    with capture(shop) as captured, pytest.raises(ValueError, match="not yet"):
        flaky.enqueue(conn, until=100)
        await captured.run()


async def test_jobs_that_bring_each_other_forth_without_end_are_stopped(conn: MemoryConnection):
    shop = App("shop")

    @shop.job(max_attempts=1000)
    async def again() -> None:
        raise Retry(after=0)

    @shop.job
    async def rabbit() -> None:
        rabbit.enqueue(conn)

    for job in (again, rabbit):
        with capture(shop) as enqueued:
            job.enqueue(conn)
            with pytest.raises(AssertionError, match=r"attempts were not enough: (again|rabbit)\(\) still runs"):
                await enqueued.run(most=20)
