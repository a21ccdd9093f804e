"""Free ports of this machine, and store URLs with another address or database in them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from psycopg.conninfo import conninfo_to_dict


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody uses now; bind it soon."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens: a unix socket, or a TCP host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def of_redis(cls, url: str) -> Address:
        """The address in a `redis://` or `unix://` URL."""
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return cls(path=unquote(parts.path))
        return cls(host=parts.hostname or "127.0.0.1", port=parts.port or 6379)

    @classmethod
    def of_postgres(cls, url: str) -> Address:
        """The address in a `postgresql://` URL, where `host` may be the folder of a socket."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        host = query.get("host") or parts.hostname or "127.0.0.1"
        port = int(query.get("port") or parts.port or 5432)
        if host.startswith("/"):
            return cls(path=str(Path(host) / f".s.PGSQL.{port}"))
        return cls(host=host, port=port)


def redis_at(url: str, port: int) -> str:
    """The Redis URL with 127.0.0.1:`port` for its address; user, password and database stay."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    database = query.pop("db", "") if parts.scheme == "unix" else parts.path.lstrip("/")
    return urlunsplit(("redis", f"{_login(parts.netloc)}127.0.0.1:{port}", f"/{database or 0}", urlencode(query), ""))


def postgres_at(url: str, port: int) -> str:
    """The Postgres URL with 127.0.0.1:`port` for its address, without encryption."""
    parts = urlsplit(url)
    query = {k: v for k, v in parse_qsl(parts.query) if k not in ("host", "port")}
    query |= {"sslmode": "disable", "gssencmode": "disable"}
    netloc = f"{_login(parts.netloc)}127.0.0.1:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path, urlencode(query), ""))


def with_database(url: str, name: str) -> str:
    """The Postgres URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _login(netloc: str) -> str:
    return netloc.rpartition("@")[0] + "@" if "@" in netloc else ""


def postgres_variables(url: str) -> dict[str, str]:
    """The variables by which psql and the drivers of other languages find this database."""
    names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD"}
    return {names[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in names}
