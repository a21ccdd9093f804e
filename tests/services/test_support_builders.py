"""What the builders build goes through the real stores, and the proxy knows our scripts by name."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from redisjobs.broker import Broker
from redisjobs.errors import BrokerUnavailable
from tests.conftest import Conn
from tests.support.builders import finish, publication, stage, states
from tests.support.proxy import Proxy


@pytest.fixture
async def broker(redis_proxy: Proxy) -> AsyncIterator[Broker]:
    opened = Broker.connect(redis_proxy.url)
    yield opened
    await opened.close()


async def test_the_lost_reply_of_a_script_is_lost_after_it_has_run(redis_proxy: Proxy, broker: Broker):
    await broker.enqueue_direct("mail", [publication("send", direct=True)])
    (delivery,) = (await broker.take("mail", "me", 1, lease_ms=5000)).deliveries
    lost = redis_proxy.lose_reply("finish")

    with pytest.raises(BrokerUnavailable):
        await broker.finish("mail", "me", [finish(delivery)])
    await lost.happened()

    assert await broker.finish("mail", "me", [finish(delivery)]) == ["repeat"]
    assert lost.count == 1


def test_a_staged_row_has_the_state_staged(conn: Conn):
    mail = stage(conn, "mail", {"to": "a@b.c"}, queue="mails", priority=5)
    raw = stage(conn, "raw", payload=b"\x81", codec="msgpack")

    assert states(conn) == {mail: "staged", raw: "staged"}
