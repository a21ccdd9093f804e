"""A receiver of webhooks in memory: what was sent, and answers that are planned."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from redisjobs.errors import ConfigurationError
from redisjobs.job import Caller
from redisjobs.webhooks import deliverer_of, verify
from redisjobs.webhooks.answers import Answer, NoAnswer
from redisjobs.webhooks.sender import Sender
from redisjobs.webhooks.target import Target


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the receiver had it.

    Args:
        url: without its query.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def type(self) -> str:
        """What happened."""
        return str(json.loads(self.body)["type"])

    @property
    def data(self) -> Any:
        """What was enqueued, as JSON brings it."""
        return json.loads(self.body)["data"]

    def is_signed_with(self, secret: str | Sequence[str]) -> bool:
        """Whether a receiver with this secret believes it; `redisjobs.webhooks.verify` says how that is judged."""
        return verify(self.body, self.headers, secret)


class FakeReceiver(Sender):
    """Stands for all endpoints at once. Nothing is connected, so no address is refused.

    Attributes:
        received: the requests, in order.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._answers: list[Answer | None] = []

    def answers(self, *planned: int | Answer | None) -> None:
        """Plan what the next requests are answered: a status, an `Answer` with headers, or None for no answer at all.

        When nothing is planned any more, the answer is 204.
        """
        self._answers += [Answer(each) if isinstance(each, int) else each for each in planned]

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes, timeout: float) -> Answer:
        """Take a request."""
        self.received.append(Received(target.shown, dict(headers), body))
        answer = self._answers.pop(0) if self._answers else Answer(204)
        if answer is None:
            raise NoAnswer("none was planned")
        return answer

    async def close(self) -> None:
        """Nothing is open."""


@contextmanager
def receiving(job: Caller[Any, Any]) -> Generator[FakeReceiver]:
    """For the time of the block, the deliveries of this webhook go to a receiver in memory; then states are forgotten.

    Raises:
        ConfigurationError: the job is none that `webhook(…)` made.
    """
    deliverer = deliverer_of(job.declared)
    if deliverer is None:
        raise ConfigurationError(f"job {job.declared.name!r} delivers no webhooks: pass what webhook(…) answered")
    before, receiver = deliverer.sessions.sender, FakeReceiver()
    deliverer.sessions.sender = receiver
    try:
        yield receiver
    finally:
        deliverer.sessions.sender = before
        deliverer.sessions.memory.states.clear()
