"""What both stores hold, as text in the folder of a trial that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.faults.programme.site import Site

TABLES = ("outbox", "queues", "dead", "finished", "schedules", "events", "steps")
INSTRUMENTS = ("staged", "marked", "ended", "effects")
MOST = 5000


def dump(site: Site, folder: Path) -> None:
    """Write `postgres.txt`, `redis.txt` and `notes.txt`; what cannot be read is told in its place."""
    (folder / "notes.txt").write_text(site.told())
    for name, read in (("postgres", _postgres), ("redis", _redis)):
        try:
            text = read(site)
        except Exception as error:  # noqa: BLE001 - a dump of half of it is better than none
            text = f"it could not be read: {error!r}"
        (folder / f"{name}.txt").write_text(text)


def _postgres(site: Site) -> str:
    told: list[str] = []
    with psycopg.connect(site.database_url, autocommit=True) as conn, conn.cursor(row_factory=dict_row) as cursor:
        names = [f"redisjobs.{table}" for table in TABLES] + [f"programme.{table}" for table in INSTRUMENTS]
        for name in names:
            told.append(f"== {name}")
            try:
                rows = cursor.execute(f"SELECT * FROM {name} LIMIT {MOST}".encode()).fetchall()
            except psycopg.Error as error:
                told.append(str(error))
                continue
            told += [
                json.dumps({key: value for key, value in row.items() if value is not None}, default=str) for row in rows
            ]
    return "\n".join(told)


def _redis(site: Site) -> str:
    with site.redis.client() as client:
        return "\n".join(f"{key.decode()} {_value(client, key)}" for key in sorted(client.scan_iter(count=1000)))


def _value(client: Any, key: bytes) -> str:
    kind = client.type(key).decode()
    read = {
        "string": lambda: client.get(key),
        "hash": lambda: client.hgetall(key),
        "set": lambda: client.smembers(key),
        "zset": lambda: client.zrange(key, 0, MOST, withscores=True),
        "list": lambda: client.lrange(key, 0, MOST),
        "stream": lambda: (client.xrange(key, count=MOST), client.xinfo_groups(key)),
    }
    return f"({kind}) {read[kind]()!r}"
