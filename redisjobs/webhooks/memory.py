"""States in the memory of one process: for programs without a database of ours, and for tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from redisjobs.webhooks.state import Failure, Noted, State, after_failure, after_success
from redisjobs.webhooks.store import EndpointStore, Found


class MemoryEndpoints(EndpointStore):
    """Keeps the states of declared endpoints for as long as the process lives. Nothing is stored here."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.states: dict[str, State] = {}
        self._now = now

    async def find(self, name: str) -> Found | None:
        """As `EndpointStore.find`."""
        state = self.states.get(name)
        return None if state is None else Found(None, state)

    async def failed(self, name: str, failure: Failure, disable_after: int, *, declared: bool) -> Noted | None:
        """As `EndpointStore.failed`."""
        if name not in self.states and not declared:
            return None
        state = self.states[name] = after_failure(self.states.get(name, State()), failure, disable_after, self._now())
        return Noted(state.failures, state.disabled_why)

    async def delivered(self, name: str, *, declared: bool) -> None:
        """As `EndpointStore.delivered`."""
        if name in self.states or declared:
            self.states[name] = after_success(self.states.get(name, State()), self._now())

    async def close(self) -> None:
        """Nothing is open."""
