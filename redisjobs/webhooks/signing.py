"""Signs a delivery as Standard Webhooks says, and verifies one for a receiver."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from redisjobs.base.durations import Duration, seconds
from redisjobs.webhooks.keys import Key, verifying_keys

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE_S = 300.0
"""How far a timestamp may be from the receiver's clock, before or behind."""
MOST_SIGNATURES = 50
"""Signatures of one header that are looked at."""

_SECONDS = re.compile(r"[0-9]{1,12}")


def signed_headers(keys: Sequence[Key], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of a delivery, with a signature for each key.

    Args:
        message_id: the same for each attempt, and without a dot.
        timestamp: of this attempt, in seconds since 1970.
    """
    content = _content(message_id, str(timestamp), body)
    signatures = " ".join(key.sign(content) for key in keys)
    return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: signatures}


def verify(
    body: bytes | str,
    headers: Mapping[str, Any],
    secrets: str | Sequence[str],
    *,
    tolerance: Duration = TOLERANCE_S,
    now: float | None = None,
) -> bool:
    """Whether a request was signed with one of these secrets, lately.

    Whatever a stranger put into headers and body, it answers and does not raise; what is compared is compared in
    constant time. Deliveries may come twice: keep `webhook-id` to find that out.

    Args:
        body: as it was received, byte for byte: not read as JSON and written anew.
        headers: by name, in any case.
        secrets: `whsec_…`, or `whpk_…` for ed25519; several while one is being rotated.
        tolerance: how far its timestamp may be from this clock, in seconds or as a timedelta.
        now: seconds since 1970; None: the time of this machine.

    Raises:
        OptionError: a secret of yours that is none, or the tolerance.
    """
    keys, window = verifying_keys(secrets), seconds("tolerance", tolerance)
    found = {_text(name).lower(): _text(value) for name, value in headers.items()}
    message_id, stamp, signatures = (found.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not message_id or not _SECONDS.fullmatch(stamp):
        return False
    if abs((time.time() if now is None else now) - int(stamp)) > window:
        return False
    content = _content(message_id, stamp, body.encode("utf-8", "replace") if isinstance(body, str) else body)
    judges = [key.judge(content) for key in keys]
    accepted = False
    for each in signatures.split(" ")[:MOST_SIGNATURES]:
        version, _, signature = each.partition(",")
        given = signature.encode("utf-8", "backslashreplace")
        for judge in judges:  # all of them, so that the time taken does not tell which one was right
            accepted |= judge(version, given)
    return accepted


def _content(message_id: str, timestamp: str, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode("utf-8", "backslashreplace") + body


def _text(value: object) -> str:
    """A header's name or value as text; what is neither text nor bytes is no header."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""
