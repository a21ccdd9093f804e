"""Each log line on an attempt says whose it is, and none says what it was given (rules W11, G7)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from redisjobs.base.envelope import Envelope
from redisjobs.cli.logging import Json
from redisjobs.context import Context
from tests.support.builders import publication
from tests.support.crew import Crew
from tests.support.eventually import eventually
from tests.support.tracing import tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
SENT = f"00-{TRACE}-b7ad6b7169203331-01"
PAYLOAD = b'{"card": "4111-marker"}'


class Lines(logging.StreamHandler[io.StringIO]):
    """What a worker's command would write with `--log-format json`."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.setFormatter(Json())

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if name in (line.get("event"), line.get("message"))]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


async def put(crew: Crew, job: str, **given: Any) -> str:
    envelope = Envelope(job, "json", PAYLOAD, tenant_id="acme", traceparent=SENT)
    await crew.broker.enqueue_direct("default", [made := publication(envelope, **given)])
    text = made.job_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def whose(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line.get(name) for name in ("job", "job_id", "queue", "attempt", "tenant_id", "trace_id")}


async def test_every_line_on_an_attempt_names_it(crew: Crew, lines: Lines):
    @crew.app.job(name="pay", retry=[0.01], max_attempts=2)
    async def pay(ctx: Context, card: str) -> None:
        logging.getLogger("shop").info("paying")
        raise ConnectionError("no answer")

    @crew.app.job(name="late")
    async def late(card: str) -> None: ...

    paid, unknown = await put(crew, "pay"), await put(crew, "of_tomorrow")
    expired, done = await put(crew, "late", expire_ms=-1), await put(crew, "late")
    await crew.start()
    await eventually(lambda: lines.of("job.dead"), "the last attempt has failed")
    for name in ("attempt.done", "job.parked", "job.expired"):
        await eventually(partial(lines.of, name), f"there is a line {name}")

    def told(job: str, job_id: str, attempt: int = 1) -> dict[str, Any]:
        return {"job": job, "job_id": job_id, "queue": "default", "attempt": attempt, "tenant_id": "acme",
                "trace_id": TRACE}  # fmt: skip

    assert [whose(line) for line in lines.of("paying")] == [told("pay", paid), told("pay", paid, 2)]
    assert [whose(line) for line in lines.of("attempt.retrying")] == [told("pay", paid)]
    assert [whose(line) for line in lines.of("job.dead")] == [told("pay", paid, 2)]
    assert [whose(line) for line in lines.of("job.parked")] == [told("of_tomorrow", unknown)]
    assert [whose(line) for line in lines.of("job.expired")] == [told("late", expired)]
    assert [whose(line) for line in lines.of("attempt.done")] == [told("late", done)]
    assert "4111-marker" not in lines.stream.getvalue()


async def test_a_lost_attempt_is_named_too(crew: Crew, lines: Lines):
    began, enough = asyncio.Event(), asyncio.Event()

    @crew.app.job(name="pay")
    async def pay(card: str) -> None:
        began.set()
        await enough.wait()

    job_id = await put(crew, "pay")
    await crew.start()
    await began.wait()
    await crew.broker.redis.flushall()
    enough.set()
    await eventually(lambda: lines.of("attempt.lost"), "Redis refuses its end")

    assert whose(lines.of("attempt.lost")[0]) == {
        "job": "pay", "job_id": job_id, "queue": "default", "attempt": 1, "tenant_id": "acme", "trace_id": TRACE,
    }  # fmt: skip


async def test_a_line_belongs_to_the_trace_of_its_span_where_there_is_one(crew: Crew, lines: Lines):
    with tracing() as traces:

        @crew.app.job(name="pay", retry=[0.01], max_attempts=2)
        async def pay(ctx: Context, card: str) -> None:
            logging.getLogger("shop").info("paying")
            if ctx.attempt == 1:
                raise ConnectionError

        await put(crew, "pay")
        worker = await crew.start()
        await eventually(lambda: worker.stats()["processed"] == 2, "the second attempt has ended")
        first, second = [f"{span.context.trace_id:032x}" for span in traces.ended() if span.context]

    assert first == TRACE
    assert second != TRACE
    assert [line["trace_id"] for line in lines.of("paying")] == [first, second]
    assert lines.of("attempt.retrying")[0]["trace_id"] == first
