"""The interface between a body and its run: what `Context` passes on, and one that refuses it all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from redisjobs.call import Call
from redisjobs.durable.transaction import SyncTransaction, Transaction
from redisjobs.durable.values import Event, StepOptions, Wait, Work
from redisjobs.errors import ConfigurationError

T = TypeVar("T")


class Engine(ABC):
    """What a body's durable operations do. Options are checked before they come here.

    Raises (each method):
        JobAbortedError: the attempt may write nothing any more.
        StepDuplicateError: the name is used already.
        Suspend: the body is to leave its slot; it passes `except Exception`.
    """

    @abstractmethod
    async def step(self, name: str, work: Work, options: StepOptions) -> Any:
        """The result of the work, done once.

        Raises:
            StepFailed: its last try failed, now or in an earlier attempt.
        """

    @abstractmethod
    async def sleep(self, name: str, seconds: float) -> None:
        """Return so long after it was first asked for."""

    @abstractmethod
    async def sleep_until(self, name: str, moment: datetime) -> None:
        """Return at this moment or later."""

    @abstractmethod
    async def wait_for_event(self, wait: Wait) -> Event[Any] | None:
        """The event; None: it did not come in time."""

    @abstractmethod
    async def start(self, call: Call[Any], name: str, *, awaited: bool) -> str:
        """Enqueue a child; answers its id.

        Args:
            awaited: its result is asked for right after.
        """

    @abstractmethod
    async def result(self, call: Call[Any], name: str) -> Any:
        """What a started child returned.

        Raises:
            ChildFailed: it ended otherwise than done.
        """

    @abstractmethod
    async def gather(self, branches: Sequence[Awaitable[Any]], *, return_exceptions: bool) -> list[Any]:
        """The results of all branches, which run side by side."""

    @abstractmethod
    def transaction(self, name: str) -> Transaction:
        """A block whose writes commit together with its record."""

    @abstractmethod
    async def transact(self, name: str, work: Work) -> Any:
        """As `transaction`, for a function that is given the connection before its other arguments."""

    @abstractmethod
    def perform(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """For a body in a thread: have this coroutine run in the loop, and functions in the calling thread."""

    @abstractmethod
    def sync_transaction(self, name: str) -> SyncTransaction:
        """As `transaction`, for a body in a thread."""

    @abstractmethod
    def sync_transact(self, name: str, work: Work) -> Any:
        """As `transact`, for a body in a thread."""

    @property
    @abstractmethod
    def tx(self) -> Any:
        """The transaction of a transactional job."""


def in_a_process(job: str) -> str:
    """Why a body with `process=True` has no run."""
    return (
        f"job {job!r} runs in a process of its own, which cannot record what it does: leave process=True out, "
        "or make this a step of another job"
    )


class Refusing(Engine):
    """Refuses everything.

    Args:
        why: what is in the way, and what to do about it.
    """

    def __init__(self, why: str) -> None:
        self.why = why

    def refuse(self, what: str) -> NoReturn:
        """Refuse this."""
        raise ConfigurationError(f"{what}: {self.why}")

    async def step(self, name: str, work: Work, options: StepOptions) -> Any:
        self.refuse(f"ctx.step({name!r})")

    async def sleep(self, name: str, seconds: float) -> None:
        self.refuse(f"ctx.sleep({name!r})")

    async def sleep_until(self, name: str, moment: datetime) -> None:
        self.refuse(f"ctx.sleep_until({name!r})")

    async def wait_for_event(self, wait: Wait) -> Event[Any] | None:
        self.refuse(f"ctx.wait_for_event({wait.name!r})")

    async def start(self, call: Call[Any], name: str, *, awaited: bool) -> str:
        self.refuse(f"ctx.call({call.job!r})" if awaited else f"ctx.start({call.job!r})")

    async def result(self, call: Call[Any], name: str) -> Any:
        self.refuse(f"the result of child {name!r}")

    async def gather(self, branches: Sequence[Awaitable[Any]], *, return_exceptions: bool) -> list[Any]:
        for each in branches:
            if isinstance(each, Coroutine):
                each.close()
        self.refuse("ctx.gather")

    def transaction(self, name: str) -> Transaction:
        self.refuse(f"ctx.transaction({name!r})")

    async def transact(self, name: str, work: Work) -> Any:
        self.refuse(f"ctx.transaction({name!r})")

    def perform(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            make().send(None)
        except StopIteration as end:  # it had nothing to ask of the run
            answer: T = end.value
        else:
            self.refuse("ctx.sync")
        return answer

    def sync_transaction(self, name: str) -> SyncTransaction:
        self.refuse(f"ctx.sync.transaction({name!r})")

    def sync_transact(self, name: str, work: Work) -> Any:
        self.refuse(f"ctx.sync.transaction({name!r})")

    @property
    def tx(self) -> Any:
        self.refuse("ctx.tx")
