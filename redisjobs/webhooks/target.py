"""An endpoint's URL, read once and strictly: the parts that are connected to are the parts that were checked."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

from redisjobs.base.urls import HIGHEST_PORT
from redisjobs.errors import OptionError
from redisjobs.webhooks.addresses import Address

LONGEST = 2048
PORTS = {"https": 443, "http": 80}

# One reading, by one pattern: two parsers that disagree about a URL are how guards like this one are passed by.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?P<rest>[/?][\w.~:/?@!$&'()*+,;=%\[\]-]*)?",
    re.IGNORECASE | re.ASCII,
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a delivery goes.

    Args:
        host: a name in lower case, or an address without brackets.
        address: of a host that is one.
        path: with its query, which may hold a secret.
    """

    scheme: str
    host: str
    port: int
    address: Address | None
    path: str = field(repr=False)

    @property
    def host_header(self) -> str:
        """The host as HTTP names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL as it may be shown: without its query."""
        path, mark, _ = self.path.partition("?")
        return f"{self.scheme}://{self.host_header}{path}{mark and '?…'}"


def read_url(url: object, name: str = "url") -> Target:
    """Read an endpoint's URL.

    Raises:
        OptionError: it cannot be used. The text shows neither user, password nor query.
    """
    if not isinstance(url, str):
        raise OptionError(name, type(url).__name__, "is no text: pass https://host/path")
    if len(url) > LONGEST:
        raise OptionError(name, f"{len(url)} characters", f"are too many: pass {LONGEST} at most")
    found = _URL.fullmatch(url)
    if found is None:
        raise OptionError(name, _start(url), _why_unread(url))
    scheme, host = found["scheme"].lower(), found["host"].lower().strip("[]")
    port = int(found["port"]) if found["port"] else PORTS[scheme]
    if not 0 < port <= HIGHEST_PORT:
        raise OptionError(name, _start(url), f"names the port {port}: pass 1 to {HIGHEST_PORT}")
    rest = found["rest"] or "/"
    address = _address(name, url, host)
    return Target(scheme, host, port, address, rest if rest.startswith("/") else f"/{rest}")


def _address(name: str, url: str, host: str) -> Address | None:
    """The address that the host is; None for a name.

    What looks like a number is an address in one form only. Resolvers also read 127.1, 0177.0.0.1, 0x7f.1 and
    2130706433 as one, and people then read something else.
    """
    last = host.rpartition(".")[2]
    if ":" in host or _NUMBER.fullmatch(last):
        try:
            return ipaddress.ip_address(host)
        except ValueError:
            why = "has a host that looks like an address and is none: pass a name, or four numbers such as 203.0.113.9"
            raise OptionError(name, _start(url), why) from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise OptionError(name, _start(url), "has a host that is no name of the DNS: pass https://host/path")
    return None


def _why_unread(url: str) -> str:
    if not re.match(r"https?://", url, re.IGNORECASE):
        return "does not begin with https://: pass https://host/path"
    if re.search(r"[^!-~]", url):
        return "has a space, a control character or one that is not ASCII: percent-encode it, and write a host as xn--…"
    host = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    if "@" in host:
        return "has a user or password in it: pass credentials as a header, headers={'authorization': '…'}"
    if "#" in url:
        return "has a fragment, which is never sent: leave out # and what follows"
    if "%" in host:
        return "has a % in its host: pass a name or an address without a zone"
    return "cannot be read: pass https://host/path"


def _start(url: str) -> str:
    """The scheme, and nothing that could be a secret."""
    scheme, mark, _ = url.partition("://")
    return f"{scheme[:20]}{mark}…" if mark else "…"
