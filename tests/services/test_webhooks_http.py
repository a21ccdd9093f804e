"""One request over HTTP, to receivers that behave in every way."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redisjobs.webhooks.addresses import Allowed
from redisjobs.webhooks.answers import KEPT_BYTES, Answer, NoAnswer
from redisjobs.webhooks.http import HttpSender
from redisjobs.webhooks.target import read_url
from tests.support.receiver import Receiver, answer, certificate

HERE = Allowed.of(["127.0.0.0/8"])
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def to_localhost(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
async def sender() -> AsyncIterator[HttpSender]:
    made = HttpSender(HERE, NO_TLS, to_localhost)
    yield made
    await made.close()


async def post(sender: HttpSender, url: str, timeout: float = 10) -> Answer:
    return await sender.post(read_url(url), {"content-type": "application/json", "x-a": "1"}, b'{"a":1}', timeout)


async def test_a_request_is_posted_with_its_headers_and_body(sender: HttpSender):
    async with Receiver(answer(200, b"thanks", X_Name="a")) as receiver:
        said = await post(sender, f"{receiver.url}?token=1")

        (came,) = receiver.received
        assert came.line == "POST /hook?token=1 HTTP/1.1"
        assert came.body == b'{"a":1}'
        assert came.headers == {
            "host": f"127.0.0.1:{receiver.port}", "content-type": "application/json", "x-a": "1", "content-length": "7",
        }  # fmt: skip
        assert (said.status, said.body, said.headers["x-name"]) == (200, b"thanks", "a")


@pytest.mark.parametrize("status", [200, 204, 299, 301, 302, 303, 307, 308, 400, 410, 429, 500, 599])
async def test_each_status_is_answered_as_it_came(status: int, sender: HttpSender):
    async with Receiver(answer(status)) as receiver:
        assert (await post(sender, receiver.url)).status == status


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int, sender: HttpSender):
    """L08: neither inside nor to the same place with TLS."""
    async with Receiver() as inside, Receiver() as first:
        for location in (inside.url, "https://169.254.169.254/", f"https://127.0.0.1:{inside.port}/"):
            first.answers[:] = [answer(status, Location=location)]
            assert (await post(sender, first.url)).status == status

        assert inside.connections == 0
        assert len(first.received) == 3


async def test_a_connection_is_used_again(sender: HttpSender):
    async with Receiver(answer(200, b"x" * 1000)) as receiver:
        for _ in range(5):
            await post(sender, receiver.url)

        assert receiver.connections == 1


async def test_of_a_huge_answer_only_the_beginning_is_read(sender: HttpSender):
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 500 Whatever\r\nContent-Length: 100000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            sent += 65_536
            await writer.drain()

    async with Receiver(endless) as receiver:
        said = await post(sender, receiver.url)

        assert said.body == b"x" * KEPT_BYTES
        assert sent < 50_000_000, "the connection was closed"


async def test_a_packed_answer_is_not_unpacked(sender: HttpSender):
    async with Receiver(answer(200, b"\x1f\x8bnot gzip", Content_Encoding="gzip")) as receiver:
        assert (await post(sender, receiver.url)).body == b"\x1f\x8bnot gzip"


async def half(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 Whatever\r\nContent-Length: 10\r\n\r\n123")
    await writer.drain()
    writer.close()


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def torn(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def in_the_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 Whatever\r\nContent-")
    await writer.drain()
    writer.close()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 Whatever\r\n")
    while True:
        writer.write(b"x-more: " + b"y" * 1000 + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize(
    "behaviour",
    [
        half,
        closed,
        torn,
        in_the_head,
        endless_head,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 Whatever\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 Whatever\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"220 smtp.example ESMTP\r\n",
    ],
)
async def test_what_is_no_whole_answer_is_none(behaviour: bytes, sender: HttpSender):
    async with Receiver(behaviour) as receiver:
        with pytest.raises(NoAnswer):
            await post(sender, receiver.url, timeout=5)


async def test_a_200_that_was_not_read_to_its_end_is_no_answer_and_the_next_request_gets_its_own(sender: HttpSender):
    async with Receiver(half, answer(200, b"the second")) as receiver:
        with pytest.raises(NoAnswer):
            await post(sender, receiver.url)

        assert (await post(sender, receiver.url)).body == b"the second"


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 Whatever\r\nContent-Length: 10\r\n\r\n1"])
async def test_a_slow_receiver_is_waited_for_within_the_timeout_only(head: bytes, sender: HttpSender):
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await asyncio.sleep(60)

    async with Receiver(slow) as receiver:
        began = time.monotonic()
        with pytest.raises(NoAnswer, match=r"0\.3 s"):
            await post(sender, receiver.url, timeout=0.3)
        assert time.monotonic() - began < 10


async def test_a_receiver_that_drips_does_not_win_time_with_each_byte(sender: HttpSender):
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 Whatever\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with Receiver(drip) as receiver:
        with pytest.raises(NoAnswer, match=r"no whole answer within 0\.5 s"):
            await post(sender, receiver.url, timeout=0.5)


async def test_a_port_where_nobody_listens_is_no_answer(sender: HttpSender):
    async with Receiver() as receiver:
        url = receiver.url
    with pytest.raises(NoAnswer, match=r"127\.0\.0\.1"):
        await post(sender, url)


async def test_tls_that_can_be_trusted_is_accepted(tmp_path: Path):
    server, client = certificate(tmp_path)
    async with Receiver(tls=server) as receiver:
        made = HttpSender(HERE, client, to_localhost)
        assert (await post(made, f"https://localhost:{receiver.port}/")).status == 204
        await made.close()


@pytest.mark.parametrize("flaw", ["another name", "nobody vouches for it", "over", "no TLS at all"])
async def test_tls_that_cannot_be_trusted_is_no_answer_and_nothing_is_sent(flaw: str, tmp_path: Path):
    """H6."""
    name = "other.example" if flaw == "another name" else "localhost"
    server, client = certificate(tmp_path, name, days=-1 if flaw == "over" else 1)
    if flaw == "nobody vouches for it":
        client = ssl.create_default_context()
    async with Receiver(tls=None if flaw == "no TLS at all" else server) as receiver:
        made = HttpSender(HERE, client, to_localhost)
        with pytest.raises(NoAnswer):
            await post(made, f"https://localhost:{receiver.port}/", timeout=2)
        await made.close()

        assert receiver.received == []
