"""O4: the short way into Redis, and what an app asks Redis about; from any loop, thread and forked child."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from redisjobs import App, BrokerUnavailable, DecodeError, JobCancelled, JobExpired, JobFailed, ResultTimeout
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Delivery, Finish
from redisjobs.record import ErrorRecord, pack
from tests.support.net import free_port

RECORD = ErrorRecord(attempt=1, at="", type="ValueError", message="no", traceback="")


def declared(app: App) -> Any:
    @app.job(result_ttl=60, priority=0)
    async def mail(to: str, at: datetime | None = None) -> tuple[str, datetime | None]:
        return to, at

    return mail


@pytest.fixture
async def app(redis_url: str) -> AsyncIterator[App]:
    made = App("shop", redis_url=redis_url)
    yield made
    await made.close()


async def taken(app: App, queue: str = "default") -> list[Delivery]:
    return (await app.broker().take(queue, "w", 100, lease_ms=30_000)).deliveries


async def finished(app: App, delivery: Delivery, **finish: Any) -> None:
    await app.broker().finish(delivery.queue, "w", [Finish(delivery, keep_ms=60_000, **finish)])


async def test_a_direct_job_is_in_its_stream_with_all_it_carries(app: App):
    mail = declared(app)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    using = mail.using(
        queue="bulk", idempotency_key="k é", window=1.5, max_attempts=3, tenant="t", headers={"a": 1}, enqueued_by="me"
    )

    handle = await using.enqueue_direct("a@example.org", at=at)

    [delivery] = await taken(app, "bulk")
    envelope = Envelope.unpack(delivery.body)
    assert delivery.direct
    assert delivery.job_id.hex() == handle.id.replace("-", "")
    assert mail.arguments(envelope.codec, envelope.payload) == {"to": "a@example.org", "at": at}
    assert (envelope.job, envelope.idempotency_key, envelope.key_window) == ("mail", "k é", 1.5)
    assert (envelope.max_attempts, envelope.tenant_id, envelope.enqueued_by) == (3, "t", "me")
    assert (envelope.headers, envelope.run_at, envelope.priority) == ('{"a":1}', None, 0)
    assert envelope.staged_at is not None


async def test_a_key_that_is_held_answers_with_its_holder(app: App):
    mail = declared(app)
    first = await mail.using(idempotency_key="k").enqueue_direct("a")

    second = await mail.using(idempotency_key="k").enqueue_direct("b")
    elsewhere = await mail.using(idempotency_key="k", queue="other").enqueue_direct("c")

    assert (first.duplicate, second.duplicate, elsewhere.duplicate) == (False, True, False)
    assert second.id == first.id != elsewhere.id
    assert await app.holder("default", "k") == first.id
    assert await app.holder("other", "k") == elsewhere.id
    assert await app.holder("default", "K") is None
    assert len(await taken(app)) == 1


async def test_many_calls_of_many_queues_keep_their_places(app: App):
    mail = declared(app)
    calls = [mail.using(queue=f"q{n % 3}", priority=n % 2).call(str(n)) for n in range(30)]

    handles = await app.enqueue_direct(calls[:10], calls[10], iter(calls[11:]))

    assert [handle.id for handle in handles] == [str(call.id) for call in calls]
    assert len(await taken(app, "q0")) == len(await taken(app, "q2")) == 10
    assert await app.enqueue_direct() == []


async def test_a_delay_and_an_expiry_are_kept(app: App):
    mail = declared(app)
    soon = datetime.now(UTC) + timedelta(hours=1)

    await mail.using(delay=3600).enqueue_direct("later")
    await mail.using(run_at=soon).enqueue_direct("later too")
    await mail.using(expires=soon - timedelta(hours=2)).enqueue_direct("expired")
    await mail.using(run_at=soon - timedelta(hours=2)).enqueue_direct("past is now")

    first, second = await taken(app)
    promoted = await app.broker().promote("default")
    assert (first.expired, second.expired) == (True, False)
    assert promoted.next_due_ms is not None
    assert 3_590_000 < promoted.next_due_ms <= 3_600_000


async def test_a_result_comes_back_with_its_type(app: App):
    mail = declared(app)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    handle = await mail.enqueue_direct("a")
    waiting = asyncio.create_task(handle.result(timeout=10))
    [delivery] = await taken(app)

    await finished(app, delivery, word="done", record=pack(result=mail.encode_result(("a", at))))

    assert await waiting == ("a", at)
    assert await app.handle(handle.id, mail).result() == ("a", at)


async def test_a_result_that_does_not_come_is_told(app: App):
    handle = await declared(app).enqueue_direct("a")

    with pytest.raises(ResultTimeout, match=f"job {handle.id} .mail. has no result after 0.05 s"):
        await handle.result(timeout=timedelta(milliseconds=50))
    with pytest.raises(ResultTimeout):
        await handle.result(timeout=0)


@pytest.mark.parametrize(
    ("finish", "error", "text"),
    [
        ({"word": "dead", "record": pack(RECORD)},
         JobFailed, "ValueError: no"),
        ({"word": "dead", "record": pack(why="its workers were lost")}, JobFailed, "its workers were lost"),
        ({"word": "dead"}, JobFailed, "lost again and again"),
        ({"word": "cancelled", "record": pack(why="by me")}, JobCancelled, "by me"),
        ({"word": "expired"}, JobExpired, "expires"),
        ({"word": "done"}, DecodeError, "not kept"),
    ],
)  # fmt: skip
async def test_what_went_wrong_is_raised_where_the_result_is_asked_for(app: App, finish, error, text: str):
    handle = await declared(app).enqueue_direct("a")
    [delivery] = await taken(app)
    await finished(app, delivery, **finish)

    with pytest.raises(error, match=text):
        await handle.result(timeout=10)


async def test_a_redis_that_does_not_answer_is_told():
    app = App(redis_url=f"redis://127.0.0.1:{free_port()}")

    with pytest.raises(BrokerUnavailable):
        await declared(app).enqueue_direct("a")
    await app.close()


@asynccontextmanager
async def closing(app: App) -> AsyncIterator[App]:
    try:
        yield app
    finally:
        await app.close()


async def test_eight_threads_each_with_its_own_loop_use_one_app(redis_url: str, app: App):
    """Case D05."""
    mail = declared(app)
    failures: list[BaseException] = []

    async def many() -> None:
        async with closing(app):
            for n in range(50):
                await mail.enqueue_direct(str(n))

    def run(work: Callable[[], Any]) -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001  # shown by the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(many,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        await mail.enqueue_direct("main")
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert failures == []
    assert await app.broker().redis.xlen("rj:{default}:ready:1") == 8 * 50 + 20


def test_one_loop_after_the_other_leaves_nothing_behind(redis_url: str):
    app = App(redis_url=redis_url)
    mail = declared(app)

    async def once() -> str:
        async with closing(app):
            return str((await mail.enqueue_direct("a")).id)

    assert len({asyncio.run(once()) for _ in range(5)}) == 5
    assert app._clients._brokers == {}


def test_a_forked_child_opens_connections_of_its_own(redis_url: str):
    """Case D06: the parent's connection is open and in use before, while and after its children work."""
    program = f"""
import asyncio, os
from redisjobs import App
app = App(redis_url={redis_url!r})
@app.job
async def mail(n: int) -> None: ...
async def many(count):
    for n in range(count):
        await mail.enqueue_direct(n)
async def end():
    print(await app.broker().redis.xlen("rj:{{default}}:ready:1"))
    await app.close()
loop = asyncio.new_event_loop()
loop.run_until_complete(many(1))
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        asyncio.run(many(50))
        os._exit(0)
    children.append(pid)
    loop.run_until_complete(many(25))
ends = [os.waitpid(pid, 0)[1] for pid in children]
assert ends == [0, 0, 0, 0], ends
loop.run_until_complete(many(50))
loop.run_until_complete(end())
loop.close()
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, timeout=60)

    assert (said.returncode, said.stdout.strip()) == (0, str(1 + 4 * 50 + 4 * 25 + 50)), said.stderr
