"""What an app puts around its calls and its attempts (rule W12)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from redisjobs import App, ConfigurationError, Context, Next, Options, current
from redisjobs.middleware import chain
from redisjobs.outcome import Ended
from redisjobs.runner import Runner
from tests.support.eventually import eventually
from tests.support.stage import Stage, delivery, record_of

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.runner.close()


def use(stage: Stage) -> None:
    """A runner that knows the app's middleware, as a worker makes it when it starts."""
    stage.runner.close()
    stage.runner = Runner(stage.app.jobs.get, stage.draining, around=chain(stage.app.middlewares))


async def test_the_first_is_the_outermost_around_async_and_sync_bodies(stage: Stage) -> None:
    seen: list[str] = []

    @stage.app.middleware
    async def outer(ctx: Context, call_next: Next) -> Any:
        seen.append(f"outer of {ctx.job}, {current() is ctx}")
        answer = await call_next()
        seen.append(f"outer got {answer}")
        return answer * 2

    @stage.app.middleware
    async def inner(ctx: Context, call_next: Next) -> Any:
        REQUEST.set(ctx.job_id)
        seen.append("inner")
        return await call_next()

    @stage.app.job(name="waits", result_ttl=60)
    async def waits(ctx: Context) -> int:
        seen.append(f"body {REQUEST.get() == ctx.job_id}")
        return 21

    @stage.app.job(name="computes", result_ttl=60)
    def computes(ctx: Context) -> int:
        seen.append(f"body {REQUEST.get() == ctx.job_id}")
        return 21

    use(stage)
    for name in ("waits", "computes"):
        finish = await stage.run(name)
        assert (finish.word, record_of(finish)["r"]) == ("done", b"42")
        assert seen == [f"outer of {name}, True", "inner", "body True", "outer got 21"]
        seen.clear()


async def test_an_error_passes_through_and_one_of_the_middleware_is_the_attempts(stage: Stage) -> None:
    seen: list[BaseException] = []

    @stage.app.middleware
    async def watch(ctx: Context, call_next: Next) -> Any:
        if ctx.headers.get("refused"):
            raise PermissionError("not for you")
        try:
            return await call_next()
        except Exception as error:
            seen.append(error)
            raise

    @stage.app.job(name="fails")
    async def fails() -> None:
        raise ValueError("declined")

    use(stage)
    finish = await stage.run("fails")
    assert (finish.word, record_of(finish)["e"]["type"]) == ("retry", "ValueError")
    assert [str(error) for error in seen] == ["declined"]

    envelope = replace_headers("fails", '{"refused": true}')
    finish = await stage.run(delivery(envelope))
    assert record_of(finish)["e"]["message"] == "not for you"


def replace_headers(job: str, headers: str) -> Any:
    from redisjobs.base.envelope import Envelope  # noqa: PLC0415

    return Envelope(job, "json", b"{}", headers=headers)


async def test_a_cancel_reaches_the_middleware_too(stage: Stage) -> None:
    seen: list[str] = []

    @stage.app.middleware
    async def watch(ctx: Context, call_next: Next) -> Any:
        try:
            return await call_next()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    @stage.app.job(name="long")
    async def long() -> None:
        seen.append("began")
        await asyncio.Event().wait()

    use(stage)
    attempt = stage.begin("long")
    await eventually(lambda: seen == ["began"], "it runs")
    stage.runner.cancel(attempt, Ended.DRAINED)
    finish = await stage.end(attempt)
    assert finish is not None
    assert (finish.word, seen) == ("released", ["began", "cancelled"])


def test_enqueue_middleware_changes_options_in_order_and_they_are_checked() -> None:
    def tenant(job: str, options: Options) -> Options:
        return replace(options, tenant=f"{job}-tenant")

    app = App(enqueue_middleware=[tenant])

    @app.enqueue_middleware
    def trace(job: str, options: Options) -> Options:
        return replace(options, headers={**(options.headers or {}), "by": options.tenant})

    @app.job(name="mail")
    async def mail() -> None: ...

    call = mail.using(headers={"x": 1}).call()
    assert (call.tenant_id, call.headers) == ("mail-tenant", '{"x":1,"by":"mail-tenant"}')

    @app.enqueue_middleware
    def forgets(job: str, options: Options) -> Options:
        return None  # type: ignore[return-value]

    with pytest.raises(ConfigurationError, match="forgets answered a NoneType: return the options"):
        mail.call()


def test_what_is_no_middleware_is_refused_where_it_is_declared() -> None:
    app = App()

    def plain(ctx: Any, call_next: Any) -> None: ...

    async def alone(ctx: Any) -> None: ...

    async def waits(job: str, options: Options) -> Options:
        return options

    for function, why in [(plain, "plain is not async"), (alone, "does not take two arguments"), (None, "not async")]:
        with pytest.raises(ConfigurationError, match=why):
            app.middleware(function)  # type: ignore[type-var]
    with pytest.raises(ConfigurationError, match="waits is no plain function"):
        app.enqueue_middleware(waits)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="does not take two arguments"):
        App(enqueue_middleware=[lambda job: job])  # type: ignore[list-item,misc]


async def test_an_object_with_an_async_call_is_a_middleware_too(stage: Stage) -> None:
    class Counts:
        count = 0

        async def __call__(self, ctx: Context, call_next: Next) -> Any:
            self.count += 1
            return await call_next()

    counts = stage.app.middleware(Counts())

    @stage.app.job(name="brief")
    async def brief() -> None: ...

    use(stage)
    assert (await stage.run("brief")).word == "done"
    assert counts.count == 1
