"""A TCP proxy in front of a store, that can fail in all the ways that networks do.

    with in_front_of_redis(redis_url) as proxy:
        lost = proxy.lose_reply("finish")          # the script runs, its answer does not arrive
        worker = connect(proxy.url)
        ...
        await lost.happened()

It runs in a thread of its own; every method may be called from sync and async tests alike, and
has taken effect when it returns. A disturbance of single requests is a `Rule`, which says when it
was applied. `heal()` takes everything back.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, Self, TypeVar

from tests.support.flow import Direction
from tests.support.link import Link, Orders, reset
from tests.support.net import Address, postgres_at, redis_at
from tests.support.rules import Action, Match, Odds, Rule, postgres_match, redis_match
from tests.support.wire import NoWire, PostgresWire, RedisWire, Wire

T = TypeVar("T")


class Proxy:
    """Listens on 127.0.0.1 and dials the server for each connection.

    Args:
        target: where the server listens.
        wire: the protocol; `NoWire` where no single requests are to be disturbed (less work).
        url: the server's URL with another port, that of the proxy.
        read: what a string means that stands for requests, see `rules`.

    Attributes:
        requests: the way to the server.
        replies: the way back.
    """

    def __init__(
        self,
        target: Address,
        wire: Callable[[], Wire] = NoWire,
        url: Callable[[int], str] = str,
        read: Callable[[str | Match | None], Match] = redis_match,
    ) -> None:
        self._target, self._wire, self._url, self._read = target, wire, url, read
        self._guard = _bound(0)  # keeps the port while nobody listens, so that connecting is refused
        self.port: int = self._guard.getsockname()[1]
        self._arrivals: Literal["serve", "ignore", "reset"] = "serve"
        self._listener: socket.socket | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._open: dict[asyncio.StreamWriter, Link | None] = {}
        self._errors: list[BaseException] = []
        self._accepted = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()
        self._orders = self._do(Orders)
        self.requests = Direction(self._do, self._orders.asking)
        self.replies = Direction(self._do, self._orders.telling)
        self._await(self._listen)

    @property
    def url(self) -> str:
        """The server's URL, by way of this proxy."""
        return self._url(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections and the thread.

        Raises:
            Exception: what went wrong inside of the proxy.
        """
        self._await(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._guard.close()
        if self._errors:
            raise self._errors[0]

    # all connections

    def pause(self) -> None:
        """Both ways stand still; connections stay open, and new ones open too."""
        self.requests.pause()
        self.replies.pause()

    def resume(self) -> None:
        self.requests.resume()
        self.replies.resume()

    def reset(self) -> None:
        """Every open connection gets a RST; new ones are served."""
        self._do(self._reset_links)

    def swallow_open(self) -> None:
        """The open connections go silent for good, without a RST; new ones are served."""

        def silence() -> None:
            for link in self._links():
                link.deaf = link.mute = True

        self._do(silence)

    def refuse(self) -> None:
        """New connections are refused, as if no server ran; open ones stay."""
        self._await(self._unlisten)

    def ignore(self) -> None:
        """New connections are accepted and never answered."""
        self._arrive("ignore")

    def reset_arrivals(self) -> None:
        """New connections are accepted and get a RST at once."""
        self._arrive("reset")

    def accept(self) -> None:
        """New connections are served again."""
        self._arrive("serve")
        self._await(self._listen)

    def down(self) -> None:
        """The server is gone: open connections get a RST, new ones are refused."""
        self.refuse()
        self.reset()

    def heal(self) -> None:
        """Take everything back. Connections that lost bytes get a RST: they cannot go on."""

        def forgive() -> None:
            for rule in self._orders.rules:
                rule.released.set()
            self._orders.rules.clear()
            self._orders.asking.reset()
            self._orders.telling.reset()
            self._reset_links(only_holed=True)

        self._do(forgive)
        self.accept()

    def redirect(self, target: Address) -> None:
        """New connections go to another server, as after a failover; open ones stay."""

        def change() -> None:
            self._target = target

        self._do(change)

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._do(lambda: len(self._links()))

    @property
    def accepted(self) -> int:
        """How many were accepted since the start."""
        return self._accepted

    @property
    def commands(self) -> Counter[str]:
        """How often each command came by: `XADD`, `EVALSHA`, `COMMIT`."""
        return self._do(lambda: Counter(self._orders.commands))

    # single requests

    def lose_reply(
        self, what: str | Match | None = None, *, nth: int = 1, times: int | None = 1, odds: Odds | None = None
    ) -> Rule:  # fmt: skip
        """The server carries the request out, its reply is dropped and the connection closed.

        Args:
            what: which requests, see `rules.redis_match` and `rules.postgres_match`.
            nth: begin with the n-th of them.
            times: stop after so many; None: never.
            odds: whether it is met this time, see `rules.chance`.
        """
        return self._add(Action.LOSE_REPLY, what, nth=nth, times=times, odds=odds)

    def mute_reply(
        self, what: str | Match | None = None, *, nth: int = 1, times: int | None = 1, odds: Odds | None = None
    ) -> Rule:  # fmt: skip
        """`lose_reply`, but the connection stays open: this and every later reply on it vanish."""
        return self._add(Action.MUTE, what, nth=nth, times=times, odds=odds)

    def lose_request(
        self, what: str | Match | None = None, *, nth: int = 1, times: int | None = 1, odds: Odds | None = None
    ) -> Rule:  # fmt: skip
        """The request never arrives, and the connection is closed."""
        return self._add(Action.LOSE_REQUEST, what, nth=nth, times=times, odds=odds)

    def hold_request(self, what: str | Match | None = None, *, nth: int = 1, times: int | None = 1) -> Rule:
        """The request waits in the proxy until `rule.release()`; what follows it waits behind it."""
        return self._add(Action.HOLD_REQUEST, what, nth=nth, times=times)

    def hold_reply(self, what: str | Match | None = None, *, nth: int = 1, times: int | None = 1) -> Rule:
        """The request is carried out; its reply waits in the proxy until `rule.release()`."""
        return self._add(Action.HOLD_REPLY, what, nth=nth, times=times)

    def answer(
        self, error: str, what: str | Match | None = None, *,
        nth: int = 1, times: int | None = None, odds: Odds | None = None,
    ) -> Rule:  # fmt: skip
        """A Redis error in the server's place: `answer("LOADING Redis is loading …")`.

        By default to every request but a client's introduction, until the rule is removed.
        """
        canned = f"-{error}\r\n".encode()
        return self._add(Action.ANSWER, what, nth=nth, times=times, answer=canned, odds=odds)

    def _add(
        self, action: Action, what: str | Match | None, *,
        nth: int, times: int | None, answer: bytes = b"", odds: Odds | None = None,
    ) -> Rule:  # fmt: skip
        rule = Rule(action, self._read(what), self._do, nth=nth, times=times, answer=answer, odds=odds)
        self._do(lambda: self._orders.rules.append(rule))
        return rule

    # in the proxy's loop

    # Not asyncio.start_server: closed while a connection arrives, it leaks that connection (an assertion
    # in its transport, swallowed), and a ResourceWarning fails whichever test comes next.

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bound(self.port)
            self._listener.listen(512)
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _unlisten(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            sock, _ = listener.accept()
            serving = self._loop.create_task(self._arrived(sock))
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)

    async def _arrived(self, sock: socket.socket) -> None:
        self._accepted += 1
        reader, writer = await asyncio.open_connection(sock=sock)
        self._open[writer] = None
        try:
            await self._serve(reader, writer)
        except OSError:
            reset(writer)
        except Exception as error:  # noqa: BLE001 - told at the end of the test, not in a log
            self._errors.append(error)
            reset(writer)
        finally:
            del self._open[writer]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._arrivals == "reset":
            reset(writer)
        elif self._arrivals == "ignore":
            await reader.read(-1)
            writer.close()
        else:
            server = await self._dial()
            self._open[writer] = link = Link(self._orders, self._wire(), (reader, writer), server)
            if writer.is_closing():  # it was reset meanwhile
                link.reset()
            await link.run()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._target.path:
            return await asyncio.open_unix_connection(self._target.path)
        return await asyncio.open_connection(self._target.host, self._target.port)

    def _reset_links(self, *, only_holed: bool = False) -> None:
        for writer, link in self._open.items():
            if link is not None and (link.holed or not only_holed):
                link.reset()
            elif not only_holed:
                reset(writer)

    def _links(self) -> list[Link]:
        return [link for link in self._open.values() if link is not None]

    async def _close(self) -> None:
        await self._unlisten()
        self._arrivals = "reset"
        while self._serving:
            self._reset_links()
            await asyncio.wait(self._serving, timeout=0.05)
        for _ in range(3):  # turns of the loop, in which transports close
            await asyncio.sleep(0)

    # from the test's thread

    def _arrive(self, how: Literal["serve", "ignore", "reset"]) -> None:
        def change() -> None:
            self._arrivals = how

        self._do(change)

    def _do(self, change: Callable[[], T]) -> T:
        """Run in the proxy's loop, and wait for it."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(change())
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(10)

    def _await(self, change: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`_do` for a coroutine."""
        asyncio.run_coroutine_threadsafe(change(), self._loop).result(10)


def in_front_of_redis(url: str, *, follow: bool = True) -> Proxy:
    """A proxy in front of the Redis at this URL.

    Args:
        follow: read the requests; needed for rules and `commands`.
    """
    return Proxy(Address.of_redis(url), RedisWire if follow else NoWire, lambda port: redis_at(url, port))


def in_front_of_postgres(url: str, *, follow: bool = True) -> Proxy:
    """A proxy in front of the Postgres at this URL, for this database."""
    wire = PostgresWire if follow else NoWire
    return Proxy(Address.of_postgres(url), wire, lambda port: postgres_at(url, port), postgres_match)


def _bound(port: int) -> socket.socket:
    """A socket on this port of 127.0.0.1, that others of ours may bind as well."""
    sock = socket.socket(proto=socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle's delay on: 40 ms a reply
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock
