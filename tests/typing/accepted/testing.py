"""The test kit's types."""

from typing import Any, assert_type

from redisjobs import App, Context, Handle
from redisjobs.testing import (
    AsyncMemoryConnection,
    Enqueued,
    EnqueuedCall,
    Inline,
    MemoryConnection,
    Outcome,
    Retried,
    Succeeded,
    capture,
    in_memory,
    run,
)

app = App("shop")


@app.job
async def count(ctx: Context, text: str, times: int = 1) -> int:
    return len(text) * times


async def bodies() -> None:
    outcome = await run(count, "a", times=2)
    assert_type(outcome, Outcome[int])
    if isinstance(outcome, Succeeded):
        assert_type(outcome.value, int)
    elif isinstance(outcome, Retried):
        assert_type(outcome.after, float)
    assert_type(await Inline(attempt=2).run(count.using(tenant="t"), "a"), Outcome[int])


def calls() -> None:
    with capture(app) as enqueued:
        assert_type(enqueued, Enqueued)
        assert_type(count.enqueue(MemoryConnection(), "a"), Handle[int])
    assert_type(enqueued(count), list[EnqueuedCall[int]])
    assert_type(enqueued(), list[EnqueuedCall[Any]])
    assert_type(enqueued.assert_enqueued(count.using(delay=1), text="a"), EnqueuedCall[int])


async def road() -> None:
    async with in_memory(app, visibility_timeout=10) as world, world.connect() as connection:
        assert_type(connection, AsyncMemoryConnection)
        handle = await count.enqueue(connection, "a")
        assert_type(handle, Handle[int])
        assert_type(world.state(handle).attempts, int)
