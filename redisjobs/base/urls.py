"""Connection URLs: checked where they are given, and never shown with their password."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from redisjobs.errors import ConfigurationError

POSTGRES = ("postgresql", "postgres")
REDIS = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")

HIGHEST_PORT = 65_535
_HIDDEN = "***"
_SECRET_OPTIONS = frozenset(
    {
        "password",
        "sentinel_password",
        "sslpassword",
        "ssl_password",
        "scram_client_key",
        "scram_server_key",
        "oauth_client_secret",
    }
)
_URL = re.compile(r"([^:/?#]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_HOST = re.compile(r"(?:\[(?P<ipv6>[^\]]*)\]|[^:\[\]]*)(?::\d{0,5})?")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DSN_SECRET = re.compile(
    rf"\b((?:{'|'.join(sorted(_SECRET_OPTIONS))})\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|\S)*)(?:\s+[^\s=]+(?=\s|$))*",
    re.IGNORECASE,
)
"""A secret of the libpq form, and the words behind it that belong to no option: pieces of one with a raw space."""
_DSN = re.compile(r"\s*[a-z_]+\s*=")


def check_url(name: str, url: str, schemes: Sequence[str]) -> str:
    """`url`, if it can be connected to as it is meant.

    Raises:
        ConfigurationError: a wrong scheme, or a character that must be percent-encoded. Its text shows no
            part of a password.
    """
    if not url.strip():
        raise ConfigurationError(f"{name} is empty: pass {schemes[0]}://user:password@host/…")
    if schemes is POSTGRES and _DSN.match(url):
        return url  # the libpq form, `host=… dbname=…`: it has quoting rules of its own
    if url.partition("://")[0] not in schemes or "://" not in url:
        scheme, plus, driver = url.partition("://")[0].partition("+")
        remedy = f": leave out +{driver}" if plus and scheme in schemes and "://" in url else ""
        raise ConfigurationError(f"{name} must begin with {' or '.join(f'{each}://' for each in schemes)}{remedy}")
    if _is_ambiguous(url):
        if "@" not in url and not all(map(_is_host, _parts(url).hosts.split(","))):
            raise ConfigurationError(
                f"{name} cannot be read: a host or port in it is none. Write host:port with the port in digits, and an "
                "IPv6 address in [ ]"
            )
        raise ConfigurationError(
            f"{name} cannot be read: its user or password has a character that must be percent-encoded, such as "
            "@ / # % ? [ or a space, or a host in [ ] is no IPv6 address. Write the password as "
            "urllib.parse.quote(password, safe='') does, or give it by itself, as an option or in its own "
            "environment variable"
        )
    check_ports(name, url)
    if schemes is REDIS:
        _check_servers(name, url)
    return url


def check_ports(name: str, url: str) -> None:
    """Raises ConfigurationError for a port that there cannot be."""
    for port in re.findall(r":(\d+)(?=,|$)", _parts(url).hosts):
        if int(port) > HIGHEST_PORT:
            raise ConfigurationError(f"{name} names the port {port}, and {HIGHEST_PORT} is the highest")


class Servers(NamedTuple):
    """Who is meant by a Redis URL.

    Args:
        kind: one server; a cluster, of which these are some nodes; or sentinels that know where it is.
        hosts: each with its port.
        service: what the sentinels call it; empty otherwise.
        url: as for one server, the first of these.
    """

    kind: Literal["one", "cluster", "sentinel"]
    hosts: list[tuple[str, int]]
    service: str
    url: str


def redis_servers(url: str) -> Servers:
    """The servers of a Redis URL that `check_url` has accepted."""
    parts = _parts(url)
    scheme, plus, kind = parts.scheme.partition("+")
    if not plus:
        return Servers("one", [], "", url)
    hosts = [_host_and_port(host, 26_379 if kind == "sentinel" else 6379) for host in parts.hosts.split(",")]
    user, at, _ = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    netloc = f"{user}{at}{parts.hosts.partition(',')[0]}"
    if kind == "cluster":
        return Servers("cluster", hosts, "", parts._replace(scheme=scheme, netloc=netloc, path="").url())
    one = parts._replace(scheme=scheme, netloc=netloc, path=f"/{database}").url()
    return Servers("sentinel", hosts, unquote(service), one)


def _check_servers(name: str, url: str) -> None:
    """Raises ConfigurationError where hosts, path and scheme do not go together."""
    parts = _parts(url)
    scheme, _, kind = parts.scheme.partition("+")
    service, _, database = parts.path.strip("/").partition("/")
    if scheme != "unix" and not kind and "," in parts.hosts:
        raise ConfigurationError(
            f"{name} names several servers: of a cluster, write {scheme}+cluster://host1:port,host2:port; "
            f"of sentinels, {scheme}+sentinel://host1:port,host2:port/NAME"
        )
    if kind and not all(re.match(r"[^:]", host) for host in parts.hosts.split(",")):
        raise ConfigurationError(f"{name} names no host: write {parts.scheme}://host1:port,host2:port")
    if kind == "cluster" and parts.path.strip("/") not in ("", "0"):
        raise ConfigurationError(f"{name} names the database {parts.path.strip('/')}, and a cluster has none but 0")
    if kind == "sentinel" and not service:
        raise ConfigurationError(
            f"{name} does not say whom the sentinels watch: write {parts.scheme}://host1:port,host2:port/NAME, "
            "with the name of their `sentinel monitor`"
        )
    if kind == "sentinel" and database and not database.isdecimal():
        raise ConfigurationError(f"{name} names the database {database!r}, and it has to be a number: …/NAME/0")


def _host_and_port(text: str, port: int) -> tuple[str, int]:
    host, _, given = (text, "", "") if text.endswith("]") or ":" not in text else text.rpartition(":")
    return host.strip("[]"), int(given) if given else port


def with_password(url: str, password: str) -> str:
    """`url` with this password, encoded as it must be."""
    if _DSN.match(url) and "://" not in url:
        escaped = password.replace("\\", "\\\\").replace("'", "\\'")
        return f"{url} password='{escaped}'"
    parts = _parts(url)
    user = parts.user.partition(":")[0]
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{parts.hosts}").url()


def redact(url: str) -> str:
    """`url` as it may be shown: without a password, also if it is malformed."""
    scheme, mark, _ = url.partition("://")
    if not mark:
        return _DSN_SECRET.sub(rf"\g<1>{_HIDDEN}", url) if _DSN.match(url) else _HIDDEN
    if _is_ambiguous(url):
        return f"{scheme}://{_HIDDEN}"
    parts = _parts(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{_HIDDEN}"
    options = [(key, _HIDDEN if key.lower() in _SECRET_OPTIONS else value) for key, value in parse_qsl(parts.query)]
    return parts._replace(netloc=f"{user}{at}{hosts}", query=urlencode(options, safe="*/:")).url()


class _Parts(NamedTuple):
    """What a URL is made of. `urlsplit` is for one host: newer Pythons refuse brackets behind a comma."""

    scheme: str
    netloc: str
    path: str
    query: str
    fragment: str

    @property
    def user(self) -> str:
        return self.netloc.rpartition("@")[0]

    @property
    def hosts(self) -> str:
        return self.netloc.rpartition("@")[2]

    def url(self) -> str:
        query = f"?{self.query}" if self.query else ""
        fragment = f"#{self.fragment}" if self.fragment else ""
        return f"{self.scheme}://{self.netloc}{self.path}{query}{fragment}"


def _parts(url: str) -> _Parts:
    """Of a URL with `://` in it; whatever else is wrong with it is not seen here."""
    found = _URL.fullmatch(url)
    return _Parts("", "", url, "", "") if found is None else _Parts(*found.groups(default=""))


def _is_ambiguous(url: str) -> bool:
    """Whether a raw password may have torn the URL apart: what follows is then a piece of it."""
    parts = _parts(url)
    if any(not _is_host(host) for host in parts.hosts.split(",")):  # libpq takes several, each with its port
        return True
    torn = re.search(r"[@\[\]]", parts.user) or "@" in parts.path or "#" in url or re.search(r"[\s\x00-\x1f]", url)
    stray = parts.netloc != "" and not parts.user and "@" in parts.query
    return bool(torn or stray or _BROKEN_ESCAPE.search(url) or _hides_a_sign(parts.netloc))


def _is_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None or found["ipv6"] is None:
        return found is not None
    try:
        return bool(ipaddress.IPv6Address(found["ipv6"]))
    except ValueError:
        return False


def _hides_a_sign(netloc: str) -> bool:
    """Whether a letter stands for several, one of them such a sign (as U+2105 does): the client of Redis refuses it."""
    plain = "".join(unicodedata.normalize("NFKC", letter) for letter in netloc if not letter.isascii())
    return any(sign in plain for sign in "/?#@:")
