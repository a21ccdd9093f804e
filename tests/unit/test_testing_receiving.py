"""Webhooks inside of a test: a receiver in memory, below the real job (rules H1 to H4)."""

from __future__ import annotations

import pytest

from redisjobs import App, ConfigurationError
from redisjobs.testing import Answer, Inline, Retried, Succeeded, in_memory, receiving, run
from redisjobs.webhooks import Endpoint, generate_secret, webhook

SECRET = generate_secret()
app = App("shop")
hooks = webhook(
    app, endpoints=[Endpoint("billing", "https://hooks.example/in?a=1", SECRET)], max_attempts=3, disable_after=2
)


async def test_a_delivery_is_received_signed_without_any_store():
    with receiving(hooks) as receiver:
        assert await run(hooks, endpoint="billing", type="invoice.paid", data={"invoice": 17}) == Succeeded(None)

    (came,) = receiver.received
    assert (came.type, came.data, came.url) == ("invoice.paid", {"invoice": 17}, "https://hooks.example/in?…")
    assert came.is_signed_with(SECRET)
    assert not came.is_signed_with(generate_secret())


async def test_planned_answers_come_in_order():
    with receiving(hooks) as receiver:
        receiver.answers(Answer(429, {"retry-after": "120"}), None, 503)
        ends = [await run(hooks, endpoint="billing", type="a", data=1) for _ in range(4)]

    waits = [each.after for each in ends if isinstance(each, Retried)]
    assert waits == pytest.approx([120, 5, 5], rel=0.11)
    assert ends[3] == Succeeded(None)


async def test_the_last_attempt_that_fails_is_a_failed_delivery():
    """L11, inline."""
    with receiving(hooks) as receiver:
        receiver.answers(500)
        outcome = await Inline(attempt=3).run(hooks, endpoint="billing", type="a", data=1)

        assert type(outcome).__name__ == "Died"


async def test_the_whole_ladder_runs_in_memory_and_an_endpoint_is_disabled():
    with receiving(hooks) as receiver:
        receiver.answers(*[500] * 6)
        async with in_memory(app) as world:
            async with world.connect() as connection:
                first = await hooks.enqueue(connection, endpoint="billing", type="a", data=1)
                second = await hooks.enqueue(connection, endpoint="billing", type="a", data=2)
            await world.advance(hours=1)
            assert world.state(first).state == world.state(second).state == "dead"
            async with world.connect() as connection:
                late = await hooks.enqueue(connection, endpoint="billing", type="a", data=3)
            await world.settle()

            assert world.state(late).state == "dead"
            assert "is disabled" in str(world.state(late).reason)
    assert len(receiver.received) == 6
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 2


async def test_each_block_begins_with_an_endpoint_that_is_well():
    for _ in range(3):
        with receiving(hooks) as receiver:
            receiver.answers(410)
            await run(hooks, endpoint="billing", type="a", data=1)
            await run(hooks, endpoint="billing", type="a", data=2)
            assert len(receiver.received) == 1


async def test_a_set_arrives_as_a_list():
    with receiving(hooks) as receiver:
        assert await run(hooks, endpoint="billing", type="a", data={"a": {1, 2}}) == Succeeded(None)

    assert sorted(receiver.received[0].data["a"]) == [1, 2]


def test_only_a_webhook_has_a_receiver():
    @app.job(name="other")
    def other() -> None: ...

    with pytest.raises(ConfigurationError, match="delivers no webhooks"), receiving(other):
        pass
