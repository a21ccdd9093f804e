"""Connection URLs: checked where they are given, and never shown with their password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from redisjobs.errors import ConfigurationError

POSTGRES = ("postgresql", "postgres")
REDIS = ("redis", "rediss", "unix")

HIGHEST_PORT = 65_535
_HIDDEN = "***"
_SECRET_OPTIONS = frozenset(
    {"password", "sslpassword", "ssl_password", "scram_client_key", "scram_server_key", "oauth_client_secret"}
)
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d{0,5})?")
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
        raise ConfigurationError(
            f"{name} cannot be read: its user or password has a character that must be percent-encoded, such as "
            "@ / # % ? or a space. Write it as urllib.parse.quote(password, safe='') does, or give the password "
            "by itself, as an option or in its own environment variable"
        )
    check_ports(name, url)
    return url


def check_ports(name: str, url: str) -> None:
    """Raises ConfigurationError for a port that there cannot be."""
    for port in re.findall(r":(\d+)(?=,|$)", urlsplit(url).netloc.rpartition("@")[2]):
        if int(port) > HIGHEST_PORT:
            raise ConfigurationError(f"{name} names the port {port}, and {HIGHEST_PORT} is the highest")


def with_password(url: str, password: str) -> str:
    """`url` with this password, encoded as it must be."""
    if _DSN.match(url) and "://" not in url:
        escaped = password.replace("\\", "\\\\").replace("'", "\\'")
        return f"{url} password='{escaped}'"
    parts = urlsplit(url)
    user, _, _ = parts.netloc.rpartition("@")[0].partition(":")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def redact(url: str) -> str:
    """`url` as it may be shown: without a password, also if it is malformed."""
    scheme, mark, _ = url.partition("://")
    if not mark:
        return _DSN_SECRET.sub(rf"\g<1>{_HIDDEN}", url) if _DSN.match(url) else _HIDDEN
    if _is_ambiguous(url):
        return f"{scheme}://{_HIDDEN}"
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{_HIDDEN}"
    options = [(key, _HIDDEN if key.lower() in _SECRET_OPTIONS else value) for key, value in parse_qsl(parts.query)]
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=urlencode(options, safe="*/:")))


def _is_ambiguous(url: str) -> bool:
    """Whether a raw password may have torn the URL apart: what follows is then a piece of it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    hosts = parts.netloc.rpartition("@")[2].split(",")  # libpq takes several, each with its port
    if any(not _HOST.fullmatch(host) for host in hosts):
        return True
    user = parts.netloc.rpartition("@")[0]
    torn = "@" in user or "@" in parts.path or parts.fragment or "#" in url or re.search(r"[\s\x00-\x1f]", url)
    stray = parts.netloc != "" and not user and "@" in parts.query
    return bool(torn or stray or _BROKEN_ESCAPE.search(url))
