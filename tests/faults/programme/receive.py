"""The receiver of a trial's webhooks: refuses what its data says shall be refused, and some others the first time."""

from __future__ import annotations

import asyncio
import json
from typing import Self

from tests.support.receiver import Receiver, answer


class Hooks:
    """Listens while a trial lasts.

    Attributes:
        accepted: the ids that were answered with 204.
    """

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self._seen: set[str] = set()
        self._receiver = Receiver(self._respond)

    @property
    def url(self) -> str:
        return self._receiver.url

    async def __aenter__(self) -> Self:
        await self._receiver.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._receiver.__aexit__()

    async def _respond(self, writer: asyncio.StreamWriter) -> None:
        request = self._receiver.received[-1]  # nothing has been awaited since it came
        name = request.headers["webhook-id"]
        if json.loads(request.body)["data"]["refused"]:
            said = answer(400)
        elif name not in self._seen and sum(name.encode()) % 2:
            said = answer(503)
        else:
            self.accepted.add(name)
            said = answer(204)
        self._seen.add(name)
        writer.write(said)
        await writer.drain()
