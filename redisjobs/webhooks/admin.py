"""What an operator asks of endpoints and does with them, over one connection."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from redisjobs.base import statements
from redisjobs.base.asking import Asking
from redisjobs.base.postgres import FIRST_ID
from redisjobs.errors import OptionError
from redisjobs.webhooks.delivery import TEST
from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.sealing import Seal
from redisjobs.webhooks.state import State
from redisjobs.webhooks.target import read_url

_NAMES = (
    "may_look", "endpoints", "endpoint", "keys", "add", "rotate", "switch", "delete", "dead_of", "now", "test",
)  # fmt: skip
statements.load("webhooks").require(*_NAMES)

MOST = 1000
"""Endpoints that are told of."""
AT_ONCE = 500
TEST_TYPE = "redisjobs.test"


@dataclass(frozen=True, slots=True)
class EndpointLine:
    """An endpoint as Postgres knows it. `url` is None for one that a program declares."""

    name: str
    url: str | None
    created_at: datetime
    failures: int
    failing_since: datetime | None
    last_error: str | None
    last_delivered_at: datetime | None
    disabled_at: datetime | None
    disabled_why: str | None

    @property
    def state(self) -> State:
        """How it behaves."""
        return State(
            self.failures, self.failing_since, self.last_error, self.last_delivered_at, self.disabled_at,
            self.disabled_why,
        )  # fmt: skip

    @property
    def shown_url(self) -> str | None:
        """Its URL without the query, which may hold a secret."""
        try:
            return None if self.url is None else read_url(self.url).shown
        except OptionError:
            return "(cannot be read)"

    def document(self) -> dict[str, Any]:
        """The endpoint for machines."""
        return {
            "endpoint": self.name, "url": self.shown_url, "stored": self.url is not None, "state": self.state.word,
            "failures": self.failures, "failing_since": self.failing_since, "last_error": self.last_error,
            "last_delivered_at": self.last_delivered_at, "disabled_at": self.disabled_at,
            "disabled_why": self.disabled_why,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A secret, or a header, without its value. `header` is None for what signs."""

    header: str | None
    created_at: datetime
    expires_at: datetime | None


class EndpointAdmin(Asking):
    """Every call is a transaction of its own.

    Its role needs what `redisjobs.grant_webhook_admin` gives; for `test` that of a producer, for dead deliveries that
    of an operator.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA, seal: Seal | None = None) -> None:
        self._sql = statements.load("webhooks", schema).require(*_NAMES)
        self._seal = seal or Seal()
        super().__init__(url)

    def endpoints(self) -> list[EndpointLine]:
        """All of them; none where this role may not look."""
        if not self._one("look at endpoints", self._sql.may_look):
            return []
        return self._all("look at endpoints", EndpointLine, self._sql.endpoints, {"limit": MOST})

    def endpoint(self, name: str) -> EndpointLine | None:
        """One of them."""
        return next(iter(self._all("look at an endpoint", EndpointLine, self._sql.endpoint, {"name": name})), None)

    def keys(self, name: str) -> list[KeyLine]:
        """What it has of secrets and headers."""
        return self._all("look at secrets", KeyLine, self._sql.keys, {"name": name})

    def add(self, name: str, url: str, secret: str, headers: Mapping[str, str]) -> bool:
        """Store an endpoint; False: one of this name is stored.

        Raises:
            OptionError: it cannot be used; nothing was written.
        """
        checked = Endpoint(name, url, secret, headers)
        sealed = {header: self._seal.close(value) for header, value in checked.headers.items()}
        parameters = {"name": name, "url": url, "secret": self._seal.close(secret), "headers": json.dumps(sealed)}
        return bool(self._one("store an endpoint", self._sql.add, parameters))

    def rotate(self, name: str, secret: str, grace_s: float) -> bool:
        """Give it a new secret, beside which the old ones sign for the grace; False: it is not stored."""
        parameters = {"name": name, "secret": self._seal.close(secret), "grace_s": grace_s}
        return bool(self._one("rotate a secret", self._sql.rotate, parameters))

    def enable(self, name: str) -> bool:
        """Send to it again, with its failures forgotten; False: it is not known."""
        return bool(self._one("enable an endpoint", self._sql.switch, {"name": name, "why": None}))

    def disable(self, name: str, why: str) -> bool:
        """Send nothing to it; False: it is not known."""
        return bool(self._one("disable an endpoint", self._sql.switch, {"name": name, "why": why}))

    def delete(self, name: str) -> bool:
        """Forget it with its secrets; False: it is not known."""
        return bool(self._one("delete an endpoint", self._sql.delete, {"name": name}))

    def test(self, name: str, *, job: str, queue: str) -> UUID:
        """Ask for a delivery that goes out once, also while the endpoint is disabled, and counts for nothing."""
        document: dict[str, Any] = {"endpoint": name, "type": TEST_TYPE, "data": {}}
        parameters = {
            "job": job, "queue": queue, "input": json.dumps(document), "headers": json.dumps({TEST: "test"}),
        }  # fmt: skip
        found: UUID = self._one("ask for a test", self._sql.test, parameters)
        return found

    def now(self) -> datetime:
        """The time of Postgres."""
        found: datetime = self._one("ask for the time", self._sql.now)
        return found

    def dead(
        self, name: str, *, job: str, queue: str, since: datetime | None, until: datetime
    ) -> Generator[list[UUID]]:
        """Dead deliveries to an endpoint, the oldest first, in pieces; encrypted arguments do not tell theirs."""
        died_at, last = datetime(1970, 1, 1, tzinfo=until.tzinfo), UUID(FIRST_ID)
        while True:
            parameters = {
                "name": name, "job": job, "queue": queue, "since": since, "until": until, "died_at": died_at,
                "id": last, "limit": AT_ONCE,
            }  # fmt: skip
            rows = self._rows("look for dead deliveries", self._sql.dead_of, parameters)
            if not rows:
                return
            yield [row[0] for row in rows]
            last, died_at = rows[-1]
