"""Endpoints and their states in Postgres, shared by the whole fleet."""

from __future__ import annotations

from typing import Any

from redisjobs.base import statements
from redisjobs.base.postgres import Database
from redisjobs.errors import DecodeError, OptionError
from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.sealing import Seal
from redisjobs.webhooks.state import Failure, Noted, State
from redisjobs.webhooks.store import EndpointStore, EndpointUnreadable, Found

_NAMES = ("find", "failed", "delivered")
statements.load("webhooks").require(*_NAMES)


class PostgresEndpoints(EndpointStore):
    """Asks before each delivery and notes after it, one short statement each.

    Its role needs what `redisjobs.grant_webhooks` gives.

    Args:
        database: opened by its owner, and closed with this.
    """

    def __init__(self, database: Database, seal: Seal, schema: str = statements.SCHEMA) -> None:
        self._database = database
        self._seal = seal
        self._sql = statements.load("webhooks", schema).require(*_NAMES)

    async def find(self, name: str) -> Found | None:
        """As `EndpointStore.find`."""
        rows = await self._database.alone("find a webhook's endpoint", self._sql.find, {"name": name})
        if not rows:
            return None
        url, secrets, headers, *state = rows[0]
        endpoint = None if url is None else self._read(name, url, secrets, headers)
        return Found(endpoint, State(*state))

    async def failed(self, name: str, failure: Failure, disable_after: int, *, declared: bool) -> Noted | None:
        """As `EndpointStore.failed`."""
        parameters = {
            "name": name, "error": failure.error, "final": failure.final, "gone": failure.gone,
            "disable_after": disable_after, "declared": declared,
        }  # fmt: skip
        rows = await self._database.alone("note a webhook's failure", self._sql.failed, parameters)
        return Noted(*rows[0]) if rows else None

    async def delivered(self, name: str, *, declared: bool) -> None:
        """As `EndpointStore.delivered`."""
        parameters = {"name": name, "declared": declared}
        await self._database.alone("note a webhook's delivery", self._sql.delivered, parameters)

    async def close(self) -> None:
        """As `EndpointStore.close`."""
        await self._database.close()

    def _read(self, name: str, url: str, secrets: list[str], headers: dict[str, Any]) -> Endpoint:
        try:
            opened = [self._seal.open(each) for each in secrets]
            return Endpoint(
                name, url, opened, {header: self._seal.open(str(value)) for header, value in headers.items()}
            )
        except (DecodeError, OptionError) as error:
            raise EndpointUnreadable(f"what is stored of it cannot be used: {error}") from None
