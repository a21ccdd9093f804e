"""How deliveries go out: the seam at which the test kit puts its own hands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from redisjobs.webhooks.answers import Answer
from redisjobs.webhooks.target import Target


class Sender(ABC):
    """Sends requests: over HTTP, or into a test's own hands."""

    @abstractmethod
    async def post(self, target: Target, headers: Mapping[str, str], body: bytes, timeout: float) -> Answer:
        """Send a request; what came back.

        Args:
            timeout: seconds for all of it.

        Raises:
            NoAnswer: no whole answer came.
            AddressRefused: the address is closed to webhooks.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give the connections back."""
