"""What a job declares, how it is called, and what its calls carry."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from redisjobs import App, Backoff, ConfigurationError, Context, DecodeError, OptionError, UnknownJobError, current
from redisjobs.context import running


@pytest.fixture
def app() -> App:
    return App("shop")


def test_a_job_is_named_like_its_function(app: App):
    @app.job
    async def mail() -> None: ...

    class Mails:
        @staticmethod
        @app.job
        def send() -> None: ...

    @app.job(name="große Mail")
    def other() -> None: ...

    assert set(app.jobs) == {"mail", "Mails.send", "große Mail"}
    assert app.find("mail") is mail
    assert mail.__name__ == "mail"
    assert repr(mail) == "<job mail>"
    assert Mails.send.name == "Mails.send"


def test_a_name_that_is_not_there_is_told(app: App):
    with pytest.raises(UnknownJobError, match="no job 'mail' is declared here"):
        app.find("mail")


def test_two_functions_may_not_share_a_name_and_one_may_be_declared_again(app: App):
    def mail() -> None: ...

    def other() -> None: ...

    app.job(mail)
    app.job(mail)  # as a module that is loaded again does
    with pytest.raises(ConfigurationError, match=r"two jobs are named 'mail'.*mail and .*other"):
        app.job(name="mail")(other)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": "a b"}, {"max_attempts": 0}, {"max_attempts": True}, {"timeout": 0}, {"timeout": float("inf")},
        {"priority": 500}, {"result_ttl": -1}, {"retention": "1h"}, {"retry": "fast"}, {"retry_on": "ValueError"},
        {"retention": 400 * 86_400}, {"give_up_on": [5]}, {"name": ""}, {"name": "a\nb"}, {"retries": 3},
        {"name": None},
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_is_refused(app: App, wrong):
    with pytest.raises(OptionError) as refused:
        app.job(**wrong)(lambda: None)

    assert refused.value.name in wrong
    assert app.jobs == {}


def test_an_option_that_does_not_exist_is_told_which_do(app: App):
    with pytest.raises(
        OptionError, match=r"retries \(3\) is no option of a job: pass one of name, queue, max_attempts"
    ):
        app.job(retries=3)(lambda: None)  # type: ignore[call-overload]


class Callable_:  # noqa: N801
    def __call__(self) -> None: ...


@pytest.mark.parametrize("wrong", ["mail", 5, Callable_, Callable_(), functools.partial(print)])
def test_what_is_no_function_is_no_job(app: App, wrong):
    with pytest.raises(ConfigurationError, match="declares a function"):
        app.job(wrong)


def test_a_generator_is_no_job(app: App):
    async def endless():
        yield 1

    def also():
        yield 1

    for each in (endless, also):
        with pytest.raises(ConfigurationError, match="generator"):
            app.job(each)


def test_durations_are_seconds_after_the_checks(app: App):
    declared = app.job(timeout=timedelta(minutes=1), result_ttl=5, retention=timedelta(hours=1))(
        lambda: None
    ).declaration

    assert (declared.timeout_s, declared.result_ttl_s, declared.retention_s) == (60.0, 5.0, 3600.0)


def test_without_options_there_are_twenty_attempts_and_no_timeout(app: App):
    declared = app.job(lambda: None).declaration

    assert (declared.max_attempts, declared.timeout_s, declared.queue, declared.priority) == (20, None, "default", 0)
    assert declared.retry == Backoff(base=1, cap=3600, factor=2, jitter="full")


def test_retry_on_and_give_up_on(app: App):
    all_of_them = app.job(name="a")(lambda: None)
    some = app.job(name="b", retry_on=OSError, give_up_on=[FileNotFoundError])(lambda: None)

    assert [all_of_them.retries(error) for error in (ValueError(), OSError())] == [True, True]
    assert [some.retries(error) for error in (ValueError(), OSError(), FileNotFoundError())] == [False, True, False]


async def test_calling_a_job_runs_its_function(app: App):
    @app.job
    async def double(number: int) -> int:
        return 2 * number

    @app.job
    def triple(number: int) -> int:
        return 3 * number

    assert await double(4) == 8
    assert triple(number=4) == 12
    assert (double.is_async, triple.is_async) == (True, False)


def test_a_body_called_here_gets_the_context_that_is_here_or_a_detached_one(app: App):
    @app.job(queue="mail")
    def where(ctx: Context, number: int) -> tuple[Context, int]:
        return ctx, number

    detached, number = where(5)
    assert (detached.job, detached.queue, detached.attempt, number) == ("where", "mail", 1, 5)

    inside = Context("id", "other", attempt=3)
    token = running.set(inside)
    try:
        assert where(number=5) == (inside, 5)
        assert current() is inside
    finally:
        running.reset(token)
    assert current() is None


def test_a_call_carries_its_options(app: App):
    @app.job(queue="mail", priority=5)
    def mail(to: str) -> None: ...

    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    plain = mail.call("a")
    full = mail.using(
        queue="bulk", run_at=run_at, idempotency_key="k", window=timedelta(minutes=1), priority=0, max_attempts=3,
        expires=timedelta(hours=1), tenant="t", headers={"a": 1}, enqueued_by="me",
    ).call(to="a")  # fmt: skip

    assert (plain.job, plain.queue, plain.priority, plain.max_attempts) == ("mail", "mail", 5, None)
    assert (plain.codec, json.loads(plain.payload)) == ("json", {"to": "a"})
    assert (full.queue, full.run_at, full.delay, full.idempotency_key, full.key_window) == (
        "bulk",
        run_at,
        None,
        "k",
        60,
    )
    assert (full.priority, full.max_attempts, full.expires_in, full.expires_at) == (0, 3, 3600, None)
    assert (full.tenant_id, full.headers, full.enqueued_by) == ("t", '{"a":1}', "me")
    assert mail.using(delay=timedelta(seconds=2), expires=run_at).call("a").expires_at == run_at
    assert plain.id < full.id


def test_options_are_fixed_once_and_used_many_times(app: App):
    @app.job
    def mail(to: str) -> None: ...

    later = mail.using(delay=5)

    assert later.call("a").id != later.call("a").id
    assert later.call("b").delay == 5


def test_a_calls_repr_shows_no_arguments(app: App):
    @app.job
    def mail(to: str) -> None: ...

    assert "secret" not in repr(mail.using(headers={"a": "secret"}).call("secret"))
    assert "secret" not in repr(mail.using(headers={"a": "secret"}))


def test_the_trace_is_that_of_the_current_span_or_of_the_job_that_runs_here(app: App):
    @app.job
    def mail() -> None: ...

    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))
    own = "00-00000000000000000000000000000abc-0000000000000def-01"
    inherited = "00-00000000000000000000000000000001-0000000000000002-00"

    assert mail.call().traceparent is None
    with trace.use_span(span):
        assert mail.call().traceparent == own
    token = running.set(Context("id", "other", traceparent=inherited))
    try:
        assert mail.call().traceparent == inherited
    finally:
        running.reset(token)


def test_results_go_through_the_return_annotation(app: App):
    @app.job(result_ttl=60)
    def when() -> tuple[datetime, int]:
        raise NotImplementedError

    value = (datetime(2026, 1, 1, tzinfo=UTC), 5)

    assert when.decode_result(*when.encode_result(value)) == value


def test_arguments_come_back_as_they_went_in(app: App):
    @app.job
    def take(ctx: Context, at: datetime, *, tags: set[str]) -> None: ...

    at = datetime(2026, 1, 1, tzinfo=UTC)
    call = take.call(at, tags={"a"})

    assert take.arguments(call.codec, call.payload) == {"at": at, "tags": {"a"}}
    assert take.arguments("json", b'{"at": "2026-01-01T00:00:00Z", "tags": ["a"]}') == {"at": at, "tags": {"a"}}
    with pytest.raises(DecodeError):
        take.arguments("json", b'"x"')


async def test_a_result_that_is_not_kept_is_told(app: App):
    @app.job
    def mail() -> int:
        raise NotImplementedError

    handle = app.handle("01a22926-337c-7125-b811-0fb9a57dd3e9", mail)

    with pytest.raises(ConfigurationError, match="job 'mail' keeps no result: declare it with result_ttl"):
        await handle.result()


async def test_without_a_redis_url_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in ("REDISJOBS_REDIS_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigurationError, match="redis_url is not set: pass it, or set REDISJOBS_REDIS_URL"):
        await App().holder("default", "key")


def test_what_is_no_call_is_refused(app: App):
    @app.job
    def mail() -> None: ...

    with pytest.raises(Exception, match=r"a SyncJob is no call: pass job.call\(…\)"):
        app.enqueue(None, [mail])  # type: ignore[call-overload]
