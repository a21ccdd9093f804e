"""A Redis that knows every script, as one that has worked for a while."""

from __future__ import annotations

from typing import Any

from redisjobs.base import scripts


def load_scripts(redis: Any) -> None:
    """Have every script in the server's cache: a reply that is lost is then that of a call which was carried out.

    On a server that does not know the script yet, the first reply of all is the word that it does not.
    """
    for name in scripts.names():
        redis.script_load(scripts.load(name).text)
