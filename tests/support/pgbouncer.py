"""PgBouncer in transaction mode, in front of a Postgres."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
auth_type = {auth}
auth_file = {folder}/users
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
        pool: server connections for each database, and for each user.
        users: who may come, and is to the server who he says he is; without them anybody, all as who the URL names.
    """

    name = "pgbouncer"

    def __init__(self, folder: Path, database_url: str, pool: int = 4, *, users: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._database_url = database_url
        options = {"target": _target(database_url, as_they_come=bool(users)), "auth": "trust" if users else "any"}
        (folder / "pgbouncer.ini").write_text(_INI.format(port=self.port, pool=pool, folder=folder, **options))
        (folder / "users").write_text("".join(f'"{user}" ""\n' for user in users))

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


def _target(url: str, *, as_they_come: bool) -> str:
    """Where the server is, as PgBouncer writes it; the database is that which a client names."""
    known = conninfo_to_dict(url)
    kept = {name: known[name] for name in ("host", "port", "user", "password") if known.get(name)}
    if as_they_come:
        kept.pop("user", None)
    else:
        kept.setdefault("user", _me())
    return " ".join(f"{name}={value}" for name, value in kept.items())


def _me() -> str:
    return os.environ.get("USER", "postgres")
