"""A webhook from the transaction that asks for it to the receiver that verifies it (rules H1 to H6)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import psycopg
import pytest
from standardwebhooks import Webhook

from redisjobs import App, Handle
from redisjobs.job import AsyncJob
from redisjobs.monitoring.webhook_figures import of_deliveries
from redisjobs.webhooks import Endpoint, generate_secret, public_key, verify, webhook
from tests.stories.road import Road
from tests.support.cli import CommandLine
from tests.support.eventually import always
from tests.support.metrics import told
from tests.support.proxy import Proxy
from tests.support.receiver import Received, Receiver, answer

SECRET, NEXT, ED25519 = generate_secret(), generate_secret(), generate_secret("ed25519")
HERE = ["127.0.0.0/8"]
Hooks = AsyncJob[..., None]


def declared(road: Road, receiver: Receiver, *secrets: str, **options: Any) -> Hooks:
    """The job that delivers, with one endpoint `shop`."""
    endpoint = Endpoint("shop", receiver.url, list(secrets) or SECRET, options.pop("endpoint_headers", {}))
    given: dict[str, Any] = {"allow": HERE, "retry": [0.05]} | options
    return webhook(road.app, endpoints=[endpoint], **given)


async def working(road: Road) -> None:
    await road.work(queues=["webhooks"], concurrency=50)


def sent(road: Road, hooks: Hooks, count: int = 1, **arguments: Any) -> list[Handle[None]]:
    """Deliveries that are committed."""
    calls = [
        hooks.call(endpoint="shop", type="order.placed", **({"data": {"number": n}} | arguments)) for n in range(count)
    ]
    with road.connect() as connection:
        return road.app.enqueue(connection, *calls)


def endpoint_row(road: Road) -> tuple[Any, ...]:
    return road.query(
        "SELECT failures, failing_since IS NOT NULL, disabled_why FROM redisjobs.webhook_endpoints WHERE name = 'shop'"
    )[0]


def failures(road: Road, job: Handle[None]) -> list[dict[str, Any]]:
    (row,) = road.query("SELECT failures FROM redisjobs.dead WHERE id = %(id)s", id=job.id)
    return list(row[0])


def verified(received: Received, secret: str) -> Any:
    return Webhook(secret).verify(received.body, received.headers)


async def test_a_committed_delivery_arrives_signed_and_a_rolled_back_one_never_does(road: Road):
    async with Receiver() as receiver:
        hooks = declared(road, receiver, endpoint_headers={"Authorization": "Bearer abc"}, headers={"X-Shop": "1"})
        await working(road)
        with road.connect() as connection:
            hooks.enqueue(connection, endpoint="shop", type="order.placed", data={"number": 1})
            connection.rollback()
        async with await psycopg.AsyncConnection.connect(road.database_url) as aconn:
            handle = await hooks.enqueue(
                aconn, endpoint="shop", type="order.placed", data={"name": "Zoë", "paid": None}
            )

        await road.reaches("done", handle)

        (came,) = receiver.received
        document = verified(came, SECRET)
        assert document["type"] == "order.placed"
        assert document["data"] == {"name": "Zoë", "paid": None}
        assert document["timestamp"].endswith("Z")
        assert came.headers["webhook-id"] == handle.id
        assert came.headers["content-type"] == "application/json"
        assert (came.headers["authorization"], came.headers["x-shop"]) == ("Bearer abc", "1")
        assert came.line == "POST /hook HTTP/1.1"


async def test_both_forms_of_a_pasted_secret_are_told_apart(road: Road):
    """L01: with whsec_ the reference library verifies; with a scheme before it it is refused when configured."""
    with pytest.raises(ValueError, match="leave out what stands before whsec_"):
        Endpoint("shop", "https://shop.example/", f"v1,{SECRET}")
    async with Receiver() as receiver:
        hooks = declared(road, receiver)
        await working(road)
        await road.reaches("done", *sent(road, hooks))

        assert verified(receiver.received[0], SECRET)


async def test_a_retry_keeps_its_id_and_signs_afresh_with_every_secret(road: Road):
    """L03: two active secrets, and the first 2 tries answered 503."""
    async with Receiver(answer(503), answer(503), answer(204)) as receiver:
        hooks = declared(road, receiver, NEXT, SECRET, ED25519, retry=[1.1])
        await working(road)
        (job,) = sent(road, hooks)
        await road.reaches("done", job)

        assert len(receiver.received) == 3
        assert {each.headers["webhook-id"] for each in receiver.received} == {job.id}
        assert len({each.headers["webhook-timestamp"] for each in receiver.received}) == 3
        assert len({each.headers["webhook-signature"] for each in receiver.received}) == 3
        assert len({each.body for each in receiver.received}) == 1
        for each in receiver.received:
            assert verified(each, SECRET) == verified(each, NEXT)
            assert verify(each.body, each.headers, public_key(ED25519))
        stale = receiver.received[0].headers | {"webhook-timestamp": receiver.received[2].headers["webhook-timestamp"]}
        assert not verify(receiver.received[0].body, stale, SECRET)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422, 301, 302, 307])
async def test_a_refusal_that_no_retry_can_change_is_one_try(status: int, road: Road):
    """L09 and L08: dead at the first attempt, with the status; redirects are not followed."""
    async with Receiver() as inside, Receiver(answer(status, b"no", Location=inside.url)) as receiver:
        hooks = declared(road, receiver, retry=[0.0])
        await working(road)
        (job,) = sent(road, hooks)
        await road.reaches("dead", job)

        assert len(receiver.received) == 1
        assert inside.connections == 0
        (failure,) = failures(road, job)
        assert f"answered {status}" in failure["message"]
        assert "The answer began:\nno" in failure["traceback"]
        assert endpoint_row(road)[2] == ("it answered 410: gone for good" if status == 410 else None)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again(status: int, road: Road):
    """L09."""
    async with Receiver(answer(status), answer(200)) as receiver:
        hooks = declared(road, receiver)
        await working(road)
        await road.reaches("done", *sent(road, hooks))

        assert len(receiver.received) == 2


async def test_five_attempts_are_five_requests_and_one_failed_delivery(road: Road):
    """L11: max attempts 5, always 500; the counter of the endpoint counts deliveries, not attempts."""
    async with Receiver(answer(500, b"oops")) as receiver:
        hooks = declared(road, receiver, max_attempts=5)
        await working(road)
        (job,) = sent(road, hooks)
        await road.reaches("dead", job)
        await always(lambda: len(receiver.received) == 5, "exactly five requests", lasting=0.5)

        assert [each["attempt"] for each in failures(road, job)][-1] == 5
        assert endpoint_row(road) == (1, True, None)


async def test_what_a_receiver_asks_for_is_waited_for(road: Road):
    """L06: the due time of the next try, by seconds and by a date; before it nothing comes."""
    from_now = "Mon, 30 Nov 2026 12:00:05 GMT"
    date = "Mon, 30 Nov 2026 12:00:00 GMT"
    async with Receiver(answer(429, Retry_After="2"), answer(204)) as receiver:
        hooks = declared(road, receiver, retry=[0.0])
        await working(road)
        await road.reaches("done", *sent(road, hooks))

        first, second = receiver.received
        assert second.at - first.at >= 2

    forms = (from_now, "Monday, 30-Nov-26 12:00:05 GMT", "Mon Nov 30 12:00:05 2026")
    for form in forms:
        receiver = Receiver(answer(429, Retry_After=form, Date=date), answer(204))
        async with receiver:
            road.query("TRUNCATE redisjobs.webhook_endpoints CASCADE")
            other = webhook(
                road.app, name=form, queue="webhooks", allow=HERE, retry=[0.0],
                endpoints=[Endpoint("shop", receiver.url, SECRET)],
            )  # fmt: skip
            (job,) = sent(road, other)
            await road.reaches("retrying", job)
            ((wait,),) = road.query(
                "SELECT date_part('epoch', run_at - clock_timestamp()) FROM redisjobs.outbox WHERE id = %(id)s",
                id=job.id,
            )
            assert 3 < wait <= 7
            await road.reaches("done", job)
            first, second = receiver.received
            assert second.at - first.at >= 5


GARBAGE = [
    "", "soon", "-5", "5 minutes", "1e3", "nan", "2026-11-30T12:00:05Z", "Mon, 30 Nov 2026 12:00:05 CET",
    "Mon, 31 Nov 2026 12:00:05 GMT", "9" * 400,
]  # fmt: skip


async def test_garbage_in_retry_after_is_ignored(road: Road):
    """H3: ten wrong forms, and each time the next attempt comes as the retry rule says."""
    async with Receiver(*(answer(429, Retry_After=wrong) for wrong in GARBAGE), answer(204)) as receiver:
        hooks = declared(road, receiver, max_attempts=20)
        await working(road)
        await road.reaches("done", *sent(road, hooks), within=30)

        assert len(receiver.received) == len(GARBAGE) + 1


async def test_failed_deliveries_in_a_row_disable_an_endpoint_and_enabling_brings_them_back(road: Road):
    """H4."""
    async with Receiver(answer(500)) as receiver:
        hooks = declared(road, receiver, max_attempts=1, disable_after=3)
        await working(road)
        jobs = []
        for _ in range(3):
            jobs += sent(road, hooks)
            await road.reaches("dead", jobs[-1])
        failed, failing, why = endpoint_row(road)
        assert (failed, failing) == (3, True)
        assert "3 deliveries in a row were not accepted" in why
        assert "answered 500" in why

        late = sent(road, hooks)
        await road.reaches("dead", *late)
        assert len(receiver.received) == 3, "nothing is sent to an endpoint that is disabled"
        assert "is disabled" in failures(road, late[0])[0]["message"]
        assert endpoint_row(road)[0] == 3, "what was not tried has not failed"

        receiver.answers[:] = [answer(204)]
        assert road.query("SELECT redisjobs.webhook_switch('shop', NULL)") == [(True,)]
        ids = [each.id for each in (*jobs, *late)]
        road.query("SELECT redisjobs.redrive(%(ids)s::uuid[])", ids=ids)
        await road.reaches("done", *ids)
        assert {each.headers["webhook-id"] for each in receiver.received[3:]} == set(ids)
        assert endpoint_row(road) == (0, False, None)


async def test_a_success_sets_the_count_to_0(road: Road):
    """H4."""
    async with Receiver(answer(500), answer(500), answer(204), answer(500)) as receiver:
        hooks = declared(road, receiver, max_attempts=1, disable_after=3)
        await working(road)
        for end in ("dead", "dead", "done", "dead"):
            await road.reaches(end, *sent(road, hooks))

        assert endpoint_row(road) == (1, True, None)


async def test_a_slow_endpoint_gets_few_at_once_and_the_others_wait_for_nobody(road: Road):
    async def slow(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(answer(204))

    before_the_other: list[int] = []

    async def at_once(writer: asyncio.StreamWriter) -> None:
        before_the_other.append(len(receiver.received))
        writer.write(answer(204))

    async with Receiver(slow) as receiver, Receiver(at_once) as quick:
        hooks = webhook(
            road.app, allow=HERE, max_concurrent=3,
            endpoints=[Endpoint("shop", receiver.url, SECRET), Endpoint("quick", quick.url, SECRET)],
        )  # fmt: skip
        await road.work(queues=["webhooks"], concurrency=6)
        jobs = sent(road, hooks, 30)
        with road.connect() as connection:
            other = hooks.enqueue(connection, endpoint="quick", type="a", data=None)
        await road.reaches("done", other)
        assert before_the_other[0] < 30, "it did not wait behind them"
        await road.reaches("done", *jobs, within=60)

        assert receiver.most_open <= 3
        assert len(receiver.received) == 30
        assert road.query("SELECT max(attempts) FROM redisjobs.finished") == [(1,)], "waiting is no attempt"


async def test_an_address_inside_is_dead_at_the_first_attempt(road: Road):
    """H6: a name that leads inside is found out when it was resolved."""
    async with Receiver() as receiver:
        hooks = webhook(road.app, endpoints=[Endpoint("shop", f"https://localhost:{receiver.port}/", SECRET)])
        await working(road)
        (job,) = sent(road, hooks)
        await road.reaches("dead", job)

        assert "loopback" in failures(road, job)[0]["message"]
        assert receiver.connections == 0


async def test_an_unknown_endpoint_is_tried_again_until_it_is_there(road: Road):
    async with Receiver() as receiver:
        hooks = webhook(road.app, allow=HERE, retry=[0.2])
        await working(road)
        (job,) = sent(road, hooks)
        await road.reaches("retrying", job)
        road.query("SELECT redisjobs.webhook_add('shop', %(url)s, %(secret)s, '{}')", url=receiver.url, secret=SECRET)
        await road.reaches("done", job)

        assert verified(receiver.received[0], SECRET)


async def test_no_answer_is_tried_again(road: Road):
    async def closed(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with Receiver(closed, b"SSH-2.0-marker\r\n", answer(204)) as receiver:
        hooks = declared(road, receiver, timeout=5)
        await working(road)
        await road.reaches("done", *sent(road, hooks))

        assert len(receiver.received) == 3


async def test_no_log_line_holds_a_secret_a_signature_a_body_or_a_url(road: Road, caplog: pytest.LogCaptureFixture):
    """G7, at the most talkative level, with a receiver that repeats all that it was sent."""
    caplog.set_level(logging.DEBUG)

    async def echo(writer: asyncio.StreamWriter) -> None:
        came = receiver.received[-1]
        writer.write(answer(500, f"{came.headers}{came.body!r}marker-answer".encode()))

    async with Receiver(echo) as receiver:
        endpoint = Endpoint("shop", f"{receiver.url}?token=marker-url", SECRET, {"authorization": "marker-header"})
        hooks = webhook(road.app, endpoints=[endpoint], allow=HERE, retry=[0.0], max_attempts=2)
        await working(road)
        (job,) = sent(road, hooks, data={"card": "marker-data"})
        await road.reaches("dead", job)

        signature = receiver.received[0].headers["webhook-signature"]
        logged = "\n".join(record.getMessage() for record in caplog.records)
        assert "endpoint 'shop' answered 500" in logged
        for secret in ("marker", signature, signature.removeprefix("v1,"), SECRET, SECRET.removeprefix("whsec_")):
            assert secret not in logged
        kept = json.dumps(failures(road, job))
        for secret in (signature.removeprefix("v1,"), "marker-header", SECRET.removeprefix("whsec_")):
            assert secret not in kept
        assert "marker-answer" in kept, "what a receiver said of itself is kept with the error"


async def test_the_metrics_of_a_worker_count_by_endpoint(road: Road):
    async with Receiver(answer(503), answer(204), answer(400)) as receiver:
        hooks = declared(road, receiver)
        await working(road)
        await road.reaches("done", *sent(road, hooks))
        await road.reaches("dead", *sent(road, hooks))

    scrape = told(of_deliveries(road.app))
    assert scrape.counts("redisjobs_webhook_attempts_total", "outcome", endpoint="shop") == {
        "retried": 1, "delivered": 1, "failed": 1,
    }  # fmt: skip
    assert scrape.value("redisjobs_webhook_duration_seconds_count", endpoint="shop") == 3


async def test_a_test_goes_to_a_disabled_endpoint_too_and_counts_for_nothing(road: Road):
    async with Receiver(answer(204), answer(500)) as receiver:
        declared(road, receiver)
        await working(road)
        road.query("SELECT redisjobs.webhook_failed('shop', '410', true, true, 20, true)")
        command = CommandLine({"REDISJOBS_DATABASE_URL": road.database_url})

        well = await asyncio.to_thread(command.json, "webhooks", "endpoints", "test", "shop")
        ill = await asyncio.to_thread(lambda: command.json("webhooks", "endpoints", "test", "shop", code=1))

        assert well["state"] == "delivered"
        assert (ill["state"], "answered 500" in ill["error"]) == ("dead", True)
        assert verified(receiver.received[0], SECRET)["type"] == "redisjobs.test"
        assert endpoint_row(road) == (1, True, "it answered 410: gone for good")


async def test_while_postgres_is_away_deliveries_wait_uncounted_and_then_arrive(road: Road, postgres_proxy: Proxy):
    async with Receiver() as receiver:
        app = App(database_url=postgres_proxy.url, redis_url=road.redis_url)
        hooks = webhook(app, endpoints=[Endpoint("shop", receiver.url, SECRET)], allow=HERE)
        await road.work(app, queues=["webhooks"])
        postgres_proxy.down()
        (job,) = sent(road, hooks)
        await road.reaches("snoozed", job, within=40)
        assert receiver.received == []
        postgres_proxy.heal()
        await road.reaches("done", job, within=40)

        assert road.query("SELECT attempts FROM redisjobs.finished") == [(1,)]
        await app.close()
