"""An endpoint: where deliveries go, what signs them, and which headers they bear."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from redisjobs.errors import OptionError
from redisjobs.webhooks.keys import Key, signing_keys
from redisjobs.webhooks.target import Target, read_url

MOST_HEADERS = 50
LONGEST_NAME, LONGEST_VALUE = 100, 2000
OURS = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that say how a request is read, or that are written here; and all that begin with `webhook-`."""

_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where deliveries go.

    Args:
        name: by which `enqueue` names it, and everything that tells of it.
        url: `https://…`; `http://…` only into networks that the allow-list names.
        secrets: `whsec_…` or `whsk_…`, one or several; each signs, so that a receiver may hold any of them.
        headers: that each delivery bears besides its own, such as `{"authorization": "…"}`.

    Raises:
        OptionError: one of them cannot be used. No text shows a secret, a header's value or a URL.
    """

    name: str
    url: str = field(repr=False)
    secrets: str | Sequence[str] = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    target: Target = field(init=False, repr=False)
    keys: tuple[Key, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        self._put("target", read_url(self.url))
        self._put("keys", signing_keys(self.secrets))
        self._put("headers", check_headers(self.headers))

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def check_name(name: object) -> str:
    """An endpoint's name.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or _CONTROL.search(name):
        shown = name[:60] if isinstance(name, str) else name
        why = "is no endpoint's name: pass 1 to 200 characters, none a control character"
        raise OptionError("endpoint", shown, why)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise OptionError("endpoint", ascii(name[:60]), "has a lone surrogate, which no database can store") from None
    return name


def check_headers(headers: object) -> dict[str, str]:
    """Headers of one's own, their names in lower case.

    Raises:
        OptionError: a name or a value that HTTP, or this library, keeps for itself. No text shows a value.
    """
    if not isinstance(headers, Mapping):
        raise OptionError("headers", type(headers).__name__, "are no mapping: pass names with their values")
    given = cast("Mapping[object, object]", headers)
    if len(given) > MOST_HEADERS:
        raise OptionError("headers", f"{len(given)} headers", f"are too many: pass {MOST_HEADERS} at most")
    checked: dict[str, str] = {}
    for name, value in given.items():
        lower = _header_name(name)
        if lower in checked:
            raise OptionError("headers", name, "is there twice, in another case: pass it once")
        checked[lower] = _header_value(lower, value)
    return checked


def _header_name(name: object) -> str:
    shown = name[:60] if isinstance(name, str) else name
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name.lower()):
        raise OptionError("headers", shown, f"is no header's name: pass 1 to {LONGEST_NAME} of A-Z, a-z, 0-9 and -_")
    if name.lower() in OURS or name.lower().startswith("webhook-"):
        raise OptionError("headers", shown, "is written by the delivery itself: leave it out")
    return name.lower()


def _header_value(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        why = (
            f"has a value that cannot be sent: pass 1 to {LONGEST_VALUE} printable characters of ASCII, with no space "
            "at either end and no line end"
        )
        raise OptionError("headers", name, why)
    return value
