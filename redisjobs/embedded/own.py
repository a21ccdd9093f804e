"""Whether a URL leads to the servers of a data folder: settings may name them before they run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from redisjobs.embedded.host.link import name_of


def leads_into(url: str, data: Path) -> bool:
    """Whether it names the sockets of this data folder, by their name that stays the same."""
    named = name_of(data)
    folder = _folder(url)
    if named is None or folder is None:
        return False
    return folder.name == named.name and folder.parent.resolve() == named.parent.resolve()


def _folder(url: str) -> Path | None:
    if url.startswith("unix:"):
        return Path(unquote(url.partition("://")[2].partition("?")[0])).parent
    with suppress(psycopg.ProgrammingError):
        host = conninfo_to_dict(url).get("host")
        return Path(str(host)) if host else None
    return None
