"""The checks of what was given: environment and URLs. They ask no store."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

from psycopg.conninfo import conninfo_to_dict

from redisjobs.base.durations import many
from redisjobs.base.urls import redis_servers
from redisjobs.doctor.finding import Verdict, fail, ok, warn

_OURS = {
    "decode_responses": "turns bytes into text, and scripts answer in bytes",
    "protocol": "changes the form of replies",
    "encoding": "changes how keys are written",
    "socket_timeout": "cuts off reads that wait for jobs",
    "max_connections": "limits connections below what queues need",
    "health_check_interval": "puts commands between ours",
    "retry_on_timeout": "repeats commands, and one lost reply would become two entries",
}
"""What redisjobs sets itself, and a URL would set otherwise."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the process was given.

    Args:
        names: every REDISJOBS_ variable that some command reads.
    """

    environ: Mapping[str, str]
    names: Sequence[str]
    database_url: str
    redis_url: str


def environment(given: Given) -> Verdict:
    """A variable that nobody reads was meant to be another one."""
    strangers = sorted(name for name in given.environ if name.startswith("REDISJOBS_") and name not in given.names)
    if not strangers:
        count = sum(name.startswith("REDISJOBS_") for name in given.environ)
        return ok(f"{many(count, 'REDISJOBS_ variable')}, none that nobody reads")
    name, more = strangers[0], f", {', '.join(strangers[1:])}" if strangers[1:] else ""
    close = difflib.get_close_matches(name, given.names, 1, 0.6)
    remedy = f"export {close[0]}=…; unset {name}" if close else f"unset {name}"
    return warn(f"{name}{more}: no command reads it", "what it was to set stays at its default, without a word", remedy)


def time_zone(given: Given) -> Verdict:
    """An unknown TZ is UTC, without a word."""
    zone = given.environ.get("TZ", "")
    if not zone or _is_zone(zone):
        return ok(zone or "the system's")
    return warn(f"TZ={zone} is no time zone", "the C library takes UTC then, so times in logs are off", "unset TZ")


def database_url(given: Given) -> Verdict:
    """Where a URL can lead that was not meant."""
    known: dict[str, Any] = dict(conninfo_to_dict(given.database_url))
    several = "," in str(known.get("host", ""))
    if several and known.get("target_session_attrs", "any") not in ("read-write", "primary"):
        return fail(
            "several hosts, and any of them may be taken",
            "a standby takes no writes: a relay that lands there stands still",
            "add target_session_attrs=read-write to REDISJOBS_DATABASE_URL",
        )
    return ok(f"host {known.get('host') or 'the default socket'}, database {known.get('dbname') or 'of the user'}")


def redis_url(given: Given) -> Verdict:
    """Options in the URL come before those that redisjobs sets."""
    servers = redis_servers(given.redis_url)
    parts = urlsplit(servers.url)
    options = dict(parse_qsl(parts.query))
    for name, why in _OURS.items():
        if name in options:
            remedy = f"take {name}={options[name]} out of REDISJOBS_REDIS_URL"
            return fail(f"the URL sets {name}={options[name]}", f"it {why}", remedy)
    place = parts.path.strip("/")
    if parts.scheme != "unix" and place and not place.isdigit():
        why = "the client takes database 0 then, without a word"
        return fail(f"database {place!r} is no number", why, "end REDISJOBS_REDIS_URL in a number, such as /0")
    if options.get("ssl_cert_reqs", "").lower() == "none":
        return warn(
            "ssl_cert_reqs=none", "whoever sits between can read and change jobs",
            "take ssl_cert_reqs=none out of REDISJOBS_REDIS_URL, and name the authority with ssl_ca_certs=FILE",
        )  # fmt: skip
    if servers.kind != "one":
        of_whom = f"sentinels of {servers.service}" if servers.service else "nodes of a cluster"
        return ok(f"{parts.scheme} to {of_whom}: {', '.join(f'{host}:{port}' for host, port in servers.hosts)}")
    return ok(f"{parts.scheme} to {parts.hostname or parts.path}")


def is_far(host: str) -> bool:
    """Whether an address is beyond this machine and its private networks."""
    try:
        return not ipaddress.ip_address(host.partition("%")[0]).is_private
    except ValueError:
        return False  # a socket file


def _is_zone(zone: str) -> bool:
    if re.match(r"[A-Za-z]{3,}[+-]?\d|:?/|<", zone):  # the POSIX form, or a file
        return True
    try:
        ZoneInfo(zone.removeprefix(":"))
    except (ValueError, OSError, KeyError):
        return False
    return True


Check: TypeAlias = Callable[[Given], Verdict]

CHECKS: dict[str, Check] = {
    "settings.environment": environment,
    "settings.time_zone": time_zone,
    "settings.database_url": database_url,
    "settings.redis_url": redis_url,
}
NEEDS_REDIS_URL = "settings.redis_url"
"""Where this fails, Redis is not asked: its answers would be misread."""
