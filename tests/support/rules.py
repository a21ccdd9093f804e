"""What a proxy does to single requests: whom a rule meets, how often, and how a test waits for it."""

from __future__ import annotations

import asyncio
import enum
import random
import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self

from redisjobs.base import scripts
from tests.support.wire import Request

Match = Callable[[Request], bool]
Odds = Callable[[], bool]

_HANDSHAKE = {"HELLO", "AUTH", "CLIENT", "COMMAND", "SELECT", "STARTUP", "CANCEL"}


class Action(enum.Enum):
    """What becomes of a request, or of its reply."""

    LOSE_REQUEST = "lose the request: it never arrives, and the connection closes"
    ANSWER = "answer in the server's place: the request never arrives"
    HOLD_REQUEST = "hold the request until it is released"
    LOSE_REPLY = "lose the reply: the request was carried out, and the connection closes"
    MUTE = "lose the reply and every later one; the connection stays open and silent"
    HOLD_REPLY = "hold the reply until it is released: the request was carried out"

    @property
    def needs_reply(self) -> bool:
        return self in (Action.LOSE_REPLY, Action.MUTE, Action.HOLD_REPLY)


class Rule:
    """One disturbance. Take it back with `remove()`, or use it as a context manager.

    Attributes:
        count: how often it was applied.
        requests: the requests that it was applied to.
    """

    def __init__(
        self,
        action: Action,
        matches: Match,
        do: Callable[[Callable[[], None]], None],
        *,
        nth: int = 1,
        times: int | None = 1,
        answer: bytes = b"",
        odds: Odds | None = None,
    ) -> None:
        self.action, self.answer = action, answer
        self._odds = odds
        self.requests: list[Request] = []
        self.released = asyncio.Event()
        self._matches = matches
        self._skip, self._times = nth - 1, times
        self._first: Future[Request] = Future()
        self._do = do

    @property
    def count(self) -> int:
        return len(self.requests)

    def release(self) -> None:
        """Let go of what it holds, and of what it will meet."""
        self._do(self.released.set)

    def remove(self) -> None:
        """It meets nothing more; what it holds stays held."""
        self._do(self._use_up)

    def wait(self, within: float = 10) -> Request:
        """Wait until it was applied for the first time; the request that it met.

        Raises:
            AssertionError: it did not happen in time.
        """
        try:
            return self._first.result(within)
        except TimeoutError:
            raise AssertionError(self._missed(within)) from None

    async def happened(self, within: float = 10) -> Request:
        """`wait` for async tests."""
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._first)), within)
        except TimeoutError:
            raise AssertionError(self._missed(within)) from None

    def meets(self, request: Request) -> bool:
        """The request is one that it is about, if it is not used up."""
        return self._times != 0 and self._matches(request)

    def applies(self) -> bool:
        """It meets this request, and counts it: is it the turn?"""
        if self._skip:
            self._skip -= 1
            return False
        if self._odds is not None and not self._odds():
            return False
        if self._times is not None:
            self._times -= 1
        return True

    def applied(self, request: Request) -> None:
        self.requests.append(request)
        if not self._first.done():
            self._first.set_result(request)

    def _use_up(self) -> None:
        self._times = 0

    def _missed(self, within: float) -> str:
        return f"no request within {within:g} s to {self.action.value}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self.remove()


def chance(share: float, rng: random.Random) -> Odds:
    """Meets a request with this probability, 0 to 1: the same draws for the same seed."""
    return lambda: rng.random() < share


def anything(request: Request) -> bool:
    """Every request but those by which a client introduces itself."""
    return request.command not in _HANDSHAKE


def command(name: str, *first_arguments: str) -> Match:
    """The Redis command of this name: `command("XREADGROUP")`, `command("SCRIPT", "LOAD")`."""
    wanted = [name.upper(), *(word.upper() for word in first_arguments)]

    def matches(request: Request) -> bool:
        return [word.decode(errors="replace").upper() for word in request.words[: len(wanted)]] == wanted

    return matches


def script(name: str) -> Match:
    """The runs of the script `lua/NAME.lua`, by EVALSHA or EVAL."""
    return script_sha(scripts.load(name).sha)


def script_sha(sha: str) -> Match:
    """The runs of the script with this SHA-1."""
    return lambda request: request.sha == sha


def statement(part: str) -> Match:
    """The Postgres statements with these whole words in them, in any case: `statement("COMMIT")`."""
    wanted = re.compile(rb"(?<!\w)%b(?!\w)" % re.escape(part.encode()), re.IGNORECASE)
    return lambda request: any(wanted.search(word) for word in request.words)


def redis_match(what: str | Match | None) -> Match:
    """A script by its name (`"finish"`), a command in capitals (`"XADD"`), anything (None)."""
    if what is None:
        return anything
    if not isinstance(what, str):
        return what
    return command(what) if what.isupper() else script(what)


def postgres_match(what: str | Match | None) -> Match:
    """Statements with this text in them, or anything (None)."""
    if what is None:
        return anything
    return statement(what) if isinstance(what, str) else what
