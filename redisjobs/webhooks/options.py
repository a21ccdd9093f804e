"""What `webhook(...)` takes, checked where it is written."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from redisjobs.backoff import RetryRule
from redisjobs.base.durations import Duration, positive, whole
from redisjobs.errors import OptionError
from redisjobs.limits import limit_name
from redisjobs.webhooks.addresses import Allowed
from redisjobs.webhooks.endpoint import Endpoint, check_headers
from redisjobs.webhooks.schedule import ATTEMPTS, over_days
from redisjobs.webhooks.sealing import Seal


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The options of `webhook(app, …)`. Durations are seconds or timedeltas.

    Args:
        name: of the job, under which rows and workers know it.
        queue: of its deliveries.
        endpoints: that this program declares. One that is stored under the same name is not looked at.
        max_attempts: of a delivery, the first one included.
        retry: a Backoff, a list of delays, or f(attempt, error) -> seconds; None: `over_days()`, which ends after
            three days. What a receiver asks for with Retry-After goes before it.
        timeout: for a whole attempt, from the name's resolution to the answer's end.
        disable_after: so many failed deliveries in a row disable an endpoint; 0: none do.
        max_concurrent: deliveries to one endpoint at the same time, in the whole fleet.
        allow: networks that may be reached besides public addresses, such as `["10.1.0.0/16"]`.
        headers: that every delivery bears, to whichever endpoint.
        tls: the authorities that are trusted; None: those of the machine.
        keys: that stored secrets are sealed with; None: those of REDISJOBS_WEBHOOK_KEYS.

    Raises:
        OptionError: an option out of its range.
    """

    name: str = "webhook"
    queue: str = "webhooks"
    endpoints: Sequence[Endpoint] = ()
    max_attempts: int = ATTEMPTS
    retry: RetryRule | None = None
    timeout: Duration = 20.0
    disable_after: int = 20
    max_concurrent: int = 10
    allow: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    tls: ssl.SSLContext | None = None
    keys: Sequence[bytes | str] | None = field(default=None, repr=False)
    allowed: Allowed = field(init=False, repr=False)
    seal: Seal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._put("timeout", positive("timeout", self.timeout, most=3600))
        whole("disable_after", self.disable_after, least=0, most=1_000_000)
        whole("max_concurrent", self.max_concurrent, most=100_000)
        self._put("allowed", Allowed.of(self.allow))
        self._put("headers", check_headers(self.headers))
        self._put("seal", Seal.of_environment() if self.keys is None else Seal(self.keys))
        self._check_endpoints()

    @property
    def timeout_s(self) -> float:
        """The timeout in seconds."""
        return cast(float, self.timeout)

    @property
    def limit_name(self) -> str:
        """Under which deliveries are counted: the job's name, or where that can name no limit, what stands for it."""
        return limit_name(self.name)

    @property
    def rule(self) -> RetryRule:
        """The retry rule."""
        return over_days() if self.retry is None else self.retry

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_endpoints(self) -> None:
        given = cast(object, self.endpoints)
        listed = cast("Sequence[object]", given) if isinstance(given, (list, tuple)) else [None]
        if not all(isinstance(each, Endpoint) for each in listed):
            raise OptionError("endpoints", type(self.endpoints).__name__, "is no list of endpoints: pass [Endpoint(…)]")
        names = [each.name for each in self.endpoints]
        for name in names:
            if names.count(name) > 1:
                raise OptionError("endpoints", name, "is the name of two endpoints: give each its own")
        for each in self.endpoints:
            self._check_address(each)

    def _check_address(self, endpoint: Endpoint) -> None:
        """A URL that has an address in it can be judged at once; a name is judged when it was resolved."""
        address = endpoint.target.address
        why = None if address is None else self.allowed.refusal(address)
        if why is not None:
            raise OptionError("endpoints", endpoint.name, f"leads to {address}, {why}: name its network in allow=[…]")
