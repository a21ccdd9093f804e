"""What a delivery is made of: its endpoint, its options, its body, its retry rule."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from redisjobs import App, ConfigurationError, Context, EncryptedCodec, OptionError
from redisjobs.base.ids import made_at, new_id
from redisjobs.errors import DecodeError
from redisjobs.testing import FakeReceiver
from redisjobs.webhooks import Endpoint, deliverer_of, generate_secret, over_days, session, webhook
from redisjobs.webhooks.message import message
from redisjobs.webhooks.options import WebhookOptions
from redisjobs.webhooks.schedule import ATTEMPTS, LADDER_S
from redisjobs.webhooks.sealing import Seal

SECRET = generate_secret()
URL = "https://hooks.example/"


# -- endpoints
@pytest.mark.parametrize(
    "headers",
    [
        {"x-a": "1\r\nx-b: 2"},
        {"x-a": "1\n"},
        {"x-a": "1\x00"},
        {"x-a": "é"},
        {"x-a": ""},
        {"x-a": " 1"},
        {"x-a": "1 "},
        {"x-a": "a" * 2001},
        {"x-a": 1},
        {"x-a": None},
        {"x-a\r\nx-b": "1"},
        {"x a": "1"},
        {"x:a": "1"},
        {"": "1"},
        {"é": "1"},
        {"a" * 101: "1"},
        {1: "1"},
        {"X-A": "1", "x-a": "2"},
        {"Host": "127.0.0.1"},
        {"Content-Length": "0"},
        {"transfer-encoding": "chunked"},
        {"Connection": "close"},
        {"Webhook-Id": "1"},
        {"webhook-signature": "v1,"},
        {f"x-{n}": "1" for n in range(51)},
        ["x-a"],
        None,
    ],
)
def test_a_header_that_is_not_canonical_is_refused_at_definition(headers: Any):
    """H5: no line end, limited in length, and none that says how the request is read."""
    with pytest.raises(OptionError, match="headers"):
        Endpoint("shop", URL, SECRET, headers)
    if headers is not None:
        with pytest.raises(OptionError, match="headers"):
            webhook(App(), headers=headers)


def test_what_is_said_of_a_refused_header_does_not_show_its_value():
    with pytest.raises(OptionError) as refused:
        Endpoint("shop", URL, SECRET, {"authorization": "Bearer s3cret\n"})

    assert "s3cret" not in str(refused.value)


def test_header_names_are_sent_in_one_case():
    assert Endpoint("shop", URL, SECRET, {"X-Shop": "a  b"}).headers == {"x-shop": "a  b"}


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a" * 201, "\udc7f", None, 7])
def test_a_name_that_is_none_is_refused(name: Any):
    with pytest.raises(OptionError, match="endpoint"):
        Endpoint(name, URL, SECRET)


def test_an_endpoint_shows_neither_its_url_nor_its_secret_nor_its_headers():
    shown = repr(Endpoint("shop", f"{URL}?token=s3cret", SECRET, {"authorization": "s3cret"}))

    assert "s3cret" not in shown
    assert SECRET not in shown


# -- options
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timeout", 0), ("timeout", float("nan")), ("timeout", True), ("timeout", 3601), ("disable_after", -1),
        ("disable_after", 1.0), ("disable_after", True), ("max_concurrent", 0), ("max_concurrent", 2.5),
        ("max_attempts", 0), ("queue", "no queue"), ("retry", []), ("retry", "soon"), ("allow", "10.0.0.0/8"),
        ("endpoints", "shop"), ("endpoints", [URL]), ("name", ""),
    ],
)  # fmt: skip
def test_an_option_out_of_range_is_refused_and_declares_nothing(option: str, value: Any):
    """G1."""
    app = App()

    with pytest.raises(OptionError, match=option):
        webhook(app, **{option: value})

    assert not app.jobs
    assert app.lifespan is None


def test_two_endpoints_of_one_name_are_refused():
    with pytest.raises(OptionError, match="shop"):
        WebhookOptions(endpoints=[Endpoint("shop", URL, SECRET), Endpoint("shop", URL, SECRET)])


def test_an_address_inside_is_refused_where_it_is_declared_unless_it_is_allowed():
    inside = Endpoint("shop", "https://10.1.2.3/", SECRET)

    with pytest.raises(OptionError, match=r"10\.1\.2\.3, a private network: name its network in allow"):
        webhook(App(), endpoints=[inside])
    assert webhook(App(), endpoints=[inside], allow=["10.1.0.0/16"])


def test_two_webhooks_of_one_name_are_refused():
    app = App()
    webhook(app)

    with pytest.raises(ConfigurationError, match="two jobs are named 'webhook'"):
        webhook(app)
    assert webhook(app, name="other").name == "other"


# -- the body
def context(job_id: str | None = None, **fields: Any) -> Context[Any]:
    return Context(job_id=job_id or str(new_id()), job="webhook", **fields)


def test_the_body_has_type_timestamp_and_data_and_is_the_same_at_every_attempt():
    ctx = context()
    made = made_at(UUID(ctx.job_id))
    assert made is not None

    body = message(ctx, "a.b", {"name": "Zoë", "big": 2**70, "none": None})

    assert body == message(context(ctx.job_id, attempt=2, staged_at=datetime(2000, 1, 1, tzinfo=UTC)), "a.b",
                           {"name": "Zoë", "big": 2**70, "none": None})  # fmt: skip
    read = json.loads(body)
    assert list(read) == ["type", "timestamp", "data"]
    assert datetime.fromisoformat(read["timestamp"]) == made
    assert "Zoë".encode() in body


def test_an_id_that_has_no_time_leaves_it_to_the_time_of_staging():
    staged = datetime(2026, 11, 30, 12, 0, 0, 123456, UTC)

    body = message(context("00000000-0000-4000-8000-000000000000", staged_at=staged), "a", 1)

    assert json.loads(body)["timestamp"] == "2026-11-30T12:00:00.123Z"


def test_what_json_has_no_form_for_is_sent_as_text():
    data = {
        "moment": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "day": date(2026, 1, 2), "price": Decimal("1.10"),
        "id": UUID(int=1), "raw": b"\xff",
    }  # fmt: skip

    assert json.loads(message(context(), "a", data))["data"] == {
        "moment": "2026-01-02T03:04:05+00:00", "day": "2026-01-02", "price": "1.10",
        "id": "00000000-0000-0000-0000-000000000001", "raw": "/w==",
    }  # fmt: skip


@pytest.mark.parametrize("data", [float("nan"), object(), {"a": timedelta(1)}])
def test_what_cannot_be_sent_raises(data: Any):
    with pytest.raises((TypeError, ValueError)):
        message(context(), "a", data)


# -- the retry rule
def test_the_ladder_is_that_of_the_specification_and_its_last_rung_repeats():
    rule = over_days(jitter=0)

    assert [rule(attempt, Exception()) for attempt in range(1, 12)] == [*LADDER_S, LADDER_S[-1], LADDER_S[-1]]
    assert ATTEMPTS == 10
    assert sum(LADDER_S) == timedelta(hours=75, minutes=35, seconds=5).total_seconds()


def test_jitter_makes_a_wait_longer_or_shorter_by_its_share():
    chances = iter((0.0, 0.5, 0.999999))
    rule = over_days([100], jitter=0.2, random=lambda: next(chances))

    waits = [rule(1, Exception()) for _ in range(3)]

    assert waits == pytest.approx([80, 100, 120], abs=0.01)


@pytest.mark.parametrize(("delays", "jitter"), [([], 0), ([-1], 0), ([1], -0.1), ([1], 1.1), ([1], True), ([1], "x")])
def test_a_ladder_that_is_none_is_refused(delays: Any, jitter: Any):
    with pytest.raises(OptionError):
        over_days(delays, jitter=jitter)


# -- sealed secrets
def test_a_sealed_secret_is_opened_by_any_key_and_shows_nothing():
    old, new = EncryptedCodec.generate_key(), EncryptedCodec.generate_key()
    stored = Seal([old]).close(SECRET)

    assert SECRET[6:20] not in stored
    assert Seal([new, old]).open(stored) == SECRET
    assert Seal([new, old]).open(SECRET) == SECRET, "written before there were keys"
    for ring in (Seal([new]), Seal()):
        with pytest.raises(DecodeError, match="it is encrypted"):
            ring.open(stored)
    with pytest.raises(DecodeError):
        Seal([old]).open("sealed:%%")


def test_the_keys_come_from_the_environment_and_may_be_several():
    keys = [EncryptedCodec.generate_key() for _ in range(2)]
    stored = Seal([keys[1]]).close(SECRET)

    assert Seal.of_environment({"REDISJOBS_WEBHOOK_KEYS": f"{keys[0]}, {keys[1]}"}).open(stored) == SECRET
    assert Seal.of_environment({}).close(SECRET) == SECRET
    with pytest.raises(ConfigurationError) as refused:
        Seal.of_environment({"REDISJOBS_WEBHOOK_KEYS": "marker"})
    assert "marker" not in str(refused.value)


# -- what a worker process opens
async def test_a_worker_opens_nothing_before_its_first_delivery_and_closes_it_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
):
    """A worker of other queues pays nothing for webhooks that its app declares."""
    app = App()
    job = webhook(app)
    deliverer = deliverer_of(job)
    assert deliverer is not None
    assert app.lifespan is not None
    made: list[_Sender] = []

    def http(options: WebhookOptions) -> _Sender:
        made.append(_Sender())
        return made[-1]

    monkeypatch.setattr(session, "_http", http)
    async with app.lifespan(app):
        assert made == []
        async with deliverer.sessions.one() as first, deliverer.sessions.one() as second:
            assert first is second
        assert [each.closed for each in made] == [False]

    assert [each.closed for each in made] == [True]
    async with deliverer.sessions.one() as passing:
        assert passing.sender is made[1]
    assert [each.closed for each in made] == [True, True]


class _Sender(FakeReceiver):
    closed = False

    async def close(self) -> None:
        self.closed = True
