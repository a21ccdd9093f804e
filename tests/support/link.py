"""One connection through a proxy: it carries bytes both ways, and does to them what the proxy says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.flow import Flow
from tests.support.rules import Action, Rule
from tests.support.wire import Request, Wire

_CHUNK = 65536


@dataclass
class Orders:
    """What all connections of one proxy obey, and what they tell about themselves."""

    asking: Flow = field(default_factory=Flow)
    telling: Flow = field(default_factory=Flow)
    rules: list[Rule] = field(default_factory=list)
    commands: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Exchange:
    """A request whose answer is still to come."""

    request: Request
    canned: bytes = b""
    rule: Rule | None = None
    kept: bytearray = field(default_factory=bytearray)


class Link:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(
        self,
        orders: Orders,
        wire: Wire,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._orders, self._wire = orders, wire
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._pending: deque[_Exchange] = deque()
        self._over = asyncio.Event()
        self._asked: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(32)
        self._told: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(32)
        self.deaf = False  # requests vanish, for this connection alone
        self.mute = False  # replies vanish, for this connection alone
        self.holed = False  # bytes have vanished: what still comes makes no sense

    async def run(self) -> None:
        """Carry bytes until either side closes or the proxy ends it."""
        orders = self._orders
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._read_requests(),
                self._read_replies(),
                self._write(self._asked, self._to_server, orders.asking),
                self._write(self._told, self._to_client, orders.telling),
                self._ended(),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is not None and not isinstance(error, OSError):
                    raise error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._to_client.close()
            self._to_server.close()

    def reset(self) -> None:
        """Both sides see a reset connection."""
        for writer in (self._to_client, self._to_server):
            reset(writer)
        self._over.set()

    async def _ended(self) -> None:
        await self._over.wait()

    # requests

    async def _read_requests(self) -> None:
        while data := await self._from_client.read(_CHUNK):
            passing = bytearray()
            for request in self._wire.requests(data):
                rule = self._rule(request)
                if rule is None:
                    self._expect(request)
                    passing += request.raw
                    continue
                await self._pass_on(self._asked, self._orders.asking, passing)
                passing.clear()
                if not await self._disturb(rule, request):
                    return await self._pass_on(self._asked, self._orders.asking, b"", last=True)
            await self._pass_on(self._asked, self._orders.asking, passing)
        return await self._pass_on(self._asked, self._orders.asking, b"", last=True)

    async def _disturb(self, rule: Rule, request: Request) -> bool:
        """Apply a rule about requests; false where the connection shall close."""
        rule.applied(request)
        if rule.action is Action.LOSE_REQUEST:
            return False
        if rule.action is Action.ANSWER:
            self._pending.append(_Exchange(request, canned=rule.answer))
            await self._answer()
            return True
        await rule.released.wait()
        self._expect(request)
        await self._pass_on(self._asked, self._orders.asking, request.raw)
        return True

    def _rule(self, request: Request) -> Rule | None:
        """The first rule about requests that takes this one."""
        if request.answered:
            self._orders.commands[request.command] += 1
            for rule in self._orders.rules:
                if not rule.action.needs_reply and rule.meets(request) and rule.applies():
                    return rule
        return None

    def _expect(self, request: Request) -> None:
        if request.answered:
            self._pending.append(_Exchange(request))

    # replies

    async def _read_replies(self) -> None:
        while data := await self._from_server.read(_CHUNK):
            passing = bytearray()
            for reply in self._wire.replies(data):
                exchange = None if reply.pushed or not self._pending else self._pending[0]
                if exchange is None or not self._awaited(exchange):
                    passing += reply.raw
                else:
                    exchange.kept += reply.raw
                if exchange is None or not reply.ends:
                    continue
                self._pending.popleft()
                if exchange.rule is not None:
                    await self._pass_on(self._told, self._orders.telling, passing)
                    passing.clear()
                    if not await self._deliver(exchange, exchange.rule):
                        return await self._pass_on(self._told, self._orders.telling, b"", last=True)
                if self._pending and self._pending[0].canned:
                    await self._pass_on(self._told, self._orders.telling, passing)
                    passing.clear()
                    await self._answer()
            await self._pass_on(self._told, self._orders.telling, passing)
        return await self._pass_on(self._told, self._orders.telling, b"", last=True)

    def _awaited(self, exchange: _Exchange) -> bool:
        """Some rule is about this reply: it must be complete before anything becomes of it."""
        if exchange.rule is None and not exchange.kept:
            matching = (r for r in self._orders.rules if r.action.needs_reply and r.meets(exchange.request))
            exchange.rule = next(matching, None)
        return exchange.rule is not None

    async def _deliver(self, exchange: _Exchange, rule: Rule) -> bool:
        """Apply a rule about replies; false where the connection shall close.

        A script that the server did not know was not carried out: that reply always passes.
        """
        if exchange.kept.startswith(b"-NOSCRIPT") or not rule.meets(exchange.request) or not rule.applies():
            await self._pass_on(self._told, self._orders.telling, exchange.kept)
            return True
        if rule.action is Action.MUTE:
            self.mute = self.holed = True
        rule.applied(exchange.request)
        if rule.action is Action.LOSE_REPLY:
            return False
        if rule.action is Action.HOLD_REPLY:
            await rule.released.wait()
            await self._pass_on(self._told, self._orders.telling, exchange.kept)
        return True

    async def _answer(self) -> None:
        """Give the answers of our own whose turn has come."""
        while self._pending and self._pending[0].canned:
            await self._pass_on(self._told, self._orders.telling, self._pending.popleft().canned)

    # bytes

    async def _pass_on(
        self, queue: asyncio.Queue[tuple[float, bytes]], flow: Flow, data: Iterable[int], *, last: bool = False
    ) -> None:
        """Queue these bytes for the other side; `last` closes the connection behind them."""
        if data := bytes(data):
            await queue.put((asyncio.get_running_loop().time() + flow.latency, data))
        elif last:
            await queue.put((asyncio.get_running_loop().time() + flow.latency, b""))
            await asyncio.get_running_loop().create_future()  # the writer ends the connection

    async def _write(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, flow: Flow) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await flow.gate.wait()
            if not data:
                return
            if flow.swallowing or (self.mute if flow is self._orders.telling else self.deaf):
                self.holed = True
                continue
            if flow.rate:
                await asyncio.sleep(len(data) / flow.rate)
            if flow.budget is not None and flow.budget < len(data):
                await self._cut(writer, data, flow)
                return
            if flow.budget is not None:
                flow.budget -= len(data)
            writer.write(data)
            await writer.drain()

    async def _cut(self, writer: asyncio.StreamWriter, data: bytes, flow: Flow) -> None:
        """The last bytes that pass, then a closed connection."""
        writer.write(data[: flow.budget])
        flow.budget = None
        await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST where the socket has it (TCP); what was not yet sent is lost."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
