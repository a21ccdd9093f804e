"""Real Postgres and Redis as child processes, for `redisjobs dev` and for tests."""

from __future__ import annotations

from redisjobs.embedded.find import Source
from redisjobs.embedded.servers import Embedded, Servers

__all__ = ["Embedded", "Servers", "Source"]
