"""Where endpoints and their states are kept: what a delivery asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.state import Failure, Noted, State


class EndpointUnreadable(Exception):
    """An endpoint is stored, and what is stored cannot be used: sealed with another key, or written by hand."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of an endpoint.

    Args:
        endpoint: None: it is not stored, and only its state is kept.
    """

    endpoint: Endpoint | None
    state: State


class EndpointStore(ABC):
    """Two stores, Postgres and memory, pass one suite.

    Raises:
        StoreUnavailable: from every method: it does not answer, or not now.
    """

    @abstractmethod
    async def find(self, name: str) -> Found | None:
        """What is known of an endpoint; None: nothing.

        Raises:
            EndpointUnreadable: what is stored cannot be used.
        """

    @abstractmethod
    async def failed(self, name: str, failure: Failure, disable_after: int, *, declared: bool) -> Noted | None:
        """Note an attempt that was not accepted.

        Args:
            declared: a program declares it, so that its state is kept though it is not stored. None is answered for
                one that is neither: it was deleted meanwhile.
        """

    @abstractmethod
    async def delivered(self, name: str, *, declared: bool) -> None:
        """Note one that was accepted."""

    @abstractmethod
    async def close(self) -> None:
        """Give connections back."""
