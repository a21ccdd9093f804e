"""What a receiver answered, and what that means: the one table of statuses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from redisjobs.record import clean

KEPT_BYTES = 16_384
"""Of an answer's body that are read; the connection is closed before the rest comes."""
SHOWN_CHARS = 500
"""Of them that are kept with the error."""

_SIGNATURES = re.compile(r"v1a?,[A-Za-z0-9+/=]{16,}|wh(?:sec|sk)_[A-Za-z0-9+/=]+")


class NoAnswer(Exception):
    """No whole answer came: no connection, no TLS that can be trusted, a timeout, bytes that are no HTTP."""


class AddressRefused(Exception):
    """The endpoint's address is closed to webhooks; nothing was sent."""


class Verdict(Enum):
    """What becomes of a delivery."""

    DELIVERED = "delivered"
    RETRY = "a later attempt may be accepted"
    REFUSED = "no later attempt will be accepted"
    GONE = "the endpoint is gone for good"


RETRIED = frozenset({408, 409, 425, 429})
"""Besides every 5xx and no answer at all."""
GONE = 410


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, as far as it was read.

    Args:
        headers: by name in lower case; of a name that comes twice the first.
        body: its beginning.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def verdict(self) -> Verdict:
        """What becomes of the delivery. A redirect is a refusal: it is not followed, wherever it leads."""
        if 200 <= self.status < 300:
            return Verdict.DELIVERED
        if self.status in RETRIED or 500 <= self.status < 600:
            return Verdict.RETRY
        return Verdict.GONE if self.status == GONE else Verdict.REFUSED

    def excerpt(self, hidden: Iterable[str] = ()) -> str:
        """The beginning of its body, for people: without the signatures, secrets and header values it may repeat."""
        text = self.body.decode("utf-8", "backslashreplace")
        for value in hidden:
            text = text.replace(value, "***")
        return clean(_SIGNATURES.sub("***", text), SHOWN_CHARS)
