"""The names of a queue's keys: all under one hash tag, so that scripts are atomic on a cluster too."""

from __future__ import annotations

from collections.abc import Sequence

from redisjobs.base import scripts
from redisjobs.base.scripts import Script
from redisjobs.broker.values import STREAMS

NO_QUEUE = "-"
"""Stands for a queue's name in keys that belong to none; no queue can be called so."""


class Keys:
    """Key names, made once for each queue.

    Args:
        prefix: what every key begins with.
    """

    def __init__(self, prefix: str = "rj") -> None:
        self.prefix = prefix
        self.queues = f"{prefix}:queues".encode()
        self.dirty = f"{prefix}:dirty".encode()
        self._made: dict[tuple[str, str], list[bytes]] = {}

    def key(self, queue: str, name: str) -> bytes:
        """One key of a queue, such as `jobs`; `ready0` is the stream `ready:0`."""
        if name.startswith("ready"):
            name = f"ready:{name[5:]}"
        return f"{self.prefix}:{{{queue}}}:{name}".encode()

    def of(self, queue: str, script: Script) -> list[bytes]:
        """The keys of a script for a queue, in the order in which it names them."""
        made = self._made.get((queue, script.name))
        if made is None:
            made = self._made[queue, script.name] = [self.key(queue, name) for name in script.keys]
        return made

    def all_of(self, queue: str) -> list[bytes]:
        """Every key of a queue that any script names; the results that are waited for are apart."""
        names = {name for script in scripts.names() for name in scripts.load(script).keys}
        return [self.key(queue, name) for name in sorted(names)]

    def streams(self, queue: str) -> Sequence[bytes]:
        """The streams of a queue: its bands, high to low, and the front."""
        return [self.key(queue, f"ready{band}") for band in range(STREAMS)]

    def result(self, queue: str, job_id: bytes) -> bytes:
        """Where the result of a job is waited for."""
        return self.key(queue, f"result:{job_id.hex()}")
