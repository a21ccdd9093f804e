"""Renewals from a thread of their own, on a connection of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from redisjobs.base import scripts
from redisjobs.broker import presence
from redisjobs.broker.client import connect_sync, run_sync
from redisjobs.broker.keys import NO_QUEUE, Keys
from redisjobs.broker.slots import Argument

_RENEW = scripts.load("renew")
_PROGRESS = scripts.load("progress")
_HOLD = scripts.load("hold")
_MOST = 1000


class Heart:
    """Renews leases, and tells how far their bodies are. Not for the event loop: calls wait for their answer.

    Args:
        url: the Redis URL.
        prefix: what every key begins with.
        timeout: seconds after which an answer is no longer waited for; below a lease.
    """

    def __init__(self, url: str, prefix: str = "rj", *, timeout: float = 5.0, password: str | None = None) -> None:
        self._redis = connect_sync(url, timeout=timeout, password=password)
        self._keys = Keys(prefix)

    def renew(
        self, queue: str, consumer: str, leases: Sequence[tuple[bytes, bytes, int, int]]
    ) -> dict[bytes, Literal["lost", "cancelled"]]:
        """Renew leases, each given as job id, entry, start, band. Answers what is not simply renewed.

        Raises:
            BrokerUnavailable: no answer; the leases may have been renewed or not.
            StoreRefused: Redis refuses, and a repeat changes nothing.
        """
        told: dict[bytes, Literal["lost", "cancelled"]] = {}
        for first in range(0, len(leases), _MOST):
            flat: list[Argument] = [value for lease in leases[first : first + _MOST] for value in lease]
            reply = run_sync(self._redis, _RENEW, self._keys.of(queue, _RENEW), [consumer, *flat])
            for at in range(0, len(reply), 2):
                told[reply[at]] = cast(Literal["lost", "cancelled"], reply[at + 1].decode())
        return told

    def hold(self, consumer: str, lease_ms: int, permits: Sequence[tuple[bytes, int]]) -> set[bytes]:
        """Renew permits of limits, each given as job id and start. Answers the jobs whose permit is another's by now.

        Raises:
            BrokerUnavailable, StoreRefused: as `renew`.
        """
        lost: set[bytes] = set()
        for first in range(0, len(permits), _MOST):
            flat: list[Argument] = [value for permit in permits[first : first + _MOST] for value in permit]
            lost.update(run_sync(self._redis, _HOLD, self._keys.of(NO_QUEUE, _HOLD), [consumer, lease_ms, *flat]))
        return lost

    def tell(self, worker_id: str, word: bytes) -> None:
        """Say that a worker is there, and what it does; an empty word: it goes.

        Raises:
            BrokerUnavailable, StoreRefused: it was not heard.
        """
        presence.tell(self._redis, self._keys, worker_id, word)

    def progress(self, queue: str, consumer: str, reports: Sequence[tuple[bytes, bytes, int, bytes]]) -> None:
        """Write down reports, each given as job id, entry, start, text; those whose lease was lost are dropped.

        Raises:
            BrokerUnavailable, StoreRefused: as `renew`.
        """
        for first in range(0, len(reports), _MOST):
            flat: list[Argument] = [value for report in reports[first : first + _MOST] for value in report]
            run_sync(self._redis, _PROGRESS, self._keys.of(queue, _PROGRESS), [consumer, *flat])

    def close(self) -> None:
        """Give the connection back."""
        self._redis.close()
