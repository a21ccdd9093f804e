"""PgBouncer in transaction mode, in front of a Postgres."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.binaries import pgbouncer
from tests.support.net import postgres_at
from tests.support.servers import Server, not_as_root

_INI = """\
[databases]
* = {target}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 500
"""


class PgBouncer(Server):
    """A pooler that gives a server connection for one transaction at a time, to whoever asks.

    Args:
        folder: for its settings and log.
        database_url: a database of the Postgres behind it.
        pool: server connections for each database.
    """

    name = "pgbouncer"

    def __init__(self, folder: Path, database_url: str, pool: int = 4) -> None:
        super().__init__(folder)
        self._database_url = database_url
        (folder / "pgbouncer.ini").write_text(_INI.format(target=_target(database_url), port=self.port, pool=pool))

    @property
    def url(self) -> str:
        """The same database, through the pooler."""
        return postgres_at(self._database_url, self.port)

    def command(self) -> list[str]:
        return [*not_as_root(), str(pgbouncer()), "--quiet", str(self.folder / "pgbouncer.ini")]

    def is_ready(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False


def _target(url: str) -> str:
    """Where the server is, as PgBouncer writes it; the database is that which a client names."""
    known = conninfo_to_dict(url)
    kept = {name: known[name] for name in ("host", "port", "user", "password") if known.get(name)}
    return " ".join(f"{name}={value}" for name, value in ({"user": _me()} | kept).items())


def _me() -> str:
    return os.environ.get("USER", "postgres")
